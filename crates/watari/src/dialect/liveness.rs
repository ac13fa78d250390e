//! What clients are told of a CLI that does not react, or that is not alone.

use watari_sdk::Unanswered;

/// That the CLI stalled, and what the client can do: each dialect has its own word for it.
pub(crate) fn stalled(silent_seconds: u64, what_to_do: &str) -> String {
    format!(
        "Claude Code stalled: it has written nothing for {silent_seconds} s and does not answer; wait, or {what_to_do}"
    )
}

/// That another program drives the conversation too.
pub(crate) fn resumed_elsewhere(entrypoint: &str) -> String {
    format!(
        "another program ({entrypoint:?}) has resumed this conversation: turns of either are lost to the other; end one of them"
    )
}

/// Why the CLI was ended.
pub(crate) fn unresponsive(to: Unanswered, seconds: u64) -> String {
    match to {
        Unanswered::Interrupt => format!("Claude Code did not react to an interrupt within {seconds} s and was ended"),
        Unanswered::Probe => format!("Claude Code stalled: it wrote nothing for {seconds} s and was ended"),
    }
}

/// That a CLI ended that nobody told to, and how, as far as it is known.
pub(crate) fn ended(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (Some(code), _) => format!("Claude Code ended by itself, with exit code {code}"),
        (None, Some(signal)) => format!("Claude Code was ended by signal {signal}"),
        // Only its supervisor learns how it ends.
        (None, None) => {
            "Claude Code ended because its supervisor was killed, by kill -9 or for lack of memory".to_owned()
        }
    }
}
