//! The manager of huge pages as a program. Skipped, and said so, where it may not change settings.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the program itself is started, and settings of the machine are looked at"
)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const KNOBS: [&str; 2] =
    ["/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled", "/sys/kernel/mm/transparent_hugepage/enabled"];

fn knob() -> Option<&'static str> {
    KNOBS.into_iter().find(|path| Path::new(path).is_file())
}

fn setting(path: &str) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn start(folder: &Path) -> Child {
    let text = format!(
        "state = {:?}\nfaults = \"base\"\n[access]\nmethod = \"none\"\n[[process]]\npid = {}\n",
        folder.join("state.json"),
        std::process::id()
    );
    std::fs::write(folder.join("config.toml"), text).unwrap();
    // Whoever runs the tests may have SIGHUP ignored, as nohup(1) does; the manager keeps to that.
    let mut command = Command::new("env");
    command
        .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_esker"), "hugepage", "run", "--config"])
        .arg(folder.join("config.toml"));
    command.arg("--control").arg(folder.join("control")).stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().unwrap()
}

/// Whether it ended well, within what it may take.
fn ends_well(child: &mut Child) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        if let Some(status) = child.try_wait().unwrap() {
            return status.success();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    false
}

#[test]
fn item_49_settings_are_put_back_after_every_signal_that_asks_to_stop() {
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = knob() else {
        println!("SKIPPED: this kernel has no huge pages");
        return;
    };
    for signal in ["INT", "TERM", "HUP"] {
        let before = setting(path);
        let mut child = start(folder.path());
        let begun = Instant::now();
        while !folder.path().join("control").exists() && begun.elapsed() < Duration::from_secs(20) {
            if child.try_wait().unwrap().is_some() {
                println!("SKIPPED: it may not manage huge pages here");
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(setting(path).contains("[never]"), "{signal}: it has begun");
        let told = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
        assert!(told.success());
        assert!(ends_well(&mut child), "{signal}");
        assert_eq!(setting(path), before, "{signal}");
        assert!(!folder.path().join("state.json").exists(), "{signal}: nothing is left to put back");
    }
}
