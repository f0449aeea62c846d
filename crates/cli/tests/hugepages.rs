//! The manager of huge pages as a program. Skipped, and said so, where it may not change settings.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the program itself is started, and settings of the machine are looked at"
)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use esker_hugepage::linux::system::faults_now;

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

/// Settings are the machine's: one test at a time.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn item_49_settings_are_put_back_after_every_signal_that_asks_to_stop() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for signal in ["INT", "TERM", "HUP"] {
        let Some(before) = faults_now() else {
            println!("SKIPPED: this kernel has no huge pages");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let mut child = start(folder.path());
        let begun = Instant::now();
        while !folder.path().join("control").exists() && begun.elapsed() < Duration::from_secs(20) {
            if child.try_wait().unwrap().is_some() {
                println!("SKIPPED: it may not manage huge pages here");
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(faults_now().as_deref(), Some("never"), "{signal}: it has begun");
        let told = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
        assert!(told.success());
        assert!(ends_well(&mut child), "{signal}");
        assert_eq!(faults_now(), Some(before), "{signal}");
        assert!(!folder.path().join("state.json").exists(), "{signal}: nothing is left to put back");
    }
}

/// Whether it comes true within what it may take.
fn comes(mut is_so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Programs one of whose arguments begins with this folder.
fn programs_of(folder: &Path) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let arguments = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let folder = folder.as_os_str().as_encoded_bytes();
    arguments.filter(|line| line.split(|byte| *byte == 0).any(|word| word.starts_with(folder))).count()
}

/// Kills an experiment that has come so far. False if it has ended before, because it may not do this here.
fn kill_experiment(is_there: impl Fn(&Path) -> bool) -> bool {
    let before = faults_now();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
    command.args(["lab", "run", "ingens-fault-latency", "--quick", "--scratch"]).arg(folder.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut has_ended = false;
    let came = comes(|| {
        has_ended = child.try_wait().unwrap().is_some();
        has_ended || is_there(folder.path())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    if has_ended {
        println!("SKIPPED: huge pages cannot be measured here");
        return false;
    }
    assert!(came, "the experiment did not come so far");
    assert!(comes(|| faults_now() == before && programs_of(folder.path()) == 0), "{:?}", faults_now());
    true
}

#[test]
fn a_killed_experiment_leaves_no_setting_changed_and_no_manager_running() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let has_socket = |entry: std::fs::DirEntry| entry.path().join("control").exists();
    let has_manager = |folder: &Path| std::fs::read_dir(folder).unwrap().flatten().any(has_socket);
    let has_settings = |folder: &Path| folder.join("esker-lab-ingens.json").exists();
    // First the settings of the experiment itself are in force, then those of its manager.
    let _both = kill_experiment(has_settings) && kill_experiment(has_manager);
}

#[test]
fn what_is_installed_is_where_units_and_manuals_look_for_it() {
    let (built, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (library, dist) = ("libesker_hugepage_preload.so", Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist"));
    std::fs::copy(env!("CARGO_BIN_EXE_esker"), built.path().join("esker")).unwrap();
    std::fs::write(built.path().join(library), "a library").unwrap();
    let install = || {
        let mut command = Command::new(dist.join("install"));
        assert!(command.arg(root.path()).env("BUILT", built.path()).status().unwrap().success());
    };
    install();
    let read = |path: &str| std::fs::read_to_string(root.path().join(path)).unwrap();
    assert_eq!(read(&format!("usr/lib/esker/{library}")), "a library");
    assert!(read("usr/share/man/man1/esker-hugepage-run.1").contains("hugepage.toml"));
    for unit in ["esker@.service", "esker-hugepage.service"] {
        let unit = read(&format!("usr/lib/systemd/system/{unit}"));
        let program = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/")).unwrap();
        assert!(root.path().join(program.split(' ').next().unwrap()).is_file(), "{program}");
    }
    let config = root.path().join("etc/esker/hugepage.toml");
    std::fs::write(&config, "mine").unwrap();
    install();
    assert_eq!(std::fs::read_to_string(config).unwrap(), "mine", "a configuration that is there stays");
}
