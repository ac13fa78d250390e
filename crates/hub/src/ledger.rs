//! Who has given which command, and what became of it: a client that does not know whether its command arrived gives it
//! again, and it is carried out once.

use std::collections::{HashMap, VecDeque};

use tokio::sync::oneshot;
use watari_sdk::Accepted;

/// How many commands of one client are remembered that were carried out. Its oldest is forgotten.
const REMEMBERED_MAX: usize = 1024;

/// How many of its interrupts, beside the others: most of them stop nothing, and they push out no message.
const INTERRUPTS_MAX: usize = 64;

/// Of how many clients commands are remembered. The one is forgotten that was silent longest, before all others one without
/// a name, which cannot come back.
const CLIENTS_MAX: usize = 64;

/// What became of a command: accepted, or refused with the reason.
pub type Outcome = Result<Accepted, String>;

/// Who gives a command.
#[derive(Debug, Clone)]
pub struct Sender {
    /// What others are told who it was.
    pub name: String,
    /// Set when the command must not be carried out twice.
    pub once: Option<Once>,
}

/// Which client a command id belongs to. A name that a client chooses never equals a number that the host assigns.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClientIdentity {
    /// The name that the client gave itself, and gives again when it reconnects.
    Named(String),
    /// The number of the connection of a client without a name.
    Connection(u64),
}

/// By what a command is known when it is given again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Once {
    /// The client.
    pub client: ClientIdentity,
    /// The client's own id of the command.
    pub id: String,
    /// What the command is, so that another one under the same id is noticed.
    pub fingerprint: u64,
}

/// The commands of a session.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    clients: HashMap<ClientIdentity, ClientCommands>,
    /// Counts the commands, to tell which client was silent longest.
    commands_so_far: u64,
}

/// The commands of one client.
#[derive(Debug, Default)]
struct ClientCommands {
    commands: HashMap<String, Command>,
    /// Those that were carried out, the oldest first.
    oldest: VecDeque<String>,
    oldest_interrupts: VecDeque<String>,
    /// When it gave one last.
    last: u64,
}

/// How long a command has to be remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Carried out twice it does harm.
    Ordinary,
    /// It stops what runs, which is mostly nothing.
    Interrupt,
}

#[derive(Debug)]
struct Command {
    fingerprint: u64,
    kind: Kind,
    /// None while it is being carried out.
    accepted: Option<Accepted>,
    waiting: Vec<oneshot::Sender<Outcome>>,
}

/// Whether a command is to be carried out.
#[derive(Debug)]
pub(crate) enum Entered {
    /// It is new.
    New(oneshot::Sender<Outcome>),
    /// It was given before; whoever gave it hears what became of it.
    Known,
}

impl Ledger {
    /// Enters a command.
    pub(crate) fn enter(&mut self, once: Option<&Once>, kind: Kind, answer: oneshot::Sender<Outcome>) -> Entered {
        let Some(once) = once else { return Entered::New(answer) };
        self.commands_so_far += 1;
        let client = self.clients.entry(once.client.clone()).or_default();
        client.last = self.commands_so_far;
        let Some(command) = client.commands.get_mut(&once.id) else {
            let command = Command { fingerprint: once.fingerprint, kind, accepted: None, waiting: Vec::new() };
            client.commands.insert(once.id.clone(), command);
            return Entered::New(answer);
        };
        let unheard = match command.accepted {
            _ if command.fingerprint != once.fingerprint => {
                answer.send(Err(format!("the id {:?} was used for another command", once.id)))
            }
            Some(accepted) => answer.send(Ok(accepted)),
            None => {
                command.waiting.push(answer);
                Ok(())
            }
        };
        // Whoever gave it may have gone.
        drop(unheard);
        Entered::Known
    }

    /// A command was carried out or refused. One that was refused can be tried again.
    pub(crate) fn settle(&mut self, once: Option<&Once>, answer: oneshot::Sender<Outcome>, outcome: &Outcome) {
        let mut waiting = vec![answer];
        if let Some(once) = once
            && let Some(client) = self.clients.get_mut(&once.client)
        {
            waiting.append(&mut client.settle(&once.id, outcome));
            if client.commands.is_empty() {
                self.clients.remove(&once.client);
            }
            self.forget_clients();
        }
        for answer in waiting {
            // Whoever gave it may have gone.
            let _unheard = answer.send(outcome.clone());
        }
    }

