//! A network namespace with nothing but the loopback, where the system allows one.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, sendto, socket};

/// Which network the CLI sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    Namespace,
    Shared,
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Network::Namespace => "a namespace with nothing but the loopback",
            Network::Shared => "this machine's; the CLI was told to speak with nobody but the stub on the loopback",
        })
    }
}

/// The program of util-linux, and what makes it give a network of its own without any right to.
const UNSHARE: [&str; 4] = ["unshare", "--user", "--map-root-user", "--net"];

/// Goes on as this program with these arguments in a namespace of its own. Comes back only if there can be none.
pub(super) fn enter(arguments: &[OsString]) -> Network {
    let unshare = || {
        let [program, flags @ ..] = UNSHARE;
        let mut command = Command::new(program);
        command.args(flags);
        command
    };
    let try_out = unshare().arg("true").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if try_out.is_ok_and(|status| status.success())
        && let Ok(this_program) = std::env::current_exe()
    {
        // It returns only if it fails, and then this program goes on as it is.
        let _error = unshare().arg(this_program).args(arguments).exec();
    }
    Network::Shared
}

/// Raises the loopback of a new namespace, where it is down.
pub(super) fn raise_loopback() -> Result<(), io::Error> {
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
