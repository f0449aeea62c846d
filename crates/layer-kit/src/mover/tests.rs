//! Moves beside clients, in a stack whose layer moves what it maps.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::{Nanos, Stream, Time, span};
use esker_block::{Arity, Buf, Device, Extension, Kind, KindError, Layer, Make, OpenContext, Role, Routes, VolumeId};
use esker_dev::{Defer, Media, MemoryDevice};
use esker_dev_sim::disk_model;
use esker_rt::sim::{SimConfig, twice};
use esker_rt::{Rt, sync};
use esker_stack::{Export, Spec, Stack};
use proptest::prelude::*;

use super::*;

const UNIT: u64 = 4096;
const UNITS: u64 = 64;

fn shuffle(rng: &mut Stream, list: &mut [u64]) {
    (1..list.len()).rev().for_each(|i| list.swap(i, rng.below(i as u64 + 1) as usize));
}

/// A map of units over two lower devices, which a mover changes.
struct Mapped {
    mover: Rc<Mover>,
    map: Rc<RefCell<BTreeMap<u64, LowerAddress>>>,
}

fn place(map: &BTreeMap<u64, LowerAddress>, at: u64) -> LowerExtent {
    let (unit, inside) = (at / UNIT, at % UNIT);
    let home = LowerAddress { lower: 0, at: unit * UNIT };
    LowerExtent { place: map.get(&unit).copied().unwrap_or(home).plus(inside), len: UNIT - inside }
}

impl Extension for Mapped {
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let map = self.map.clone();
        self.mover.pass(ctx, bio, move |at| place(&map.borrow(), at))
    }

    fn complete(&self, ctx: &mut Ctx<'_>, _: &mut esker_block::Done) {
        self.mover.complete(ctx);
    }

    fn open(&self, opening: OpenContext) -> Step<Result<(), KindError>> {
        let OpenContext { rt, pool, handle, .. } = opening;
        let (mover, map, world) = (self.mover.clone(), self.map.clone(), rt.clone());
        drop(rt.spawn("moving", async move {
            move_about(&world, &mover, &map, Way::Background(world.clone(), pool, handle)).await
        }));
        Step::Now(Ok(()))
    }
}

/// Moves every unit to the other end and back, in ever other orders, until the stack has ended.
async fn move_about(rt: &Rt, mover: &Mover, map: &RefCell<BTreeMap<u64, LowerAddress>>, way: Way) {
    let mut rng = rt.rng("moving");
    loop {
        let mut targets: Vec<u64> = (0..UNITS).collect();
        shuffle(&mut rng, &mut targets);
        let moves: Vec<Move> = (0..UNITS)
            .map(|unit| {
                let from = place(&map.borrow(), unit * UNIT).place;
                let to = LowerAddress { lower: 1 - from.lower, at: targets[unit as usize] * UNIT };
                Move { upper: unit * UNIT, from, to, len: UNIT }
            })
            .collect();
        let moved = |_: &Io, moves: &[Move]| {
            map.borrow_mut().extend(moves.iter().map(|one| (one.upper / UNIT, one.to)));
            Step::Now(Ok(()))
        };
        let report = match rng.below(3) {
            0 => mover.copy(&way, moves, &moved).await,
            1 => mover.gather(&way, moves, &moved).await,
            _ => mover.scatter(&way, moves, &moved).await,
        };
        let report = report.unwrap();
        assert!(report.failed.is_empty(), "{report:?}");
        if report.ended {
            return;
        }
    }
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let mapped = Mapped { mover: Rc::new(Mover::new(Settings::tiny())), map: Rc::default() };
    Ok(Layer::single(mapped, make.lowers[0].clone()))
}

static MAPPED: Kind = Kind {
    lowers: Arity::AtLeast(2),
    role: Role::Modifier,
    routes: Routes { spontaneous: true, ..Routes::WORST },
    transparent: false,
    ..Kind::layer("mapped", "Maps units and moves them.", &[], build)
};
static PASS: Kind = Kind::layer("pass", "Passes.", &[], build_pass);
static KINDS: &[&Kind] = &[&esker_dev::memory::KIND, &disk_model::KIND, &MAPPED, &PASS];

