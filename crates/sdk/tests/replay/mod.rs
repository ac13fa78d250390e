//! Replays a recording of a session through the machine, and returns its events without any text of the CLI.
//!
//! A recording is a file of JSON lines `{"t": seconds, "dir": who, "m": what}`. Lines of the CLI (`cli>`) go to the
//! machine unchanged, except that the ids of our requests, hooks and prompts are replaced by the machine's. Lines of
//! the other side (`sdk>`) are turned into the commands that make our side send them.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod line;
mod spoken;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use watari_protocol::{
    Accepted, Answer, AskId, AskKind, AskResolution, Command, Config, Event, Hook, Initialize, Machine, Output,
    ProcessEnd, Prompt, PromptContent, RawJson, Request, RequestId,
};

use spoken::{Head, Registration, Spoken};

/// Frames that may be `Unknown`, by type and subtype, each with the reason.
pub(crate) const MAY_BE_UNKNOWN: &[(&str, &str, &str)] = &[
    ("control_response", "", "the answer to a request without an id, which Watari never sends"),
    ("control_request", "", "tools of this program are not served yet: the request is refused and reported"),
];

/// The time limit of a recording's hooks, longer than any recording: an unanswered hook is part of the recording.
const HOOK_ANSWERED_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);

/// A recording of one session.
pub(crate) struct Recording {
    entries: Vec<Entry>,
}

/// One line of it.
#[derive(serde::Deserialize)]
struct Entry {
    t: f64,
    dir: String,
    m: Box<RawValue>,
}

/// When our side sends its lines.
pub(crate) enum Order<'a> {
    /// At their place in the recording, with time limits by the recording's clock.
    AsRecorded,
    /// Where the live session emitted their events. A recording is made between the two sides: lines that both send at
    /// once are recorded in another order than the session saw, and a waiting prompt is recorded when it was written,
    /// not when it was submitted.
    AsLive { live: &'a [Event], answer_timeout: Option<Duration> },
}

/// The result of a replay.
pub(crate) struct Played {
    pub(crate) events: Vec<Event>,
    /// Differences between our side and the recording, each with the index of the next event.
    pub(crate) remarks: Vec<(usize, String)>,
    /// Violations of the rules for every session.
    pub(crate) faults: Vec<String>,
}

impl Recording {
    pub(crate) fn read(path: &Path) -> Recording {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let entry = |(place, line): (usize, &str)| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{}:{}: {error}", path.display(), place + 1))
        };
        Recording { entries: text.lines().enumerate().map(entry).collect() }
    }

    pub(crate) fn play(&self, order: &Order<'_>) -> Played {
        let answer_timeout = match order {
            Order::AsRecorded => None,
            Order::AsLive { answer_timeout, .. } => *answer_timeout,
        };
        let mut player = Player::new(self.registrations(), answer_timeout);
        let mut unsent: Vec<Option<Spoken>> = self.entries.iter().map(Entry::spoken).collect();
        for (place, entry) in self.entries.iter().enumerate() {
            player.now = player.start + Duration::from_secs_f64(entry.t);
            match order {
                Order::AsRecorded => player.pass_time(),
                Order::AsLive { live, .. } => player.catch_up(live, &mut unsent),
            }
            if let Some(spoken) = unsent[place].take() {
                player.speak(spoken);
            }
            match entry.dir.as_str() {
                "cli>" => player.receive(&entry.text()),
                "eof" if entry.text() == "stdin" => player.command(Command::Close),
                // The exit is handled after all lines of the CLI, as in the driver.
                _ => {}
            }
        }
        player.end(self.process_end())
    }

    /// The hooks of the recording, ordered by name.
    fn registrations(&self) -> Vec<Registration> {
        let mut hooks: Vec<Registration> =
            self.entries.iter().filter_map(Entry::spoken).find_map(|spoken| spoken.registrations()).unwrap_or_default();
        hooks.sort_by(|one, other| one.callback.cmp(&other.callback));
        hooks
    }

    fn process_end(&self) -> ProcessEnd {
        let exit = self.entries.iter().find(|entry| entry.dir == "exit");
        let code: Option<i32> = exit.and_then(|entry| serde_json::from_str(entry.m.get()).ok());
        match code {
            Some(code @ ..0) => ProcessEnd { signal: Some(-code), ..ProcessEnd::default() },
            code => ProcessEnd { code, ..ProcessEnd::default() },
        }
    }
}

