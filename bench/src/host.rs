//! Hosts of sessions (`watari socket`) and their clients, many of both.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::process::{self, Usage};
use crate::subject::Programs;

/// The time limit for clients that receive nothing.
const SILENT_AT_MOST: Duration = Duration::from_secs(60);

/// A running host.
#[derive(Debug)]
pub struct Host {
    child: Child,
    socket: PathBuf,
    fake_claude: PathBuf,
    folder: TempDir,
    started: Instant,
}

impl Host {
    /// Starts a host and waits until it listens. Its CLI plays the script.
    pub fn start(programs: &Programs, script: &str) -> Result<Host> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("script");
        std::fs::write(&path, script)?;
        let started = Instant::now();
        let mut command = Command::new(&programs.watari);
        command.args(["socket", "--claude"]).arg(&programs.fake_claude).current_dir(folder.path());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", folder.path()).env("FAKE_CLAUDE_SCRIPT", &path);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start a host")?;
        let mut socket = String::new();
        let Some(stdout) = child.stdout.take() else { bail!("a child without an output") };
        BufReader::new(stdout).read_line(&mut socket)?;
        ensure!(!socket.is_empty(), "the host did not start");
        let socket = PathBuf::from(socket.trim_end());
        Ok(Host { child, socket, fake_claude: programs.fake_claude.clone(), folder, started })
    }

    /// When it was started.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// A client of the socket dialect, attached: it receives live events.
    pub fn client(&self) -> Result<Client> {
        let mut client = Client::connect(&self.socket)?;
        client.until("init", |_| {})?;
        Ok(client)
    }

    /// A client of the native dialect that requests a replay from the beginning.
    pub fn native_from_beginning(&self) -> Result<Client> {
        let name = self.socket.file_name().and_then(|name| name.to_str()).context("a socket without a name")?;
        let mut client = Client::connect(&self.socket.with_file_name(name.replace(".agent.sock", ".sock")))?;
        client.send(r#"{"type":"hello","protocol":[1],"since":0}"#)?;
        Ok(client)
    }

    /// What the host and its supervisor use now.
    pub fn usage(&self) -> Result<Usage> {
        process::usage(self.child.id(), &self.fake_claude)
    }

    /// The size of its log in bytes.
    pub fn log_bytes(&self) -> Result<u64> {
        let sessions = self.folder.path().join(".local/state/watari/sessions");
        let session = std::fs::read_dir(sessions)?.next().context("there is no session")??;
        Ok(std::fs::metadata(session.path().join("events.jsonl"))?.len())
    }

    /// Stops the host gracefully.
    pub fn end(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "a host ended with {status}");
        Ok(())
    }
}

/// Kills the host of a failed run.
impl Drop for Host {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _waited = self.child.wait();
    }
}

/// A client, and the bytes that it has read and not handled.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    buffer: Vec<u8>,
}

impl Client {
    fn connect(path: &Path) -> Result<Client> {
        let stream = UnixStream::connect(path).with_context(|| format!("cannot connect to {}", path.display()))?;
        Ok(Client { stream, buffer: Vec::new() })
    }

    /// Sends a line.
    pub fn send(&mut self, line: &str) -> Result<()> {
        // The newline goes into the same write.
        Ok(self.stream.write_all(format!("{line}\n").as_bytes())?)
    }

    /// Sends bytes as they are, which need not be a whole line.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(bytes)?)
    }

    /// Sends a prompt.
    pub fn send_prompt(&mut self) -> Result<()> {
        self.send(r#"{"type":"message","text":"go"}"#)
    }

    /// Reads what is available, and calls `take` for each line.
    fn read(&mut self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut chunk = [0; 64 * 1024];
        match self.stream.read(&mut chunk) {
            Ok(0) => bail!("a client was disconnected"),
            Ok(count) => self.buffer.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let mut start = 0;
        while let Some(length) = memchr::memchr(b'\n', &self.buffer[start..]) {
            take(&self.buffer[start..start + length])?;
            start += length + 1;
        }
        self.buffer.drain(..start);
        Ok(())
    }

    /// Reads up to a line of a type, and calls `take` for every line. What follows stays for the next call.
    pub fn until(&mut self, kind: &str, mut take: impl FnMut(&[u8])) -> Result<()> {
        let wanted = format!("\"type\":\"{kind}\"");
        self.stream.set_nonblocking(false)?;
        self.stream.set_read_timeout(Some(SILENT_AT_MOST))?;
        loop {
            let mut start = 0;
            let mut has_come = false;
            while let (Some(length), false) = (memchr::memchr(b'\n', &self.buffer[start..]), has_come) {
                let line = &self.buffer[start..start + length];
                has_come = memchr::memmem::find(&line[..line.len().min(80)], wanted.as_bytes()).is_some();
                take(line);
                start += length + 1;
            }
            self.buffer.drain(..start);
            if has_come {
                return Ok(());
            }
            let mut chunk = [0; 64 * 1024];
            let count = self.stream.read(&mut chunk).with_context(|| format!("no {kind} arrived"))?;
            ensure!(count > 0, "a client was disconnected");
            self.buffer.extend_from_slice(&chunk[..count]);
        }
    }
}

/// Reads many clients until each has received the end of its turn, and calls `take` for every line.
pub fn until_all_done(clients: &mut [Client], mut take: impl FnMut(&[u8])) -> Result<()> {
    let epoll: OwnedFd = epoll::create(CreateFlags::CLOEXEC)?;
    for (place, client) in clients.iter().enumerate() {
        client.stream.set_nonblocking(true)?;
        epoll::add(&epoll, &client.stream, EventData::new_u64(place as u64), EventFlags::IN)?;
    }
    let mut done = vec![false; clients.len()];
    let mut left = clients.len();
    let mut events: Vec<Event> = Vec::with_capacity(clients.len());
    let limit = Timespec::try_from(SILENT_AT_MOST)?;
    while left > 0 {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&limit))?;
        ensure!(!events.is_empty(), "{left} clients no longer receive anything");
        for event in &events {
            let place = usize::try_from(event.data.u64())?;
            let Some(client) = clients.get_mut(place) else { continue };
            client.read(|line| {
                if line.starts_with(b"{\"type\":\"done\"") && !std::mem::replace(&mut done[place], true) {
                    left -= 1;
                }
                ensure!(!line.starts_with(b"{\"type\":\"error\""), "{}", String::from_utf8_lossy(line));
                take(line);
                Ok(())
            })?;
        }
    }
    Ok(())
}
