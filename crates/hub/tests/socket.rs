//! Who can use a session's socket: its user, and nobody else, whatever the modes say.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]
#![allow(clippy::print_stdout, reason = "a test that is not run says why")]

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use watari_hub::socket::{Socket, is_of_this_user};

/// Nobody in particular.
const ANOTHER_USER: u32 = 65534;

const PERL: &str = "/usr/bin/perl";

/// A program that every Debian has, and that everybody may run. It waits until the other side hangs up.
const CONNECT: &str = "my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or exit 7; readline $s; exit 0";

#[test]
fn another_user_is_known_even_when_the_mode_was_loosened() {
    if !rustix::process::geteuid().is_root() || !Path::new(PERL).exists() {
        println!("not run: only root can be another user, and it takes {PERL}");
        return;
    }
    let folder = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir_in("/tmp").unwrap();
    let path = folder.path().join("s.sock");
    let socket = Socket::bind(&path).unwrap();
    let connect = || {
        let mut perl = Command::new(PERL);
        perl.args(["-MIO::Socket::UNIX", "-e", CONNECT]).arg(&path).current_dir("/");
        perl.uid(ANOTHER_USER).gid(ANOTHER_USER).stdin(Stdio::null()).spawn().unwrap()
    };
    // As it is made, the system does not even let another user connect.
    assert_eq!(connect().wait().unwrap().code(), Some(7));
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    let mut other = connect();
    let (mut connection, _) = socket.listener().accept().unwrap();
    assert!(!is_of_this_user(&connection));
    drop(socket);
    // It is hung up on without a word.
    connection.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(connection.read(&mut [0; 16]).unwrap(), 0);
    assert!(other.wait().unwrap().success());
}