impl Entry {
    /// The recorded line: a JSON object unchanged, or the text of a line that is not JSON.
    fn text(&self) -> String {
        serde_json::from_str(self.m.get()).unwrap_or_else(|_| self.m.get().to_owned())
    }

    fn spoken(&self) -> Option<Spoken> {
        self.dir.starts_with("sdk>").then(|| serde_json::from_str(&self.text()).ok()).flatten()
    }
}

/// A machine that replaces the recording's other side.
struct Player {
    machine: Machine,
    start: Instant,
    now: Instant,
    played: Played,
    /// The machine's ids of hooks, requests and prompts, by the recording's ids.
    hooks: BTreeMap<String, String>,
    requests: BTreeMap<String, String>,
    entries: BTreeMap<String, String>,
    /// The asks, by the CLI's ids.
    asks: BTreeMap<String, (AskId, AskKind)>,
    is_initialized: bool,
    /// Requests that were accepted, and how often each was answered.
    answered: BTreeMap<RequestId, usize>,
}

impl Player {
    fn new(registrations: Vec<Registration>, answer_timeout: Option<Duration>) -> Player {
        let start = Instant::now();
        let mut hooks = BTreeMap::new();
        for (number, registration) in (1..).zip(&registrations) {
            hooks.entry(registration.callback.clone()).or_insert_with(|| format!("watari_hook_{number}"));
        }
        let registered = registrations.into_iter().map(|registration| Hook {
            event: registration.event,
            matcher: registration.matcher,
            answer_timeout: answer_timeout.unwrap_or(HOOK_ANSWERED_WITHIN),
        });
        let initialize = Initialize { hooks: registered.collect(), ..Initialize::default() };
        let machine = Machine::start(Config { initialize, answer_timeout, ..Config::default() }, start);
        let mut player = Player {
            machine,
            start,
            now: start,
            played: Played { events: Vec::new(), remarks: Vec::new(), faults: Vec::new() },
            hooks,
            requests: BTreeMap::new(),
            entries: BTreeMap::new(),
            asks: BTreeMap::new(),
            is_initialized: false,
            answered: BTreeMap::new(),
        };
        player.drain();
        player
    }

    /// Handles a line of the CLI.
    fn receive(&mut self, line: &str) {
        let head = Head::read(line);
        let mut line = line.to_owned();
        if let (Some("control_response"), Some(response)) = (head.kind(), &head.response)
            && let Some(ours) = self.requests.get(&response.request_id)
        {
            line = line.replace(&quoted(&response.request_id), &quoted(ours));
        }
        if let Some(callback) = head.callback()
            && let Some(ours) = self.hooks.get(callback)
        {
            // Only as a callback id: an id may be a single letter.
            for colon in [":", ": "] {
                let named = |name: &str| format!("\"callback_id\"{colon}{}", quoted(name));
                line = line.replace(&named(callback), &named(ours));
            }
        }
        for (theirs, ours) in &self.entries {
            line = line.replace(&quoted(theirs), &quoted(ours));
        }
        let before = self.played.events.len();
        self.machine.handle_line(line.as_bytes(), self.now);
        self.drain();
        if let (Some("control_request"), Some(request)) = (head.kind(), &head.request_id) {
            match self.played.events.get(before) {
                Some(Event::AskOpened { ask, kind }) => {
                    self.asks.insert(request.clone(), (*ask, kind.clone()));
                }
                _ => self.remark(format!("{} is not an ask", head.asked())),
            }
        }
    }

    /// Makes our side send what the recording's other side sent.
    fn speak(&mut self, spoken: Spoken) {
        match spoken.kind() {
            "user" => self.prompt(spoken),
            "control_request" => self.request(&spoken),
            "control_response" => self.answer(&spoken),
            _ => {}
        }
    }

    fn prompt(&mut self, spoken: Spoken) {
        let Some(content) = spoken.content() else { return self.remark("a prompt without content") };
        let before = self.played.events.len();
        self.command(Command::Prompt(Prompt { content }));
        if let (Some(theirs), Some(Event::PromptAccepted { entry, .. })) = (spoken.uuid, self.played.events.get(before))
        {
            self.entries.insert(theirs, entry.to_string());
        }
    }

