//! Who has given which command, and what became of it: a client that does not know whether its command arrived gives it
//! again, and it is carried out once.

use std::collections::{HashMap, VecDeque};

use tokio::sync::oneshot;
use watari_sdk::Accepted;

/// How many commands are remembered that were carried out. The oldest is forgotten.
const REMEMBERED_MAX: usize = 1024;

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
    commands: HashMap<(ClientIdentity, String), Command>,
    oldest: VecDeque<(ClientIdentity, String)>,
}

#[derive(Debug)]
struct Command {
    fingerprint: u64,
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
    pub(crate) fn enter(&mut self, once: Option<&Once>, answer: oneshot::Sender<Outcome>) -> Entered {
        let Some(once) = once else { return Entered::New(answer) };
        let name = (once.client.clone(), once.id.clone());
        let Some(command) = self.commands.get_mut(&name) else {
            let command = Command { fingerprint: once.fingerprint, accepted: None, waiting: Vec::new() };
            self.commands.insert(name, command);
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
        if let Some(once) = once {
            let name = (once.client.clone(), once.id.clone());
            match outcome {
                Ok(accepted) => {
                    if let Some(command) = self.commands.get_mut(&name) {
                        command.accepted = Some(*accepted);
                        waiting.append(&mut command.waiting);
                        self.oldest.push_back(name);
                    }
                }
                Err(_) => waiting.extend(self.commands.remove(&name).into_iter().flat_map(|command| command.waiting)),
            }
        }
        while self.oldest.len() > REMEMBERED_MAX {
            self.oldest.pop_front().map(|oldest| self.commands.remove(&oldest));
        }
        for answer in waiting {
            // Whoever gave it may have gone.
            let _unheard = answer.send(outcome.clone());
        }
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
            assert!(matches!(ledger.enter(Some(&command), answer), Entered::New(_)), "{command:?}");
        }
    }

    #[test]
    fn a_command_that_is_given_again_is_answered_and_not_carried_out() {
        let mut ledger = Ledger::default();
        let command = once("1", 7);
        let (first, mut heard_first) = oneshot::channel();
        let Entered::New(first) = ledger.enter(Some(&command), first) else { panic!("it is new") };
        // Again while it is carried out, and after it.
        let (second, mut heard_second) = oneshot::channel();
        assert!(matches!(ledger.enter(Some(&command), second), Entered::Known));
        ledger.settle(Some(&command), first, &Ok(Accepted::Done));
        assert_eq!(heard_first.try_recv().unwrap(), Ok(Accepted::Done));
        assert_eq!(heard_second.try_recv().unwrap(), Ok(Accepted::Done));
        let (third, mut heard_third) = oneshot::channel();
        assert!(matches!(ledger.enter(Some(&command), third), Entered::Known));
        assert_eq!(heard_third.try_recv().unwrap(), Ok(Accepted::Done));
        // Another command under its id.
        let (other, mut heard_other) = oneshot::channel();
        assert!(matches!(ledger.enter(Some(&once("1", 8)), other), Entered::Known));
        assert_eq!(heard_other.try_recv().unwrap(), Err("the id \"1\" was used for another command".to_owned()));
    }

    #[test]
    fn a_command_that_was_refused_can_be_tried_again_and_the_oldest_is_forgotten() {
        let mut ledger = Ledger::default();
        for _ in 0..2 {
            let (answer, _) = oneshot::channel();
            let Entered::New(answer) = ledger.enter(Some(&once("1", 7)), answer) else { panic!("it is new") };
            ledger.settle(Some(&once("1", 7)), answer, &Err("no".to_owned()));
        }
        for number in 0..2 * REMEMBERED_MAX {
            let command = once(&number.to_string(), 7);
            let (answer, _) = oneshot::channel();
            let Entered::New(answer) = ledger.enter(Some(&command), answer) else { panic!("it is new") };
            ledger.settle(Some(&command), answer, &Ok(Accepted::Done));
        }
        assert_eq!(ledger.commands.len(), REMEMBERED_MAX);
    }
}
