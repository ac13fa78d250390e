//! House rules that a machine can check.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

#[path = "tidy/retired.rs"]
mod retired;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every file of the house, without what is built or not ours.
fn files() -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            // In a linked worktree, `.git` is a file.
            if ["target", ".git", "node_modules"].contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                walk(&path, found);
            } else if path.is_file() {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root(), &mut found);
    found.sort();
    found
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

fn rust_files() -> Vec<(PathBuf, String)> {
    let files = files().into_iter().filter(|path| has_extension(path, "rs"));
    files.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn the_first_line_of_every_file_says_what_it_is_for() {
    let without = rust_files().into_iter().filter(|(_, text)| !text.starts_with("//! "));
    assert_eq!(without.map(|(path, _)| path).collect::<Vec<_>>(), Vec::<PathBuf>::new());
}

#[test]
fn files_stay_under_400_lines_tests_apart() {
    let is_test = |path: &Path| path.components().any(|part| part.as_os_str() == "tests");
    for (path, text) in rust_files().into_iter().filter(|(path, _)| !is_test(path)) {
        let code = text.split("\n#[cfg(test)]").next().unwrap();
        assert!(code.lines().count() < 400, "{} has {} lines", path.display(), code.lines().count());
    }
}

/// The names of the CLI's frames, of its system frames and of its requests.
fn names_of_frames() -> BTreeSet<String> {
    let wire = root().join("crates/protocol/src/wire");
    let files = [wire.with_extension("rs"), wire.join("system.rs"), wire.join("control.rs")];
    let text: String = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let arms = text.lines().filter_map(|line| line.trim().strip_prefix('"')?.split_once("\" =>"));
    arms.map(|(name, _)| name.to_owned()).filter(|name| name.contains('_')).collect()
}

#[test]
fn the_names_of_the_clis_frames_are_spelled_in_one_folder() {
    let names = names_of_frames();
    assert!(names.len() > 20 && names.contains("can_use_tool"), "{names:?}");
    for (path, text) in rust_files() {
        let place = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        let is_product =
            ["protocol", "sdk", "hub", "watari"].iter().any(|of| place.starts_with(&format!("crates/{of}/src/")));
        let is_exempt = place.starts_with("crates/protocol/src/wire")
            || place.contains("/tests")
            || place.ends_with("every_shape.rs");
        if !is_product || is_exempt {
            continue;
        }
        let code = text.split("\n#[cfg(test)]").next().unwrap();
        // An event of ours has the same name as a frame.
        let spelled = names.iter().filter(|name| *name != "permission_denied" && code.contains(&format!("\"{name}\"")));
        assert_eq!(spelled.collect::<Vec<_>>(), Vec::<&String>::new(), "{place}");
    }
}

/// The public enums that never get another variant, or where a program that drives the machine must handle a new one.
const CLOSED_ENUMS: &[&str] = &[
    "Accepted",
    "BlockKind",
    "BypassPermission",
    "EventPlace",
    "FolderError",
    "FolderState",
    "Output",
    "PromptContent",
    "RawLine",
    "RequestReply",
    "Resume",
    "Stop",
    "Supervisor",
    "TurnEnding",
    "Work",
];

#[test]
fn public_enums_of_the_libraries_can_grow_or_are_listed_as_closed() {
    const MARK: &str = "#[cfg_attr(not(feature = \"exhaustive\"), non_exhaustive)]";
    let mut closed = BTreeSet::new();
    for (path, text) in rust_files() {
        let place = path.strip_prefix(root()).unwrap();
        if !["crates/protocol/src", "crates/sdk/src"].iter().any(|folder| place.starts_with(folder)) {
            continue;
        }
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let Some(name) = line.strip_prefix("pub enum ") else { continue };
            if !lines[..number].iter().rev().take_while(|line| line.starts_with(['#', '/'])).any(|line| *line == MARK) {
                closed.insert(name.split([' ', '<']).next().unwrap().to_owned());
            }
        }
    }
    assert_eq!(closed, CLOSED_ENUMS.iter().map(|name| (*name).to_owned()).collect());
}

#[test]
fn crates_depend_in_one_direction() {
    let may = [
        ("watari-protocol", vec![]),
        ("watari-sdk", vec!["watari-protocol"]),
        ("watari-hub", vec!["watari-sdk"]),
        ("watari-testkit", vec!["watari-sdk"]),
        ("watari", vec!["watari-hub", "watari-protocol", "watari-sdk", "watari-testkit"]),
    ];
    for (krate, allowed) in may {
        let folder = krate.strip_prefix("watari-").unwrap_or(krate);
        let manifest = fs::read_to_string(root().join("crates").join(folder).join("Cargo.toml")).unwrap();
        let dependencies = manifest.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
        for line in dependencies.lines().filter(|line| line.starts_with("watari")) {
            let name = line.split(['.', ' ', '=']).next().unwrap();
            assert!(allowed.contains(&name), "{krate} may not depend on {name}");
        }
    }
}

