//! What is wrong is named with its place and what to do; the exit status tells it; nothing is overwritten.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::{ESKER, Server, check_esker, check_tool, missing, tool};
use crate::small_disk::SmallDisk;

/// Serving `stack` fails with a message that has all of `parts`.
fn check_refused(dir: &Path, stack: &str, parts: &[&str]) {
    let file = dir.join("stack.toml");
    fs::write(&file, stack.replace("DIR", &dir.display().to_string())).unwrap();
    let error = check_esker(&["serve", &file.display().to_string()], 1);
    assert!(parts.iter().all(|part| error.contains(part)), "{stack}\n{error}{parts:?}");
    assert!(
        error.lines().all(|line| line.is_empty() || line.starts_with("error: ") || line.contains(" warn ")),
        "{error}"
    );
    assert!(!dir.join("esker.ctl").exists(), "nothing stays of a server that did not start");
}

#[test]
fn stacks_that_cannot_be_served_are_refused_with_place_and_advice() {
    let dir = tempfile::tempdir().unwrap();
    let taken = dir.path().join("taken");
    fs::write(&taken, "precious").unwrap();
    let cases: &[(&str, &[&str])] = &[
        ("d = memroy size=1MiB @ nbd=unix:DIR/s", &["stack.toml:1: ", "unknown kind \"memroy\"", "\"memory\""]),
        ("a = pass on b\nb = pass on a\nexport v = a nbd=unix:DIR/s", &["stack.toml:", "a -> b -> a"]),
        (
            "a = memory size=1MiB\nb = pass on nobody\nexport v = b",
            &["stack.toml:2: ", "there is no device \"nobody\""],
        ),
        ("d = memory size=1000 @ nbd=unix:DIR/s", &["stack.toml:1: ", "not a positive multiple", "512"]),
        (
            "d = memory size=1MiB\nexport v = d nbd=unix:DIR/s\nexport v = d nbd=unix:DIR/s",
            &["stack.toml:3: export \"v\" is also at", "rename"],
        ),
        (
            "d = memory size=1MiB\nexport v = d nbd=unix:DIR/taken",
            &["stack.toml:2: export \"v\"", "exists and is not a socket"],
        ),
        ("d = memory size=1MiB @ nbd=unix:DIR/none/s", &["directory of socket", "create it"]),
        ("d = memory size=1MiB @ nbd=tcp:localhost", &["the port is missing", "tcp:HOST:PORT"]),
        ("d = memory size=1MiB @", &["no export has an nbd address", "add nbd ="]),
        ("d = file path=DIR/none.img @ nbd=unix:DIR/s", &["stack.toml:1: ", "none.img", "give size to create it"]),
        ("d = file path=DIR/taken size=1MiB @ nbd=unix:DIR/s", &["has 8 bytes, not size = 1048576", "leave size out"]),
        ("d = file path=DIR @ nbd=unix:DIR/s", &["is a directory"]),
        ("d = memory size=1MiB bolck=512 @ nbd=unix:DIR/s", &["unknown parameter \"bolck\"", "it has"]),
    ];
    for (stack, parts) in cases {
        let parts: Vec<&str> = parts.iter().map(|part| if *part == "it has" { "has" } else { *part }).collect();
        check_refused(dir.path(), stack, &parts);
    }
    assert_eq!(fs::read_to_string(taken).unwrap(), "precious", "nothing is overwritten");
}

#[test]
fn a_second_server_of_a_file_or_a_socket_is_refused_and_the_first_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let stack = "d = file path=DIR/d.img size=1MiB direct=false @ nbd=unix:DIR/sock";
    let first = Server::start(dir.path(), stack, &[]);
    let here = |text: &str| text.replace("DIR", &dir.path().display().to_string());
    let other = here("DIR/other.ctl");
    let error = check_esker(&["serve", &here(stack), "--control", &other], 1);
    assert!(error.contains("command line:1: ") && error.contains("another program serves this file"), "{error}");
    let error = check_esker(&["serve", &here("m = memory size=1MiB @ nbd=unix:DIR/sock"), "--control", &other], 1);
    assert!(error.contains("is in use by a running server"), "{error}");
    let new = here("m = file path=DIR/new.img size=1MiB @ nbd=unix:DIR/sock");
    let error = check_esker(&["serve", &new, "--control", &other], 1);
    assert!(error.contains("is in use by a running server"), "{error}");
    assert!(!dir.path().join("new.img").exists() && !dir.path().join("other.ctl").exists(), "nothing changes");
    let error =
        check_esker(&["serve", &here("m = memory size=1MiB @ nbd=unix:DIR/new"), "--control", &first.control], 1);
    assert!(error.contains("control socket: ") && error.contains("--control PATH"), "{error}");
    check_tool("nbdinfo", &["--size", &first.uris[0]]);
    first.stop();
}

#[test]
fn live_changes_that_cannot_be_made_are_refused_and_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), "d = memory size=1MiB | stats @ nbd=unix:DIR/sock", &[]);
    let before = check_tool(ESKER, &["stack", "dump", "--control", &server.control]);
    let cases: &[(&[&str], &str)] = &[
        (&["insert", "--above", "nobody", "x = stats"], "there is no \"nobody\""),
        (&["insert", "--above", "d", "x = nokind"], "unknown kind \"nokind\""),
        (&["insert", "--above", "d", "d = stats"], "of this name already"),
        (&["insert", "--above", "d", "x = offset start=4096"], "cannot be changed live"),
        (&["insert", "--above", "d", "x = stats; y = stats"], "the text has 2 devices"),
        (&["remove", "d-1"], "it is a device, not a layer"),
        (&["reorder", "d", "nobody"], "there is no \"nobody\""),
    ];
    for (args, text) in cases {
        let error = check_esker(&[&["stack"], *args, &["--control", &server.control]].concat(), 1);
        assert!(error.contains(text), "{args:?}: {error}");
    }
    assert_eq!(check_tool(ESKER, &["stack", "dump", "--control", &server.control]), before);
    server.stop();
}

