//! A network namespace that has only a loopback, where the system allows one.

#[cfg(all(target_os = "linux", not(watari_portable)))]
mod linux;
#[cfg(not(all(target_os = "linux", not(watari_portable))))]
mod portable;

#[cfg(all(target_os = "linux", not(watari_portable)))]
pub(super) use linux::{enter, raise_loopback, try_here};
#[cfg(not(all(target_os = "linux", not(watari_portable))))]
pub(super) use portable::{enter, raise_loopback, try_here};

/// Which network the CLI sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    Namespace,
    Shared,
}

impl Network {
    /// The text for people.
    pub(super) fn describe(self) -> &'static str {
        match self {
            Network::Namespace => "a namespace that has only a loopback",
            Network::Shared => "this machine's; the CLI was configured to use only the stub on the loopback",
        }
    }

    /// The name for programs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Network::Namespace => "namespace",
            Network::Shared => "shared",
        }
    }
}
