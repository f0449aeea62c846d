//! Traces of an attacker, replayed.

#![allow(clippy::disallowed_methods, reason = "looks at the real tree")]

use std::fs;
use std::path::PathBuf;

use esker_trace_calls::generate::hostile;
use esker_trace_calls::{Entry, EntryKind};

use super::*;
use crate::audit;

/// A run directory beside a directory that the replay must not reach.
struct Scene {
    dir: tempfile::TempDir,
    reactor: Reactor,
}

impl Scene {
    fn new() -> Scene {
        let dir = crate::testing::private_dir();
        fs::create_dir_all(dir.path().join("outside/sub")).unwrap();
        fs::write(dir.path().join("outside/kept"), "kept").unwrap();
        Scene { dir, reactor: Reactor::new(RealConfig::seeded(1)).unwrap() }
    }

    fn outside(&self) -> PathBuf {
        self.dir.path().join("outside")
    }

    fn run_dir(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    /// Nothing if the tree that the trace claims cannot be made.
    fn play(&self, seed: u64, options: RunOptions) -> Option<Report> {
        let jobs = vec![job("hostile", hostile(seed, self.outside().to_str().unwrap()))];
        match run(jobs, &self.run_dir(), options, &self.reactor, &mut |_| {}) {
            Ok(mut reports) => Some(reports.remove(0)),
            Err(RunError::Init(InitError::Kernel { .. })) => None,
            Err(other) => panic!("seed {seed}: {other}"),
        }
    }
}

/// What a report counts of privileges that were left out.
fn withheld(report: &Report) -> u64 {
    let told = report.adapted.iter().filter(|one| one.what.contains("--keep-modes"));
    told.map(|one| one.count).sum()
}

#[test]
fn a_hostile_trace_changes_nothing_outside_and_leaves_no_rights() {
    let scene = Scene::new();
    let before = audit::picture(&scene.outside()).unwrap();
    let (mut withheld_all, mut made, mut whole) = (0, 0, 0);
    for seed in 0..48 {
        let played = without_mask(|| scene.play(seed, options(Order::Root(Rules::default()))));
        assert_eq!(audit::picture(&scene.outside()).unwrap(), before, "seed {seed}: something outside changed");
        assert_eq!(audit::privileges(&scene.run_dir()), Ok(Vec::new()), "seed {seed}");
        assert_eq!(fs::read_dir(scene.dir.path()).unwrap().count(), 2, "seed {seed}: something is beside");
        withheld_all += played.as_ref().map_or(0, withheld);
        made += audit::picture(&scene.run_dir()).unwrap().len();
        whole += u32::from(played.is_some());
    }
    let told = format!("{withheld_all} {made} {whole}");
    assert!(withheld_all > 200 && made > 200 && whole > 24, "the traces did nothing: {told}");
}

#[test]
fn owners_of_a_trace_get_its_set_id_bits_back() {
    let scene = Scene::new();
    let mut options = options(Order::Root(Rules::default()));
    options.init.keep_modes = true;
    options.replay.kernel.keep_modes = true;
    let before = audit::picture(&scene.outside()).unwrap();
    let mut rights = 0;
    for seed in 0..8 {
        assert_eq!(scene.play(seed, options).map_or(0, |report| withheld(&report)), 0, "seed {seed}");
        rights += audit::privileges(&scene.run_dir()).unwrap().len();
    }
    assert!(rights > 0, "nothing was kept");
    assert_eq!(audit::picture(&scene.outside()).unwrap(), before);
}

#[test]
fn writes_count_against_the_bytes_that_are_allowed() {
    let scene = Scene::new();
    let mut options = options(Order::Root(Rules::default()));
    let jobs = || {
        let mut trace = apple_desktop(Shape::tiny(1));
        trace.snapshot.entries.insert("/large".into(), Entry::plain(EntryKind::File { size: 1000 }));
        vec![job("apple", trace)]
    };
    let (tree, _) = tree(&jobs()).unwrap();
    let sizes = tree.entries.values().filter_map(|entry| match entry.kind {
        EntryKind::File { size } => Some(size),
        _ => None,
    });
    let steps = jobs().remove(0).program;
    let writes = steps.steps().iter().map(|step| match step.call {
        Call::Write { len, .. } | Call::Pwrite { len, .. } => len,
        Call::Preallocate { len, .. } => len as u64,
        _ => 0,
    });
    let writes: u64 = writes.sum();
    assert!(writes > 0);
    let needed = sizes.sum::<u64>() + writes;
    options.init.max_bytes = Some(needed - 1);
    let refused = run(jobs(), &scene.run_dir(), options, &scene.reactor, &mut |_| {});
    assert!(matches!(refused, Err(RunError::Init(InitError::OverMax { .. }))), "{refused:?}");
    assert!(!scene.run_dir().exists(), "nothing was made");
    options.init.max_bytes = Some(needed);
    run(jobs(), &scene.run_dir(), options, &scene.reactor, &mut |_| {}).unwrap();
}
