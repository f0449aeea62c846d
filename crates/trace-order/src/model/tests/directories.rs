//! Directories that are removed, replaced or moved while other threads change what is in them.

use super::*;

fn rmdir(path: &str) -> Call {
    Call::Rmdir { at: at(path) }
}

#[test]
fn a_directory_goes_after_all_that_others_did_in_it() {
    let check = |files: &[&str], end: Call| {
        let mut story = Story::new(3, files);
        story.ok(0, unlink("/d/a")).ok(1, unlink("/d/b")).ok(2, end.clone());
        let edges = story.usual();
        assert!(edges.is_superset(&set(&[(0, 2), (1, 2)])), "{end:?}: {edges:?}");
        let no_paths = Rules::default() - Rules::PATH_STAGE - Rules::PATH_NAME;
        assert_eq!(story.edges(no_paths), set(&[]), "{end:?}");
        assert_eq!(story.compiled().about.repairs.contradictions(), 0);
    };
    check(&["/d/a", "/d/b"], rmdir("/d"));
    check(&["/d/a", "/d/b", "/new/c"], rename("/new", "/d"));
    check(&["/d/a", "/d/b"], rename("/d", "/e"));
    check(
        &["/top/d/", "/d/a", "/d/b"],
        Call::Rename { from: at("/top"), to: at("/d"), flags: RenameFlags::RENAME_EXCHANGE },
    );
}

#[test]
fn a_directory_moves_after_all_that_others_did_far_below() {
    let mut story = Story::new(2, &["/d/sub/a"]);
    story.ok(0, unlink("/d/sub/a")).ok(1, rename("/d", "/e"));
    assert_eq!(story.usual(), set(&[(0, 1)]));
}

#[test]
fn a_directory_that_was_made_here_goes_after_its_files() {
    let mut story = Story::new(3, &[]);
    story.ok(0, mkdir("/d")).opens(1, "/d/a", MAKE, 3).ok(1, unlink("/d/a")).ok(2, rmdir("/d")).ok(2, mkdir("/d"));
    let edges = story.usual();
    assert!(edges.is_superset(&set(&[(0, 1), (2, 3)])), "{edges:?}");
    assert_eq!(story.compiled().about.repairs.contradictions(), 0);
}

#[test]
fn a_removal_that_found_an_entry_comes_before_that_of_the_entry() {
    let mut story = Story::new(3, &["/d/a", "/new/"]);
    story.fails(0, rmdir("/d"), Errno::ENOTEMPTY).fails(1, rename("/new", "/d"), Errno::ENOTEMPTY);
    story.ok(2, unlink("/d/a"));
    let edges = story.usual();
    assert!(edges.is_superset(&set(&[(0, 2), (1, 2)])), "{edges:?}");
}

#[test]
fn what_finds_a_directory_dead_comes_after_its_end() {
    let mut story = Story::new(2, &["/d/"]);
    story.opens(0, "/d", OpenFlags::READ | OpenFlags::O_DIRECTORY, 3).ok(1, rmdir("/d"));
    story.fails(0, Call::ReadDir { fd: Fd(3), len: 99 }, Errno::ENOENT);
    let edges = story.usual();
    assert!(edges.is_superset(&set(&[(0, 1), (1, 2)])), "{edges:?}");
}

#[test]
fn a_name_that_could_not_be_made_comes_before_the_overlapping_making_of_its_directory() {
    for make in [mkdir("/a/b"), open("/a/b", MAKE)] {
        let mut story = Story::new(2, &[]);
        let failed = Outcome::Failed(Errno::ENOENT);
        story.during(0, 10, 50, mkdir("/a"), Outcome::Done(0)).during(1, 20, 30, make.clone(), failed);
        story.during(1, 60, 70, make, Outcome::Done(3));
        let program = story.compiled();
        assert_eq!(program.about.repairs.count(RepairKind::FailureUnexplained), 0);
        let outcomes: Vec<Outcome> = program.steps().iter().map(|step| step.outcome).collect();
        assert_eq!(outcomes, [failed, Outcome::Done(0), Outcome::Done(3)]);
    }
}
