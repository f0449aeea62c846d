//! Each part of the kit finds the bug that it is for.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use esker_base::{ByteRange, Nanos, Stream};
use esker_block::conformance::{self, Options};
use esker_block::store::SparseStore;
use esker_block::{Args, Bio, BioError, Buf, Build, Device, Done, Limits, Make, Op, OpKind, RangeOp, Step};
use esker_dev::{Defer, Media, MemoryDevice};
use esker_rt::mem::Pool;
use esker_rt::{Rt, Sim, SimConfig};

use super::*;
use crate::power::Broken;
use crate::recorder::bytes_of;

const BLOCK: usize = 512;
const SIZE: u64 = 64 * BLOCK as u64;
const BOUND: Bound = Bound { states_max: 256, seed: 1 };

fn payload(blocks: usize, byte: u8) -> Buf {
    Buf::from_bytes(&Pool::default(), &vec![byte; blocks * BLOCK])
}

/// What a layer between client and medium does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    None,
    DropsFlushes,
    DropsFua,
    /// Answers flushes at once and does them later.
    AnswersFlushesEarly,
    /// The same with writes.
    AnswersWritesEarly,
}

struct Layer {
    rt: Rt,
    below: Rc<dyn Device>,
    bug: Bug,
}

impl Device for Layer {
    fn limits(&self) -> &Limits {
        self.below.limits()
    }

    fn submit(&self, mut bio: Bio) -> Step<Done> {
        match (self.bug, &bio.op) {
            (Bug::DropsFlushes, Op::Flush) => return Step::Now(bio.ok()),
            (Bug::AnswersFlushesEarly, Op::Flush) | (Bug::AnswersWritesEarly, Op::Write) => {
                let (below, buf) = (self.below.clone(), bio.buf.share());
                let later = if bio.op == Op::Flush { Bio::flush() } else { Bio::write(bio.offset(), buf) };
                self.rt.spawn("later", async move { below.submit(later).await }).detach();
                return Step::Now(bio.ok());
            }
            (Bug::DropsFua, _) => bio.flags.fua = false,
            _ => {}
        }
        self.below.submit(bio)
    }
}

/// A client that overwrites, flushes and uses FUA, with writes in flight across a flush.
async fn client(rt: Rt, top: Rc<Recorder>) {
    let write = |at: u64, blocks, byte| Bio::write(at * BLOCK as u64, payload(blocks, byte));
    let submit = |bio| {
        let top = top.clone();
        rt.spawn("client", async move { top.submit(bio).await.result.unwrap() })
    };
    submit(write(0, 2, 1)).await;
    submit(Bio::flush()).await;
    let (slow, other) = (submit(write(0, 3, 2)), submit(write(8, 1, 3)));
    submit(Bio::flush()).await;
    slow.await;
    other.await;
    submit(write(1, 1, 4).fua()).await;
    submit(Bio::zero(8 * BLOCK as u64, BLOCK as u64)).await;
    submit(Bio::discard(0, BLOCK as u64)).await;
    submit(Bio::flush()).await;
    submit(write(9, 2, 5)).await;
}

/// Records a run over a buggy layer.
fn record(bug: Bug) -> Journal {
    let journal = Journal::default();
    let sim = Sim::new(SimConfig::seeded(1));
    let (rt, media) = (sim.rt(), Media::new(SIZE));
    let leaf = Recorder::leaf(&journal, &rt, &media, BLOCK as u32, Defer::Always(Nanos::micros(10)));
    let layer = Rc::new(Layer { rt: rt.clone(), below: leaf, bug });
    let top = Recorder::above(&journal, layer, media.image());
    sim.block_on(client(rt, top));
    sim.run_until_idle();
    journal
}

fn verdict(bug: Bug) -> Result<Count, Lost> {
    let journal = record(bug);
    let (promised, nothing) = (journal.top(), SparseStore::default());
    crash::for_each_state(&journal, BOUND, |point, images| {
        let image = images[0].over(&nothing);
        let (before, after) = (|range| bytes_of(&nothing, range), |range| bytes_of(&image, range));
        Promise::of(&promised, point).judge(ByteRange::new(0, SIZE).unwrap(), &before, &after)
    })
}

#[test]
fn an_honest_layer_keeps_its_promises_in_every_crash_state() {
    let count = verdict(Bug::None).unwrap();
    assert_eq!(count.exhaustive, count.points);
    assert!(count.points > 15 && count.states > 40, "{count:?}");
}

