//! The conformance suite with a crash at every write: its random plan over recorded media, and every stack that is
//! opened again after one. Devices of the kind `recorded` find their media in the environment of their stack.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::rc::Rc;

use esker_base::{ByteRange, Stream};
use esker_block::conformance::{self, Options, Violation};
use esker_block::store::SparseStore;
use esker_block::{
    Bio, BioError, Buf, Build, Device, Env, Kind, KindError, Limits, Make, OpKind, Param, ParamType, Support,
};
use esker_dev::{Defer, Media, MemoryDevice, memory};
use esker_rt::mem::Pool;
use esker_rt::{Rt, Sim, SimConfig};
use esker_stack::Export;

use crate::bench;
use crate::crash::{self, Bound, Count, Image};
use crate::promise::{Lost, Promise};
use crate::recorder::{Journal, Recorder, bytes_of};

/// The manifest of a device that behaves like `memory` with a volatile cache. In a first run it records; in a run after
/// a crash it holds what the crash left.
pub static RECORDED: Kind = Kind {
    name: "recorded",
    summary: "Records what reaches it, or holds what a crash left of it.",
    params: &[
        Param::required("size", ParamType::Size, "Size of the device."),
        Param::with_default("block", ParamType::Size, "512", "Logical block, which a power cut leaves whole."),
        Param::with_default("latency", ParamType::Span, "1us", "The time that each answer takes."),
        Param::with_default("zero", ParamType::Flag, "true", "Whether it can zero."),
    ],
    build: Build::Device(build),
    ..memory::KIND
};

/// What the recorded devices of a stack find, in the order in which they are built.
enum Content {
    Recording(Journal),
    Crashed(RefCell<VecDeque<Image>>),
    /// What a killed process left, with the numbers of their logs in the journal, which goes on.
    Left(Journal, RefCell<VecDeque<(usize, Image)>>),
}

impl Content {
    fn left(journal: &Journal) -> Content {
        let images = crash::newest(journal).into_iter().enumerate();
        Content::Left(journal.clone(), RefCell::new(images.collect()))
    }
}

fn build(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let (size, block) = (make.args.int("size"), make.args.int("block") as u32);
    let defer = Defer::Always(make.args.span("latency"));
    let none = || KindError::Outside(format!("there is no medium for {}", make.name));
    let device: Rc<dyn Device> = match make.env.get::<Content>().ok_or_else(none)? {
        Content::Recording(journal) => Recorder::leaf(journal, make.rt, &Media::new(size), block, defer),
        Content::Crashed(images) => {
            let image = images.borrow_mut().pop_front().ok_or_else(none)?;
            Rc::new(MemoryDevice::over(make.rt, filled(size, &image), block, defer))
        }
        Content::Left(journal, images) => {
            let (number, image) = images.borrow_mut().pop_front().ok_or_else(none)?;
            Recorder::again(journal, number, make.rt, &filled(size, &image), block, defer)
        }
    };
    Ok(if make.args.flag("zero") { device } else { Rc::new(Unzeroing::over(device)) })
}

/// A medium that was empty before an image.
fn filled(size: u64, image: &Image) -> Rc<Media> {
    Media::of(size, image.over(&SparseStore::default()))
}

/// A device that cannot zero.
struct Unzeroing {
    inner: Rc<dyn Device>,
    limits: Limits,
}

impl Unzeroing {
    fn over(inner: Rc<dyn Device>) -> Unzeroing {
        let limits = inner.limits().clone().with(OpKind::Zero, Support::No);
        Unzeroing { inner, limits }
    }
}

impl Device for Unzeroing {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&self, bio: Bio) -> esker_block::Step<esker_block::Done> {
        self.inner.submit(bio)
    }
}

/// What a stack did wrong.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Broken {
    /// Before any crash.
    #[error(transparent)]
    Suite(#[from] Violation),
    /// After one.
    #[error("seed {seed}: {lost}")]
    Lost {
        /// Seed of the run.
        seed: u64,
        /// What was lost.
        lost: Lost,
    },
    /// It cannot be read after a crash.
    #[error("seed {seed}: crash before event {point}: {error}")]
    Unreadable {
        /// Seed of the run.
        seed: u64,
        /// How many events of the recorded devices had happened.
        point: u64,
        /// The answer to a read.
        error: BioError,
    },
}

