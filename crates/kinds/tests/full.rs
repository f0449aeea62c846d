//! Devices below that have no space: at each write in turn, nothing that was answered is lost, and the next start is
//! sound.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use esker_base::Stream;
use esker_block::{Bio, BioError, Buf, Build, Device, Done, Kind, KindError, Limits, Make, Op, Step, Trouble};
use esker_rt::mem::Pool;
use esker_rt::sim::{Sim, SimConfig};
use esker_rt::{Rt, Secret};
use esker_stack::{Export, Spec, Stack};
use esker_testkit::kept::{KEPT, peek, poke};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 48;
const ACTS: usize = 50;
const MEDIUM: u64 = 4 << 20;

/// A kept medium that lacks space for a while.
static TIGHT: Kind = Kind { name: "tight", build: Build::Device(build_tight), ..KEPT };

/// What is told of a bed: which writes to it find no space, and how many came.
static LACKS: Mutex<BTreeMap<u64, (Lack, u64)>> = Mutex::new(BTreeMap::new());

/// Beds of these tests, one for each text.
static NEXT_BED: AtomicU64 = AtomicU64::new(2_800);

fn lacks() -> MutexGuard<'static, BTreeMap<u64, (Lack, u64)>> {
    LACKS.lock().expect("no test panics with it")
}

const NONE: Lack = Lack { from: 0, count: 0 };

/// Which writes find no space: so many from one on.
#[derive(Clone, Copy, Debug)]
struct Lack {
    from: u64,
    count: u64,
}

struct Tight {
    inner: Rc<dyn Device>,
    bed: u64,
}

fn build_tight(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let Build::Device(kept) = KEPT.build else { unreachable!("it is a device") };
    Ok(Rc::new(Tight { inner: kept(make)?, bed: make.args.int("bed") }))
}

impl Device for Tight {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        if bio.op != Op::Write {
            return self.inner.submit(bio);
        }
        let is_short = {
            let mut lacks = lacks();
            let (Lack { from, count }, seen) = lacks.get_mut(&self.bed).expect("every run has one");
            *seen += 1;
            (*from..from.saturating_add(*count)).contains(seen)
        };
        if !is_short {
            return self.inner.submit(bio);
        }
        // A part of it is there.
        let part = bio.buf.to_vec()[..bio.len() as usize / 1024 * 512].to_vec();
        let written = self.inner.submit(Bio::write(bio.offset(), Buf::from_bytes(&Pool::default(), &part)));
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
    /// Writes that came below.
    writes: u64,
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
async fn act(rt: &Rt, kinds: &'static [&'static Kind], (bed, text): (u64, &str), lack: Lack) -> Told {
    let mut told = Told::default();
    let (stack, vol) = open(rt, kinds, text).await;
    lacks().insert(bed, (lack, 0));
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

/// The members of a mirror say where they differ, if they do.
fn check_members(bed: u64) {
    let members = ["a", "b"].map(|name| peek(bed, name, MEDIUM));
    let verdict = esker_layer_mirror::check::check(2, &mut |member, at, out| {
        out.copy_from_slice(&members[member][at as usize..][..out.len()]);
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
fn run(bed: u64, text: &'static str, lack: Lack) -> Told {
    for name in ["a", "b"] {
        poke(bed, name, 0, &vec![0; MEDIUM as usize]);
    }
    lacks().insert(bed, (NONE, 0));
    let (kinds, what) = (kinds(), format!("{text}: {lack:?}"));
    in_world(async move |rt| open(&rt, kinds, text).await.0.close().await);
    let mut told = in_world(async move |rt| act(&rt, kinds, (bed, text), lack).await);
    let (_, seen) = lacks().insert(bed, (NONE, 0)).expect("put there above");
    told.writes = seen;
    if text.contains("= mirror") {
        check_members(bed);
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
fn check(text: &str, latches: Option<&str>) {
    let bed = NEXT_BED.fetch_add(1, Ordering::Relaxed);
    let text: &'static str = text.replace("BED", &format!("bed={bed} size=4MiB")).leak();
    // Counted without a lack first.
    let writes = run(bed, text, NONE).writes;
    assert!(writes > ACTS as u64 / 2, "{text}: {writes} writes");
    let (mut failed, mut latched) = (0, None);
    for (count, step) in [(1, 1), (9, 3), (1 << 40, 3)] {
        for from in (1..=writes).step_by(step) {
            let told = run(bed, text, Lack { from, count });
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
    check("a = tight BED; vol = align on a", None);
    check("a = tight BED; c = crypt key=env:K on a; vol = emulate on c", None);
}

#[test]
fn volumes_fail_the_write_and_go_on() {
    check("a = tight BED; vol = logvol segment=64KiB checkpoint_interval=256KiB size=1MiB on a", None);
    check("a = tight BED; vol = thin segment=64KiB checkpoint_interval=256KiB ports=\"p=1MiB\" on a", None);
}

#[test]
fn a_mirror_latches_where_no_member_has_space() {
    check(
        "a = tight BED; b = tight BED; vol = mirror region=64KiB clean_after=1ms initial=assume-clean on a, b",
        Some("no member took a change"),
    );
}

#[test]
fn dedup_latches_where_its_records_find_no_space() {
    check("a = tight BED; vol = dedup on a", Some("its records cannot be kept"));
}

#[test]
fn an_off_loading_layer_uses_its_home_where_its_log_has_no_space() {
    check(
        "a = tight BED; b = tight BED; vol = offload idle_after=0s on a, b",
        Some("the superblock of the log cannot be written"),
    );
}

#[test]
fn a_shepherd_hands_the_error_on() {
    check("a = tight BED; vol = shepherd spares=16 on a", None);
}
