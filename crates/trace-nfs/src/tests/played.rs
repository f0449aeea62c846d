//! What each operation does to image and target.

use super::{Scene, orphan};

/// Handle of the exported directory, and its name on the target.
const TOP: u64 = 0x10;

#[test]
fn a_lookup_touches_nothing_on_the_target() {
    let mut scene = Scene::new();
    scene.lookup(TOP, "dir", 0x11, 2);
    scene.lookup(0x11, "file", 0x12, 1);
    assert_eq!((scene.report().calls, scene.report().lookup, scene.tree().len()), (0, 2, 0));
    scene.write(0x12, 3);
    let top = orphan(TOP);
    assert_eq!(scene.tree(), [format!("{top}/"), format!("{top}/dir/"), format!("{top}/dir/file 3")]);
}

#[test]
fn lookups_that_teach_nothing_are_passed_over() {
    let mut scene = Scene::new();
    for (name, handle, kind) in [("", 2, 1), (".", 2, 2), ("..", 2, 2), ("self", TOP, 2), ("pipe", 2, 6)] {
        scene.lookup(TOP, name, handle, kind);
    }
    scene.pair("lookup", "fh 10 name \"x\"", "OK fh 2");
    assert_eq!((scene.report().lookup, scene.report().malformed), (6, 0));
    assert_eq!(scene.run.player().tree().len(), 0);
}

#[test]
fn a_file_without_a_place_gets_its_name_with_the_first_lookup() {
    let mut scene = Scene::new();
    scene.write(0x12, 3);
    assert_eq!(scene.tree(), [format!("{} 3", orphan(0x12))]);
    scene.lookup(TOP, "name", 0x12, 1);
    assert_eq!(scene.tree(), [format!("{}/", orphan(TOP)), format!("{}/name 3", orphan(TOP))]);
}

#[test]
fn a_directory_that_turns_up_elsewhere_is_moved_with_all_in_it() {
    let mut scene = Scene::new();
    scene.lookup(TOP, "old", 0x11, 2);
    scene.create(0x11, "file", 0x12);
    scene.lookup(TOP, "new", 0x13, 2);
    scene.create(0x13, "other", 0x14);
    // The rename of `old` onto `new` was lost: the element there goes to its handle.
    scene.lookup(TOP, "new", 0x11, 2);
    let (top, moved) = (orphan(TOP), orphan(0x13));
    assert_eq!(
        scene.tree(),
        [
            format!("{top}/"),
            format!("{top}/new/"),
            format!("{top}/new/file 0"),
            format!("{moved}/"),
            format!("{moved}/other 0"),
        ]
    );
    // A directory cannot lie in itself.
    scene.lookup(0x11, "inner", TOP, 2);
    scene.create(TOP, "again", 0x15);
    assert!(scene.tree().contains(&format!("{top}/new/inner/again 0")), "{:?}", scene.tree());
}

#[test]
fn hard_links_keep_the_bytes_until_the_last_name_goes() {
    let mut scene = Scene::new();
    scene.create(TOP, "one", 0x12);
    scene.write(0x12, 9);
    scene.pair("link", "fh 12 fh2 10 name \"two\"", "OK");
    // A third name, of which only a lookup tells.
    scene.lookup(TOP, "three", 0x12, 1);
    let top = orphan(TOP);
    assert_eq!(scene.tree(), [format!("{top}/"), format!("{top}/one 9"), format!("{top}/two 9")]);
    scene.remove(TOP, "one");
    scene.remove(TOP, "two");
    assert_eq!(scene.tree(), [format!("{top}/"), format!("{top}/three 9")], "the third name gets the bytes");
    scene.remove(TOP, "three");
    assert_eq!(scene.tree().len(), 0);
}