    fn request(&mut self, spoken: &Spoken) {
        let (Some(theirs), Some(subtype)) = (&spoken.request_id, spoken.requested()) else {
            return self.remark("a request without a name");
        };
        let command = match subtype {
            "initialize" if !self.is_initialized => {
                // The machine has already sent this as its first line.
                self.is_initialized = true;
                self.requests.insert(theirs.clone(), "watari_1".to_owned());
                return;
            }
            "initialize" => Request::Reinitialize.into(),
            "interrupt" => Command::Interrupt { cancel_queued: spoken.cancels_queued() },
            _ => Request::Other { subtype: subtype.to_owned(), fields: spoken.fields() }.into(),
        };
        if let Some(Accepted::Request(id)) = self.carry_out(command) {
            self.requests.insert(theirs.clone(), format!("watari_{id}"));
        }
        self.drain();
    }

    fn answer(&mut self, spoken: &Spoken) {
        let Some((ask, kind)) = spoken.answered().and_then(|request| self.asks.get(request)) else { return };
        let (ask, answer) = (*ask, spoken.answer_to(kind));
        match answer {
            Some(answer) => self.command(Command::Answer { ask, answer, by: None }),
            None => self.remark(format!("ask {ask} had an answer that our side cannot give")),
        }
    }

    /// Repeats the next events of the live session, as long as our side caused them and not the CLI.
    fn catch_up(&mut self, live: &[Event], unsent: &mut [Option<Spoken>]) {
        while let Some(next) = live.get(self.played.events.len()) {
            let spoken = match next {
                Event::PromptAccepted { .. } => take(unsent, |spoken| spoken.kind() == "user"),
                Event::AskResolved {
                    ask,
                    resolution: AskResolution::Allowed | AskResolution::Denied | AskResolution::Answered,
                    ..
                } => {
                    let named = self.asks.iter().find(|(_, (open, _))| open == ask).map(|(name, _)| name.clone());
                    take(unsent, |spoken| spoken.answered().is_some() && spoken.answered() == named.as_deref())
                }
                Event::AskResolved { resolution: AskResolution::Expired, .. } => {
                    let Some(deadline) = self.machine.poll_timeout() else { return };
                    self.machine.handle_timeout(deadline);
                    self.drain();
                    continue;
                }
                _ => return,
            };
            let Some(spoken) = spoken else { return };
            self.speak(spoken);
        }
    }

    /// Advances the clock to the recording's time.
    fn pass_time(&mut self) {
        while let Some(deadline) = self.machine.poll_timeout().filter(|deadline| *deadline <= self.now) {
            self.machine.handle_timeout(deadline);
            self.drain();
        }
    }

    fn command(&mut self, command: Command) {
        self.carry_out(command);
        self.drain();
    }

    fn carry_out(&mut self, command: Command) -> Option<Accepted> {
        match self.machine.handle_command(command, self.now) {
            Ok(accepted) => {
                if let Accepted::Request(request) = accepted {
                    self.answered.insert(request, 0);
                }
                Some(accepted)
            }
            Err(refused) => {
                self.remark(format!("refused: {refused}"));
                None
            }
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Event(event) => self.played.events.push(event),
                Output::Write(line) | Output::WriteNow(line) => {
                    let is_message = line.ends_with(b"\n") && serde_json::from_slice::<&RawValue>(&line).is_ok();
                    if !is_message || line.iter().filter(|byte| **byte == b'\n').count() != 1 {
                        self.played.faults.push("a line was written that the CLI cannot read".to_owned());
                    }
                }
                Output::Stop(stop) => self.remark(format!("stop: {stop:?}")),
            }
        }
    }

    fn remark(&mut self, remark: impl Into<String>) {
        self.played.remarks.push((self.played.events.len(), remark.into()));
    }

    fn end(mut self, end: ProcessEnd) -> Played {
        self.machine.handle_exit(end, String::new());
        self.drain();
        let mut played = self.played;
        let faults = line::faults(&played.events, self.answered);
        played.faults.extend(faults);
        played
    }
}

/// Takes the first matching line.
fn take(unsent: &mut [Option<Spoken>], fits: impl Fn(&Spoken) -> bool) -> Option<Spoken> {
    unsent.iter_mut().find(|spoken| spoken.as_ref().is_some_and(&fits))?.take()
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}
