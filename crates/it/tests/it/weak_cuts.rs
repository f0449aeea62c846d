//! File systems of the kernel on an attached device that records keep their promises, and the harness notices a device
//! that lies to them.

use std::process::Command;

use esker_it::kernel::System;
use esker_it::kernel::weak::{WeakScale, judge};
use esker_testkit::Ability;

const LIES: &str = "ESKER_WEAK_LIES";
const SYSTEM: &str = "ESKER_WEAK_SYSTEM";
const SCALE: WeakScale = WeakScale { scripts: 8, points_max: 14, states_max: 3, seed: 5, lies: false };

/// Runs the test below in a process of its own. Answers what it prints.
fn in_a_process(system: System, lies: bool) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        esker_testkit::skip(Ability::Root, "only root mounts file systems");
        return None;
    }
    if let Some(missing) = system.missing() {
        esker_testkit::skip(Ability::Program, missing);
        return None;
    }
    if let Some(missing) = ["/dev/fuse", "/dev/loop-control"].iter().find(|path| !std::path::Path::new(path).exists()) {
        esker_testkit::skip(Ability::Attach, format!("there is no {missing}"));
        return None;
    }
    let program = std::env::current_exe().expect("the test program's path");
    let mut command = Command::new("unshare");
    command.arg("--mount").arg(program).args(["--exact", "weak_cuts::child", "--ignored", "--nocapture"]);
    let run = command.env(LIES, lies.to_string()).env(SYSTEM, system.name()).output().expect("unshare runs");
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{text}\n{}", String::from_utf8_lossy(&run.stderr));
    println!("{text}");
    Some(text)
}

fn keeps_its_promises(system: System) {
    if let Some(text) = in_a_process(system, false) {
        assert!(text.contains(" violations: 0,"), "{text}");
    }
}

#[test]
fn ext4_keeps_what_it_synced_after_power_cuts_at_flushes() {
    keeps_its_promises(System::Ext4);
}

#[test]
fn xfs_keeps_what_it_synced_after_power_cuts_at_flushes() {
    keeps_its_promises(System::Xfs);
}

#[test]
fn btrfs_keeps_what_it_synced_after_power_cuts_at_flushes() {
    keeps_its_promises(System::Btrfs);
}

#[test]
fn a_device_that_answers_flushes_early_breaks_promises_of_ext4() {
    if let Some(text) = in_a_process(System::Ext4, true) {
        assert!(text.contains("violations: ") && !text.contains(" violations: 0,"), "{text}");
    }
}

#[test]
#[ignore = "needs a process of its own: the tests above run it"]
fn child() {
    let lies = std::env::var(LIES).is_ok_and(|text| text == "true");
    let system = std::env::var(SYSTEM).ok().and_then(|name| System::named(&name)).expect("the tests above name it");
    let folder = tempfile::tempdir().expect("a scratch folder");
    let run = judge(system, WeakScale { lies, ..SCALE }, folder.path()).unwrap_or_else(|why| panic!("{why}"));
    println!("{run:?}");
    assert!(run.states > 20 && run.judged > 300, "{run:?}");
}
