//! Everything that a file system is held to, and the figures of it.

use std::rc::Rc;

use esker_fs_posix::script::{Bounded, ScriptOp};
use esker_vfs::RamConfig;

use super::breach::Breach;
use super::search::{Reach, Searched};
use super::space::Cycled;
use super::stage::Stage;
use super::subject::{RamSubject, Subject, WholeSubject};
use super::whole::{Flaw, WholeConfig};

/// Scripts that each find a mistake that was made more than once. The scripts of `crates/it/scripts` are more of them.
pub const CASES: [(&str, &str); 8] = [
    (
        "a file is synced and replaced",
        "open #0 A/foo rdwr,creat 0644\nwrite #0 5000 x1\nsync file #0\nclose #0\n\
      rename A/foo foo replace\nsync all\nrename foo A/bar replace\n",
    ),
    ("a file is cut and synced", "open #0 foo rdwr 0\ntruncate #0 1000\nsync file #0\nclose #0\nunlink bar\n"),
    (
        "a file is cut and grows",
        "open #0 foo rdwr 0\ntruncate #0 100\ntruncate #0 9000\nread #0 9000 @0\nsync data #0\n",
    ),
    ("an open file loses its name", "open #0 foo rdwr 0\nunlink foo\nwrite #0 3000 x4\nsync all\nread #0 3000 @0\n"),
    ("a file without a name gets one", "open #0 A tmpfile,rdwr 0600\nwrite #0 4096 x5\nlink #0 A/foo\nsync file #0\n"),
    ("names change places", "rename foo A/bar exchange\nsync all\nrename A B/A replace\nlink foo B/foo\nunlink foo\n"),
    (
        "a hole is punched and filled",
        "open #0 foo rdwr 0\nallocate #0 punch 1000 6000\nsync data #0\n\
      write #0 100 x6 @4000\nread #0 8192 @0\nsync file #0\n",
    ),
    (
        "attributes are synced",
        "chmod foo 0600\nsetxattr foo user.a 20 x8 any\nopen #0 foo rdonly 0\nsync file #0\n\
      removexattr foo user.a\nchown foo 7 8\nsync all\n",
    ),
];

/// How much is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale {
    /// Scripts of one step, of two and of three; all, if there are no more.
    pub scripts: [u64; 3],
    /// Events of each case at which the process is killed.
    pub kills: u64,
    /// How far each script is searched.
    pub reach: Reach,
    /// Scripts of one step on a file system with so many pages left.
    pub full: u64,
    /// Scripts of two steps of which each request fails once.
    pub struck: u64,
    /// Changed bits of the medium.
    pub flips: u64,
    /// Cycles of filling and emptying.
    pub cycles: u64,
}

impl Scale {
    /// For mutants: enough to find each.
    pub fn tiny(seed: u64) -> Scale {
        Scale { scripts: [40, 10, 0], kills: 20, reach: Reach::quick(seed), full: 10, struck: 1, flips: 200, cycles: 3 }
    }

    /// What a usual test run affords.
    pub fn quick(seed: u64) -> Scale {
        Scale {
            scripts: [u64::MAX, 300, 100],
            kills: 40,
            reach: Reach::quick(seed),
            full: 40,
            struck: 10,
            flips: 400,
            cycles: 20,
        }
    }

    /// What a soak affords, before [`Stage::search_long`].
    pub fn long(seed: u64) -> Scale {
        Scale {
            scripts: [u64::MAX, 0, 0],
            kills: u64::MAX,
            reach: Reach::long(seed),
            full: u64::MAX,
            struck: 400,
            flips: 20_000,
            cycles: 1000,
        }
    }
}

/// What a suite did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Judged {
    /// Crashes.
    pub searched: Searched,
    /// Runs with a fault.
    pub faults: u64,
    /// Changed bits that were noticed.
    pub noticed: u64,
    /// Filling and emptying.
    pub cycled: Cycled,
}

/// Bytes that are left when calls are tried on a full file system.
const LEFT: [u64; 5] = [0, 4096, 8192, 16_384, 32_768];

