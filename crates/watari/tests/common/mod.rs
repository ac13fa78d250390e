//! What the tests of the program share.

#![allow(dead_code, reason = "every test program uses some of it")]
#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Compares a printed document with the committed one, or writes it when asked to.
pub(crate) fn is_committed(name: &str, printed: &str) {
    let path = root().join("docs").join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, printed).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == printed,
        "docs/{name} is not what the code says; write it with UPDATE_DOCS=1 set, and look at the difference"
    );
}
