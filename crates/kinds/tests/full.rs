//! Devices below that have no space: at each write in turn, nothing that was answered is lost, and the next start is sound.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use esker_base::Stream;
use esker_block::{Bio, BioError, Buf, Build, Device, Done, Kind, KindError, Limits, Make, Op, Step, Trouble};
use esker_dev::{Defer, Media, MemoryDevice, memory};
use esker_rt::mem::Pool;
use esker_rt::sim::{Sim, SimConfig};
use esker_rt::{Rt, Secret};
use esker_stack::{Export, Spec, Stack};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 48;
const ACTS: usize = 50;
const MEDIUM: u64 = 4 << 20;

/// Memory that outlives its world, and lacks space for a while; its parameter `size` is the number of the medium.
static TIGHT: Kind = Kind { name: "tight", build: Build::Device(build_tight), ..memory::KIND };

thread_local! {
    static MEDIA: RefCell<BTreeMap<u64, Rc<Media>>> = const { RefCell::new(BTreeMap::new()) };
    static LACK: Cell<Lack> = const { Cell::new(Lack { from: 0, count: 0 }) };
    /// Writes that came to all of them.
    static SEEN: Cell<u64> = const { Cell::new(0) };
}

/// Which writes find no space: so many from one on.
#[derive(Clone, Copy, Debug)]
struct Lack {
    from: u64,
    count: u64,
}

struct Tight(MemoryDevice);

fn build_tight(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let number = make.args.int("size") / 512;
    let media = MEDIA.with_borrow_mut(|all| all.entry(number).or_insert_with(|| Media::new(MEDIUM)).clone());
    Ok(Rc::new(Tight(MemoryDevice::over(make.rt, media, 512, Defer::Never))))
}

impl Device for Tight {
    fn limits(&self) -> &Limits {
        self.0.limits()
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        if bio.op != Op::Write {
            return self.0.submit(bio);
        }
        SEEN.set(SEEN.get() + 1);
        let Lack { from, count } = LACK.get();
        if !(from..from.saturating_add(count)).contains(&SEEN.get()) {
            return self.0.submit(bio);
        }
        // A part of it is there.
        let part = bio.buf.to_vec()[..bio.len() as usize / 1024 * 512].to_vec();
        let written = self.0.submit(Bio::write(bio.offset(), Buf::from_bytes(&Pool::default(), &part)));
        written.map(move |_| bio.fail(BioError::NoSpace("the device below".into())))
    }
}

fn kinds() -> &'static [&'static Kind] {
    Box::leak(esker_kinds::ALL.iter().copied().chain([&TIGHT]).collect())
}

/// What a client may find in a block: now, and after a restart without a stop.
#[derive(Clone, Default, Debug)]
struct Holds {
    /// The value of the last write that was answered, and those of later ones that failed.
    now: BTreeSet<u8>,
    /// The same of the last one that was durable, and all later ones.
    later: BTreeSet<u8>,
}

impl Holds {
    fn answered(&mut self, value: u8, is_durable: bool) {
        self.now = BTreeSet::from([value]);
        self.later.insert(value);
        if is_durable {
            self.flushed();
        }
    }

    fn failed(&mut self, value: u8) {
        // What may be anything may still be.
        for set in [&mut self.now, &mut self.later].into_iter().filter(|set| !set.is_empty()) {
            set.insert(value);
        }
    }

    fn flushed(&mut self) {
        self.later.clone_from(&self.now);
    }
}

/// What is read must be of the given values; a block that was never written behind a cipher may hold anything.
fn check_block(block: u64, may_be: &BTreeSet<u8>, bytes: &[u8], what: &str) {
    let foreign = bytes.iter().find(|byte| !may_be.contains(byte));
    assert!(foreign.is_none() || may_be.is_empty(), "{what}: block {block} holds {foreign:?}, not of {may_be:?}");
}

/// What became of one run.
#[derive(Default)]
struct Told {
    model: Vec<Holds>,
    failed: u64,
    latched: Option<String>,
}

