//! Makes commands idempotent: a client that does not know whether its command arrived sends it again, and the host
//! carries it out once.

use std::collections::{HashMap, VecDeque};

use watari_sdk::{Accepted, Refusal};

use crate::ticket::{CommandOutcome, ReplyTo, Ticket};

/// How many completed commands are remembered per client. The oldest is forgotten first.
const REMEMBERED_MAX: usize = 1024;

/// How many interrupts are remembered per client. Clients send many of them, and most have no effect; they have their
/// own limit, so that they do not displace remembered prompts.
const INTERRUPTS_MAX: usize = 64;

/// For how many clients commands are remembered. Clients without a name are forgotten first, because they cannot come
/// back, and then those that have sent nothing for the longest time.
const CLIENTS_MAX: usize = 64;

/// Which client a command id belongs to. A name that a client chooses never equals a number that the host assigns.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClientIdentity {
    /// The name that the client chose, and repeats when it reconnects.
    Named(String),
    /// The connection number of a client without a name.
    Connection(u64),
}

/// Identifies a command that is sent again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    /// The client.
    pub client: ClientIdentity,
    /// The client's id of the command.
    pub id: String,
    /// A fingerprint of the command, which detects a different command with the same id.
    pub fingerprint: u64,
}

/// The commands of a session.
#[derive(Debug, Default)]
pub(crate) struct CommandDedup {
    clients: HashMap<ClientIdentity, ClientCommands>,
    /// The number of commands so far, to find the client that has been silent the longest.
    commands_so_far: u64,
}

/// The commands of one client.
#[derive(Debug, Default)]
struct ClientCommands {
    commands: HashMap<String, DedupEntry>,
    /// The ids of completed commands, oldest first.
    oldest: VecDeque<String>,
    oldest_interrupts: VecDeque<String>,
    /// The number of its last command.
    last: u64,
}

/// Which limit applies to a completed command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retention {
    /// [`REMEMBERED_MAX`].
    Normal,
    /// [`INTERRUPTS_MAX`].
    Interrupt,
}

#[derive(Debug)]
struct DedupEntry {
    fingerprint: u64,
    retention: Retention,
    /// None while the command is being carried out.
    accepted: Option<Accepted>,
    waiting: Vec<ReplyTo>,
}

/// Whether a command is to be carried out.
#[derive(Debug)]
pub(crate) enum Registration {
    /// The command is new.
    New(ReplyTo),
    /// The command was sent before. Its sender gets the outcome of the first one.
    Duplicate,
}

impl CommandDedup {
    /// Registers a command.
    pub(crate) fn begin(
        &mut self,
        idempotency_key: Option<&IdempotencyKey>,
        retention: Retention,
        reply_to: ReplyTo,
    ) -> Registration {
        let Some(idempotency_key) = idempotency_key else { return Registration::New(reply_to) };
        self.commands_so_far += 1;
        let client = self.clients.entry(idempotency_key.client.clone()).or_default();
        client.last = self.commands_so_far;
        let Some(command) = client.commands.get_mut(&idempotency_key.id) else {
            let command =
                DedupEntry { fingerprint: idempotency_key.fingerprint, retention, accepted: None, waiting: Vec::new() };
            client.commands.insert(idempotency_key.id.clone(), command);
            return Registration::New(reply_to);
        };
        match command.accepted {
            _ if command.fingerprint != idempotency_key.fingerprint => {
                reply_to.send(Err(Refusal::IdReused { id: idempotency_key.id.clone() }));
            }
            Some(accepted) => reply_to.send(Ok(accepted)),
            None => command.waiting.push(reply_to),
        }
        Registration::Duplicate
    }

    /// Completes a command that was carried out or refused. A refused command can be sent again.
    pub(crate) fn complete(&mut self, ticket: Ticket, outcome: &CommandOutcome) {
        let Ticket { idempotency_key, reply_to } = ticket;
        let mut waiting = vec![reply_to];
        if let Some(idempotency_key) = idempotency_key
            && let Some(client) = self.clients.get_mut(&idempotency_key.client)
        {
            waiting.append(&mut client.complete(&idempotency_key.id, outcome));
            if client.commands.is_empty() {
                self.clients.remove(&idempotency_key.client);
            }
            self.forget_clients();
        }
        waiting.into_iter().for_each(|reply_to| reply_to.send(outcome.clone()));
    }