/// Checks, for each seed, the device `vol` of a text whose ends are of kind [`RECORDED`], with as many states of each
/// point as `states_max`. Prints how many states there were.
///
/// # Panics
/// If a promise is broken, or there were fewer than `states_min` states in all.
pub fn check_text(
    kinds: &'static [&'static Kind],
    text: &str,
    seeds: RangeInclusive<u64>,
    states_max: u64,
    states_min: u64,
) {
    let open = |rt: &Rt, env: &Env| Rc::new(bench::open_with(rt, kinds, text, env)) as Rc<dyn Device>;
    let states_of = |seed| {
        let count = check(open, Options::power_cuts(seed), Bound { states_max, seed });
        count.unwrap_or_else(|broken| panic!("{text}: {broken}")).states
    };
    let states: u64 = seeds.map(states_of).sum();
    println!("{states} crash states: {text}");
    assert!(states >= states_min, "only {states} states: {text}");
}

/// Runs the suite on a stack over recorded media, then opens the stack again over every state that a crash at any event
/// could have left. Each block in the suite's windows must hold what its client was promised. Then the process of some
/// other runs is killed, and the power fails behind that.
///
/// `open` builds the stack in an environment ([`Stack::build_with`](esker_stack::Stack::build_with)): all its ends are
/// of kind
/// [`RECORDED`].
///
/// # Errors
/// The first broken promise.
pub fn check(open: impl Fn(&Rt, &Env) -> Rc<dyn Device>, options: Options, bound: Bound) -> Result<Count, Broken> {
    check_kills(open, options, bound, KILLS)
}

/// The same with so many kills of the process. Behind each, the stack is opened again, used, and cut at each event.
///
/// # Errors
/// The first broken promise.
pub fn check_kills(
    open: impl Fn(&Rt, &Env) -> Rc<dyn Device>,
    options: Options,
    bound: Bound,
    kills: u64,
) -> Result<Count, Broken> {
    let (seed, journal) = (options.seed, Journal::default());
    let env = Env::of(Content::Recording(journal.clone()));
    let sim = Sim::new(SimConfig::seeded(seed));
    let device = open(&sim.rt(), &env);
    let windows = conformance::windows(device.limits(), options.window);
    let before = content(&sim, device.clone(), windows.clone()).expect("a device that was just made can be read");
    let top = Recorder::above(&journal, device, before.clone());
    sim.block_on(conformance::run(sim.rt(), top, options))?;
    let points = journal.points();
    let mut count = judge(&open, &journal, 0..=points, &before, &windows, bound)?;
    for kill in kill_points(points, kills, seed) {
        count.add(killed(&open, &journal.killed(kill), &before, options, bound)?);
    }
    Ok(count)
}

/// Kills of the process in each run of [`check`].
const KILLS: u64 = 4;

/// The events before which a process is killed: all of them, or as many drawn ones as `most`.
pub(crate) fn kill_points(events: u64, most: u64, seed: u64) -> Vec<u64> {
    let mut rng = Stream::named(seed, "kills");
    match events < most {
        true => (0..=events).collect(),
        false => (0..most).map(|_| rng.below(events + 1)).collect(),
    }
}

/// Opens the stack on what a killed process left, runs the suite again, and judges each crash from the kill on. The
/// client is one for both processes.
fn killed(
    open: &impl Fn(&Rt, &Env) -> Rc<dyn Device>,
    journal: &Journal,
    before: &SparseStore,
    options: Options,
    bound: Bound,
) -> Result<Count, Broken> {
    let kill = journal.points();
    let options = Options { batches: 3, seed: options.seed ^ kill, ..options };
    let sim = Sim::new(SimConfig::seeded(options.seed));
    let device = open(&sim.rt(), &Env::of(Content::left(journal)));
    let windows = conformance::windows(device.limits(), options.window);
    let top = Recorder::above(journal, device, before.clone());
    sim.block_on(conformance::run(sim.rt(), top, options))?;
    judge(open, journal, kill..=journal.points(), before, &windows, bound)
}

/// Runs a script on the device `vol` of a text whose ends are of kind [`RECORDED`], for each seed. The script sends the
/// requests whose answers count to the device that it gets. Then as [`check_text`], over the whole device. Answers how
/// many states there were.
///
/// # Panics
/// If a promise is broken.
pub fn check_script<F: Future<Output = ()> + 'static>(
    kinds: &'static [&'static Kind],
    text: &str,
    seeds: RangeInclusive<u64>,
    states_max: u64,
    script: impl Fn(Rc<Export>, Rc<dyn Device>) -> F,
) -> u64 {
    check_script_then(kinds, [text, text], seeds, states_max, script)
}