async fn open(rt: &Rt, kinds: &'static [&'static Kind], text: &str) -> (Rc<Stack>, Export) {
    rt.set_secrets(Box::new(|_| Ok(Secret::new((0..64).collect()))));
    let spec = Spec::parse("test", text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let stack = Stack::build(rt, &Pool::default(), kinds, &spec).unwrap_or_else(|e| panic!("{text}: {e}"));
    stack.opened().await;
    let unusable: Vec<String> = stack.stats().into_iter().filter_map(|part| part.unusable).collect();
    assert_eq!(unusable, [""; 0], "{text}");
    let vol = stack.device("vol").or_else(|| stack.device("vol.p")).expect("the text names it");
    (stack, vol)
}

async fn read(vol: &Export, block: u64) -> Result<Vec<u8>, BioError> {
    let done = vol.submit(Bio::read(block * BLOCK, Buf::unique(&Pool::default(), BLOCK as usize))).await;
    done.result.map(|_| done.buf.to_vec())
}

async fn write(vol: &Export, block: u64, value: u8, fua: bool) -> Result<(), BioError> {
    let bio = Bio::write(block * BLOCK, Buf::from_bytes(&Pool::default(), &[value; BLOCK as usize]));
    vol.submit(if fua { bio.fua() } else { bio }).await.result.map(drop)
}

/// Does acts one after the other, while there is a lack.
async fn act(rt: &Rt, kinds: &'static [&'static Kind], text: &str, lack: Lack) -> Told {
    let mut told = Told::default();
    let (stack, vol) = open(rt, kinds, text).await;
    LACK.set(lack);
    SEEN.set(0);
    let what = &format!("{text}: {lack:?}");
    let blank = if text.contains("crypt") { BTreeSet::new() } else { BTreeSet::from([0]) };
    let mut model = vec![Holds { now: blank.clone(), later: blank }; BLOCKS as usize];
    let mut rng = Stream::named(1, "acts");
    for number in 0..ACTS as u8 {
        let block = rng.below(BLOCKS);
        let (value, is_durable, result) = match rng.below(8) {
            0 => (None, false, vol.submit(Bio::flush()).await.result.map(drop)),
            1 => (Some(0), false, vol.submit(Bio::zero(block * BLOCK, BLOCK)).await.result.map(drop)),
            n => (Some(number + 1), n == 2, write(&vol, block, number + 1, n == 2).await),
        };
        match (value, result) {
            (Some(value), Ok(())) => model[block as usize].answered(value, is_durable),
            (None, Ok(())) => model.iter_mut().for_each(Holds::flushed),
            (Some(value), Err(BioError::NoSpace(_))) => {
                model[block as usize].failed(value);
                told.failed += 1;
            }
            (_, Err(BioError::NoSpace(_) | BioError::Unsupported(_) | BioError::Latched(_))) => {}
            (_, Err(error)) => panic!("{what}: {error}"),
        }
        let bytes = read(&vol, block).await.unwrap_or_else(|e| panic!("{what}: {e}"));
        check_block(block, &model[block as usize].now, &bytes, what);
    }
    if vol.submit(Bio::flush()).await.result.is_ok() {
        model.iter_mut().for_each(Holds::flushed);
    }
    let troubles = stack.stats().into_iter().filter_map(|part| part.trouble);
    told.latched = troubles.filter_map(|t| if let Trouble::Latched(why) = t { Some(why) } else { None }).next();
    told.model = model;
    told
}

/// The halves of a mirror say where they differ, if they do.
fn check_halves() {
    let media: Vec<Rc<Media>> = MEDIA.with_borrow(|all| all.values().cloned().collect());
    let verdict = esker_layer_mirror::check::check(2, &mut |half, at, out| {
        let range = esker_base::ByteRange::new(at, out.len() as u64).expect("inside");
        out.copy_from_slice(&media[half].bytes(range));
        Ok(())
    });
    match verdict {
        Ok(verdict) => assert_eq!(verdict.differing, [], "no label tells of it"),
        Err(error) => assert!(matches!(error, esker_layer_mirror::check::CheckError::Blank), "{error}"),
    }
}

