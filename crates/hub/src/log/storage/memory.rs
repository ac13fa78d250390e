//! A disk in memory for tests, which control its free space and its faults.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use super::PathTarget;

/// A disk. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    names: BTreeMap<PathBuf, Arc<Mutex<Vec<u8>>>>,
    /// How many bytes the files may still grow.
    room_bytes: u64,
    fails_to_cut: bool,
    fails_to_open: bool,
    /// The number of changes until the host counts as killed: after that, every change fails.
    changes_left: Option<u64>,
    /// How many bytes of its files were read.
    read_bytes: u64,
}

/// An open file.
#[derive(Debug)]
pub(crate) struct File {
    disk: Disk,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Disk {
    pub(crate) fn new() -> Disk {
        let (names, room_bytes) = (BTreeMap::new(), u64::MAX / 2);
        let state =
            State { names, room_bytes, fails_to_cut: false, fails_to_open: false, changes_left: None, read_bytes: 0 };
        Disk { state: Arc::new(Mutex::new(state)) }
    }

    /// Sets the free space.
    pub(crate) fn leave_room(&self, bytes: u64) {
        self.state().room_bytes = bytes;
    }

    pub(crate) fn make_room(&self) {
        self.leave_room(u64::MAX / 2);
    }

    /// Makes truncation fail, as on a faulty disk.
    pub(crate) fn fail_to_cut(&self, fails: bool) {
        self.state().fails_to_cut = fails;
    }

    /// Makes opening fail, as below a folder that cannot be created.
    pub(crate) fn fail_to_open(&self, fails: bool) {
        self.state().fails_to_open = fails;
    }

    /// Kills the writer after so many changes; none ends that.
    pub(crate) fn kill_after(&self, changes: Option<u64>) {
        self.state().changes_left = changes;
    }

    /// The content of a file, if it exists.
    pub(crate) fn content(&self, path: &Path) -> Option<Vec<u8>> {
        self.state().names.get(path).map(|bytes| bytes.lock().unwrap().clone())
    }

    /// Changes a file behind the back of its owner.
    pub(crate) fn tamper(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.state().names[path].lock().unwrap());
    }

    /// Puts another file under a name.
    pub(crate) fn replace(&self, path: &Path, content: &[u8]) {
        self.state().names.insert(path.to_owned(), Arc::new(Mutex::new(content.to_vec())));
    }

    pub(crate) fn names(&self) -> Vec<PathBuf> {
        self.state().names.keys().cloned().collect()
    }

    /// How many bytes of its files were read so far.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.state().read_bytes
    }

    pub(super) fn open(&self, path: &Path) -> io::Result<File> {
        let mut state = self.state();
        state.change()?;
        if state.fails_to_open {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let bytes = Arc::clone(state.names.entry(path.to_owned()).or_default());
        Ok(File { disk: self.clone(), bytes })
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.change()?;
        let file = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), file);
        Ok(())
    }

    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.change()?;
        state.names.remove(path).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl State {
    fn change(&mut self) -> io::Result<()> {
        match &mut self.changes_left {
            Some(0) => Err(io::Error::other("killed")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl File {
    pub(super) fn path_target(&self, path: &Path) -> PathTarget {
        match self.disk.state().names.get(path) {
            Some(bytes) if Arc::ptr_eq(bytes, &self.bytes) => PathTarget::ThisFile { bytes: self.len() },
            Some(_) => PathTarget::AnotherFile,
            None => PathTarget::Nothing,
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.bytes.lock().unwrap().len() as u64
    }

    pub(super) fn read_at(&self, buffer: &mut [u8], at: u64) -> usize {
        let bytes = self.bytes.lock().unwrap();
        let rest = bytes.get(usize::try_from(at).unwrap()..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.disk.state().read_bytes += count as u64;
        count
    }

    /// Writes what fits, as a file does.
    pub(super) fn append(&self, new: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        state.change()?;
        let fits = new.len().min(usize::try_from(state.room_bytes).unwrap());
        self.bytes.lock().unwrap().extend_from_slice(&new[..fits]);
        state.room_bytes -= fits as u64;
        if fits < new.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    pub(super) fn set_len(&self, length: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.change()?;
        if state.fails_to_cut {
            return Err(io::Error::other("the disk has an error"));
        }
        let mut bytes = self.bytes.lock().unwrap();
        state.room_bytes += (bytes.len() as u64).saturating_sub(length);
        bytes.resize(usize::try_from(length).unwrap(), 0);
        Ok(())
    }
}
