//! Runs blocking or long work in another thread. The system may refuse to start a thread, because a limit of the user
//! or the container is reached; that must not end a session. (Tokio's blocking pool panics then, so it is not used.)
//!
//! For Watari's own crates.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread::Builder;

use tokio::sync::oneshot;

/// The result of work in another thread: `None` if it panicked. Dropping this does not stop the work.
#[derive(Debug)]
pub struct ThreadTask<T>(oneshot::Receiver<T>);

impl<T> Future for ThreadTask<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.0).poll(context).map(Result::ok)
    }
}

/// The name of these threads in the system.
const NAME: &str = "watari-worker";

/// Runs work that may block forever in another thread. Returns an error if no thread can be started.
pub fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<ThreadTask<T>> {
    let (job, beside) = Job::new(work);
    start(&job).map(|()| beside)
}

/// Runs work in another thread, or in this one if no thread can be started.
pub fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> ThreadTask<T> {
    let (job, beside) = Job::new(work);
    if start(&job).is_err() {
        job.perform();
    }
    beside
}

/// Work that is done once, by the new thread or by this one.
struct Job(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Job {
    fn new<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> (Arc<Job>, ThreadTask<T>) {
        let (sender, receiver) = oneshot::channel();
        let perform = move || {
            // The receiver may have been dropped.
            let _ignored = sender.send(work());
        };
        (Arc::new(Job(Mutex::new(Some(Box::new(perform))))), ThreadTask(receiver))
    }

    fn perform(&self) {
        let work = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(work) = work {
            work();
        }
    }
}

/// Starts a thread for a job. If that fails, the job is not changed.
fn start(job: &Arc<Job>) -> io::Result<()> {
    let job = Arc::clone(job);
    match Builder::new().name(NAME.to_owned()).spawn(move || job.perform()) {
        Ok(_detached) => Ok(()),
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!(
                "cannot start a thread ({error}); end other processes of this user, or raise its limit (ulimit -u)"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_panics_has_no_result_and_other_work_has_one() {
        assert_eq!(run(|| 7).await, Some(7));
        assert_eq!(spawn(|| 7).unwrap().await, Some(7));
        let panics: fn() -> u8 = || panic!("on purpose");
        assert_eq!(run(panics).await, None);
    }

    #[test]
    fn a_thread_that_cannot_be_made_is_an_error_or_the_work_is_done_here() {
        // The variable is read once, when the first thread is started, which may be this test's: so the test runs again
        // in a process of its own.
        if std::env::var_os("RUST_MIN_STACK").is_none() {
            let mut again = std::process::Command::new(std::env::current_exe().unwrap());
            again
                .args(["--exact", "threads::tests::a_thread_that_cannot_be_made_is_an_error_or_the_work_is_done_here"]);
            again.arg("--test-threads=1").env("RUST_MIN_STACK", "281474976710656");
            let output = again.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            return;
        }
        let here = std::thread::current().id();
        assert!(spawn(|| ()).is_err());
        let mut beside = run(|| std::thread::current().id());
        assert_eq!(beside.0.try_recv(), Ok(here));
    }
}