    /// Forgets clients that are too many; one whose command is being carried out is not forgotten.
    fn forget_clients(&mut self) {
        while self.clients.len() > CLIENTS_MAX {
            let settled = self.clients.iter().filter(|(_, client)| client.is_settled());
            let silent =
                settled.min_by_key(|(identity, client)| (matches!(identity, ClientIdentity::Named(_)), client.last));
            let Some(silent) = silent.map(|(identity, _)| identity.clone()) else { return };
            self.clients.remove(&silent);
        }
    }
}

impl ClientCommands {
    /// Notes what became of a command, and gives back those who wait to hear it.
    fn settle(&mut self, id: &str, outcome: &Outcome) -> Vec<oneshot::Sender<Outcome>> {
        let Ok(accepted) = outcome else {
            return self.commands.remove(id).map_or_else(Vec::new, |command| command.waiting);
        };
        let Some(command) = self.commands.get_mut(id) else { return Vec::new() };
        command.accepted = Some(*accepted);
        let waiting = std::mem::take(&mut command.waiting);
        let (oldest, remembered_max) = match command.kind {
            Kind::Ordinary => (&mut self.oldest, REMEMBERED_MAX),
            Kind::Interrupt => (&mut self.oldest_interrupts, INTERRUPTS_MAX),
        };
        oldest.push_back(id.to_owned());
        while oldest.len() > remembered_max {
            oldest.pop_front().map(|oldest| self.commands.remove(&oldest));
        }
        waiting
    }

