//! Systems without network namespaces.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use super::Network;
use crate::command::fail;

pub(in crate::command::check) fn enter(_arguments: &[OsString]) -> Network {
    Network::Shared
}

pub(in crate::command::check) fn try_here() -> ExitCode {
    fail("this system has no network namespaces")
}

pub(in crate::command::check) fn raise_loopback() -> Result<(), io::Error> {
    Err(io::ErrorKind::Unsupported.into())
}