#[test]
fn crash_states_find_lost_flushes_and_lost_fua() {
    for bug in [Bug::DropsFlushes, Bug::DropsFua, Bug::AnswersFlushesEarly] {
        let lost = verdict(bug).expect_err(&format!("{bug:?} must be found"));
        assert!(lost.to_string().contains("allowed are"), "{lost}");
    }
    assert_eq!(verdict(Bug::DropsFua).unwrap_err().at, BLOCK as u64, "the block written with FUA");
}

/// Images of the last crash point of a log made by hand.
fn states_of(make: impl Fn(&Recorder), states_max: u64) -> (Count, BTreeSet<Vec<u8>>) {
    let (sim, journal) = (Sim::new(SimConfig::seeded(1)), Journal::default());
    make(&Recorder::leaf(&journal, &sim.rt(), &Media::new(SIZE), BLOCK as u32, Defer::Never));
    let (last, mut found) = (journal.points(), BTreeSet::new());
    let count = crash::for_each_state(&journal, Bound { states_max, seed: 3 }, |point, images| {
        let image = images[0].over(&SparseStore::default());
        let firsts = (0..12).map(|block| bytes_of(&image, ByteRange::new(block * BLOCK as u64, 1).unwrap())[0]);
        if point == last {
            found.insert(firsts.collect());
        }
        Ok::<_, ()>(())
    });
    (count.unwrap(), found)
}

fn now(device: &Recorder, bio: Bio) {
    let Step::Now(done) = device.submit(bio) else { panic!("the leaf answers at once") };
    done.result.unwrap();
}

#[test]
fn an_unflushed_write_tears_at_every_block() {
    let (_, images) = states_of(|leaf| now(leaf, Bio::write(0, payload(3, 7))), 100);
    assert_eq!(images.len(), 8, "each of three blocks old or new");
}

#[test]
fn unflushed_writes_of_one_block_may_each_survive_but_not_before_a_durable_one() {
    let overwrite = |leaf: &Recorder, flush: bool| {
        now(leaf, Bio::write(0, payload(1, 1)));
        now(leaf, Bio::write(0, payload(1, 2)));
        if flush {
            now(leaf, Bio::flush());
        }
        now(leaf, Bio::write(0, payload(1, 3)));
    };
    let firsts = |flush| states_of(|leaf| overwrite(leaf, flush), 100).1.iter().map(|i| i[0]).collect::<Vec<_>>();
    assert_eq!(firsts(false), [0, 1, 2, 3]);
    assert_eq!(firsts(true), [2, 3]);
}