    /// Forgets clients above the limit, except those with a command in progress.
    fn forget_clients(&mut self) {
        while self.clients.len() > CLIENTS_MAX {
            let idle = self.clients.iter().filter(|(_, client)| client.has_nothing_pending());
            let silent =
                idle.min_by_key(|(identity, client)| (matches!(identity, ClientIdentity::Named(_)), client.last));
            let Some(silent) = silent.map(|(identity, _)| identity.clone()) else { return };
            self.clients.remove(&silent);
        }
    }
}

impl ClientCommands {
    /// Records the outcome of a command, and returns the senders that wait for it.
    fn complete(&mut self, id: &str, outcome: &CommandOutcome) -> Vec<ReplyTo> {
        let Ok(accepted) = outcome else {
            return self.commands.remove(id).map_or_else(Vec::new, |command| command.waiting);
        };
        let Some(command) = self.commands.get_mut(id) else { return Vec::new() };
        command.accepted = Some(*accepted);
        let waiting = std::mem::take(&mut command.waiting);
        let (oldest, remembered_max) = match command.retention {
            Retention::Normal => (&mut self.oldest, REMEMBERED_MAX),
            Retention::Interrupt => (&mut self.oldest_interrupts, INTERRUPTS_MAX),
        };
        oldest.push_back(id.to_owned());
        while oldest.len() > remembered_max {
            oldest.pop_front().map(|oldest| self.commands.remove(&oldest));
        }
        waiting
    }

