//! The program as a user meets it.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

use std::process::Command;

fn watari(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_watari")).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn without_arguments_it_prints_its_help() {
    let (code, stdout, stderr) = watari(&[]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(watari(&["--help"]).1.trim(), stdout.trim());
    insta::assert_snapshot!(stdout, @r#"
    Drive Claude Code from any program as structured data

    Usage: watari [COMMAND]

    Commands:
      stdio   Serve one session over standard input and output, one JSON object per line
      socket  Serve one session on a UNIX socket, one JSON object per line; it continues when clients disconnect
      schema  Print the JSON Schema of the messages that clients write and read, for example to generate code
      stub    Serve a stub of the Anthropic Messages API, to test programs without an API key
      check   Run test conversations with a Claude Code, and report which still work as Watari expects
      doctor  Check whether Claude Code and Watari work on this machine, and advise what to do if not
      help    Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    A Rust program can drive Claude Code with the crate watari-sdk. Access over HTTP is planned and does not exist yet.

    Examples:
      watari doctor                     # does this machine have what Watari needs?
      watari check --fetch              # does Claude Code still behave as Watari expects?
      watari stub answers.yaml          # test without an API key
      watari stdio                      # one session over standard input and output
      watari socket --cwd ~/project     # one session on a UNIX socket, for many clients
      watari schema bridge              # the JSON Schema of the messages of watari stdio
      cargo run -p watari-sdk --example ask -- "What is in this folder?"
      cargo run -p watari-sdk --example chat
    "#);
}

#[test]
fn an_unknown_argument_is_an_error() {
    let (code, stdout, stderr) = watari(&["fly"]);
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(stderr.contains("fly") && stderr.contains("--help"), "{stderr}");
}

#[test]
fn a_flag_that_needs_a_number_says_which_numbers_it_accepts() {
    let wrong: [&[&str]; 4] = [
        &["stdio", "--stalled-after", "x"],
        &["stdio", "--permission-timeout", "-1"],
        &["socket", "--event-log-limit", "1.5"],
        &["doctor", "--orphans-of", ""],
    ];
    for arguments in wrong {
        let (code, stdout, stderr) = watari(arguments);
        assert_eq!((code, stdout.as_str()), (2, ""));
        assert!(stderr.contains("expected a whole number from 0 to 4294967295"), "{stderr}");
    }
}

#[test]
fn every_command_reports_a_standard_output_that_is_open_for_reading_only() {
    let commands: [&[&str]; 10] = [
        &["--help"],
        &["--version"],
        &[],
        &["schema", "bridge"],
        &["stub", "--schema"],
        &["check", "--schema"],
        &["doctor"],
        &["doctor", "--help"],
        &["socket"],
        &["stdio"],
    ];
    for arguments in commands {
        let mut command = Command::new(env!("CARGO_BIN_EXE_watari"));
        command.args(arguments).stdin(std::process::Stdio::null());
        let output = command.stdout(std::fs::File::open("/dev/null").unwrap()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let expected =
            "watari: cannot write to standard output: it is open for reading only; redirect it with > instead of <\n";
        assert_eq!((output.status.code(), stderr.as_ref()), (Some(1), expected), "{arguments:?}");
    }
}

#[test]
fn the_hidden_argument_makes_it_the_fake_cli() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "noise hello from a script\nexit 7\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_watari"))
        .args(["__fake-claude", "--output-format=stream-json"])
        .env("FAKE_CLAUDE_SCRIPT", &script)
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello from a script\n");
}
