//! Signals and the verb stop.

use crate::harness::{Server, check_esker, check_tool};

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

#[test]
fn a_second_signal_ends_a_stop_that_waits() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), "d = memory size=1MiB | delay read=60s @ nbd=unix:DIR/sock", &[]);
    let script = format!("exec nbdcopy --requests=1 '{}' /dev/null", server.uris[0]);
    let mut client = crate::harness::tool("sh", &["-c", &script]).spawn().unwrap();
    while server.check_status()["inflight"].as_u64() == Some(0) {
        std::thread::sleep(std::time::Duration::from_millis(10));
        assert!(client.try_wait().unwrap().is_none(), "nbdcopy ended; is it installed? `cargo xtask peers`");
    }
    server.signal("TERM");
    while !server.log().contains("stopping: ") {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // Half a second later it is not the first one again.
    std::thread::sleep(std::time::Duration::from_millis(600));
    server.signal("TERM");
    assert_eq!(server.wait(), Some(1), "at once, and not as if all were well");
    client.kill().unwrap();
    client.wait().unwrap();
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
