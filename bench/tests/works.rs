//! Every measurement works, and counts what it should: with small numbers, and never by time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

use std::path::{Path, PathBuf};

use watari_bench::figure::Figure;
use watari_bench::host_measure::{self, HostSheet};
use watari_bench::measure::{self, Scale};
use watari_bench::subject::{Programs, Subject};
use watari_bench::table::Sheet;

/// The programs that a build of the whole workspace put beside the tests.
fn programs() -> Programs {
    let bench = PathBuf::from(env!("CARGO_BIN_EXE_watari-bench"));
    let beside = |name: &str| bench.parent().unwrap().join(name);
    let programs = Programs {
        watari: beside("watari"),
        fake_claude: beside("fake-claude"),
        node_bridge: None,
        bench: bench.clone(),
    };
    for program in [&programs.watari, &programs.fake_claude] {
        assert!(program.is_file(), "{} does not exist: build the workspace first", program.display());
    }
    programs
}

#[test]
fn every_measurement_works_with_watari_and_with_the_splice() {
    let programs = programs();
    let mut sheet = Sheet::default();
    for (name, _, measurement) in measure::ALL {
        for subject in [Subject::Watari, Subject::Splice] {
            let measured = measurement(&programs, subject, Scale::Small, &mut sheet);
            measured.unwrap_or_else(|error| panic!("{name} with {}: {error:#}", subject.name()));
        }
    }
    let table = sheet.markdown();
    assert_eq!(table.lines().count(), 2 + 23, "{table}");
    for figure in [Figure::ShortRate, Figure::ShortCpu, Figure::LongPeak, Figure::IdleMemory, Figure::LatencyLate] {
        let value = sheet.median(figure, Subject::Watari).unwrap();
        assert!(value > 0.0, "{figure:?} is {value}");
    }
}

#[test]
fn every_measurement_of_hosts_works() {
    let programs = programs();
    let mut sheet = HostSheet::default();
    for (name, _, measurement) in host_measure::ALL {
        measurement(&programs, Scale::Small, &mut sheet).unwrap_or_else(|error| panic!("{name}: {error:#}"));
    }
    let table = sheet.markdown();
    assert!(table.lines().count() > 20 && !table.contains("NaN"), "{table}");
}

#[test]
fn a_bridge_that_loses_events_fails_the_measurement() {
    let folder = tempfile::tempdir().unwrap();
    // A bridge that reports success and sends no text.
    let bridge = write_program(
        folder.path(),
        "#!/bin/sh\necho '{\"type\":\"ready\"}'\nread line\necho '{\"type\":\"turn_result\"}'\ncat >/dev/null\n",
    );
    let programs = Programs { watari: bridge, ..programs() };
    let memory = measure::ALL.iter().find(|(name, _, _)| *name == "memory").unwrap().2;
    let error = memory(&programs, Subject::Watari, Scale::Small, &mut Sheet::default()).unwrap_err();
    assert_eq!(error.to_string(), "0 bytes of text arrived instead of 2000");
}

fn write_program(folder: &Path, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("bridge");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}