#[test]
fn every_dependency_has_a_reason_and_every_reason_a_dependency() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let listed = manifest.split("[workspace.dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    let names = listed.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name);
    let used: BTreeSet<&str> = names.filter(|name| !name.starts_with("watari-")).collect();
    let reasons = fs::read_to_string(root().join("docs/decisions/0002-dependencies.md")).unwrap();
    let explained: BTreeSet<&str> =
        reasons.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(used, explained);
    for file in files().into_iter().filter(|path| path.ends_with("Cargo.toml") && *path != root().join("Cargo.toml")) {
        let text = fs::read_to_string(&file).unwrap();
        let own = text.lines().find(|line| line.contains("version = \""));
        assert_eq!(own, None, "{}: versions stand in the workspace's manifest only", file.display());
    }
}

#[test]
fn what_the_architecture_and_the_promises_name_exists() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let architecture = read("ARCHITECTURE.md");
    assert!(architecture.lines().count() < 200, "ARCHITECTURE.md is too long to be read");
    let text = [architecture, read("docs/promises.md")].concat();
    let code: String = rust_files().into_iter().map(|(_, text)| text).collect();
    let (mut paths, mut tests) = (0, 0);
    for name in text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)) {
        if name.starts_with("crates/") || name.starts_with("docs/") {
            paths += 1;
            assert!(root().join(name).exists(), "a document names {name}, which is not there");
        } else if name.matches('_').count() >= 3 && !name.contains(['(', ' ', '.']) {
            tests += 1;
            assert!(code.contains(&format!("fn {name}(")), "a document names a test {name}, which is not there");
        }
    }
    assert!(paths > 20 && tests > 10, "{paths} paths and {tests} tests were found");
}

#[test]
fn links_in_documents_have_a_target() {
    for file in files().into_iter().filter(|path| has_extension(path, "md")) {
        let text = fs::read_to_string(&file).unwrap();
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            let (path, _heading) = link.split_once('#').unwrap_or((link, ""));
            if !link.starts_with("http") && !path.is_empty() {
                assert!(file.parent().unwrap().join(path).exists(), "{} links to {link}", file.display());
            }
        }
    }
}

#[test]
fn no_path_of_a_developer_s_machine_is_committed() {
    // Put together here, so that this file does not hold what it looks for.
    let forbidden = ["/wo|rk/", "/ro|ot/", "registry.npm|js.org", "static.crates|.io", "index.crates|.io"];
    let forbidden = forbidden.map(|word| word.replace('|', ""));
    for file in files() {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        for word in &forbidden {
            assert!(!text.contains(word), "{} holds {word}", file.display());
        }
    }
}

#[test]
fn unsafe_code_is_in_one_place() {
    let block = ["unsafe", " {"].concat();
    let places = rust_files().into_iter().filter(|(_, text)| text.contains(&block)).map(|(path, _)| path);
    assert_eq!(places.collect::<Vec<_>>(), [root().join("crates/sdk/src/inherited.rs")]);
}

/// The identifiers of Rust code: words outside of comments and strings.
fn identifiers(code: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let mut rest = code;
    while let Some(next) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(hashes) = rest.strip_prefix('r').map(|rest| rest.len() - rest.trim_start_matches('#').len())
            && rest[1 + hashes..].starts_with('"')
        {
            let end = format!("\"{}", "#".repeat(hashes));
            rest[2 + hashes..].find(&end).map_or(rest.len(), |at| 2 + hashes + at + end.len())
        } else if next == '"' {
            end_of_string(rest)
        } else if next.is_alphabetic() || next == '_' {
            let length = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
            found.insert(&rest[..length]);
            length
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\") {
            rest[1..].find('\'').map_or(rest.len(), |at| at + 2)
        } else {
            next.len_utf8()
        };
        rest = &rest[length.max(1)..];
    }
    found
}

fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[test]
fn identifiers_are_found_outside_of_comments_and_strings() {
    let code = "let a = \"b \\\" c\"; // d\nr#\"e \" f\"#; '\"' g('\\'', h)";
    assert_eq!(identifiers(code).into_iter().collect::<Vec<_>>(), ["a", "g", "h", "let"]);
}

#[test]
fn retired_names_are_not_used_as_identifiers() {
    let is_list = |path: &Path| path.ends_with("tidy/retired.rs");
    let mut used = Vec::new();
    for (path, text) in rust_files().into_iter().filter(|(path, _)| !is_list(path)) {
        let names = identifiers(&text);
        let retired = retired::IDENTIFIERS.iter().filter(|(name, _)| names.contains(name));
        used.extend(retired.map(|(name, instead)| format!("{}: {name}; write {instead}", path.display())));
    }
    assert!(used.is_empty(), "{} retired names are used:\n{}", used.len(), used.join("\n"));
}

#[test]
fn retired_words_are_not_in_the_schemas() {
    for file in files().into_iter().filter(|path| path.parent().is_some_and(|folder| folder.ends_with("docs/schema"))) {
        let text = fs::read_to_string(&file).unwrap();
        for (word, instead) in retired::WIRE_WORDS {
            assert!(!text.contains(&format!("\"{word}\"")), "{}: {word}; write {instead}", file.display());
        }
    }
}
