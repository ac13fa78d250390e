//! The CLI's names for values of the options.

use crate::options::{Effort, SettingSource, ThinkingDisplay};

pub(super) fn effort_name(effort: Effort) -> &'static str {
    match effort {
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::ExtraHigh => "xhigh",
        Effort::Max => "max",
    }
}

pub(super) fn display_name(display: ThinkingDisplay) -> &'static str {
    match display {
        ThinkingDisplay::Summarized => "summarized",
        ThinkingDisplay::Highlights => "highlights",
        ThinkingDisplay::Omitted => "omitted",
    }
}

pub(super) fn source_name(source: SettingSource) -> &'static str {
    match source {
        SettingSource::User => "user",
        SettingSource::Project => "project",
        SettingSource::Local => "local",
    }
}
