//! Settings of the machine, which are as before when a manager or an experiment has ended, however that was.

use std::os::unix::net::UnixDatagram;

use super::*;
use esker_hugepage_linux::linux::system::faults_now;

#[test]
fn settings_are_put_back_after_every_signal_that_asks_to_stop() {
    let _alone = alone();
    // The end of a parent is told as often as it has threads: all at once are one.
    for signals in [&["INT"][..], &["TERM"], &["HUP"], &["TERM", "INT", "HUP"]] {
        let Some(before) = faults_now() else {
            return skip(Ability::HugePages, "this kernel has no huge pages");
        };
        let folder = tempfile::tempdir().unwrap();
        let config =
            format!("faults = \"base\"\n[access]\nmethod = \"none\"\n[[process]]\npid = {}\n", std::process::id());
        let Some(mut manager) = Manager::start(OsStr::new(ESKER), folder.path(), &config) else { return };
        assert_eq!(faults_now().as_deref(), Some("never"), "{signals:?}: it has begun");
        signals.iter().for_each(|signal| manager.signal(signal));
        assert!(manager.ends_well(), "{signals:?}");
        assert_eq!(faults_now(), Some(before), "{signals:?}");
        assert!(!folder.path().join("state.json").exists(), "{signals:?}: nothing is left to put back");
    }
}

/// A manager whose thread waits after the first signal: the service manager that it tells of its stop takes no more
/// messages.
#[test]
fn settings_are_put_back_by_a_second_signal_while_the_stop_waits() {
    let _alone = alone();
    let Some(before) = faults_now() else {
        return skip(Ability::HugePages, "this kernel has no huge pages");
    };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("notify");
    let listener = UnixDatagram::bind(&socket).unwrap();
    let config = format!("faults = \"base\"\n[access]\nmethod = \"none\"\n[[process]]\npid = {}\n", std::process::id());
    let environment = [("NOTIFY_SOCKET", socket.as_os_str())];
    let Some(mut manager) = Manager::start_in(OsStr::new(ESKER), folder.path(), &config, &environment) else { return };
    let mut message = [0; 64];
    let told = listener.recv(&mut message).unwrap();
    assert_eq!((&message[..told], faults_now().as_deref()), (&b"READY=1\n"[..], Some("never")), "it has begun");
    let filler = UnixDatagram::unbound().unwrap();
    filler.set_nonblocking(true).unwrap();
    while filler.send_to(b"full", &socket).is_ok() {}
    manager.signal("TERM");
    // A second signal counts half a second after the first.
    std::thread::sleep(Duration::from_millis(1000));
    assert!(manager.child.try_wait().unwrap().is_none() && faults_now().as_deref() == Some("never"), "the stop waits");
    manager.signal("TERM");
    assert_eq!(manager.end(), Some(1), "a stop that was not waited for is no success");
    assert_eq!(faults_now(), Some(before));
    assert!(!folder.path().join("state.json").exists(), "nothing is left to put back");
}

#[test]
fn the_unit_has_settings_put_back_however_its_manager_ended() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/esker-hugepage.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (state, knob) = (folder.path().join("state.json"), folder.path().join("knob"));
    std::fs::write(folder.path().join("hugepage.toml"), format!("state = {state:?}\n[[process]]\npid = 1\n")).unwrap();
    // What a killed manager leaves.
    std::fs::write(&state, format!("[{{\"path\":{knob:?},\"was\":\"madvise\",\"set\":\"never\"}}]")).unwrap();
    std::fs::write(&knob, "never").unwrap();
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStopPost=")).expect("the line is there");
    let words: Vec<String> = line
        .split_whitespace()
        .skip(1)
        .map(|word| word.replace("/etc/esker", &folder.path().display().to_string()))
        .collect();
    for _ in 0..2 {
        let restored = Command::new(ESKER).args(&words).output().unwrap();
        assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
        assert_eq!(std::fs::read_to_string(&knob).unwrap(), "madvise");
    }
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
    let mut command = Command::new(ESKER);
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
        skip(Ability::HugePages, "huge pages cannot be measured here");
        return false;
    }
    assert!(came, "the experiment did not come so far");
    assert!(comes(|| faults_now() == before && programs_of(folder.path()) == 0), "{:?}", faults_now());
    true
}

#[test]
fn a_killed_experiment_leaves_no_setting_changed_and_no_manager_running() {
    let _alone = alone();
    let has_socket = |entry: std::fs::DirEntry| entry.path().join("control").exists();
    let has_manager = |folder: &Path| std::fs::read_dir(folder).unwrap().flatten().any(has_socket);
    let has_settings = |folder: &Path| folder.join("esker-lab-ingens.json").exists();
    // First the settings of the experiment itself are in force, then those of its manager.
    let _both = kill_experiment(has_settings) && kill_experiment(has_manager);
}
