//! Settings of the machine, which are as before when a manager or an experiment has ended, however that was.

use super::*;
use esker_hugepage::linux::system::faults_now;

#[test]
fn item_49_settings_are_put_back_after_every_signal_that_asks_to_stop() {
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