    /// Whether none of its commands is being carried out.
    fn is_settled(&self) -> bool {
        self.commands.len() == self.oldest.len() + self.oldest_interrupts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn once(id: &str, fingerprint: u64) -> Once {
        Once { client: ClientIdentity::Named("c".into()), id: id.into(), fingerprint }
    }

    #[test]
    fn no_name_of_a_client_equals_the_number_of_a_connection() {
        let mut ledger = Ledger::default();
        for client in [ClientIdentity::Named("client 2".into()), ClientIdentity::Connection(2)] {
            let command = Once { client, ..once("1", 7) };
            let (answer, _) = oneshot::channel();
            assert!(matches!(ledger.enter(Some(&command), Kind::Ordinary, answer), Entered::New(_)), "{command:?}");
        }
    }

    #[test]
    fn a_command_that_is_given_again_is_answered_and_not_carried_out() {
        let mut ledger = Ledger::default();
        let command = once("1", 7);
        let (first, mut heard_first) = oneshot::channel();
        let Entered::New(first) = ledger.enter(Some(&command), Kind::Ordinary, first) else { panic!("it is new") };
        // Again while it is carried out, and after it.
        let (second, mut heard_second) = oneshot::channel();
        assert!(matches!(ledger.enter(Some(&command), Kind::Ordinary, second), Entered::Known));
        ledger.settle(Some(&command), first, &Ok(Accepted::Done));
        assert_eq!(heard_first.try_recv().unwrap(), Ok(Accepted::Done));
        assert_eq!(heard_second.try_recv().unwrap(), Ok(Accepted::Done));
        let (third, mut heard_third) = oneshot::channel();
        assert!(matches!(ledger.enter(Some(&command), Kind::Ordinary, third), Entered::Known));
        assert_eq!(heard_third.try_recv().unwrap(), Ok(Accepted::Done));
        // Another command under its id.
        let (other, mut heard_other) = oneshot::channel();
        assert!(matches!(ledger.enter(Some(&once("1", 8)), Kind::Ordinary, other), Entered::Known));
        assert_eq!(heard_other.try_recv().unwrap(), Err("the id \"1\" was used for another command".to_owned()));
    }

    #[test]
    fn a_command_that_was_refused_can_be_tried_again_and_the_oldest_is_forgotten() {
        let mut ledger = Ledger::default();
        for _ in 0..2 {
            let (answer, _) = oneshot::channel();
            let Entered::New(answer) = ledger.enter(Some(&once("1", 7)), Kind::Ordinary, answer) else {
                panic!("it is new")
            };
            ledger.settle(Some(&once("1", 7)), answer, &Err("no".to_owned()));
        }
        for number in 0..2 * REMEMBERED_MAX {
            let command = once(&number.to_string(), 7);
            let (answer, _) = oneshot::channel();
            let Entered::New(answer) = ledger.enter(Some(&command), Kind::Ordinary, answer) else {
                panic!("it is new")
            };
            ledger.settle(Some(&command), answer, &Ok(Accepted::Done));
        }
        let client = &ledger.clients[&once("1", 7).client];
        assert_eq!((client.commands.len(), client.is_settled()), (REMEMBERED_MAX, true));
    }

    /// Gives a command that is carried out; whether it was new.
    fn carry_out(ledger: &mut Ledger, client: ClientIdentity, id: &str) -> bool {
        carry_out_as(Kind::Ordinary, ledger, client, id)
    }

    fn carry_out_as(kind: Kind, ledger: &mut Ledger, client: ClientIdentity, id: &str) -> bool {
        let command = Once { client, ..once(id, 7) };
        let (answer, _) = oneshot::channel();
        let Entered::New(answer) = ledger.enter(Some(&command), kind, answer) else { return false };
        ledger.settle(Some(&command), answer, &Ok(Accepted::Done));
        true
    }

    #[test]
    fn no_number_of_commands_of_one_client_makes_those_of_another_forgotten() {
        let mut ledger = Ledger::default();
        let app = || ClientIdentity::Named("my-app".into());
        assert!(carry_out(&mut ledger, app(), "m1"));
        for number in 0..2 * REMEMBERED_MAX {
            assert!(carry_out(&mut ledger, ClientIdentity::Named("other".into()), &number.to_string()));
        }
        assert!(!carry_out(&mut ledger, app(), "m1"));
    }

    #[test]
    fn no_number_of_interrupts_of_a_client_makes_its_messages_forgotten() {
        let mut ledger = Ledger::default();
        let app = || ClientIdentity::Named("my-app".into());
        assert!(carry_out(&mut ledger, app(), "m1"));
        for number in 0..2 * REMEMBERED_MAX {
            assert!(carry_out_as(Kind::Interrupt, &mut ledger, app(), &number.to_string()));
        }
        assert!(!carry_out(&mut ledger, app(), "m1"));
        // The last interrupt stops nothing that began since.
        assert!(!carry_out_as(Kind::Interrupt, &mut ledger, app(), &(2 * REMEMBERED_MAX - 1).to_string()));
        assert_eq!(ledger.clients[&app()].commands.len(), INTERRUPTS_MAX + 1);
    }

    #[test]
    fn of_too_many_clients_those_are_forgotten_that_cannot_come_back_and_then_the_silent_ones() {
        let mut ledger = Ledger::default();
        let named = |number: usize| ClientIdentity::Named(number.to_string());
        let connection = |number: usize| ClientIdentity::Connection(number as u64);
        // Its command is being carried out all the time.
        let (answer, mut heard) = oneshot::channel();
        let slow = Once { client: connection(0), ..once("slow", 7) };
        let Entered::New(answer) = ledger.enter(Some(&slow), Kind::Ordinary, answer) else { panic!("it is new") };
        assert!(carry_out(&mut ledger, named(0), "m1"));
        for number in 1..2 * CLIENTS_MAX {
            assert!(carry_out(&mut ledger, connection(number), "1"));
        }
        assert_eq!(ledger.clients.len(), CLIENTS_MAX);
        assert!(!carry_out(&mut ledger, named(0), "m1"));
        for number in 1..=CLIENTS_MAX {
            assert!(carry_out(&mut ledger, named(number), "1"));
        }
        assert_eq!(ledger.clients.len(), CLIENTS_MAX);
        assert!(carry_out(&mut ledger, named(0), "m1"));
        ledger.settle(Some(&slow), answer, &Ok(Accepted::Done));
        assert_eq!(heard.try_recv().unwrap(), Ok(Accepted::Done));
        // What was refused leaves nothing.
        let (answer, _) = oneshot::channel();
        let refused = Once { client: named(1000), ..once("1", 7) };
        let Entered::New(answer) = ledger.enter(Some(&refused), Kind::Ordinary, answer) else { panic!("it is new") };
        ledger.settle(Some(&refused), answer, &Err("no".to_owned()));
        assert!(!ledger.clients.contains_key(&named(1000)));
    }
}
