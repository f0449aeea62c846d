//! Freezes, metrics and logs of a real server, under clients that mean well and others.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use prometheus_parse::{Scrape, Value};

use crate::harness::{ESKER, Server, check_esker, check_tool, write_image};

const METERED: &str = "d = memory size=8MiB | pass @ nbd=unix:DIR/sock";

/// Writes an image of this many MiB to the first export.
fn fill(server: &Server, dir: &Path, mib: usize) {
    let image = dir.join("image");
    write_image(&image, mib << 20);
    check_tool("nbdcopy", &[&image.display().to_string(), &server.uris[0]]);
}

fn scrape(url: &str) -> Scrape {
    let mut response = ureq::get(url).call().expect("it answers");
    let kind = response.headers()["content-type"].to_str().unwrap().to_string();
    assert!(kind.starts_with("application/openmetrics-text; version=1.0.0"), "{kind}");
    let page = response.body_mut().read_to_string().unwrap();
    let lines = page.lines().map(|line| Ok(line.to_string()));
    Scrape::parse(lines).expect("it is a page of metrics")
}

fn value(scrape: &Scrape, name: &str, labels: &[(&str, &str)]) -> f64 {
    let fits = |sample: &&prometheus_parse::Sample| {
        sample.metric == name && labels.iter().all(|(label, value)| sample.labels.get(label) == Some(value))
    };
    let sample = scrape.samples.iter().find(fits).unwrap_or_else(|| panic!("{name} {labels:?} is not there"));
    match &sample.value {
        Value::Counter(v) | Value::Gauge(v) | Value::Untyped(v) => *v,
        other => panic!("{name} is {other:?}"),
    }
}

#[test]
fn metrics_count_what_clients_did_and_are_read_by_others_programs() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--metrics", "tcp:127.0.0.1:0", "--meters", "all"];
    let server = Server::start(dir.path(), METERED, &args);
    let at = server.metrics.clone().unwrap();
    let url = format!("http://{}/metrics", at.strip_prefix("tcp:").unwrap());
    fill(&server, dir.path(), 8);
    let seen = scrape(&url);
    let written = |prefix: &str, labels: &[(&str, &str)]| {
        let labels = [labels, &[("op", "write")]].concat();
        let [bytes, count, failed] = ["transferred_bytes", "requests", "errors"]
            .map(|family| value(&seen, &format!("esker_{prefix}_{family}_total"), &labels));
        assert!(count >= 1.0 && failed == 0.0 && bytes >= count * 512.0, "{prefix}: {bytes} {count} {failed}");
        count
    };
    let counts = [
        written("export", &[("export", "d")]),
        written("device", &[("device", "d"), ("kind", "pass")]),
        written("device", &[("device", "d-1"), ("kind", "memory")]),
    ];
    assert!(counts.iter().all(|count| *count == counts[0]), "pass hands on what comes: {counts:?}");
    let latency =
        seen.samples.iter().find(|s| s.metric == "esker_export_latency_seconds" && s.labels.get("op") == Some("write"));
    let Some(Value::Histogram(buckets)) = latency.map(|sample| &sample.value) else { panic!("{latency:?}") };
    assert!(buckets.windows(2).all(|pair| pair[0].less_than < pair[1].less_than && pair[0].count <= pair[1].count));
    let last = buckets.last().unwrap();
    assert!(last.less_than.is_infinite() && last.count == counts[0], "{last:?}");
    assert_eq!(value(&seen, "esker_export_size_bytes", &[("export", "d")]), 8.0 * 1024.0 * 1024.0);
    std::thread::sleep(Duration::from_millis(150));
    assert!(value(&scrape(&url), "esker_uptime_seconds", &[]) > value(&seen, "esker_uptime_seconds", &[]));
    let missing = ureq::get(url.replace("/metrics", "/")).call().unwrap_err();
    assert!(matches!(missing, ureq::Error::StatusCode(404)), "{missing}");
    server.stop();
}

#[test]
fn metrics_stay_on_this_machine() {
    let error = check_esker(&["serve", "d = memory size=1MiB @ nbd=unix:x", "--metrics", "tcp:0.0.0.0:0"], 1);
    assert!(error.contains("0.0.0.0:0 is not on this machine alone"), "{error}");
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("metrics");
    let server = Server::start(dir.path(), METERED, &["--metrics", &format!("unix:{}", socket.display())]);
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("# EOF\n"), "{page}");
    server.stop();
    assert!(!socket.exists(), "the stop removes the socket");
}

