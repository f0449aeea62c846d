//! Layers come, move and go under a load that verifies every byte.

use std::process::Stdio;
use std::time::Duration;

use crate::harness::{Server, check_esker, fio_verify, missing, tool};

#[test]
fn a_verifying_load_sees_nothing_of_layers_that_come_move_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let stack = "d = file path=DIR/d.img size=32MiB direct=false | stats @ nbd=unix:DIR/sock";
    let server = Server::start(dir.path(), stack, &[]);
    let args = fio_verify(&server.uris[0], 5);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut fio = tool("fio", &args);
    let mut load =
        fio.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap_or_else(|e| panic!("{}", missing("fio", &e)));
    let control = ["--control", server.control.as_str()];
    let stack = |verb: &str, args: &[&str]| check_esker(&[&["stack", verb], &control[..], args].concat(), 0);
    while load.try_wait().expect("fio can be waited for").is_none() {
        stack("insert", &["--above", "d-1", "slow = delay write=100us read=50us"]);
        std::thread::sleep(Duration::from_millis(100));
        stack("insert", &["--above", "d-1", "fence = pass"]);
        std::thread::sleep(Duration::from_millis(100));
        stack("reorder", &["fence", "d", "slow"]);
        std::thread::sleep(Duration::from_millis(100));
        stack("remove", &["slow"]);
        stack("reorder", &["d", "fence"]);
        stack("remove", &["fence"]);
    }
    let output = load.wait_with_output().expect("fio has ended");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let status = server.check_status();
    assert!(status["changes"].as_u64() > Some(20), "{status}");
    let writes = status["parts"].as_array().unwrap().iter().find(|part| part["name"] == "d").unwrap();
    assert!(writes["stats"]["writes"].as_f64() > Some(500.0), "{status}");
    server.stop();
}

#[test]
fn a_verifying_load_sees_nothing_of_a_member_that_is_replaced_and_of_a_scrub() {
    let dir = tempfile::tempdir().unwrap();
    let stack = "a = file path=DIR/a.img size=32MiB direct=false; b = file path=DIR/b.img size=32MiB direct=false; \
                 vol = mirror on a, b @ nbd=unix:DIR/sock";
    let server = Server::start(dir.path(), stack, &[]);
    let args = fio_verify(&server.uris[0], 5);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut fio = tool("fio", &args);
    let load =
        fio.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap_or_else(|e| panic!("{}", missing("fio", &e)));
    let mirror = |args: &[&str], status| {
        check_esker(&[&["mirror"], &args[..1], &["--control", server.control.as_str()], &args[1..]].concat(), status)
    };
    let device = |name: &str| format!("{name} = file path={}/{name}.img size=32MiB direct=false", dir.path().display());
    mirror(&["replace", "vol", "b", &device("c")], 0);
    let refused = mirror(&["replace", "vol", "c", &device("b")], 1);
    assert!(refused.contains("\"b\" is not blank"), "{refused}");
    mirror(&["replace", "vol", "a", &device("d")], 0);
    let refused = mirror(&["offline", "vol", "a"], 1);
    assert!(refused.contains("its members are d, c"), "{refused}");
    mirror(&["scrub", "vol"], 0);
    let output = load.wait_with_output().expect("fio has ended");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let status = server.check_status();
    let vol = status["parts"].as_array().unwrap().iter().find(|part| part["name"] == "vol").unwrap();
    assert_eq!(vol["stats"]["members_in_sync"], 2.0, "{status}");
    server.stop();
    let members = ["c.img", "d.img"].map(|name| dir.path().join(name).display().to_string());
    check_esker(&["check", &members[0], &members[1]], 0);
}
