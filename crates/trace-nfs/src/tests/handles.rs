//! Handles: used again, and too many of them.

use esker_base::Nanos;
use esker_fs_posix::script::at_once;

use super::{BEGIN, Scene, orphan};
use crate::tree::{NAMES_MAX, NodeKind, ROOT, ServerTree, TreeLimits};

const TOP: u64 = 0x10;

#[test]
fn a_handle_that_is_used_again_leaves_no_file_behind() {
    let mut scene = Scene::new();
    scene.create(TOP, "first", 0x12);
    scene.write(0x12, 9);
    // The packet that removed `first` was lost.
    scene.create(TOP, "second", 0x12);
    scene.write(0x12, 4);
    let top = orphan(TOP);
    assert_eq!(scene.tree(), [format!("{top}/"), format!("{top}/second 4")]);
    scene.remove(TOP, "second");
    assert_eq!((scene.tree().len(), scene.report().failed), (0, 0));
}

#[test]
fn a_handle_goes_from_a_directory_to_a_file_and_back() {
    let mut scene = Scene::new();
    scene.pair("mkdir", "fh 10 name \"dir\"", "OK fh 12 ftype 2");
    scene.create(0x12, "inside", 0x13);
    scene.create(TOP, "file", 0x12);
    scene.write(0x12, 4);
    let top = orphan(TOP);
    assert_eq!(
        scene.tree(),
        [format!("{top}/"), format!("{top}/dir/"), format!("{top}/dir/inside 0"), format!("{top}/file 4")]
    );
    // A file is made in what was a file.
    scene.create(0x12, "deep", 0x14);
    let again = orphan(0x12);
    assert_eq!(
        scene.tree(),
        [
            format!("{top}/"),
            format!("{top}/dir/"),
            format!("{top}/dir/inside 0"),
            format!("{again}/"),
            format!("{again}/deep 0"),
        ]
    );
    assert_eq!(scene.report().failed, 0);
}

#[test]
fn old_names_are_forgotten_by_time_of_the_trace() {
    let mut tree = ServerTree::new(TreeLimits::tiny());
    let at = |seconds| Nanos::secs(BEGIN + seconds);
    let dir = tree.add(ROOT, b"dir", NodeKind::Dir, 1, at(0));
    let kept = tree.add(dir, b"kept", NodeKind::File, 2, at(0));
    tree.set_on_target(dir, true);
    tree.set_on_target(kept, true);
    for number in 0..20u64 {
        tree.add(dir, format!("{number}").as_bytes(), NodeKind::File, 10 + number, at(number * 10));
    }
    tree.collect(at(200));
    tree.check();
    assert_eq!((tree.losses().learnt, tree.losses().on_target), (8, 0), "those that are older than 120 seconds");
    assert!(tree.find(2).is_some() && tree.find(10).is_none() && tree.find(18).is_some());
}

#[test]
fn many_handles_take_no_more_memory_than_the_limit() {
    let mut options = super::options();
    options.memory = 1 << 20;
    let mut scene = Scene::with(super::ROOM, options);
    // The check of the whole image after each line would take for ever.
    let line = |scene: &mut Scene, text: String| at_once(scene.run.line(text.as_bytes(), false));
    let mut most = 0;
    for number in 0..30_000u64 {
        let dir = number / 64;
        for (direction, rest) in [
            ("C", format!("fh {:x} name \"{number:0200}\"", 0x1000_0000 + dir)),
            ("R", format!("OK fh {:x} ftype 1", 0x2000_0000 + number)),
        ] {
            line(&mut scene, format!("{}.0 a b U {direction}3 {number:x} 3 lookup {rest}", BEGIN + number / 100));
        }
        if number % 3 == 0 {
            line(
                &mut scene,
                format!("{}.0 a b U C3 {number:x} 7 write fh {:x} off 0 count 1", BEGIN, 0x2000_0000 + number),
            );
            line(&mut scene, format!("{}.0 a b U R3 {number:x} 7 write OK", BEGIN));
        }
        most = most.max(scene.run.player().tree().bytes());
    }
    scene.run.player().tree().check();
    let report = scene.report();
    assert!(most <= 1 << 20, "{most}");
    assert!(report.forgotten > 10_000 && report.abandoned > 1_000, "{report:?}");
    assert_eq!(report.failed, 0, "{report:?}");
}

#[test]
fn a_file_has_a_bounded_number_of_names() {
    let mut scene = Scene::new();
    let more = 10;
    for number in 0..NAMES_MAX + more {
        let name = format!("{number}");
        // Half of the names had another handle before.
        if number % 2 == 0 {
            scene.lookup(TOP, &name, 0x1000 + number as u64, 1);
        }
        scene.lookup(TOP, &name, 0x12, 1);
    }
    assert_eq!(scene.report().impossible, more as u64);
    scene.write(0x12, 1);
    scene.pair("link", "fh 12 fh2 10 name \"one more\"", "OK");
    assert_eq!((scene.report().impossible, scene.tree().len()), (more as u64 + 1, 2));
}
