//! Signals and the verb stop.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::harness::{ESKER, Server, check_esker, check_tool, tool};

const MEMORY: &str = "d = memory size=1MiB @ nbd=unix:DIR/sock";

#[test]
fn either_signal_and_the_verb_end_a_server_well_and_remove_its_sockets() {
    for how in ["TERM", "INT", "verb"] {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(dir.path(), MEMORY, &[]);
        match how {
            "verb" => drop(check_esker(&["stop", "--control", &server.control], 0)),
            signal => server.signal(signal),
        }
        let control = server.control.clone();
        assert_eq!(server.wait(), Some(0), "{how}");
        assert!(!dir.path().join("sock").exists() && !dir.path().join("esker.ctl").exists(), "{how}");
        let error = check_esker(&["status", "--control", &control], 1);
        assert!(error.contains("there is no control socket"), "{error}");
    }
}

/// A server with a client that waits for a minute: it does not stop before.
fn awaited(dir: &Path) -> (Server, Child) {
    let server = Server::start(dir, "d = memory size=1MiB | delay read=60s @ nbd=unix:DIR/sock", &[]);
    let script = format!("exec nbdcopy --requests=1 '{}' /dev/null", server.uris[0]);
    let mut client = tool("sh", &["-c", &script]).spawn().unwrap();
    while server.check_status()["inflight"].as_u64() == Some(0) {
        sleep(Duration::from_millis(10));
        assert!(client.try_wait().unwrap().is_none(), "nbdcopy ended; is it installed? `cargo xtask peers`");
    }
    (server, client)
}

/// Asks to stop several times within a tenth of a second. False if this machine took so long that it was not at once.
fn ask_at_once(server: &Server) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(100) {
        server.signal("TERM");
        sleep(Duration::from_millis(5));
    }
    begun.elapsed() < Duration::from_millis(400)
}

#[test]
fn signals_at_once_ask_once_to_stop_and_a_second_one_ends_a_stop_that_waits() {
    for attempt in 1.. {
        let dir = tempfile::tempdir().unwrap();
        let (mut server, mut client) = awaited(dir.path());
        let was_at_once = ask_at_once(&server);
        // Half a second after the first, another one asks for more.
        sleep(Duration::from_millis(600));
        let waits = server.is_running();
        if waits {
            server.signal("TERM");
        }
        assert_eq!(server.wait(), Some(1), "at once, and not as if all were well");
        client.kill().unwrap();
        client.wait().unwrap();
        if was_at_once {
            assert!(waits, "signals at once ended it");
            return;
        }
        assert!(attempt < 5, "this machine takes more than 0.4 s for what takes 0.1 s");
    }
}

/// A server of a new medium on a file that answers no read for a minute.
fn opening(dir: &Path) -> Child {
    let stack =
        "f = file path=DIR/f.img size=16MiB direct=false | delay read=60s | shepherd spares=16 @ nbd=unix:DIR/sock";
    let here = |text: &str| text.replace("DIR", &dir.display().to_string());
    let log = fs::File::create(dir.join("log")).unwrap();
    let args = ["serve", &here(stack), "--control", &here("DIR/ctl"), "--vhost-user", &here("f=DIR/vhost")];
    let mut server = Command::new(ESKER).args(args).stdout(Stdio::null()).stderr(log).spawn().unwrap();
    while ["sock", "ctl", "vhost", "f.img"].iter().any(|name| !dir.join(name).exists()) {
        sleep(Duration::from_millis(10));
        assert_eq!(server.try_wait().unwrap(), None, "{}", fs::read_to_string(dir.join("log")).unwrap());
    }
    server
}

#[test]
fn one_signal_ends_a_server_that_still_opens_its_layers_and_leaves_nothing() {
    for how in ["TERM", "INT"] {
        let dir = tempfile::tempdir().unwrap();
        let mut server = opening(dir.path());
        check_tool("kill", &[&format!("-{how}"), &server.id().to_string()]);
        assert_eq!(server.wait().unwrap().code(), Some(0), "{how}");
        let log = fs::read_to_string(dir.path().join("log")).unwrap();
        assert!(log.contains("layers were still being opened, so that nothing was served"), "{log}");
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["log"], "{how}");
    }
}

#[test]
fn a_served_stack_is_dumped_as_it_is_now() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), MEMORY, &[]);
    check_esker(&["stack", "insert", "--control", &server.control, "--above", "d", "st = stats"], 0);
    let dump = check_tool(crate::harness::ESKER, &["stack", "dump", "--line", "--control", &server.control]);
    assert!(dump.starts_with("d = memory size=1MiB; st = stats on d; export d = st nbd=unix:"), "{dump}");
    server.stop();
}