#[test]
fn hostile_scrapers_are_dropped_and_harm_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), METERED, &["--metrics", "tcp:127.0.0.1:0"]);
    let at = server.metrics.clone().unwrap().replace("tcp:", "");
    let began = Instant::now();
    let mut silent: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(&at).unwrap()).collect();
    for garbage in [&b"\x16\x03\x01 tls\r\n\r\n"[..], &[b'A'; 20_000], b"GET /metrics HTTP/1.1\r\n: \r\n\r\n"] {
        let mut stream = TcpStream::connect(&at).unwrap();
        // The server may answer, and close, before it has all.
        let _sent = stream.write_all(garbage);
        let mut answer = Vec::new();
        let _reset = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    assert!(value(&scrape(&format!("http://{at}/metrics")), "esker_uptime_seconds", &[]) > 0.0);
    fill(&server, dir.path(), 8);
    for stream in &mut silent {
        let mut answer = String::new();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.read_to_string(&mut answer).expect("it is closed");
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    server.stop();
}

#[test]
fn a_command_runs_while_the_stack_is_frozen_and_copies_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), "d = file path=DIR/d.img size=8MiB @ nbd=unix:DIR/sock", &[]);
    fill(&server, dir.path(), 8);
    let [image, copy, original] = ["d.img", "copy", "image"].map(|name| dir.path().join(name).display().to_string());
    let freeze = ["freeze", "--control", &server.control, "--limit", "20000", "--", "cp", &image, &copy];
    check_esker(&freeze, 0);
    assert!(fs::read(copy).unwrap() == fs::read(original).unwrap(), "the copy is what was written");
    let late = ["freeze", "--control", &server.control, "--limit", "50", "--", "sleep", "0.5"];
    assert!(check_esker(&late, 1).contains("may not be consistent"));
    let failing = ["freeze", "--control", &server.control, "--", "false"];
    assert!(check_esker(&failing, 1).contains("false: exit status: 1"));
    assert!(server.check_status()["frozen"].is_null(), "requests go on whatever becomes of the command");
    check_esker(&["sync", "--control", &server.control], 0);
    assert!(check_esker(&["thaw", "--control", &server.control], 1).contains("the stack is not frozen"));
    server.stop();
}

#[test]
fn json_logs_name_clients_and_a_flood_does_not_fill_them() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log.json");
    let args = ["--log-format", "json", "--log-file", &log.display().to_string()];
    let server = Server::start(dir.path(), METERED, &args);
    fill(&server, dir.path(), 1);
    for _ in 0..400 {
        let mut stream = UnixStream::connect(dir.path().join("sock")).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        // Unknown flags.
        stream.write_all(&[0xff; 4]).unwrap();
        let _closed = stream.read(&mut greeting);
    }
    server.stop();
    let text = fs::read_to_string(log).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let of = |event: &str| lines.iter().filter(|line| line["event"] == event).collect::<Vec<_>>();
    let came = of("client_came");
    assert!(
        came.iter().all(|line| line["export"] == "d" && line["peer"].as_str().unwrap().starts_with("pid ")),
        "{came:?}"
    );
    assert!(!came.is_empty() && lines.iter().all(|line| line["time"].as_str().is_some_and(|t| t.ends_with('Z'))));
    let dropped = of("client_dropped").len();
    assert!((50..=60).contains(&dropped), "{dropped} lines of 400");
    assert_eq!((of("stopping").len(), of("stopped").len()), (1, 1));
}

#[test]
fn a_log_that_cannot_be_written_is_refused_at_the_start() {
    let output = std::process::Command::new(ESKER)
        .args(["serve", "d = memory size=1MiB @ nbd=unix:x", "--log-file", "/nonexistent/log"])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && error.contains("the log cannot be written there"), "{error}");
}

/// Runs `argv` on a terminal of its own, closes the terminal when something was drawn, and prints how the program
/// ended. If the first word is `ignored`, the program is started with SIGHUP ignored.
const HANG_UP: &str = r"
import os, pty, signal, sys, time
pid, screen = pty.fork()
if pid == 0:
    signal.signal(signal.SIGHUP, signal.SIG_IGN if sys.argv[1] == 'ignored' else signal.SIG_DFL)
    os.execv(sys.argv[2], sys.argv[2:])
os.read(screen, 1)
time.sleep(0.5)
os.close(screen)
for _ in range(100):
    ended, status = os.waitpid(pid, os.WNOHANG)
    if ended: break
    time.sleep(0.1)
else: os.kill(pid, 9)
print('ended' if ended else 'runs on')
";

#[test]
fn a_screen_ends_with_its_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), METERED, &[]);
    let control = server.control.clone();
    for hangup in ["default", "ignored"] {
        let said = check_tool("python3", &["-c", HANG_UP, hangup, ESKER, "top", "--control", &control]);
        assert_eq!(said.trim(), "ended", "{hangup}");
    }
    server.stop();
}
