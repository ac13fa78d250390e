//! The storage of a log: a file that only grows and is read by offset, and its name. Tests can use a disk in memory,
//! whose free space and faults they control.

#[cfg(test)]
pub(crate) mod memory;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use watari_sdk::files::{EVENTS, EVENTS_TEMPORARY};

/// The disk that holds the files.
#[derive(Debug, Clone)]
pub(crate) enum Disk {
    Real,
    #[cfg(test)]
    Memory(memory::Disk),
}

/// An open file. It can be read whatever happens to its name.
#[derive(Debug)]
pub(crate) struct Storage {
    path: PathBuf,
    file: Kind,
}

#[derive(Debug)]
enum Kind {
    Real(File),
    #[cfg(test)]
    Memory(memory::File),
}

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathTarget {
    /// The open file, with its size.
    ThisFile {
        bytes: u64,
    },
    Nothing,
    /// Another file.
    AnotherFile,
}

impl Disk {
    /// Opens a file for reading and writing; creates it if necessary.
    pub(crate) fn open(&self, path: &Path) -> io::Result<Storage> {
        let file = match self {
            Disk::Real => Kind::Real(EVENTS.open(path)?),
            #[cfg(test)]
            Disk::Memory(disk) => Kind::Memory(disk.open(path)?),
        };
        Ok(Storage { path: path.to_owned(), file })
    }

    /// Creates an empty file under a temporary name; `path` is its later name.
    pub(crate) fn create_temporary(&self, temporary: &Path, path: &Path) -> io::Result<Storage> {
        let file = match self {
            Disk::Real => {
                let file = EVENTS_TEMPORARY.open(temporary)?;
                // A killed host may have left something there.
                file.set_len(0)?;
                Kind::Real(file)
            }
            #[cfg(test)]
            Disk::Memory(disk) => {
                let file = disk.open(temporary)?;
                file.set_len(0)?;
                Kind::Memory(file)
            }
        };
        Ok(Storage { path: path.to_owned(), file })
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match self {
            Disk::Real => fs::rename(from, to),
            #[cfg(test)]
            Disk::Memory(disk) => disk.rename(from, to),
        }
    }

    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        match self {
            Disk::Real => fs::remove_file(path),
            #[cfg(test)]
            Disk::Memory(disk) => disk.remove(path),
        }
    }
}

impl Storage {
    /// The name under which the file was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What its name refers to now.
    pub(crate) fn path_target(&self) -> io::Result<PathTarget> {
        match &self.file {
            Kind::Real(file) => {
                let identity = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
                match fs::symlink_metadata(&self.path) {
                    Ok(found) if identity(&found) == identity(&file.metadata()?) => {
                        Ok(PathTarget::ThisFile { bytes: found.len() })
                    }
                    Ok(_) => Ok(PathTarget::AnotherFile),
                    // If a parent is a file, the system returns a different error.
                    Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) => {
                        Ok(PathTarget::Nothing)
                    }
                    Err(error) => Err(error),
                }
            }
            #[cfg(test)]
            Kind::Memory(file) => Ok(file.path_target(&self.path)),
        }
    }

    pub(crate) fn len(&self) -> io::Result<u64> {
        match &self.file {
            Kind::Real(file) => Ok(file.metadata()?.len()),
            #[cfg(test)]
            Kind::Memory(file) => Ok(file.len()),
        }
    }

    /// Reads some bytes from an offset on; zero at the end.
    pub(crate) fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        match &self.file {
            Kind::Real(file) => loop {
                match file.read_at(buffer, at) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    read => return read,
                }
            },
            #[cfg(test)]
            Kind::Memory(file) => Ok(file.read_at(buffer, at)),
        }
    }

    /// Fills the buffer; fails if the file ends before.
    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        if self.read_up_to(buffer, at)? < buffer.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// Reads until the buffer is full or the file ends; returns the number of bytes.
    pub(crate) fn read_up_to(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read_at(&mut buffer[filled..], at + filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }

    /// Appends all bytes. After an error, a part of them may be in the file.
    pub(crate) fn append(&self, bytes: &[u8]) -> io::Result<()> {
        match &self.file {
            Kind::Real(file) => (&*file).write_all(bytes),
            #[cfg(test)]
            Kind::Memory(file) => file.append(bytes),
        }
    }

    pub(crate) fn set_len(&self, bytes: u64) -> io::Result<()> {
        match &self.file {
            Kind::Real(file) => file.set_len(bytes),
            #[cfg(test)]
            Kind::Memory(file) => file.set_len(bytes),
        }
    }

    /// Makes what was written survive a crash of the machine.
    pub(crate) fn sync_data(&self) -> io::Result<()> {
        match &self.file {
            Kind::Real(file) => file.sync_data(),
            #[cfg(test)]
            Kind::Memory(_) => Ok(()),
        }
    }
}