#[test]
fn a_fua_write_supersedes_what_was_answered_before_it() {
    let make = |leaf: &Recorder| {
        now(leaf, Bio::write(0, payload(2, 1)));
        now(leaf, Bio::write(0, payload(1, 2)).fua());
    };
    let (_, images) = states_of(make, 100);
    assert!(images.iter().all(|image| image[0] == 2));
    assert_eq!(images.iter().map(|image| image[1]).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn too_many_states_are_drawn_with_the_extremes_first() {
    let make = |leaf: &Recorder| now(leaf, Bio::write(0, payload(12, 7)));
    let (count, images) = states_of(make, 64);
    assert!(images.len() > 30 && images.len() <= 64, "{}", images.len());
    assert!(images.contains(&vec![0; 12]) && images.contains(&vec![7; 12]));
    assert!(count.exhaustive < count.points);
    assert_eq!(states_of(make, 64).1, images, "one seed, one draw");
}

fn blocks(first: u64, count: u64) -> ByteRange {
    ByteRange::new(first * BLOCK as u64, count * BLOCK as u64).unwrap()
}

/// A log of ones in two blocks, flushed, that are then moved to block 8; whether that was answered.
fn moved(answered: bool) -> Log {
    let mut log = Log::new(BLOCK as u32);
    let write = log.write_started(0, 0, &[1; 2 * BLOCK], true);
    log.answered(0, write);
    let ops = [RangeOp::Move { src: blocks(0, 2), dst: 8 * BLOCK as u64 }];
    let numbers = log.vector_started(0, &ops, &|range| vec![0; range.len() as usize]);
    if answered {
        numbers.for_each(|number| log.answered(0, number));
    }
    log
}

/// Judges a device by the first bytes of its blocks 0, 1, 8 and 9; all else is zero.
fn judge_firsts(log: &Log, firsts: [u8; 4]) -> bool {
    let after = |range: ByteRange| {
        let held = [0, 1, 8, 9].iter().position(|block| blocks(*block, 1) == range);
        vec![held.map_or(0, |at| firsts[at]); BLOCK]
    };
    Promise::of(log, 0).judge(blocks(0, 64), &|range| vec![0; range.len() as usize], &after).is_ok()
}

#[test]
fn each_block_of_a_vector_is_old_or_new_until_it_is_answered() {
    let ok = |answered, firsts| judge_firsts(&moved(answered), firsts);
    assert!(ok(false, [1, 1, 0, 0]) && ok(false, [1, 1, 0, 1]) && ok(false, [1, 0, 0, 1]) && ok(false, [0, 0, 1, 1]));
    assert!(ok(true, [0, 0, 1, 1]) && !ok(true, [0, 1, 1, 1]) && !ok(true, [0, 0, 1, 0]));
    assert!(!ok(false, [2, 1, 0, 0]) && !ok(false, [1, 1, 2, 0]), "a content that was never there");
}

#[test]
fn a_moved_source_goes_only_where_its_copy_is() {
    assert!(!judge_firsts(&moved(false), [0, 1, 0, 1]) && !judge_firsts(&moved(false), [1, 0, 1, 0]));
}

#[test]
#[should_panic(expected = "elements overlap")]
fn vectors_whose_elements_overlap_are_not_judged() {
    let ops = [RangeOp::Delete { at: blocks(0, 2) }, RangeOp::Clone { src: blocks(1, 1), dst: 4096 }];
    Log::new(BLOCK as u32).vector_started(0, &ops, &|range| vec![0; range.len() as usize]);
}

/// The suite's plan with power cuts, over one recorded device below a buggy layer.
fn suite_with_cuts(bug: Bug) -> Result<Count, Broken> {
    let open = |rt: &Rt, env: &esker_block::Env| -> Rc<dyn Device> {
        let given = [("size".into(), SIZE.to_string())];
        let args = Args::read(&power::RECORDED, &given.into()).unwrap();
        let Build::Device(build) = power::RECORDED.build else { panic!("a device") };
        let make = Make {
            rt,
            pool: &Pool::default(),
            name: "d",
            args: &args,
            lowers: &[],
            created: &esker_block::Created::default(),
            env,
        };
        Rc::new(Layer { rt: rt.clone(), below: build(&make).unwrap(), bug })
    };
    power::check(open, Options::power_cuts(1), Bound { states_max: 16, seed: 1 })
}

#[test]
fn the_suite_with_power_cuts_finds_each_broken_promise() {
    assert!(suite_with_cuts(Bug::None).unwrap().states > 1000);
    for bug in [Bug::DropsFlushes, Bug::DropsFua, Bug::AnswersFlushesEarly] {
        let broken = suite_with_cuts(bug).expect_err(&format!("{bug:?} must be found"));
        assert!(matches!(broken, Broken::Lost { seed: 1, .. }), "{broken}");
    }
}

/// Bytes that survive every power cut, under a memory device and a buggy layer.
struct Kept(Rc<Media>, Bug);

impl kill::Medium for Kept {
    fn open(&self, rt: &Rt) -> Rc<dyn Device> {
        let below = MemoryDevice::over(rt, self.0.clone(), BLOCK as u32, Defer::Always(Nanos::micros(1)));
        Rc::new(Layer { rt: rt.clone(), below: Rc::new(below), bug: self.1 })
    }

    fn cut(&self, _: &mut Stream) {}
}

fn memory_with_kills(bug: Bug) -> Result<Count, Broken> {
    kill::check(|| Kept(Media::new(SIZE), bug), Options::power_cuts(2))
}

#[test]
fn a_device_without_a_volatile_cache_keeps_what_it_answered() {
    let count = memory_with_kills(Bug::None).unwrap();
    assert!(count.states > 100, "{count:?}");
    let broken = memory_with_kills(Bug::AnswersWritesEarly).unwrap_err();
    assert!(matches!(broken, Broken::Lost { .. }), "{broken}");
}

#[test]
fn plans_read_back_and_bad_ones_are_refused() {
    let text = "error write 3; error any 1; full 2; latent 4096+512; corrupt 8192+4096; slow 2ms; gone 10";
    assert_eq!(text.parse::<FaultPlan>().unwrap().to_string(), text);
    for bad in ["error write", "error jump 1", "gone 0", "latent 5", "latent 5+0", "slow 2", "flood 1"] {
        let error = bad.parse::<FaultPlan>().unwrap_err().to_string();
        assert!(error.contains(bad) && error.contains("START+LEN"), "{error}");
    }
}

/// Runs requests one after the other over a faulty memory device full of ones.
fn faulty(plan: &str, bios: Vec<Bio>) -> (Vec<Result<Vec<u8>, BioError>>, u64, Nanos) {
    let sim = Sim::new(SimConfig::seeded(1));
    let media = Media::new(SIZE);
    media.write(0, &payload(64, 1));
    let injector = Injector::new(plan.parse().unwrap());
    let memory = Rc::new(MemoryDevice::over(&sim.rt(), media, BLOCK as u32, Defer::Never));
    let device = Faulty::over(&sim.rt(), memory, &injector);
    let results = sim.block_on(async move {
        let mut results = Vec::new();
        for bio in bios {
            let len = bio.buf.len();
            let done = device.submit(bio).await;
            assert_eq!(done.buf.len(), len, "the buffer comes back");
            results.push(done.result.map(|_| done.buf.to_vec()));
        }
        results
    });
    (results, injector.fired(), sim.rt().now().since(esker_base::Time::ZERO))
}

fn read(block: u64, blocks: usize) -> Bio {
    Bio::read(block * BLOCK as u64, Buf::unique(&Pool::default(), blocks * BLOCK))
}

fn write(block: u64) -> Bio {
    Bio::write(block * BLOCK as u64, payload(1, 9))
}

#[test]
fn the_nth_request_fails_and_only_that() {
    let (results, fired, _) = faulty("error write 2", vec![write(0), read(1, 1), write(1), write(2), read(1, 1)]);
    let ok: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!((ok, fired), (vec![true, true, false, true, true], 1));
    assert_eq!(results[4].as_ref().unwrap()[0], 1, "the failed write did nothing");
    let (results, _, _) = faulty("full 1", vec![write(0), write(0)]);
    assert!(matches!(results[0], Err(BioError::NoSpace(_))) && results[1].is_ok());
}

#[test]
fn latent_sectors_fail_reads_until_they_are_written() {
    let (results, _, _) = faulty("latent 512+1024", vec![read(0, 1), read(0, 4), write(1), read(1, 1), read(2, 1)]);
    assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true, true, false]);
}

