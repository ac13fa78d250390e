//! What the fake CLI asks the client, and what it does with the answers.

use super::{Ending, Moment, Player, cannot_log};
use crate::fake_claude::fields::Fields;
use crate::fake_claude::frames::ToolResult;
use crate::fake_claude::incoming::Answer;
use crate::fake_claude::input::Patience;
use crate::fake_claude::script::{Pace, Request};

/// A request that was sent.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) request: Request,
    pub(super) answer: Option<Answer>,
}

impl Player {
    pub(super) fn ask(&mut self, id: &str, request: &Request, pace: Pace) -> Result<(), Ending> {
        let request = self.filled_request(request);
        let frame = self.frames.request(id, &request);
        // An answer to an earlier request with this id does not count.
        self.memory.asked.insert(id.to_owned(), Asked { request, answer: None });
        self.send(frame)?;
        match pace {
            Pace::Wait => self.await_answer(id),
            Pace::GoOn => Ok(()),
        }
    }

    /// Waits for an answer. The answer to a permission request becomes the tool's result.
    pub(super) fn await_answer(&mut self, id: &str) -> Result<(), Ending> {
        let answer = loop {
            if let Some(answer) = self.memory.asked.get_mut(id).and_then(|asked| asked.answer.take()) {
                break answer;
            }
            if self.receive(Patience::ForEver)? == Moment::End {
                break Answer::Missing;
            }
        };
        self.log.answer(id, &answer).map_err(cannot_log)?;
        match self.memory.asked.get(id).map(|asked| &asked.request) {
            Some(Request::CanUseTool { input, .. }) => {
                let verdict = Verdict::read(&answer, input);
                self.tool_result(&ToolResult { id, text: &verdict.text, is_error: verdict.is_error })
            }
            Some(Request::Hook { .. } | Request::Mcp { .. } | Request::Other { .. }) | None => Ok(()),
        }
    }

    fn filled_request(&self, request: &Request) -> Request {
        match request.clone() {
            Request::CanUseTool { tool, input } => Request::CanUseTool { tool, input: self.filled_json(&input) },
            Request::Hook { callback, event, input } => {
                Request::Hook { callback, event, input: self.filled_fields(&input) }
            }
            Request::Mcp { server, message } => Request::Mcp { server, message: self.filled_json(&message) },
            Request::Other { subtype, fields } => Request::Other { subtype, fields: self.filled_fields(&fields) },
        }
    }
}

/// What a tool's result says about the answer to its permission request.
struct Verdict {
    text: String,
    is_error: bool,
}

impl Verdict {
    fn read(answer: &Answer, input: &str) -> Verdict {
        let denied = |why: &str| Verdict { text: format!("denied {why}"), is_error: true };
        let fields = match answer {
            Answer::Success(response) => Fields::parse(response).unwrap_or_default(),
            Answer::Error(error) => return denied(error),
            Answer::Missing => return denied("stdin ended"),
        };
        match fields.string("behavior").as_deref() {
            Some("allow") => {
                let input = fields.get("updatedInput").unwrap_or(input);
                Verdict { text: format!("allowed {input}"), is_error: false }
            }
            Some("deny") => denied(&fields.string("message").unwrap_or_default()),
            Some(_) | None => denied("invalid answer"),
        }
    }
}
