//! A network namespace with nothing but the loopback, where the system allows one.

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
    /// For people.
    pub(super) fn words(self) -> &'static str {
        match self {
            Network::Namespace => "a namespace with nothing but the loopback",
            Network::Shared => "this machine's; the CLI was told to speak with nobody but the stub on the loopback",
        }
    }

    /// For programs.
    pub(super) fn word(self) -> &'static str {
        match self {
            Network::Namespace => "namespace",
            Network::Shared => "shared",
        }
    }
}
