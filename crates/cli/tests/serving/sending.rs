//! Snapshots that travel between served stacks and stacks in files.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::harness::{ESKER, Server, check_esker, check_tool, esker};

const FROM: &str = "a = file path=DIR/a.img size=64MiB; vm = thin ports=\"db=16MiB\" on a; \
                    export db = vm.db nbd=unix:DIR/db.sock";
const TO: &str = "b = file path=DIR/b.img size=64MiB; vm = thin ports=\"other=1MiB\" on b";

/// Runs `esker volume WORDS` with a file as its input or output.
fn stream(words: &[&str], input: Stdio, output: Stdio) -> Output {
    let mut command = Command::new(ESKER);
    command.arg("volume").args(words).stdin(input).stdout(output).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn send(words: &[&str], file: &Path) {
    let done = stream(&[&["send"], words].concat(), Stdio::null(), fs::File::create(file).unwrap().into());
    assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
}

fn receive(words: &[&str], file: &Path) -> Output {
    stream(&[&["receive"], words].concat(), fs::File::open(file).unwrap().into(), Stdio::piped())
}

#[test]
fn increments_of_a_served_volume_arrive_in_a_stack_of_files_also_after_a_cut() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, to) = (dir.path(), TO.replace("DIR", &dir.path().display().to_string()));
    let server = Server::start(folder, FROM, &[]);
    let (uri, control) = (server.uris[0].clone(), server.control.clone());
    let write = |what: &str| drop(check_tool("qemu-io", &["-f", "raw", "-c", what, "-c", "flush", &uri]));
    let file = |name: &str| folder.join(name);
    write("write -P 1 0 8M");
    check_esker(&["volume", "snapshot", "db", "monday", "--control", &control], 0);
    write("write -P 2 3M 64k");
    write("write -z -u 5M 1M");
    check_esker(&["volume", "snapshot", "db", "tuesday", "--control", &control], 0);
    send(&["monday", "--control", &control], &file("whole"));
    send(&["tuesday", "--from", "monday", "--control", &control], &file("more"));
    assert!(fs::metadata(file("more")).unwrap().len() < 70 << 10, "the increment holds what differs alone");

    let done = receive(&["db", "--stack", &to], &file("whole"));
    assert_eq!(text(&done.stdout), "snapshot monday: 16.0 MiB of db\n", "{}", text(&done.stderr));
    let cut = fs::read(file("more")).unwrap();
    fs::write(file("cut"), &cut[..cut.len() - 100]).unwrap();
    let refused = receive(&["db", "--stack", &to], &file("cut"));
    let told = text(&refused.stderr);
    assert!(refused.status.code() == Some(1) && told.contains("\"db\" is as it was"), "{told}");
    let start = told.split("--start ").nth(1).and_then(|rest| rest.split('`').next()).expect("it says where to go on");
    send(&["tuesday", "--from", "monday", "--start", start, "--control", &control], &file("rest"));
    let done = receive(&["db", "--stack", &to], &file("rest"));
    assert_eq!(text(&done.stdout), "snapshot tuesday: 16.0 MiB of db\n", "{}", text(&done.stderr));
    let again = receive(&["db", "--stack", &to], &file("more"));
    assert!(text(&again.stderr).contains("a volume \"tuesday\" already"), "{}", text(&again.stderr));

    check_tool("nbdcopy", &[&uri, &file("from.raw").display().to_string()]);
    server.stop();
    let there = fs::create_dir(file("there")).map(|()| file("there")).unwrap();
    let served = to.replace("other=1MiB", "other=1MiB,db=16MiB") + "; export db = vm.db nbd=unix:DIR/db.sock";
    let server = Server::start(&there, &served, &[]);
    check_tool(
        "qemu-img",
        &["compare", "-f", "raw", "-F", "raw", &file("from.raw").display().to_string(), &server.uris[0]],
    );
    server.stop();
}

#[test]
fn a_schedule_names_snapshots_by_the_instant() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), FROM, &[]);
    let done = esker(&["volume", "rotate", "db", "--keep", "last=1", "--json", "--control", &server.control]);
    let told: serde_json::Value = serde_json::from_slice(&done.stdout).expect("it is JSON");
    let made = told["made"][0].as_str().expect("a snapshot was made");
    assert!(made.starts_with("db-20") && made.ends_with('Z'), "{made}");
    check_esker(&["volume", "hold", made, "--control", &server.control], 0);
    let refused = check_esker(&["volume", "delete", made, "--control", &server.control], 1);
    assert!(refused.contains(&format!("esker volume release {made}")), "{refused}");
    server.stop();
}