struct Pass;

impl Extension for Pass {
    fn issue(&self, _: &mut Ctx<'_>, _: &mut Bio) -> Step<Flow> {
        Step::Now(Flow::Down)
    }
}

fn build_pass(make: &Make<'_>) -> Result<Layer, KindError> {
    Ok(Layer::single(Pass, make.lowers[0].clone()))
}

/// Writes and reads its own units of the volume, over the borders of units, against a shadow copy.
async fn client(rt: Rt, vol: Export, number: u64, rounds: u64) {
    const STEP: u64 = 512;
    let own = UNITS / 4;
    let (begin, blocks) = (number * own * UNIT, own * UNIT / STEP);
    let mut rng = rt.rng(&format!("client {number}"));
    let mut shadow = vec![0u8; (own * UNIT) as usize];
    for round in 0..rounds {
        let first = rng.below(blocks);
        let count = 1 + rng.below(20.min(blocks - first));
        let (at, len) = ((first * STEP) as usize, (count * STEP) as usize);
        if rng.below(2) == 0 {
            let bytes = vec![(round % 255) as u8 + 1; len];
            shadow[at..at + len].copy_from_slice(&bytes);
            let buf = Buf::from_bytes(vol.stack().pool(), &bytes);
            assert!(vol.submit(Bio::write(begin + at as u64, buf)).await.result.is_ok());
        } else {
            let buf = Buf::unique(vol.stack().pool(), len);
            let done = vol.submit(Bio::read(begin + at as u64, buf)).await;
            assert!(done.result.is_ok());
            assert!(done.buf.to_vec() == shadow[at..at + len], "client {number}, round {round}: bytes at {at}");
        }
    }
}

fn check_clients(seed: u64, change: bool) {
    twice(SimConfig::seeded(seed), move |rt| async move {
        let text = "a = memory size=256KiB defer=always latency=20us; \
                    b = memory size=256KiB defer=always latency=30us; vol = mapped on a,b";
        let spec = Spec::parse("test", text).unwrap();
        let stack = Stack::build(&rt, &Pool::default(), KINDS, &spec).unwrap();
        let vol = stack.device("vol").unwrap();
        let clients: Vec<_> = (0..4).map(|n| rt.spawn("client", client(rt.clone(), vol.clone(), n, 400))).collect();
        if change {
            let pass = esker_stack::DeviceSpec::new("p", "pass", vec![], BTreeMap::new(), Default::default());
            for _ in 0..5 {
                rt.sleep(Nanos::millis(1)).await;
                stack.insert(pass.clone(), "a", Nanos::millis(100)).await.unwrap();
                rt.sleep(Nanos::millis(1)).await;
                stack.remove("p", Nanos::millis(100)).await.unwrap();
            }
        }
        sync::join_all(clients).await;
        stack.close().await;
    });
}

#[test]
fn no_write_is_lost_and_no_read_is_stale_while_blocks_move() {
    (1..=6).for_each(|seed| check_clients(seed, false));
}

#[test]
fn blocks_go_on_moving_while_layers_come_and_go_below() {
    (1..=3).for_each(|seed| check_clients(seed, true));
}