    /// Whether no command is in progress.
    fn has_nothing_pending(&self) -> bool {
        self.commands.len() == self.oldest.len() + self.oldest_interrupts.len()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;
    use crate::ticket::Acknowledgement;

    /// The way back of a command, and its end.
    fn reply() -> (ReplyTo, mpsc::Receiver<Acknowledgement>) {
        let (sender, received) = mpsc::channel(1);
        (ReplyTo::new(1, sender.try_reserve_owned().unwrap()), received)
    }

    fn outcome(received: &mut mpsc::Receiver<Acknowledgement>) -> CommandOutcome {
        received.try_recv().unwrap().outcome
    }

    fn ticket(command: &IdempotencyKey, reply_to: ReplyTo) -> Ticket {
        Ticket { idempotency_key: Some(command.clone()), reply_to }
    }

    fn idempotency_key(id: &str, fingerprint: u64) -> IdempotencyKey {
        IdempotencyKey { client: ClientIdentity::Named("c".into()), id: id.into(), fingerprint }
    }

    #[test]
    fn no_name_of_a_client_equals_the_number_of_a_connection() {
        let mut dedup = CommandDedup::default();
        for client in [ClientIdentity::Named("client 2".into()), ClientIdentity::Connection(2)] {
            let command = IdempotencyKey { client, ..idempotency_key("1", 7) };
            let (answer, _) = reply();
            assert!(
                matches!(dedup.begin(Some(&command), Retention::Normal, answer), Registration::New(_)),
                "{command:?}"
            );
        }
    }

    #[test]
    fn a_command_that_is_sent_again_is_answered_and_not_carried_out() {
        let mut dedup = CommandDedup::default();
        let command = idempotency_key("1", 7);
        let (first, mut received_first) = reply();
        let Registration::New(first) = dedup.begin(Some(&command), Retention::Normal, first) else {
            panic!("it is new")
        };
        // The command is sent again while it is carried out, and after it.
        let (second, mut received_second) = reply();
        assert!(matches!(dedup.begin(Some(&command), Retention::Normal, second), Registration::Duplicate));
        dedup.complete(ticket(&command, first), &Ok(Accepted::Done));
        assert_eq!(outcome(&mut received_first), Ok(Accepted::Done));
        assert_eq!(outcome(&mut received_second), Ok(Accepted::Done));
        let (third, mut received_third) = reply();
        assert!(matches!(dedup.begin(Some(&command), Retention::Normal, third), Registration::Duplicate));
        assert_eq!(outcome(&mut received_third), Ok(Accepted::Done));
        // A different command with the same id.
        let (other, mut received_other) = reply();
        assert!(matches!(
            dedup.begin(Some(&idempotency_key("1", 8)), Retention::Normal, other),
            Registration::Duplicate
        ));
        assert_eq!(outcome(&mut received_other), Err(Refusal::IdReused { id: "1".to_owned() }));
    }

    #[test]
    fn a_command_that_was_refused_can_be_tried_again_and_the_oldest_is_forgotten() {
        let mut dedup = CommandDedup::default();
        for _ in 0..2 {
            let (answer, _) = reply();
            let Registration::New(answer) = dedup.begin(Some(&idempotency_key("1", 7)), Retention::Normal, answer)
            else {
                panic!("it is new")
            };
            dedup.complete(ticket(&idempotency_key("1", 7), answer), &Err(Refusal::EmptyPrompt));
        }
        for number in 0..2 * REMEMBERED_MAX {
            let command = idempotency_key(&number.to_string(), 7);
            let (answer, _) = reply();
            let Registration::New(answer) = dedup.begin(Some(&command), Retention::Normal, answer) else {
                panic!("it is new")
            };
            dedup.complete(ticket(&command, answer), &Ok(Accepted::Done));
        }
        let client = &dedup.clients[&idempotency_key("1", 7).client];
        assert_eq!((client.commands.len(), client.has_nothing_pending()), (REMEMBERED_MAX, true));
    }

    /// Sends a command and completes it. Returns whether it was new.
    fn carry_out(dedup: &mut CommandDedup, client: ClientIdentity, id: &str) -> bool {
        carry_out_as(Retention::Normal, dedup, client, id)
    }

    fn carry_out_as(retention: Retention, dedup: &mut CommandDedup, client: ClientIdentity, id: &str) -> bool {
        let command = IdempotencyKey { client, ..idempotency_key(id, 7) };
        let (answer, _) = reply();
        let Registration::New(answer) = dedup.begin(Some(&command), retention, answer) else { return false };
        dedup.complete(ticket(&command, answer), &Ok(Accepted::Done));
        true
    }

    #[test]
    fn no_number_of_commands_of_one_client_makes_those_of_another_forgotten() {
        let mut dedup = CommandDedup::default();
        let app = || ClientIdentity::Named("my-app".into());
        assert!(carry_out(&mut dedup, app(), "m1"));
        for number in 0..2 * REMEMBERED_MAX {
            assert!(carry_out(&mut dedup, ClientIdentity::Named("other".into()), &number.to_string()));
        }
        assert!(!carry_out(&mut dedup, app(), "m1"));
    }

    #[test]
    fn no_number_of_interrupts_of_a_client_makes_its_messages_forgotten() {
        let mut dedup = CommandDedup::default();
        let app = || ClientIdentity::Named("my-app".into());
        assert!(carry_out(&mut dedup, app(), "m1"));
        for number in 0..2 * REMEMBERED_MAX {
            assert!(carry_out_as(Retention::Interrupt, &mut dedup, app(), &number.to_string()));
        }
        assert!(!carry_out(&mut dedup, app(), "m1"));
        // The last interrupt does not stop anything that began after it.
        assert!(!carry_out_as(Retention::Interrupt, &mut dedup, app(), &(2 * REMEMBERED_MAX - 1).to_string()));
        assert_eq!(dedup.clients[&app()].commands.len(), INTERRUPTS_MAX + 1);
    }

    #[test]
    fn of_too_many_clients_those_are_forgotten_that_cannot_come_back_and_then_the_silent_ones() {
        let mut dedup = CommandDedup::default();
        let named = |number: usize| ClientIdentity::Named(number.to_string());
        let connection = |number: usize| ClientIdentity::Connection(number as u64);
        // Its command is in progress all the time.
        let (answer, mut received) = reply();
        let slow = IdempotencyKey { client: connection(0), ..idempotency_key("slow", 7) };
        let Registration::New(answer) = dedup.begin(Some(&slow), Retention::Normal, answer) else {
            panic!("it is new")
        };
        assert!(carry_out(&mut dedup, named(0), "m1"));
        for number in 1..2 * CLIENTS_MAX {
            assert!(carry_out(&mut dedup, connection(number), "1"));
        }
        assert_eq!(dedup.clients.len(), CLIENTS_MAX);
        assert!(!carry_out(&mut dedup, named(0), "m1"));
        for number in 1..=CLIENTS_MAX {
            assert!(carry_out(&mut dedup, named(number), "1"));
        }
        assert_eq!(dedup.clients.len(), CLIENTS_MAX);
        assert!(carry_out(&mut dedup, named(0), "m1"));
        dedup.complete(ticket(&slow, answer), &Ok(Accepted::Done));
        assert_eq!(outcome(&mut received), Ok(Accepted::Done));
        // A refused command leaves nothing behind.
        let (answer, _) = reply();
        let refused = IdempotencyKey { client: named(1000), ..idempotency_key("1", 7) };
        let Registration::New(answer) = dedup.begin(Some(&refused), Retention::Normal, answer) else {
            panic!("it is new")
        };
        dedup.complete(ticket(&refused, answer), &Err(Refusal::EmptyPrompt));
        assert!(!dedup.clients.contains_key(&named(1000)));
    }
}