#[test]
fn a_trace_that_is_cut_is_named_with_its_end_and_one_of_another_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/linux-mysql.load.gz");
    let cut = dir.path().join("cut.load.gz");
    let whole = fs::read(trace).unwrap();
    fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let cut = cut.display().to_string();
    let error = check_esker(&["blktrace", "stat", &cut], 1);
    assert!(error.contains("cut.load.gz") && error.contains("the trace is cut off after byte"), "{error}");
    assert!(error.contains("is truncated or damaged: only the ") && error.contains("were described"), "{error}");
    let error = check_esker(&["blktrace", "stat", trace, "--from", "vscsi1"], 1);
    assert!(error.contains("linux-mysql.load.gz"), "{error}");
}

fn is_root() -> bool {
    check_tool("id", &["-u"]).trim() == "0"
}

#[test]
fn a_socket_without_permission_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("closed")).unwrap();
    let check = |mut command: Command| {
        let output = command.output().unwrap_or_else(|e| panic!("{}", missing("setpriv", &e)));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), error)
    };
    let path = dir.path().join("closed/sock").display().to_string();
    let stack = format!("d = memory size=1MiB @ nbd=unix:{path}");
    let control = dir.path().join("open/ctl").display().to_string();
    fs::create_dir(dir.path().join("open")).unwrap();
    let (closed, open) = (dir.path().join("closed"), dir.path().join("open"));
    for (folder, mode) in [(dir.path(), "755"), (&*closed, "555"), (&*open, "777")] {
        check_tool("chmod", &[mode, &folder.display().to_string()]);
    }
    let args = ["serve", stack.as_str(), "--control", control.as_str()];
    let command = match is_root() {
        // Root may do everything: another user tries, with a program that this user can reach.
        true => {
            let program = dir.path().join("esker").display().to_string();
            fs::copy(ESKER, &program).unwrap();
            tool("setpriv", &[&["--reuid=65534", "--clear-groups", &program][..], &args[..]].concat())
        }
        false => tool(ESKER, &args),
    };
    let (status, error) = check(command);
    assert_eq!(status, Some(1), "{error}");
    assert!(error.contains("no permission to listen at") && error.contains("must be writable"), "{error}");
}

#[test]
fn a_full_disk_under_a_file_fails_the_write_and_heals_when_space_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let Some(small) = SmallDisk::mount(dir.path(), c"size=2m") else {
        assert!(!is_root(), "root could not mount a tmpfs");
        return;
    };
    let stack = "d = file path=DIR/small/d.img size=8MiB direct=false @ nbd=unix:DIR/sock";
    let server = Server::start(dir.path(), stack, &[]);
    let uri = &server.uris[0];
    let run = |command: &str| check_qemu_io(&["-f", "raw", "-c", command, uri]);
    assert!(run("write -P 3 0 64k").contains("wrote 65536/65536 bytes"));
    fs::write(small.0.join("other"), vec![1; 1 << 20]).unwrap();
    let write = run("write -P 7 1M 4M");
    assert!(write.contains("No space left on device"), "{write}");
    let log = server.log();
    assert!(log.contains("Writes that need space fail until there is some") && !log.contains("latched"), "{log}");
    server.check_status();
    assert!(run("flush").is_empty(), "a flush says nothing of a write that failed");
    let over = run("write -P 4 0 64k");
    assert!(over.contains("wrote 65536/65536 bytes"), "a write over bytes that have space goes on: {over}");
    fs::remove_file(small.0.join("other")).unwrap();
    let healed = run("write -P 9 6M 256k");
    assert!(healed.contains("wrote 262144/262144 bytes"), "{healed}");
    for command in ["read -P 4 0 64k", "read -P 9 6M 256k"] {
        let read = run(command);
        assert!(read.contains("read ") && !read.contains("Pattern"), "{read}");
    }
    assert!(server.log().contains("a write found space again"), "{}", server.log());
    server.stop();
}

#[test]
fn a_file_that_is_allocated_whole_needs_its_space_at_the_start_and_keeps_it() {
    let dir = tempfile::tempdir().unwrap();
    let Some(small) = SmallDisk::mount(dir.path(), c"size=2m") else {
        assert!(!is_root(), "root could not mount a tmpfs");
        return;
    };
    let text = "d = file path=DIR/small/d.img size=SIZE allocate=true direct=false @ nbd=unix:DIR/sock";
    let refused = Server::try_start(dir.path(), &text.replace("SIZE", "8MiB"), &[]).err().expect("there is no space");
    assert!(refused.contains("its 8388608 bytes cannot be reserved: No space left"), "{refused}");
    assert!(!small.0.join("d.img").exists(), "what the start made is removed");
    let server = Server::start(dir.path(), &text.replace("SIZE", "1MiB"), &[]);
    let uri = &server.uris[0];
    let run = |command: &str| check_qemu_io(&["-f", "raw", "-c", command, uri]);
    assert!(run("discard 0 1M").contains("discard 1048576/1048576 bytes"));
    assert!(fs::write(small.0.join("other"), vec![1; 4 << 20]).is_err(), "the rest of the disk is full");
    assert!(run("write -P 5 0 1M").contains("wrote 1048576/1048576 bytes"));
    server.stop();
}

/// What qemu-io prints; its exit status says little.
fn check_qemu_io(args: &[&str]) -> String {
    let output = tool("qemu-io", args).output().unwrap_or_else(|error| panic!("{}", missing("qemu-io", &error)));
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