/// Runs `body` in a world of its own, which then goes without a stop.
fn in_world<T: 'static, F: Future<Output = T> + 'static>(body: impl FnOnce(Rt) -> F) -> T {
    let sim = Sim::new(SimConfig::seeded(5));
    let rt = sim.rt();
    sim.block_on(body(rt))
}

/// One run on media that were made before, and a start on what it left.
fn run(text: &'static str, lack: Lack) -> Told {
    MEDIA.with_borrow_mut(BTreeMap::clear);
    LACK.set(Lack { from: 0, count: 0 });
    let (kinds, what) = (kinds(), format!("{text}: {lack:?}"));
    in_world(async move |rt| open(&rt, kinds, text).await.0.close().await);
    let mut told = in_world(async move |rt| act(&rt, kinds, text, lack).await);
    LACK.set(Lack { from: 0, count: 0 });
    if text.contains("= mirror") {
        check_halves();
    }
    let model = std::mem::take(&mut told.model);
    in_world(async move |rt| {
        let (_stack, vol) = open(&rt, kinds, text).await;
        for (block, holds) in (0..).zip(&model) {
            let bytes = read(&vol, block).await.unwrap_or_else(|e| panic!("{what}: {e}"));
            check_block(block, &holds.later, &bytes, &what);
            assert_eq!(write(&vol, block, 200, block % 7 == 0).await, Ok(()), "{what}");
        }
    });
    told
}

/// The layers that latch, if not all of that is good; none if none ever does.
fn check(text: &'static str, latches: Option<&str>) {
    // Counted without a lack first.
    run(text, Lack { from: 0, count: 0 });
    let writes = SEEN.get();
    assert!(writes > ACTS as u64 / 2, "{text}: {writes} writes");
    let (mut failed, mut latched) = (0, None);
    for (count, step) in [(1, 1), (9, 3), (1 << 40, 3)] {
        for from in (1..=writes).step_by(step) {
            let told = run(text, Lack { from, count });
            failed += told.failed;
            latched = latched.or(told.latched);
        }
    }
    assert!(failed > 20, "{text}: {failed} writes failed");
    assert_eq!(latched.is_some(), latches.is_some(), "{text}: {latched:?}");
    if let (Some(latched), Some(latches)) = (latched, latches) {
        assert!(latched.contains(latches), "{text}: {latched}");
    }
}

#[test]
fn layers_without_a_medium_hand_the_error_on() {
    check("a = tight size=512; vol = align on a", None);
    check("a = tight size=512; c = crypt key=env:K on a; vol = emulate on c", None);
}

#[test]
fn volumes_fail_the_write_and_go_on() {
    check("a = tight size=512; vol = volume segment=64KiB checkpoint=256KiB size=1MiB on a", None);
    check("a = tight size=512; vol = volumes segment=64KiB checkpoint=256KiB ports=\"p=1MiB\" on a", None);
}

#[test]
fn a_mirror_latches_where_no_half_has_space() {
    check(
        "a = tight size=512; b = tight size=1024; vol = mirror region=64KiB settle=1ms new=equal on a, b",
        Some("no half took a change"),
    );
}

#[test]
fn dedup_latches_where_its_records_find_no_space() {
    check("a = tight size=512; vol = dedup on a", Some("its records cannot be kept"));
}

#[test]
fn an_off_loading_layer_uses_its_home_where_its_log_has_no_space() {
    check(
        "a = tight size=512; b = tight size=1024; vol = offload rest=0s on a, b",
        Some("the head of the log cannot be written"),
    );
}

#[test]
fn a_shepherd_hands_the_error_on() {
    check("a = tight size=512; vol = shepherd spares=16 on a", None);
}