#[test]
fn a_link_of_an_unknown_file_is_known_by_both_names() {
    let mut scene = Scene::new();
    scene.pair("link", "fh 12 fh2 10 name \"two\"", "OK");
    assert_eq!(scene.tree().len(), 0, "there is nothing to link");
    scene.write(0x12, 4);
    assert_eq!(scene.tree().last(), Some(&format!("{}/two 4", orphan(TOP))));
}

#[test]
fn empty_directories_go_and_come_again_on_demand() {
    let mut scene = Scene::new();
    scene.pair("mkdir", "fh 10 name \"a\"", "OK fh 11 ftype 2");
    scene.pair("mkdir", "fh 11 name \"b\"", "OK fh 12 ftype 2");
    scene.create(0x12, "file", 0x13);
    scene.remove(0x12, "file");
    assert_eq!(scene.tree(), Vec::<String>::new());
    scene.create(0x12, "file", 0x14);
    assert_eq!(scene.tree().last(), Some(&format!("{}/a/b/file 0", orphan(TOP))));
    scene.pair("rmdir", "fh 10 name \"a\"", "OK");
    assert_eq!(scene.report().kept, 1, "the trace has not told what left the directory");
    assert_eq!(scene.tree().len(), 4);
}

#[test]
fn a_rename_replaces_what_is_there() {
    let mut scene = Scene::new();
    scene.create(TOP, "file", 0x12);
    scene.write(0x12, 5);
    scene.create(TOP, "draft", 0x13);
    scene.write(0x13, 7);
    scene.pair("rename", "fh 10 name \"draft\" fh2 10 name2 \"file\"", "OK");
    let top = orphan(TOP);
    assert_eq!(scene.tree(), [format!("{top}/"), format!("{top}/file 7")]);
    // A rename of what is unknown takes away what is there.
    scene.pair("rename", "fh 10 name \"unknown\" fh2 10 name2 \"file\"", "OK");
    assert_eq!((scene.tree().len(), scene.report().failed), (0, 0));
}

#[test]
fn a_directory_is_never_moved_into_itself() {
    let mut scene = Scene::new();
    scene.pair("mkdir", "fh 10 name \"a\"", "OK fh 11 ftype 2");
    scene.create(0x11, "file", 0x12);
    scene.pair("rename", "fh 10 name \"a\" fh2 11 name2 \"b\"", "OK");
    assert_eq!((scene.report().impossible, scene.tree().len()), (1, 3));
}

#[test]
fn symbolic_links_are_made_and_never_followed() {
    let mut scene = Scene::new();
    scene.write(0x20, 1);
    scene.pair("symlink", "fh 10 name \"out\" sdata \"../../etc\"", "OK fh 11 ftype 5");
    assert_eq!(scene.tree()[1], format!("{}/out 9", orphan(TOP)));
    // The server made a directory of this name, and the packets between were lost.
    scene.lookup(TOP, "out", 0x12, 2);
    scene.create(0x12, "passwd", 0x13);
    let top = orphan(TOP);
    assert_eq!(
        scene.tree(),
        [format!("{top}/"), format!("{top}/out/"), format!("{top}/out/passwd 0"), format!("{} 1", orphan(0x20))]
    );
}

#[test]
fn attributes_are_set_where_the_target_has_the_file() {
    let mut scene = Scene::new();
    scene.pair("setattr", "fh 12 mode 1ed", "OK");
    scene.pair("getattr", "fh 12", "OK");
    assert_eq!(scene.report().calls, 0);
    scene.write(0x12, 1);
    scene.pair("setattr", "fh 12 mode 0 mtime 999316800.5", "OK");
    scene.pair("getattr", "fh 12", "OK");
    let path = orphan(0x12);
    let found = esker_fs_posix::script::at_once(scene.process.stat(path.as_str(), super::Follow::Nothing));
    let attr = found.expect("it was written").attr;
    assert_eq!((attr.mode & 0o777, attr.modified.0), (0o600, 999_316_800_500_000_000), "its owner can still write it");
    assert_eq!((scene.report().setattr, scene.report().look, scene.report().failed), (2, 2, 0));
}