/// Holds a file system to everything.
///
/// # Errors
/// The first broken promise.
pub fn judge(subject: &Rc<dyn Subject>, scale: Scale) -> Result<Judged, Breach> {
    let stage = Stage::new(subject.clone(), &Bounded::before())?;
    let mut judged = Judged::default();
    for (name, text) in CASES {
        let script = ScriptOp::script(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        judged.searched.add(stage.search(&script, scale.reach)?);
        judged.searched.add(stage.search_killed(&script, scale.kills, scale.reach)?);
    }
    stage.list_under_change(scale.reach.seed)?;
    stage.close()?;
    judged.cycled = Stage::cycle(subject, scale.cycles, scale.reach.seed)?;
    let steps = Bounded::new(2);
    if stage.survives() {
        let mut scripts = vec![ScriptOp::script(CASES[0].1).expect("a constant of calls")];
        let mut rng = esker_base::Stream::named(scale.reach.seed, "scripts with faults");
        scripts.extend((0..scale.struck).map(|_| steps.steps(rng.below(steps.count()))));
        for script in &scripts {
            judged.faults += stage.strike(script, None)?;
        }
        if subject.has_sums() {
            judged.noticed = stage.rot(&scripts[0], scale.flips, scale.reach.seed)?;
        }
    }
    for left in LEFT {
        judged.searched.add(stage.search_full(left, scale.full, scale.reach)?);
    }
    for (length, scripts_max) in (1..).zip(scale.scripts) {
        judged.searched.add(stage.search_bounded(length, scripts_max, scale.reach)?);
    }
    Ok(judged)
}

/// The subject of the harness's own figures: an image after three changes.
pub fn whole(flaw: Option<Flaw>) -> Rc<dyn Subject> {
    WholeSubject::small(WholeConfig { changes_max: 3, flaw })
}

/// An image after each change: every completed call survives.
pub fn linear() -> Rc<dyn Subject> {
    WholeSubject::small(WholeConfig { changes_max: 1, flaw: None })
}

/// `Ram` with the limits of the small ones.
pub fn ram() -> Rc<dyn Subject> {
    RamSubject::of(RamConfig { inodes: 132, ..RamConfig::sized(132 << 10) })
}

/// The flaws that a harness of this scale finds, each with the report.
pub fn caught(scale: Scale) -> Vec<(Flaw, Breach)> {
    let judged = Flaw::ALL.into_iter().map(|flaw| (flaw, judge(&whole(Some(flaw)), scale)));
    judged.filter_map(|(flaw, judged)| Some((flaw, judged.err()?))).collect()
}

/// A figure of the experiment `fs-harness`: name, value, unit.
pub type HarnessFigure = (&'static str, f64, &'static str);

/// The figures of the experiment `fs-harness` that need no kernel. `seconds` tells the time; `say` hears of what is
/// broken.
pub fn figures(scale: Scale, seconds: impl Fn() -> f64, mut say: impl FnMut(String)) -> Vec<HarnessFigure> {
    let caught = caught(Scale::tiny(scale.reach.seed));
    for (flaw, breach) in &caught {
        say(format!("{flaw:?}: {}", breach.what.first().map_or("", String::as_str)));
    }
    let mut judged = |subject: &Rc<dyn Subject>| match judge(subject, scale) {
        Ok(judged) => (judged, 0.0),
        Err(breach) => {
            say(breach.to_string());
            (Judged::default(), 1.0)
        }
    };
    let begin = seconds();
    let ((whole, whole_broken), (linear, linear_broken)) = (judged(&whole(None)), judged(&linear()));
    let took = seconds() - begin;
    let (_, ram_broken) = judged(&ram());
    let mut searched = whole.searched;
    searched.add(linear.searched);
    vec![
        ("mutants", Flaw::ALL.len() as f64, "mutants"),
        ("mutants_caught", caught.len() as f64, "mutants"),
        ("promises_broken", ram_broken, "by ram"),
        ("whole_promises_broken", whole_broken + linear_broken, "by whole without a flaw"),
        ("states", searched.states as f64, "states that a crash can leave"),
        ("states_per_s", searched.states as f64 / took.max(1e-9), "states/s"),
        ("scripts", searched.scripts as f64, "scripts"),
        ("faults", (whole.faults + linear.faults) as f64, "runs with a fault"),
        ("cycles", (whole.cycled.cycles + linear.cycled.cycles) as f64, "cycles of filling and emptying"),
    ]
}
