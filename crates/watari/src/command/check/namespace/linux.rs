//! Creates a namespace with the program `unshare`, and raises its loopback over rtnetlink(7).

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Output, Stdio};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, sendto, socket};

use super::Network;
use crate::command::{fail, print};

/// The program of util-linux, with the flags for a new network namespace without privileges.
const UNSHARE: [&str; 4] = ["unshare", "--user", "--map-root-user", "--net"];

/// Replaces this process with the same program in a new namespace. Returns only if no namespace can be created.
pub(in crate::command::check) fn enter(arguments: &[OsString]) -> Network {
    let Ok(this_program) = std::env::current_exe() else { return Network::Shared };
    let unshare = || {
        let [program, flags @ ..] = UNSHARE;
        let mut command = Command::new(program);
        command.args(flags).arg(&this_program);
        command
    };
    let trial = unshare().args(["check", "--try-namespace"]).stdin(Stdio::null()).stderr(Stdio::null()).output();
    // Some systems create a namespace without rights in it, and some run the program in the old namespace.
    let is_another = |output: &Output| Some(String::from_utf8_lossy(&output.stdout).into_owned()) != network_here();
    if trial.is_ok_and(|output| output.status.success() && is_another(&output)) {
        // `exec` returns only if it fails; then this program continues in the shared network.
        let _error = unshare().args(arguments).exec();
    }
    Network::Shared
}

/// Tests whether the loopback can be used, and prints the id of the network namespace.
pub(in crate::command::check) fn try_here() -> ExitCode {
    match (raise_loopback(), network_here()) {
        (Ok(()), Some(network)) => print(&network, ExitCode::SUCCESS),
        (Err(error), _) => fail(&format!("cannot raise the loopback: {error}")),
        (Ok(()), None) => fail("cannot determine the network namespace of this process"),
    }
}

/// The kernel's id of this process's network namespace.
fn network_here() -> Option<String> {
    Some(std::fs::read_link("/proc/self/ns/net").ok()?.to_string_lossy().into_owned())
}

/// Raises the loopback of a new namespace, which is down at first.
pub(in crate::command::check) fn raise_loopback() -> Result<(), io::Error> {
    // The default protocol of this family is NETLINK_ROUTE: routes and devices.
    let socket = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    sendto(&socket, &set_up(LOOPBACK_INDEX), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 256];
    let (_, length) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    // The kernel acknowledges with a header and a number: zero, or a negative errno.
    let number = answer[..length].get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match number {
        Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(-number)),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The loopback is the first device of every namespace.
const LOOPBACK_INDEX: i32 = 1;

/// An rtnetlink(7) message that sets a device up and requests an acknowledgement.
fn set_up(device: i32) -> Vec<u8> {
    const LENGTH: u32 = 32;
    const NEW_LINK: u16 = 16;
    const REQUEST_AND_ACKNOWLEDGE: u16 = 1 | 4;
    const UP: u32 = 1;
    let mut message = Vec::new();
    message.extend(LENGTH.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_AND_ACKNOWLEDGE.to_ne_bytes());
    // The sequence number, the sender (the kernel fills it in), the family and the type: all zero.
    message.extend([0; 12]);
    message.extend(device.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    // The mask of the flags to change.
    message.extend(UP.to_ne_bytes());
    message
}
