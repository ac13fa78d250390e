//! Messages about a CLI that does not react, that exited, or that shares its conversation with another program.

use watari_sdk::UnresponsiveTo;

/// The CLI stalled. `what_to_do` is the remedy in the client's dialect.
pub(crate) fn stalled(silent_seconds: u64, what_to_do: &str) -> String {
    format!(
        "Claude Code stalled: it has written nothing for {silent_seconds} s and does not answer; wait, or {what_to_do}"
    )
}

/// Another program drives the same conversation.
pub(crate) fn resumed_elsewhere(entrypoint: &str) -> String {
    format!(
        "another program ({entrypoint:?}) has resumed this conversation: each loses the turns of the other; end one of them"
    )
}

/// Why the CLI was terminated.
pub(crate) fn unresponsive(to: UnresponsiveTo, seconds: u64) -> String {
    match to {
        UnresponsiveTo::Interrupt => {
            format!("Claude Code did not react to an interrupt within {seconds} s and was terminated")
        }
        UnresponsiveTo::Probe => format!("Claude Code stalled: it wrote nothing for {seconds} s and was terminated"),
    }
}

/// The CLI exited unexpectedly, and how, as far as it is known.
pub(crate) fn ended(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (Some(code), _) => format!("Claude Code exited unexpectedly with code {code}"),
        (None, Some(signal)) => format!("Claude Code was terminated by signal {signal}"),
        // Only the supervisor learns how the CLI exits.
        (None, None) => {
            "Claude Code was terminated because its supervisor was killed, by kill -9 or for lack of memory".to_owned()
        }
    }
}
