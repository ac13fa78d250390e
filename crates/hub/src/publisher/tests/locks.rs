//! Another program removes the locks of a running host: the host restores them within a second and before it accepts
//! anything. If another process was faster, the host accepts no work until that has ended.

use std::fs;
use std::path::{Path, PathBuf};

use watari_sdk::{Command, Event, Prompt};

use super::rig::{Client, Rig, SESSION, started};
use crate::lock::Lock;
use crate::subscription::Since;

/// The locks of a session and of its conversation.
fn locks(rig: &Rig) -> [PathBuf; 2] {
    let session = rig.publisher.files.folder();
    let state = session.parent().unwrap().parent().unwrap();
    [session.join("lock"), state.join("locks").join(SESSION)]
}

fn is_accepted(rig: &mut Rig) -> Result<(), String> {
    rig.verify_storage();
    rig.refusal_of(&Command::Prompt(Prompt::from("more"))).map_or(Ok(()), |refused| Err(refused.to_string()))
}

fn holder_of(lock: &Path) -> String {
    Lock::take(lock, "another").unwrap_err().to_string()
}

#[tokio::test(start_paused = true)]
async fn a_removed_lock_is_restored_within_a_second_and_before_a_command_is_accepted() {
    let mut rig = Rig::new();
    for lock in locks(&rig) {
        fs::remove_file(&lock).unwrap();
        is_accepted(&mut rig).unwrap();
        assert_eq!(holder_of(&lock), "it is in use by a test");
        // The folder too, without a command.
        rig.work();
        fs::remove_dir_all(lock.parent().unwrap()).unwrap();
        rig.second().await;
        assert_eq!(holder_of(&lock), "it is in use by a test");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_whose_lock_another_process_has_taken_waits_until_that_has_ended_and_says_for_whom() {
    let mut rig = Rig::new();
    for lock in locks(&rig) {
        let mut client = Client::attach(&mut rig, Since::Now);
        rig.work();
        fs::remove_file(&lock).unwrap();
        let second = Lock::take(&lock, "watari stdio, process 17").unwrap();
        rig.second().await;
        client.read_all(&mut rig);
        let why = format!(
            "another program removed a lock of this session, which cannot be restored: the session {SESSION} is in use by \
             watari stdio, process 17: connect to that, or end it first; retrying every second: fix that, or end the session"
        );
        assert!(client.ephemeral.last().unwrap().contains(&format!("\"storage_failed\",\"message\":\"{why}\"")));
        assert_eq!(rig.attach(Since::Now).storage_failure.as_ref(), Some(&why));
        assert_eq!(is_accepted(&mut rig), Err(format!("the session accepts no new work for now: {why}")));
        assert!([Command::Close, Command::Abort].iter().all(|command| rig.refusal_of(command).is_none()));
        rig.emit(started(2));
        assert!(!rig.has_room());
        drop(second);
        rig.second().await;
        is_accepted(&mut rig).unwrap();
        assert_eq!(holder_of(&lock), "it is in use by a test");
        client.read_all(&mut rig);
        assert!(client.ephemeral.last().unwrap().contains("storage_recovered"));
        assert!(client.lines.values().last().unwrap().contains("block_started"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_is_stored_although_another_process_drives_the_conversation() {
    let mut rig = Rig::new();
    let [_, lock] = locks(&rig);
    fs::remove_file(&lock).unwrap();
    let _second = Lock::take(&lock, "watari stdio, process 17").unwrap();
    assert!(is_accepted(&mut rig).is_err());
    rig.emit(Event::BecameIdle);
    rig.publisher.flush().unwrap();
    assert!(rig.stored().last().unwrap().contains("became_idle"));
}
