//! The log of a host, for people: one line per event of the host, in a file of bounded size.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use watari_sdk::files::{FileRule, HOST_LOG, NAMED_LOG};

use crate::printable::printable_line;

/// The size at which the file is rotated: it is renamed and replaces the previously rotated file.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The first line of every file. A rotated file is replaced only if it begins with it: any other file is not a host
/// log.
const HEADER: &str = "watari host log\n";

/// Where the log is.
pub(crate) enum LogPath {
    /// In the session's folder.
    Default(PathBuf),
    /// At the path that the user chose.
    Named(PathBuf),
}

impl LogPath {
    pub(crate) fn path(&self) -> &Path {
        let (LogPath::Default(path) | LogPath::Named(path)) = self;
        path
    }

    fn rule(&self) -> &'static FileRule {
        match self {
            LogPath::Default(_) => &HOST_LOG,
            LogPath::Named(_) => &NAMED_LOG,
        }
    }
}

/// Starts to log to a file. Prompts and answers are not logged, except for the errors of a client's line at debug
/// level.
pub(crate) fn begin(place: LogPath, level: LevelFilter) -> io::Result<()> {
    let log = RotatingFile { open: Mutex::new(OpenFile::at(&place)?), place };
    let subscriber =
        tracing_subscriber::fmt().with_writer(log).with_max_level(level).with_ansi(false).with_target(false);
    // A line that cannot be written is lost. Reporting it on standard error would panic if that is closed.
    let subscriber = subscriber.log_internal_errors(false).finish();
    tracing::subscriber::set_global_default(subscriber).map_err(io::Error::other)
}

/// A file that is rotated when it is full.
struct RotatingFile {
    place: LogPath,
    open: Mutex<OpenFile>,
}

struct OpenFile {
    file: File,
    /// The device and inode of the file.
    identity: (u64, u64),
    bytes: u64,
    /// Whether the file is full and cannot be rotated, as its last line says.
    has_stopped: bool,
}

impl OpenFile {
    fn at(place: &LogPath) -> io::Result<OpenFile> {
        let mut file = place.rule().open(place.path())?;
        let metadata = file.metadata()?;
        let mut bytes = metadata.len();
        if metadata.is_file() && bytes == 0 {
            file.write_all(HEADER.as_bytes())?;
            bytes = HEADER.len() as u64;
        }
        Ok(OpenFile { file, identity: identity(&metadata), bytes, has_stopped: false })
    }

    /// Whether the file is still at its path: another program may have moved or deleted it.
    fn is_in_place(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|found| identity(&found) == self.identity)
    }
}

fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl RotatingFile {
    fn write_line(&self, line: &[u8]) -> io::Result<()> {
        let mut open = self.lock();
        // If it cannot be created again, the line is lost, and the next line tries again.
        if !open.is_in_place(self.place.path()) {
            *open = OpenFile::at(&self.place)?;
        }
        let is_full =
            open.has_stopped || open.bytes + line.len() as u64 > FILE_BYTES_MAX && open.bytes > HEADER.len() as u64;
        if is_full && open.file.metadata()?.is_file() {
            if let Err(why) = self.rotate() {
                return self.stop(&mut open, &why);
            }
            *open = OpenFile::at(&self.place)?;
        }
        open.file.write_all(line)?;
        open.bytes += line.len() as u64;
        Ok(())
    }

    /// Renames the file. It may replace a host log, but no other file.
    fn rotate(&self) -> io::Result<()> {
        let rotated = self.rotated_path();
        if !is_replaceable(&rotated) {
            return Err(io::Error::other("that is not a host log"));
        }
        fs::rename(self.place.path(), rotated)
    }

    /// Stops logging, so that no line of the file is lost. Each further line tries again to rotate it.
    fn stop(&self, open: &mut OpenFile, why: &io::Error) -> io::Result<()> {
        if open.has_stopped {
            return Ok(());
        }
        let rotated = self.rotated_path();
        let note = format!(
            "the log stops here, because it is full and cannot be renamed to {}: {why}; move that away\n",
            rotated.display()
        );
        open.file.write_all(printable_line(&note).as_bytes())?;
        open.has_stopped = true;
        Ok(())
    }

    fn rotated_path(&self) -> PathBuf {
        let mut path = self.place.path().as_os_str().to_owned();
        path.push(".1");
        path.into()
    }

    fn lock(&self) -> MutexGuard<'_, OpenFile> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether there is nothing or a host log at a path.
fn is_replaceable(path: &Path) -> bool {
    let is_missing = fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let mut beginning = [0; HEADER.len()];
    let read = HOST_LOG.open_existing(path).and_then(|mut file| file.read_exact(&mut beginning));
    is_missing || (read.is_ok() && beginning == *HEADER.as_bytes())
}

/// Writes one line to the file. (`tracing` passes a whole line in one write.)
struct LineWriter<'a>(&'a RotatingFile);

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // A line may quote untrusted text, and people read the log in a terminal.
        let escaped = printable_line(&String::from_utf8_lossy(line)).into_owned();
        self.0.write_line(escaped.as_bytes()).map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for RotatingFile {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_at(path: &Path) -> RotatingFile {
        let place = LogPath::Named(path.to_owned());
        RotatingFile { open: Mutex::new(OpenFile::at(&place).unwrap()), place }
    }

    #[test]
    fn a_long_log_is_rotated_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host.log");
        let log = log_at(&path);
        let line = [b'x'; 1000];
        for _ in 0..5000 {
            log.write_line(&line).unwrap();
        }
        let sizes = ["host.log", "host.log.1"].map(|name| fs::metadata(folder.path().join(name)).unwrap().len());
        assert!(sizes.iter().all(|size| (1..=FILE_BYTES_MAX).contains(size)), "{sizes:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        // The next host finds a host log and replaces it.
        let log = log_at(&path);
        for _ in 0..2000 {
            log.write_line(&line).unwrap();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_foreign_file_is_not_overwritten_when_the_log_is_rotated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host.log");
        fs::write(folder.path().join("host.log.1"), "precious").unwrap();
        let log = log_at(&path);
        for _ in 0..5000 {
            log.write_line(&[b'x'; 1000]).unwrap();
        }
        assert_eq!(fs::read_to_string(folder.path().join("host.log.1")).unwrap(), "precious");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_log_that_cannot_be_rotated_loses_nothing_and_reports_why_it_stops() {
        let folder = tempfile::tempdir().unwrap();
        let (path, aside) = (folder.path().join("host.log"), folder.path().join("host.log.1"));
        fs::create_dir(&aside).unwrap();
        let log = log_at(&path);
        log.write_line(b"the first line\n").unwrap();
        for _ in 0..5000 {
            log.write_line(&[b'x'; 1000]).unwrap();
        }
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(&format!("{HEADER}the first line\n")), "{:?}", &text[..80]);
        // The reason is written once, as the last line.
        let last = text.rsplit("xx").next().unwrap().replace(folder.path().to_str().unwrap(), "FOLDER");
        insta::assert_snapshot!(last, @"the log stops here, because it is full and cannot be renamed to FOLDER/host.log.1: that is not a host log; move that away");
        assert!(text.len() as u64 <= FILE_BYTES_MAX + 1024, "{}", text.len());
        // The obstacle was moved away.
        fs::remove_dir(&aside).unwrap();
        log.write_line(b"the next line\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{HEADER}the next line\n"));
        assert_eq!(fs::read_to_string(&aside).unwrap(), text);
    }

    #[test]
    fn a_path_that_ends_with_a_slash_is_refused_as_a_log() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["new/", "new//", "new/."] {
            let path = format!("{}/{name}", folder.path().display());
            let opened = OpenFile::at(&LogPath::Named(path.into())).map(drop);
            assert_eq!(opened.unwrap_err().to_string(), "it is a folder, not a file", "{name}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_deleted_or_moved_log_is_created_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host.log");
        let log = log_at(&path);
        log.write_line(b"one\n").unwrap();
        fs::remove_file(&path).unwrap();
        log.write_line(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{HEADER}two\n"));
        fs::rename(&path, folder.path().join("moved")).unwrap();
        log.write_line(b"three\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{HEADER}three\n"));
    }

    #[test]
    fn a_pipe_is_refused_as_a_log_without_waiting() {
        use rustix::fs::{CWD, Mode, mkfifoat};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        mkfifoat(CWD, &path, Mode::from(0o600)).unwrap();
        let error = OpenFile::at(&LogPath::Named(path)).err().unwrap();
        assert_eq!(error.to_string(), "it is a pipe or a socket, not a file");
        OpenFile::at(&LogPath::Named("/dev/null".into())).unwrap();
    }
}
