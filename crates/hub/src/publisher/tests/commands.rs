//! Commands: registered once, announced if they end the session, and acknowledged when their events are stored.

use tokio::sync::mpsc;
use watari_sdk::{Accepted, Command, Options, ProgramTool, PromptId, Refusal, Request, Sink, Work};

use super::rig::{Client, Rig, unknown};
use crate::command_dedup::{ClientIdentity, IdempotencyKey};
use crate::subscription::Since;
use crate::ticket::{Acknowledgement, CommandOutcome, ReplyTo, Ticket};

/// A connection: its queue of acknowledgements, and the number of its last command.
struct Connection {
    sender: mpsc::Sender<Acknowledgement>,
    received: mpsc::Receiver<Acknowledgement>,
    commands: u64,
}

impl Connection {
    fn new() -> Connection {
        let (sender, received) = mpsc::channel(8);
        Connection { sender, received, commands: 0 }
    }

    fn ticket(&mut self, id: Option<&str>) -> Ticket {
        self.commands += 1;
        let key =
            |id: &str| IdempotencyKey { client: ClientIdentity::Named("app".into()), id: id.into(), fingerprint: 7 };
        let reply_to = ReplyTo::new(self.commands, self.sender.clone().try_reserve_owned().unwrap());
        Ticket { idempotency_key: id.map(key), reply_to }
    }

    /// The acknowledgements so far.
    fn acknowledged(&mut self) -> Vec<(u64, CommandOutcome)> {
        std::iter::from_fn(|| self.received.try_recv().ok()).map(|answer| (answer.command, answer.outcome)).collect()
    }
}

fn prompt() -> Command {
    Command::Prompt("go".into())
}

/// Carries out a command as the driver does: it causes one event.
fn carry_out(rig: &mut Rig, command: &Command, ticket: Ticket, accepted: Accepted) {
    let Some(ticket) = rig.publisher.register(command, ticket) else { return };
    let outcome = rig.publisher.admit(command).map(|()| accepted);
    let is_accepted = outcome.is_ok();
    rig.publisher.complete(ticket, outcome);
    if is_accepted {
        rig.emit(unknown(40));
    }
    rig.publisher.acknowledge();
}

#[tokio::test(start_paused = true)]
async fn a_command_is_acknowledged_when_its_event_is_stored_and_never_before() {
    let (mut rig, mut connection) = (Rig::new(), Connection::new());
    let accepted = Accepted::Prompt(PromptId(1));
    let ticket = connection.ticket(Some("a"));
    carry_out(&mut rig, &prompt(), ticket, accepted);
    assert_eq!(connection.acknowledged(), [(1, Ok(accepted))]);
    // The disk fills up while the command is carried out; it is sent again meanwhile.
    rig.disk.leave_room(0);
    let (first, again) = (connection.ticket(Some("b")), connection.ticket(Some("b")));
    carry_out(&mut rig, &prompt(), first, accepted);
    carry_out(&mut rig, &prompt(), again, accepted);
    assert_eq!(connection.acknowledged(), []);
    // What needs storage is refused meanwhile; what stops something is not, and does not wait.
    let (refused, interrupt) = (connection.ticket(Some("c")), connection.ticket(None));
    carry_out(&mut rig, &prompt(), refused, accepted);
    carry_out(&mut rig, &Command::Interrupt { cancel_queued: false }, interrupt, Accepted::Done);
    let answered = connection.acknowledged();
    assert!(
        matches!(&answered[..], [(4, Err(Refusal::LogUnavailable { .. })), (5, Ok(Accepted::Done))]),
        "{answered:?}"
    );
    rig.disk.make_room();
    rig.second().await;
    assert_eq!(connection.acknowledged(), [(2, Ok(accepted)), (3, Ok(accepted))]);
}

#[tokio::test(start_paused = true)]
async fn a_command_that_is_never_carried_out_is_answered_when_the_session_ends() {
    let (mut rig, mut connection) = (Rig::new(), Connection::new());
    rig.disk.leave_room(0);
    let ticket = connection.ticket(None);
    carry_out(&mut rig, &prompt(), ticket, Accepted::Done);
    let unsent = connection.ticket(None);
    drop((rig, unsent));
    let ended = Err(Refusal::SessionClosed);
    assert_eq!(connection.acknowledged(), [(1, ended.clone()), (2, ended)]);
}

#[tokio::test(start_paused = true)]
async fn a_close_is_announced_before_it_has_an_effect_and_a_signal_then_aborts() {
    let (mut rig, mut connection) = (Rig::new(), Connection::new());
    let mut client = Client::attach(&mut rig, Since::Now);
    let ticket = connection.ticket(None);
    assert!(rig.publisher.register(&Command::Close, ticket).is_some());
    client.read_all(&mut rig);
    let last = client.lines.values().last().unwrap();
    assert!(last.contains("host_stopping") && last.contains("a client has closed the session"), "{last}");
    assert_eq!(rig.next_work(), None);
    rig.stopper.stop_or_abort("SIGTERM");
    assert_eq!(rig.next_work(), Some(Work::Abort));
    client.read_all(&mut rig);
    assert_eq!(client.lines.values().filter(|line| line.contains("host_stopping")).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn tools_that_were_accepted_are_those_of_the_next_process() {
    let (mut rig, mut connection) = (Rig::new(), Connection::new());
    let tool = ProgramTool { name: "weather".into(), description: String::new(), input_schema: "{}".into() };
    let command = Command::from(Request::SetTools(vec![tool]));
    let tools = |rig: &Rig| {
        let mut options = Options::default();
        rig.publisher.settings.apply(&mut options);
        options.program_tools.len()
    };
    let ticket = connection.ticket(None);
    assert_eq!(tools(&rig), 0);
    let refused = rig.publisher.register(&command, ticket).unwrap();
    rig.publisher.admit(&command).unwrap();
    rig.publisher.complete(refused, Err(Refusal::NoTools));
    assert_eq!(tools(&rig), 0);
    let ticket = connection.ticket(None);
    carry_out(&mut rig, &command, ticket, Accepted::Done);
    assert_eq!(tools(&rig), 1);
}