#[test]
fn corruption_is_silent() {
    let (results, fired, _) = faulty("corrupt 512+2", vec![read(0, 3), write(1), read(1, 1)]);
    let bytes = results[0].as_ref().unwrap();
    assert_eq!((bytes[511], bytes[512], bytes[513], bytes[514]), (1, 0x11, 0x11, 1));
    assert_eq!((results[2].as_ref().unwrap()[0], fired), (9, 1));
}

#[test]
fn slow_devices_take_longer_and_gone_ones_stay_gone() {
    let (results, _, took) = faulty("slow 2ms; gone 3", (0..4).map(|_| read(0, 1)).collect());
    assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false, false]);
    assert_eq!(took, Nanos::millis(8));
}

#[test]
fn the_suite_notices_injected_faults() {
    let outcome = |plan: &str| {
        conformance::in_virtual_time(
            |rt| {
                let memory = Rc::new(MemoryDevice::over(rt, Media::new(SIZE), BLOCK as u32, Defer::Never));
                Faulty::over(rt, memory, &Injector::new(plan.parse().unwrap()))
            },
            Options::leaf(4),
        )
    };
    assert!(outcome("slow 1us").is_ok());
    assert!(outcome("error any 40").unwrap_err().to_string().contains("injected: error any 40"));
    assert!(outcome("gone 30").unwrap_err().to_string().contains("gone"));
}

#[test]
fn recorders_are_devices_like_others() {
    let leaf = |rt: &Rt| -> Rc<dyn Device> {
        Recorder::leaf(&Journal::default(), rt, &Media::new(SIZE), BLOCK as u32, Defer::Always(Nanos::ZERO))
    };
    assert!(conformance::check(leaf, Options::leaf(6)).answered(OpKind::Write) > 100);
}

#[test]
fn each_request_of_a_scenario_fails_once() {
    let failed = Rc::new(RefCell::new(Vec::new()));
    let runs = for_each_fault(None, |injector| {
        let sim = Sim::new(SimConfig::seeded(1));
        let memory = Rc::new(MemoryDevice::over(&sim.rt(), Media::new(SIZE), BLOCK as u32, Defer::Never));
        let device = Faulty::over(&sim.rt(), memory, &injector);
        let failed = failed.clone();
        sim.block_on(async move {
            for (i, bio) in [write(0), Bio::flush(), read(0, 1)].into_iter().enumerate() {
                if device.submit(bio).await.result.is_err() {
                    failed.borrow_mut().push(i);
                }
            }
        });
    });
    assert_eq!((runs, failed.take()), (3, vec![0, 1, 2]));
}