fn memory_io(rt: &Rt, media: &[Rc<Media>]) -> Io {
    let device = |media: &Rc<Media>| -> Rc<dyn Device> {
        Rc::new(MemoryDevice::over(rt, media.clone(), 512, Defer::Always(Nanos(100))))
    };
    Io::over(rt, &Pool::default(), media.iter().map(device).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn exactly_the_mapped_blocks_are_moved(seed: u64, shape in 0..3, count in 1u64..40, batch in 1u64..20) {
        let sim = esker_rt::Sim::new(SimConfig::seeded(seed));
        let media = [Media::new(UNITS * UNIT), Media::new(UNITS * UNIT)];
        let io = memory_io(&sim.rt(), &media);
        let mut rng = sim.rt().rng("moves");
        for (n, medium) in media.iter().enumerate() {
            for unit in 0..UNITS {
                medium.write(unit * UNIT, &Buf::described(UNIT as usize, 1 + unit + 1000 * n as u64));
            }
        }
        let mut units: Vec<u64> = (0..UNITS).collect();
        shuffle(&mut rng, &mut units);
        let moves: Vec<Move> = (0..count)
            .map(|i| {
                let (far, near) = (units[i as usize] * UNIT, i * UNIT);
                let (from, to) = if shape == 2 { (near, far) } else { (far, near) };
                Move { upper: from, from: LowerAddress { lower: 0, at: from }, to: LowerAddress { lower: 1, at: to }, len: UNIT }
            })
            .collect();
        let before: Vec<Vec<u8>> = media.iter().map(|m| m.bytes(span(0, UNITS * UNIT))).collect();
        let mut expected = before.clone();
        for one in &moves {
            let (from, to) = (one.from.at as usize, one.to.at as usize);
            expected[1][to..to + UNIT as usize].copy_from_slice(&before[0][from..from + UNIT as usize]);
        }
        let mover = Mover::new(Settings { batch: batch * UNIT, ..Settings::tiny() });
        let moved = moves.clone();
        let report = sim.block_on(async move {
            let way = Way::Io(io);
            match shape {
                0 => mover.copy(&way, moved, &nothing).await,
                1 => mover.gather(&way, moved, &nothing).await,
                _ => mover.scatter(&way, moved, &nothing).await,
            }
        }).unwrap();
        prop_assert_eq!((report.moved, report.failed.len()), (count * UNIT, 0));
        for (medium, expected) in media.iter().zip(&expected) {
            prop_assert!(medium.bytes(span(0, UNITS * UNIT)) == *expected);
        }
    }
}

#[test]
fn what_cannot_be_read_or_written_stays_where_it_is_and_is_reported() {
    twice(SimConfig::seeded(1), |rt| async move {
        let injector = esker_testkit::Injector::new("latent 8192+512; error write 2".parse().unwrap());
        let memory = Rc::new(MemoryDevice::over(&rt, Media::new(UNITS * UNIT), 512, Defer::Never));
        let io = Io::over(&rt, &Pool::default(), vec![esker_testkit::Faulty::over(&rt, memory, &injector)]);
        let at = |unit: u64| LowerAddress { lower: 0, at: unit * UNIT };
        let moves = (0..8).map(|i| Move { upper: i * UNIT, from: at(i), to: at(20 + 2 * i), len: UNIT }).collect();
        let mover = Mover::new(Settings { batch: 1 << 20, ..Settings::tiny() });
        let changed = RefCell::new(Vec::new());
        let moved = |_: &Io, moves: &[Move]| {
            changed.borrow_mut().extend(moves.iter().map(|one| one.upper / UNIT));
            Step::Now(Ok(()))
        };
        let report = mover.copy(&Way::Io(io), moves, &moved).await.unwrap();
        let failed: Vec<u64> = report.failed.iter().map(|(one, _)| one.upper / UNIT).collect();
        assert_eq!((failed, report.moved), (vec![2, 1], 6 * UNIT));
        assert_eq!(*changed.borrow(), [0, 3, 4, 5, 6, 7]);
    });
}

#[test]
fn a_batch_ends_when_no_request_is_at_its_sources_and_holds_only_its_own_bytes() {
    twice(SimConfig::seeded(1), |rt| async move {
        let (gate, io) = (Gate::default(), memory_io(&rt, &[Media::new(UNITS * UNIT), Media::new(UNITS * UNIT)]));
        let mover = Mover::migrating(gate.clone(), Rules::of(&Settings::tiny()));
        let [read, beside] = [0, UNIT].map(|at| gate.enter(span(at, 512), false));
        let place = |lower| LowerAddress { lower, at: 0 };
        let moves = vec![Move { upper: 0, from: place(0), to: place(1), len: UNIT }];
        let held = gate.clone();
        let moved = move |_: &Io, _: &[Move]| {
            let [inside, outside] = [0, UNIT].map(|at| held.enter(span(at, 512), true));
            assert!(!held.may_go(inside) && held.may_go(outside));
            [inside, outside].into_iter().for_each(|ticket| held.leave(ticket));
            Step::Now(Ok(()))
        };
        let ended = rt.spawn("moving", async move { mover.copy(&Way::Io(io), moves, &moved).await });
        rt.sleep(Nanos::millis(1)).await;
        assert!(!ended.is_done(), "a read is at the source");
        gate.leave(read);
        assert_eq!(ended.await.unwrap().moved, UNIT);
        gate.leave(beside);
    });
}

/// A disk that notes where its reads begin.
struct Noting {
    inner: Rc<dyn Device>,
    reads: RefCell<Vec<u64>>,
}

impl Device for Noting {
    fn limits(&self) -> &esker_block::Limits {
        self.inner.limits()
    }

    fn submit(&self, bio: Bio) -> Step<esker_block::Done> {
        if bio.op == Op::Read {
            self.reads.borrow_mut().push(bio.offset());
        }
        self.inner.submit(bio)
    }

    fn depth(&self) -> u32 {
        self.inner.depth()
    }
}

fn disk(rt: &Rt) -> Rc<Noting> {
    let spec = Spec::parse("test", "d = disk-model cache=off").unwrap();
    let stack = Stack::build(rt, &Pool::default(), KINDS, &spec).unwrap();
    Rc::new(Noting { inner: Rc::new(stack.device("d").unwrap()), reads: RefCell::default() })
}

/// How long the gathering of 10,000 random blocks takes, and how often the reads change their direction.
fn gathered(blocks: u64, naive: bool) -> (f64, usize) {
    let sim = esker_rt::Sim::new(SimConfig::seeded(3));
    let rt = sim.rt();
    let disk = disk(&rt);
    let io = Io::over(&rt, &Pool::default(), vec![disk.clone()]);
    let mut rng = rt.rng("map");
    // One block of each stretch of the disk, in random order, so that none is named twice.
    let stretch = disk.limits().size / UNIT / (blocks + 1);
    let mut sources: Vec<u64> = (1..=blocks).map(|i| (i * stretch + rng.below(stretch / 2)) * UNIT).collect();
    shuffle(&mut rng, &mut sources);
    let moves: Vec<Move> = (0..blocks)
        .map(|i| {
            let (from, to) = (sources[i as usize], i * UNIT);
            Move {
                upper: from,
                from: LowerAddress { lower: 0, at: from },
                to: LowerAddress { lower: 0, at: to },
                len: UNIT,
            }
        })
        .collect();
    sim.block_on(async move {
        if naive {
            for one in &moves {
                let buf = io.read(VolumeId(0), one.from.at, UNIT as usize).await.unwrap();
                io.write(VolumeId(0), one.to.at, buf, false).await.unwrap();
            }
        } else {
            let mover = Mover::new(Settings { batch: 64 << 20, ..Settings::background() });
            let report = mover.gather(&Way::Io(io), moves, &nothing).await.unwrap();
            assert_eq!((report.moved, report.failed.len()), (blocks * UNIT, 0));
        }
    });
    let reads = disk.reads.borrow();
    let turns = reads.windows(3).filter(|three| (three[0] < three[1]) != (three[1] < three[2])).count();
    (rt.now().since(Time::ZERO).as_secs_f64(), turns)
}

#[test]
fn gathering_reads_in_one_sweep_and_beats_copying_block_by_block_on_a_disk() {
    let (gather, turns) = gathered(10_000, false);
    let (naive, naive_turns) = gathered(10_000, true);
    assert_eq!(turns, 0, "sorted reads never turn");
    assert!(naive_turns > 5_000, "{naive_turns}");
    assert!(gather * 3.0 < naive, "{gather} s against {naive} s");
}
