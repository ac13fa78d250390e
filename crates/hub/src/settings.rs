//! What clients have set in the CLI and it has confirmed: a CLI that is started again is started with that. A mode that a
//! client tightened would else fall back without anybody's doing.

use std::collections::BTreeMap;

use watari_sdk::{Event, Options, PermissionMode, RequestId, RequestReply, Setting, Thinking};

/// How many requests may wait for the CLI's word before the oldest is forgotten; the session refuses more than that.
const UNANSWERED_MAX: usize = 1024;

/// The settings of a session that clients have changed.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    permission_mode: Option<PermissionMode>,
    /// The model, or that the CLI is to choose it.
    model: Option<Option<String>>,
    thinking: Option<Thinking>,
    /// Requests that the CLI has not answered yet.
    unanswered: BTreeMap<RequestId, Setting>,
}

impl Settings {
    pub(crate) fn note(&mut self, event: &Event) {
        if let Event::RequestSent { request, body, .. } = event {
            let Some(setting) = Setting::of(body) else { return };
            if self.unanswered.len() >= UNANSWERED_MAX {
                self.unanswered.pop_first();
            }
            self.unanswered.insert(*request, setting);
        } else if let Event::RequestAnswered { request, reply } = event {
            let setting = self.unanswered.remove(request);
            if let (Some(setting), RequestReply::Done(_)) = (setting, reply) {
                self.confirm(setting);
            }
        } else if let Event::StatusChanged { permission_mode: Some(mode), .. } = event {
            // The CLI changes it by itself too: with the approval of a plan, say.
            self.permission_mode = mode.parse().ok().or(self.permission_mode);
        } else if let Event::Ended { .. } = event {
            self.unanswered.clear();
        }
    }

    /// Starts a CLI with what was set.
    pub(crate) fn apply(&self, options: &mut Options) {
        if let Some(mode) = self.permission_mode {
            options.permission_mode = Some(mode);
        }
        if let Some(model) = &self.model {
            options.model.clone_from(model);
        }
        if let Some(thinking) = self.thinking {
            options.thinking = Some(thinking);
        }
    }

    fn confirm(&mut self, setting: Setting) {
        match setting {
            Setting::PermissionMode(mode) => self.permission_mode = Some(mode),
            Setting::Model(model) => self.model = Some(model),
            Setting::Thinking(tokens) => self.thinking = tokens.map(Thinking::Budget),
        }
    }
}
