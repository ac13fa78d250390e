//! The log of a host, for people: what happened to it, one line each, in a file that does not grow without end.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

/// How long the file may become. Then it is put aside under another name, in the place of the one before.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// From here on what happens is written to a file. Prompts and answers are not, but for what is wrong with a line, and only
/// at the level of debugging.
pub(crate) fn begin(path: &Path, level: LevelFilter) -> io::Result<()> {
    let log = Rotated { path: path.to_owned(), open: Mutex::new(Open::at(path)?) };
    let subscriber =
        tracing_subscriber::fmt().with_writer(log).with_max_level(level).with_ansi(false).with_target(false);
    // A line that cannot be written is lost. It would be complained of on standard error, with a panic if nobody reads that.
    let subscriber = subscriber.log_internal_errors(false).finish();
    tracing::subscriber::set_global_default(subscriber).map_err(io::Error::other)
}

/// A file that is put aside when it is long enough.
struct Rotated {
    path: PathBuf,
    open: Mutex<Open>,
}

struct Open {
    file: File,
    bytes: u64,
}

impl Open {
    fn at(path: &Path) -> io::Result<Open> {
        let file = File::options().append(true).create(true).mode(0o600).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Open { file, bytes })
    }
}

impl Rotated {
    fn write_line(&self, line: &[u8]) -> io::Result<()> {
        let mut open = self.lock();
        if open.bytes > 0 && open.bytes + line.len() as u64 > FILE_BYTES_MAX {
            let mut aside = self.path.clone().into_os_string();
            aside.push(".1");
            fs::rename(&self.path, aside)?;
            *open = Open::at(&self.path)?;
        }
        open.file.write_all(line)?;
        open.bytes += line.len() as u64;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One line on its way to the file. (It comes as a whole, in one write.)
struct LineWriter<'a>(&'a Rotated);

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_line(line).map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Rotated {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_long_enough_is_put_aside_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host.log");
        let log = Rotated { path: path.clone(), open: Mutex::new(Open::at(&path).unwrap()) };
        let line = [b'x'; 1000];
        for _ in 0..5000 {
            log.write_line(&line).unwrap();
        }
        let sizes = ["host.log", "host.log.1"].map(|name| fs::metadata(folder.path().join(name)).unwrap().len());
        assert!(sizes.iter().all(|size| (1..=FILE_BYTES_MAX).contains(size)), "{sizes:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
