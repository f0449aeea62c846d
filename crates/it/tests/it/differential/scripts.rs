//! Scripts in the folder `scripts`, named after the generic tests of xfstests whose ideas they take. They run on `Ram`,
//! on the harness's own file system with all its crashes, and on file systems of the kernel. A line `//= TEXT` says
//! what the call above it answers.

use std::path::PathBuf;

use esker_fs_posix::script::{ScriptLine, ScriptOp, at_once, play};
use esker_it::kernel::{Bed, System};
use esker_testkit::files::{Reach, Stage, WholeConfig, WholeSubject};

use super::{NO_DIFFERENCE, Played, actor, by_the_kernel, check_in_a_process, compare, rules, system};

/// Scripts that there are at least.
const SCRIPTS_MIN: usize = 80;

pub(super) struct Named {
    name: String,
    lines: Vec<ScriptLine>,
}

impl Named {
    fn ops(&self) -> Vec<ScriptOp> {
        self.lines.iter().map(|line| line.op.clone()).collect()
    }
}

pub(super) fn read() -> Vec<Named> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let entries = std::fs::read_dir(&folder).expect("the folder of scripts");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    assert!(paths.len() >= SCRIPTS_MIN, "{} scripts", paths.len());
    paths.iter().map(|path| parse(path)).collect()
}

fn parse(path: &std::path::Path) -> Named {
    let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).expect("a script");
    assert!(text.starts_with("// generic/"), "{name} says where it comes from and what it checks");
    let lines = ScriptLine::read(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    Named { name, lines }
}

#[test]
fn scripts_of_xfstests_come_out_on_ram_as_they_say() {
    let mut wrong = Vec::new();
    for script in read() {
        let answers = at_once(play(&script.ops(), &mut actor()));
        for (ScriptLine { op, expected, .. }, answer) in script.lines.iter().zip(&answers) {
            if let Some(expected) = expected.as_ref().filter(|expected| *expected != answer) {
                wrong.push(format!("{}: \"{op}\" answers {answer}, not {expected}", script.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn scripts_of_xfstests_survive_every_crash_on_the_harness_s_file_system() {
    let subject: std::rc::Rc<dyn esker_testkit::files::Subject> =
        std::rc::Rc::new(WholeSubject { size: 1 << 20, config: WholeConfig { changes_max: 7, flaw: None } });
    let stage = Stage::new(subject, &[]).unwrap_or_else(|breach| panic!("{breach}"));
    let reach = Reach { states_max: 4, used_every: 40, seed: 3 };
    let mut searched = esker_testkit::files::Searched::default();
    for script in read() {
        let found = stage.search(&script.ops(), reach).unwrap_or_else(|breach| panic!("{}: {breach}", script.name));
        searched.add(found);
    }
    println!("{searched:?}");
    assert!(searched.states > 2000, "{searched:?}");
}

#[test]
fn scripts_of_xfstests_come_out_on_ext4_as_on_ram() {
    check_in_a_process(System::Ext4, "differential::scripts::child", 0);
}

#[test]
fn scripts_of_xfstests_come_out_on_xfs_as_on_ram() {
    check_in_a_process(System::Xfs, "differential::scripts::child", 0);
}

#[test]
fn scripts_of_xfstests_come_out_on_btrfs_as_on_ram() {
    check_in_a_process(System::Btrfs, "differential::scripts::child", 0);
}

#[test]
fn scripts_of_xfstests_come_out_on_tmpfs_as_on_ram() {
    check_in_a_process(System::Tmpfs, "differential::scripts::child", 0);
}

#[test]
#[ignore = "needs a process of its own: the tests above run it"]
fn child() {
    // Inside the tree they are not to be found.
    let scripts = read();
    let folder = tempfile::tempdir().expect("a scratch folder");
    let bed = Bed::new(system(), folder.path());
    play_all(scripts, &|script| bed.in_a_tree(|| compare(system(), script, &mut by_the_kernel())));
}

/// Plays all scripts on both sides. `compare` does so in an empty tree.
pub(super) fn play_all(scripts: Vec<Named>, compare: &dyn Fn(&[ScriptOp]) -> Played) {
    let (system, mut wrong, mut played) = (system(), Vec::new(), 0);
    for script in scripts {
        let (name, ops) = (&script.name, script.ops());
        if !ops.iter().all(|op| rules::is_played(system, op)) {
            continue;
        }
        played += 1;
        wrong.extend(compare(&ops).verdict.err().map(|what| format!("{name}: {what}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let name = system.name();
    println!("{name}: {played} scripts, {NO_DIFFERENCE}");
    assert!(played >= SCRIPTS_MIN * 3 / 4, "{played} scripts are played on {name}");
}
