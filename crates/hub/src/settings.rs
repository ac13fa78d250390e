//! The settings that clients changed. A change counts when the CLI confirms it, or the host if no CLI runs. A restarted
//! CLI receives the changed settings; otherwise a stricter permission mode would be lost silently.

use std::collections::BTreeMap;

use watari_sdk::{Event, Options, PermissionMode, ProgramTool, RequestId, RequestReply, SettingChange, Thinking};

/// How many requests may wait for the CLI's reply before the oldest is forgotten; the session refuses more than that.
const UNANSWERED_MAX: usize = 1024;

/// The settings of a session that clients have changed.
#[derive(Debug, Default)]
pub(crate) struct ChangedSettings {
    permission_mode: Option<PermissionMode>,
    /// The model; the inner none lets the CLI choose.
    model: Option<Option<String>>,
    /// The thinking budget; the inner none lets the CLI choose.
    thinking: Option<Option<Thinking>>,
    /// The tools that the clients have registered.
    tools: Option<Vec<ProgramTool>>,
    /// Requests that the CLI has not answered yet.
    unanswered: BTreeMap<RequestId, SettingChange>,
}

impl ChangedSettings {
    pub(crate) fn observe(&mut self, event: &Event) {
        if let Event::RequestSent { request, body, .. } = event {
            let Some(setting) = SettingChange::of(body) else { return };
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
            self.report(mode);
        } else if let Event::CliExited { .. } = event {
            self.unanswered.clear();
        }
    }

    /// Records a mode that the CLI reports: it changes its mode by itself too, for example when a plan is approved. A
    /// reported `bypassPermissions` is ignored: what a client requests is checked, what the CLI reports is not.
    fn report(&mut self, mode: &str) {
        match mode.parse() {
            Ok(PermissionMode::BypassPermissions) | Err(_) => {}
            Ok(mode) => self.permission_mode = Some(mode),
        }
    }

    /// Sets the changed settings in the options of the next process.
    pub(crate) fn apply(&self, options: &mut Options) {
        if let Some(mode) = self.permission_mode {
            options.permission_mode = Some(mode);
        }
        if let Some(model) = &self.model {
            options.model.clone_from(model);
        }
        if let Some(thinking) = self.thinking {
            options.thinking = thinking;
        }
        if let Some(tools) = &self.tools {
            options.program_tools.clone_from(tools);
        }
    }

    /// Records the tools that the clients have registered. (The host knows them from the command: the request that the
    /// CLI gets does not list them.)
    pub(crate) fn set_tools(&mut self, tools: Vec<ProgramTool>) {
        self.tools = Some(tools);
    }

    fn confirm(&mut self, setting: SettingChange) {
        match setting {
            SettingChange::PermissionMode(mode) => self.permission_mode = Some(mode),
            SettingChange::Model(model) => self.model = Some(model),
            SettingChange::Thinking(tokens) => self.thinking = Some(tokens.map(Thinking::Budget)),
        }
    }
}

#[cfg(test)]
mod tests {
    use watari_sdk::RawJson;

    use super::*;

    fn reported(mode: &str) -> Event {
        Event::StatusChanged { status: None, permission_mode: Some(mode.to_owned()), raw: RawJson::from("{}") }
    }

    /// The permission mode of the next process after these events.
    fn restarted(operator: Option<PermissionMode>, events: &[Event]) -> Option<PermissionMode> {
        let mut settings = ChangedSettings::default();
        events.iter().for_each(|event| settings.observe(event));
        let mut options = Options { permission_mode: operator, ..Options::default() };
        settings.apply(&mut options);
        options.permission_mode
    }

    #[test]
    fn the_cli_s_own_choice_is_a_setting_too_and_takes_the_operator_s_place() {
        let request = RequestId(1);
        let body = RawJson::from(r#"{"subtype":"set_max_thinking_tokens","max_thinking_tokens":null}"#);
        let mut settings = ChangedSettings::default();
        settings.observe(&Event::RequestSent { request, body, by: None });
        settings.observe(&Event::RequestAnswered { request, reply: RequestReply::Done(RawJson::from("null")) });
        let mut options = Options { thinking: Some(Thinking::Budget(1024)), ..Options::default() };
        settings.apply(&mut options);
        assert!(options.thinking.is_none());
    }

    #[test]
    fn a_bypass_of_permissions_that_the_cli_only_reports_is_never_restored() {
        use PermissionMode::{BypassPermissions, Default, Plan};
        assert_eq!(restarted(None, &[reported("bypassPermissions")]), None);
        assert_eq!(restarted(Some(Default), &[reported("bypassPermissions")]), Some(Default));
        // The mode reported before still applies.
        assert_eq!(restarted(None, &[reported("plan"), reported("bypassPermissions")]), Some(Plan));
        // The operator's choice was not reported by the CLI, and a tighter mode was.
        assert_eq!(restarted(Some(BypassPermissions), &[reported("bypassPermissions")]), Some(BypassPermissions));
        assert_eq!(restarted(Some(BypassPermissions), &[reported("plan")]), Some(Plan));
        assert_eq!(restarted(None, &[reported("novelty")]), None);
    }
}
