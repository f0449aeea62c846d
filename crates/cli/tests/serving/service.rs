//! A server as a service: what a service manager is told, and the unit that comes with it.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::harness::{ESKER, Server, check_esker, esker, tool};

fn next(socket: &UnixDatagram) -> String {
    let mut message = [0; 256];
    let length = socket.recv(&mut message).expect("a message comes");
    String::from_utf8_lossy(&message[..length]).trim().to_string()
}

#[test]
fn a_service_manager_is_told_when_it_is_ready_that_it_lives_and_that_it_stops() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("notify");
    let socket = UnixDatagram::bind(&at).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let [door, control] = ["sock", "ctl"].map(|name| dir.path().join(name).display().to_string());
    let mut child = Command::new(ESKER)
        .args(["serve", &format!("d = memory size=1MiB @ nbd=unix:{door}"), "--control", &control])
        .env("NOTIFY_SOCKET", &at)
        .env("WATCHDOG_USEC", "200000")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(next(&socket), "READY=1");
    check_esker(&["status", "--control", &control], 0);
    assert_eq!([next(&socket), next(&socket)], ["WATCHDOG=1", "WATCHDOG=1"], "the reactor turns");
    assert!(tool("kill", &["-TERM", &child.id().to_string()]).status().unwrap().success());
    let last = std::iter::repeat_with(|| next(&socket)).find(|message| message != "WATCHDOG=1");
    assert_eq!(last.as_deref(), Some("STOPPING=1"));
    assert!(child.wait().unwrap().success());
}

/// The text of a unit.
pub fn unit(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist").join(name);
    fs::read_to_string(path).expect("the unit is there")
}

#[test]
fn the_units_command_lines_are_understood() {
    let dir = tempfile::tempdir().unwrap();
    let unit = unit("esker@.service");
    for key in ["ExecStart=", "ExecStop="] {
        let line = unit.lines().find_map(|line| line.strip_prefix(key)).expect(key);
        let line = line.replace("%i", "x").replace("%t", &dir.path().display().to_string());
        let line = line.replace("/etc/esker", &dir.path().display().to_string());
        let args: Vec<&str> = line.split_whitespace().skip(1).collect();
        // Neither stack nor server is there: that is said, and nothing about the arguments.
        let error = check_esker(&args, 1);
        assert!(error.contains("x.toml") || error.contains("there is no control socket"), "{error}");
    }
    // A reload is a start in the place of the server that runs.
    let line = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)).expect(key).to_string();
    let reload = line("ExecReload=");
    assert!(reload.contains(&format!("{} --take-over &", line("ExecStart="))), "{reload}");
}

/// What systemd does with the settings that the unit shows as an example.
#[test]
fn the_unit_of_a_schedule_makes_snapshots_of_its_volumes() {
    let dir = tempfile::tempdir().unwrap();
    let stack = "d = memory size=64MiB; vm = thin segment=1MiB ports=\"db=1MiB,home=1MiB\" on d; \
                 export db = vm.db nbd=unix:DIR/sock";
    let server = Server::start(dir.path(), stack, &[]);
    let unit = unit("esker-rotate@.service");
    let value = |key: &str| {
        unit.lines().find_map(|line| line.trim_start_matches("# ").strip_prefix(key)).expect(key).to_string()
    };
    let line = value("ExecStart=/usr/bin/esker ").replace("%t/esker/%i", &dir.path().display().to_string());
    let line = line.replace("$VOLUMES", &value("VOLUMES=")).replace("${KEEP}", &value("KEEP="));
    check_esker(&line.split_whitespace().collect::<Vec<_>>(), 0);
    let listed = esker(&["volume", "list", "--json", "--control", &server.control]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("it is JSON");
    let made: Vec<_> = listed.as_array().unwrap().iter().filter(|one| one["snapshot"] == true).collect();
    assert_eq!(made.iter().map(|one| one["of"].as_str().unwrap()).collect::<Vec<_>>(), ["db", "home"]);
    server.stop();
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    let dir = tempfile::tempdir().unwrap();
    let copies =
        ["esker@.service", "esker@.socket", "esker-control@.socket", "esker-rotate@.service", "esker-rotate@.timer"]
            .map(|name| {
                let copy = dir.path().join(name.replace('@', "@x"));
                fs::write(&copy, unit(name).replace("/usr/bin/esker", ESKER)).unwrap();
                copy.display().to_string()
            });
    let args: Vec<&str> = ["verify", "--man=no"].into_iter().chain(copies.iter().map(String::as_str)).collect();
    match tool("systemd-analyze", &args).output() {
        Err(error) => esker_testkit::skip(
            esker_testkit::Ability::Program,
            format_args!("systemd-analyze: {error}; apt-get install systemd"),
        ),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let ours: Vec<&str> = said.lines().filter(|line| line.contains("esker")).collect();
            assert!(ours.is_empty() && output.status.success(), "{said}");
        }
    }
}
