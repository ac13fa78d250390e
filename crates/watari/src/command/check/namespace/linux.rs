//! A namespace by the program `unshare`, and its loopback by rtnetlink(7).

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Output, Stdio};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, sendto, socket};

use super::Network;
use crate::command::{fail, print};

/// The program of util-linux, and what makes it give a network of its own without any right to.
const UNSHARE: [&str; 4] = ["unshare", "--user", "--map-root-user", "--net"];

/// Goes on as this program with these arguments in a namespace of its own. Comes back only if there can be none.
pub(in crate::command::check) fn enter(arguments: &[OsString]) -> Network {
    let Ok(this_program) = std::env::current_exe() else { return Network::Shared };
    let unshare = || {
        let [program, flags @ ..] = UNSHARE;
        let mut command = Command::new(program);
        command.args(flags).arg(&this_program);
        command
    };
    let try_out = unshare().args(["check", "--try-namespace"]).stdin(Stdio::null()).stderr(Stdio::null()).output();
    // Some systems let us in and give us no right there, and some do not even do that.
    let is_another = |output: &Output| Some(String::from_utf8_lossy(&output.stdout).into_owned()) != network_here();
    if try_out.is_ok_and(|output| output.status.success() && is_another(&output)) {
        // It returns only if it fails, and then this program goes on as it is.
        let _error = unshare().args(arguments).exec();
    }
    Network::Shared
}

/// Finds out whether the loopback can be used here, and prints which network this is.
pub(in crate::command::check) fn try_here() -> ExitCode {
    match (raise_loopback(), network_here()) {
        (Ok(()), Some(network)) => print(&network, ExitCode::SUCCESS),
        (Err(error), _) => fail(&format!("no loopback: {error}")),
        (Ok(()), None) => fail("which network this is cannot be told"),
    }
}

/// What the system calls the network of this process.
fn network_here() -> Option<String> {
    Some(std::fs::read_link("/proc/self/ns/net").ok()?.to_string_lossy().into_owned())
}

/// Raises the loopback of a new namespace, where it is down.
pub(in crate::command::check) fn raise_loopback() -> Result<(), io::Error> {
    // Routes and devices are what a socket of this family is about if nothing else is said.
    let socket = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    sendto(&socket, &set_up(LOOPBACK_INDEX), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 256];
    let (_, length) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    // The kernel acknowledges with a header and a number: zero, or an error below zero.
    let number = answer[..length].get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match number {
        Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(-number)),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The loopback is the first device of every namespace.
const LOOPBACK_INDEX: i32 = 1;

/// A message of rtnetlink(7) that asks to set a device up, and to have that acknowledged.
fn set_up(device: i32) -> Vec<u8> {
    const LENGTH: u32 = 32;
    const NEW_LINK: u16 = 16;
    const REQUEST_AND_ACKNOWLEDGE: u16 = 1 | 4;
    const UP: u32 = 1;
    let mut message = Vec::new();
    message.extend(LENGTH.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_AND_ACKNOWLEDGE.to_ne_bytes());
    // Its number, the sender (the kernel fills it in), the family and the type: all none.
    message.extend([0; 12]);
    message.extend(device.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    // Which of the flags are to be changed.
    message.extend(UP.to_ne_bytes());
    message
}