/// As [`check_script`], with another text behind each crash: the same ends under a layer with other parameters.
///
/// # Panics
/// As [`check_script`].
pub fn check_script_then<F: Future<Output = ()> + 'static>(
    kinds: &'static [&'static Kind],
    [text, then]: [&str; 2],
    seeds: RangeInclusive<u64>,
    states_max: u64,
    script: impl Fn(Rc<Export>, Rc<dyn Device>) -> F,
) -> u64 {
    let open = |rt: &Rt, env: &Env| Rc::new(bench::open_with(rt, kinds, then, env)) as Rc<dyn Device>;
    let states_of = |seed| {
        let journal = Journal::default();
        let sim = Sim::new(SimConfig::seeded(seed));
        let env = Env::of(Content::Recording(journal.clone()));
        let vol = Rc::new(bench::open_with(&sim.rt(), kinds, text, &env));
        let windows = conformance::windows(vol.limits(), vol.limits().size);
        let before = content(&sim, vol.clone(), windows.clone()).expect("a device that was just made can be read");
        let top = Recorder::above(&journal, vol.clone(), before.clone());
        sim.block_on(script(vol, top));
        let points = 0..=journal.points();
        let count = judge(&open, &journal, points, &before, &windows, Bound { states_max, seed });
        count.unwrap_or_else(|broken| panic!("{text}: {broken}")).states
    };
    let states: u64 = seeds.map(states_of).sum();
    println!("{states} crash states: {text}");
    states
}

/// Judges what each crash of a run leaves on the media, in the order in which the text names them.
///
/// # Panics
/// If `each` finds something wrong.
pub fn check_media<F: Future<Output = ()> + 'static>(
    kinds: &'static [&'static Kind],
    text: &str,
    bound: Bound,
    script: impl FnOnce(Rc<Export>) -> F,
    mut each: impl FnMut(&[Image]) -> Result<(), String>,
) -> Count {
    let (journal, sim) = (Journal::default(), Sim::new(SimConfig::seeded(bound.seed)));
    let env = Env::of(Content::Recording(journal.clone()));
    let vol = Rc::new(bench::open_with(&sim.rt(), kinds, text, &env));
    sim.block_on(script(vol));
    let told = |point, why: String| format!("{text}, crash before event {point}: {why}");
    let count = crash::for_each_state(&journal, bound, |point, images| each(images).map_err(|why| told(point, why)));
    count.unwrap_or_else(|broken| panic!("{broken}"))
}

/// Opens the stack over every state that a crash could have left of a recorded run.
fn judge(
    open: &impl Fn(&Rt, &Env) -> Rc<dyn Device>,
    journal: &Journal,
    points: RangeInclusive<u64>,
    before: &SparseStore,
    windows: &[ByteRange],
    bound: Bound,
) -> Result<Count, Broken> {
    let (log, seed) = (journal.top(), bound.seed);
    let mut promise = Promise::of(&log, 0);
    crash::for_each_state_at(journal, points, bound, |point, images| {
        if promise.point() != point {
            promise = Promise::of(&log, point);
        }
        let after = reopened(open, images, windows).map_err(|error| Broken::Unreadable { seed, point, error })?;
        let (before, after) = (|range| bytes_of(before, range), |range| bytes_of(&after, range));
        let judged = windows.iter().try_for_each(|window| promise.judge(*window, &before, &after));
        judged.map_err(|lost| Broken::Lost { seed, lost })
    })
}

/// What a stack over `images` holds in `windows`.
fn reopened(
    open: &impl Fn(&Rt, &Env) -> Rc<dyn Device>,
    images: &[Image],
    windows: &[ByteRange],
) -> Result<SparseStore, BioError> {
    let env = Env::of(Content::Crashed(RefCell::new(images.to_vec().into())));
    let sim = Sim::new(SimConfig::seeded(0));
    let device = open(&sim.rt(), &env);
    content(&sim, device, windows.to_vec())
}

/// What `device` holds in `windows`.
pub(crate) fn content(sim: &Sim, device: Rc<dyn Device>, windows: Vec<ByteRange>) -> Result<SparseStore, BioError> {
    sim.block_on(async move {
        let (pool, mut store) = (Pool::default(), SparseStore::default());
        for window in windows {
            let buf = Buf::unique(&pool, window.len() as usize);
            let done = device.submit(Bio::read(window.start(), buf)).await;
            done.result?;
            store.write_buf(window.start(), &done.buf);
        }
        Ok(store)
    })
}
