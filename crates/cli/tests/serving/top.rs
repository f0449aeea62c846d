//! `esker top` against a live server: as text, as JSON, and on a terminal.

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use crate::harness::{ESKER, Server, check_esker, fio_verify, missing, tool};

const DISK: &str = "d = disk-model size=64MiB content=memory | pass @ nbd=unix:DIR/sock";

fn top(server: &Server, args: &[&str]) -> String {
    let output = crate::harness::esker(&[&["top", "--control", server.control.as_str()], args].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn scripts_read_rates_latencies_queues_energy_and_clients() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), DISK, &[]);
    let args = fio_verify(&server.uris[0], 6);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut fio = tool("fio", &args);
    let load = fio.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut load = load.unwrap_or_else(|error| panic!("{}", missing("fio", &error)));
    while server.check_status()["connections"] == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    check_esker(&["meters", "all", "--control", &server.control], 0);
    let lines = top(&server, &["--json", "--interval", "0.5", "--count", "3"]);
    let views: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(views.len(), 3);
    let busy = |view: &serde_json::Value, name: &str, what: &str| {
        let rows = view["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["name"] == name && row["what"] == what).expect("a row").clone();
        assert!(row["flow"]["p99_ns"].as_u64() >= row["flow"]["p50_ns"].as_u64(), "{row}");
        row
    };
    for (name, what) in [("d", "export"), ("d", "layer"), ("d-1", "device")] {
        let moved = views.iter().any(|view| busy(view, name, what)["flow"]["ops_s"].as_f64() > Some(1.0));
        assert!(moved, "{what} {name} is idle: {lines}");
    }
    let disk = busy(&views[2], "d-1", "device");
    assert!(disk["power_w"].as_f64() > Some(0.5) && disk["busy"].as_f64().is_some(), "{disk}");
    assert_eq!(views[2]["clients"][0]["export"], "d");
    let page = top(&server, &["--once", "--clients", "--sort", "ops", "--interval", "0.2"]);
    for wanted in ["ops/s", "p99", "queue", "disk-model", "measuring all", "client", " pid "] {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
    assert!(load.wait().unwrap().success());
    server.stop();
}

#[test]
fn a_terminal_shows_the_screen_listens_to_keys_and_is_left_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), "volume = memory size=1MiB | pass @ nbd=unix:DIR/sock", &[]);
    let command = format!("stty cols 100 rows 20; '{ESKER}' top --interval 0.1 --control '{}'", server.control);
    let mut script = tool("script", &["-qec", &command, "/dev/null"]);
    let shown = script.stdin(Stdio::piped()).stdout(Stdio::piped()).env("TERM", "xterm").spawn();
    let mut shown = shown.unwrap_or_else(|error| panic!("{}", missing("script", &error)));
    let mut keys = shown.stdin.take().unwrap();
    for key in ["m", "h", "h", "c", "q"] {
        std::thread::sleep(Duration::from_millis(400));
        keys.write_all(key.as_bytes()).unwrap();
    }
    let output = shown.wait_with_output().unwrap();
    let screen = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{screen}");
    // Letters that were in their place before are not drawn again: "shorter" is of a line of the help that was empty.
    for wanted in ["esker top", "volume", "ops/s", "shorter", "client", "\x1b[?1049h", "\x1b[?1049l"] {
        assert!(screen.contains(wanted), "{wanted:?}: {screen:?}");
    }
    assert_eq!(server.check_status()["measured"], "all", "the key m measured layers");
    server.stop();
}

#[test]
fn without_a_terminal_or_a_server_it_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("none").display().to_string();
    assert!(check_esker(&["top", "--control", &nowhere], 2).contains("use --batch, --once or --json"));
    assert!(check_esker(&["top", "--once", "--control", &nowhere], 1).contains("there is no control socket"));
    assert!(check_esker(&["top", "--interval", "0"], 2).contains("write seconds from 0.1 to 3600"));
}
