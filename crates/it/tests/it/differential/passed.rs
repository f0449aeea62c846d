//! The file system that passes calls through, on directories of the kernel's file systems: the same scripts on it and
//! on `Ram`, both under processes of ours. What differs is what differs between `Ram` and the kernel itself.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use esker_fs_host::{HostFs, raise_descriptors};
use esker_fs_posix::script::{Actor, Outcome, Player, ScriptOp};
use esker_fs_posix::{Settings, World};
use esker_it::kernel::{Bed, System, hard_links_are_protected};
use esker_rt::mem::Pool;
use esker_rt::real::{Reactor, RealConfig};
use esker_vfs::{Cred, Stamp};

use super::scripts::{play_all, read};
use super::{CALLS, Played, check_in_a_process, compare, play_at_random, system};

#[test]
fn a_directory_of_ext4_passes_random_calls_through() {
    check_in_a_process(System::Ext4, "differential::passed::random_child", CALLS);
}

#[test]
fn a_directory_of_xfs_passes_random_calls_through() {
    check_in_a_process(System::Xfs, "differential::passed::random_child", CALLS);
}

#[test]
fn a_directory_of_btrfs_passes_random_calls_through() {
    check_in_a_process(System::Btrfs, "differential::passed::random_child", CALLS);
}

#[test]
fn a_directory_of_tmpfs_passes_random_calls_through() {
    check_in_a_process(System::Tmpfs, "differential::passed::random_child", CALLS);
}

#[test]
fn scripts_of_xfstests_come_out_on_a_directory_of_ext4_as_on_ram() {
    check_in_a_process(System::Ext4, "differential::passed::scripts_child", 0);
}

#[test]
fn scripts_of_xfstests_come_out_on_a_directory_of_xfs_as_on_ram() {
    check_in_a_process(System::Xfs, "differential::passed::scripts_child", 0);
}

#[test]
fn scripts_of_xfstests_come_out_on_a_directory_of_btrfs_as_on_ram() {
    check_in_a_process(System::Btrfs, "differential::passed::scripts_child", 0);
}

#[test]
fn scripts_of_xfstests_come_out_on_a_directory_of_tmpfs_as_on_ram() {
    check_in_a_process(System::Tmpfs, "differential::passed::scripts_child", 0);
}

#[test]
#[ignore = "needs mounts of its own: the tests above run it, as often as ESKER_FILES_CALLS asks for"]
fn random_child() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let trees = Trees::new(folder.path());
    play_at_random(system(), &|script| trees.compare(script));
    assert!(trees.used.get() > 0, "no script was played");
}

#[test]
#[ignore = "needs mounts of its own: the tests above run it"]
fn scripts_child() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let trees = Trees::new(folder.path());
    play_all(read(), &|script| trees.compare(script));
    assert!(trees.used.get() > 0, "no script was played");
}

/// Directories of a mounted file system, an empty one for each script.
struct Trees {
    at: PathBuf,
    used: Cell<u64>,
    _bed: Bed,
}

impl Trees {
    fn new(folder: &Path) -> Trees {
        raise_descriptors();
        let bed = Bed::new(system(), folder);
        Trees { at: folder.join("mounted"), used: Cell::new(0), _bed: bed }
    }

    fn compare(&self, script: &[ScriptOp]) -> Played {
        self.used.set(self.used.get() + 1);
        let at = self.at.join(format!("tree{}", self.used.get()));
        std::fs::create_dir(&at).expect("room for a tree");
        let played = compare(system(), script, &mut Passed::new(&at));
        std::fs::remove_dir_all(&at).expect("a tree can be removed");
        played
    }
}

/// A process of ours on a directory, in a world that turns while a call waits.
struct Passed {
    reactor: Reactor,
    actor: Option<Actor>,
}

impl Passed {
    fn new(at: &Path) -> Passed {
        let reactor = Reactor::new(RealConfig::seeded(1)).expect("a world");
        let (rt, pool) = (reactor.rt(), Pool::default());
        let files = HostFs::open(&rt, &pool, at).expect("an empty directory");
        let settings = Settings { hard_links_protected: hard_links_are_protected(), ..Settings::usual() };
        let process = World::new(Rc::new(files), settings, move || Stamp(rt.wall())).process(Cred::root());
        Passed { reactor, actor: Some(Actor::new(process)) }
    }
}

impl Player for Passed {
    async fn call(&mut self, op: &ScriptOp) -> Outcome {
        let (mut actor, op) = (self.actor.take().expect("one call at a time"), op.clone());
        let (actor, outcome) = self.reactor.block_on(async move {
            let outcome = actor.call(&op).await;
            (actor, outcome)
        });
        self.actor = Some(actor);
        outcome
    }
}
