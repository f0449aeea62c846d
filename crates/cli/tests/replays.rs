//! From a made trace to the comparison of two replays.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run the program and look at its files")]

use std::path::Path;
use std::process::Command;

/// Runs it in `dir`, checks the exit status, and returns standard output.
fn esker(dir: &Path, line: &str, status: i32) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
    let output = command.current_dir(dir).args(line.split(' ')).output().expect("the program starts");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{line}: {told}");
    String::from_utf8(output.stdout).expect("results are text")
}

#[test]
fn a_trace_is_replayed_and_two_replays_are_compared() {
    let dir = tempfile::tempdir().expect("a scratch folder");
    let esker = |line: &str, status| esker(dir.path(), line, status);
    esker("trace generate desk.etrace --seed 3 --threads 4 --scripts 20", 0);
    let made = esker("trace init desk.etrace --dir run", 0);
    assert!(made.contains("entries made, 0 changed, 0 removed"), "{made}");
    let again = esker("trace init desk.etrace --dir run --mode delta", 0);
    assert!(again.starts_with("0 of "), "{again}");
    let told = esker("trace replay desk.etrace --dir run --init delta --json root.json --report root.html", 0);
    assert!(told.contains("\nmismatches   0 of "), "{told}");
    esker("trace replay desk.etrace --dir run --init delta --mode temporal --repeat 2 --json temporal.json", 0);
    let compared = esker("trace compare root.json temporal.json --html if.html", 0);
    assert!(compared.contains("root.json") && compared.contains("temporal.json"), "{compared}");
    for page in ["root.html", "if.html"] {
        assert!(std::fs::read_to_string(dir.path().join(page)).expect("it was written").contains("<svg"), "{page}");
    }
    esker("trace replay desk.etrace --dir . --init full", 1);
    assert!(dir.path().join("desk.etrace").exists(), "the folder of others is left alone");
    let json = esker("trace replay desk.etrace --dir run --mode unconstrained --json - --max-failures 100", 0);
    assert!(json.contains("\"mode\": \"unconstrained\""), "{json}");
}
