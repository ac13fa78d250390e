//! Plays a recording of a session through the machine, and tells its events without a word of the CLI.
//!
//! A recording is a file of JSON lines `{"t": seconds, "dir": who, "m": what}`. What the CLI said (`cli>`) is given to
//! the machine as it stands, with the names of our requests, hooks and prompts changed into those that the machine
//! gives. What the other side said (`sdk>`) is turned into the command that makes our side say it.

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

/// Frames that may be `Unknown`, by their type and subtype, each with the reason why nothing is made of it.
pub(crate) const MAY_BE_UNKNOWN: &[(&str, &str, &str)] = &[
    ("control_response", "", "somebody asked without a name, which we never do, and the answer names nothing"),
    ("control_request", "", "tools of this program are not served yet: it is refused, and told"),
];

/// A hook of a recording has no limit of ours: when nobody answered it, that is part of the recording.
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

/// When our side said what it said.
pub(crate) enum Order<'a> {
    /// Where it stands in the recording, and its time limits by the recording's clock.
    AsRecorded,
    /// Where the live session told of it. A recording is made between the two sides: what both say at once stands
    /// there in another order than the one in which the session saw it, and a prompt that had to wait stands
    /// there when it was written and not when it was given.
    AsTold { live: &'a [Event], answer_within: Option<Duration> },
}

/// What the machine made of a recording.
pub(crate) struct Played {
    pub(crate) events: Vec<Event>,
    /// What our side did not do as the recording has it, and before which event.
    pub(crate) remarks: Vec<(usize, String)>,
    /// What no session may do.
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
        let answer_within = match order {
            Order::AsRecorded => None,
            Order::AsTold { answer_within, .. } => *answer_within,
        };
        let mut player = Player::new(self.registrations(), answer_within);
        let mut said: Vec<Option<Spoken>> = self.entries.iter().map(Entry::spoken).collect();
        for (place, entry) in self.entries.iter().enumerate() {
            player.now = player.start + Duration::from_secs_f64(entry.t);
            match order {
                Order::AsRecorded => player.pass_time(),
                Order::AsTold { live, .. } => player.catch_up(live, &mut said),
            }
            if let Some(spoken) = said[place].take() {
                player.speak(spoken);
            }
            match entry.dir.as_str() {
                "cli>" => player.receive(&entry.text()),
                "eof" if entry.text() == "stdin" => player.command(Command::Close),
                // The end is told after everything that the CLI has said, as the driver does it.
                _ => {}
            }
        }
        player.end(self.process_end())
    }

    /// The hooks of the recording, in the order of their names.
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
    /// What was said: a JSON object as it stands, or the text of a line that is none.
    fn text(&self) -> String {
        serde_json::from_str(self.m.get()).unwrap_or_else(|_| self.m.get().to_owned())
    }

    fn spoken(&self) -> Option<Spoken> {
        self.dir.starts_with("sdk>").then(|| serde_json::from_str(&self.text()).ok()).flatten()
    }
}

/// A machine in the place of the recording's other side.
struct Player {
    machine: Machine,
    start: Instant,
    now: Instant,
    played: Played,
    /// What the recording calls our hooks, requests and prompts, and what the machine calls them.
    hooks: BTreeMap<String, String>,
    requests: BTreeMap<String, String>,
    entries: BTreeMap<String, String>,
    /// The asks, by the CLI's names of them.
    asks: BTreeMap<String, (AskId, AskKind)>,
    is_initialized: bool,
    /// Requests that were accepted, and how often each was answered.
    answered: BTreeMap<RequestId, usize>,
}

impl Player {
    fn new(registrations: Vec<Registration>, answer_within: Option<Duration>) -> Player {
        let start = Instant::now();
        let mut hooks = BTreeMap::new();
        for (number, registration) in (1..).zip(&registrations) {
            hooks.entry(registration.callback.clone()).or_insert_with(|| format!("watari_hook_{number}"));
        }
        let registered = registrations.into_iter().map(|registration| Hook {
            event: registration.event,
            matcher: registration.matcher,
            answer_within: answer_within.unwrap_or(HOOK_ANSWERED_WITHIN),
        });
        let initialize = Initialize { hooks: registered.collect(), ..Initialize::default() };
        let machine = Machine::start(Config { initialize, answer_within, ..Config::default() }, start);
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

    /// The CLI said something.
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
            // Only where it is a name: a name may be as short as a letter.
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

    /// Our side says what the recording's other side said.
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
                // The machine has said this already: it is the first thing it says.
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

    /// Does what the live session tells of next, as long as that is what our side did and not what the CLI said.
    fn catch_up(&mut self, live: &[Event], said: &mut [Option<Spoken>]) {
        while let Some(next) = live.get(self.played.events.len()) {
            let spoken = match next {
                Event::PromptAccepted { .. } => take(said, |spoken| spoken.kind() == "user"),
                Event::AskResolved {
                    ask,
                    resolution: AskResolution::Allowed | AskResolution::Denied | AskResolution::Answered,
                    ..
                } => {
                    let named = self.asks.iter().find(|(_, (open, _))| open == ask).map(|(name, _)| name.clone());
                    take(said, |spoken| spoken.answered().is_some() && spoken.answered() == named.as_deref())
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

    /// Lets the clock come to where the recording is.
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

/// Takes out the first that fits.
fn take(said: &mut [Option<Spoken>], fits: impl Fn(&Spoken) -> bool) -> Option<Spoken> {
    said.iter_mut().find(|spoken| spoken.as_ref().is_some_and(&fits))?.take()
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}
