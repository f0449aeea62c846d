//! Ports with logical blocks that are smaller than the unit of mapping.

use esker_base::Stream;
use esker_block::{ExtentState, Reply};
use esker_rt::JoinHandle;
use esker_rt::sim::twice;
use esker_rt::sync::join_all;
use esker_testkit::Bound;
use esker_testkit::power::{self, RECORDED};

use super::*;

mod crash;

/// Bytes of a block of the map.
const LARGE: u64 = 4096;
/// Bytes of a sector.
const SECTOR: u64 = BLOCK as u64;
const IN_BLOCK: u64 = LARGE / SECTOR;

fn port(rt: &Rt, text: &str) -> Result<Export, String> {
    let spec = Spec::parse("test", text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let stack = Stack::build(rt, &Pool::default(), KINDS, &spec).map_err(|e| e.to_string())?;
    Ok(stack.device("vm.db").expect("the text names it"))
}

const OVER_SECTORS: &str = "a = memory size=8MiB defer=always latency=3us; \
                            vm = thin segment=64KiB ports=\"other=64KiB,db=2MiB\" on a";
const OVER_BLOCKS: &str = "a = memory size=8MiB block=4096 defer=always latency=3us; \
                           vm = thin segment=64KiB checkpoint_interval=256KiB ports=\"db=2MiB\" on a";

#[test]
fn ports_of_small_sectors_conform() {
    for text in [OVER_SECTORS, OVER_BLOCKS] {
        // Large windows, and small ones, in which requests meet in blocks.
        for window in [256 << 10, 20 << 10] {
            let open = |rt: &Rt| -> Rc<dyn Device> { Rc::new(port(rt, text).unwrap_or_else(|e| panic!("{e}"))) };
            let report = conformance::check(open, Options { window, ..Options::facade(7) });
            for kind in OpKind::ALL {
                assert!(report.answered(kind) > 5, "{text}: {kind:?}: {report:?}");
            }
        }
    }
}

#[test]
fn a_port_keeps_its_promises_about_sectors_in_every_crash_state() {
    static CUT: &[&Kind] = &[&crate::thin::KIND, &RECORDED];
    let mut states = 0;
    for (seed, block) in [(1, 512), (2, 4096)] {
        let open = |rt: &Rt, env: &esker_block::Env| -> Rc<dyn Device> {
            let text = format!(
                "a = recorded size=1MiB block={block} latency=3us; \
                 vm = thin segment=64KiB checkpoint_interval=256KiB ports=\"db=128KiB\" on a"
            );
            let spec = Spec::parse("test", &text).unwrap_or_else(|e| panic!("{text}: {e}"));
            let stack = Stack::build_with(rt, &Pool::default(), CUT, &spec, env.clone());
            let stack = stack.unwrap_or_else(|e| panic!("{text}: {e}"));
            Rc::new(stack.device("vm.db").expect("the text names it"))
        };
        let count = power::check(open, Options::power_cuts(seed), Bound { states_max: 6, seed });
        states += count.unwrap_or_else(|broken| panic!("blocks of {block}: {broken}")).states;
    }
    assert!(states > 1000, "only {states} states");
}

#[test]
fn limits_tell_small_sectors_and_large_blocks() {
    run(async |rt| {
        let limits_of = |text: &str| port(&rt, text).map(|port| port.limits().clone());
        let of = |args: &str| {
            limits_of(&format!("a = memory size=64MiB; vm = thin segment=1MiB ports=\"db=2MiB\" {args} on a"))
        };
        let small = of("").unwrap();
        assert_eq!((small.block, small.remap, small.discard, small.preferred), (512, 4096, 4096, 4096));
        assert_eq!((small.atomic, small.transfer_max), (256 << 10, 256 << 10));
        let large = of("sector=4KiB").unwrap();
        assert_eq!((large.block, large.remap, large.atomic), (4096, 4096, 256 << 10));
        let fine = of("block=512 page=512").unwrap();
        assert_eq!((fine.block, fine.remap), (512, 512));
        for (args, words) in [
            ("sector=1024", "sector=1024; it is 512 or 4096"),
            ("sector=8KiB", "it is 512 or 4096"),
            ("sector=4096 block=512 page=512", "at most block=512"),
        ] {
            let error = of(args).expect_err(args);
            assert!(error.contains(words), "{args}: {error}");
        }
        let odd = "a = memory size=64MiB; vm = thin segment=1MiB ports=\"db=1000KiB,tail=512\" on a";
        assert!(limits_of(odd).expect_err("a size of 512 bytes").contains("multiple of 4096 bytes"));
    });
}

/// Requests of the largest size fit below, wherever they begin: the smallest device that a volume takes.
#[test]
fn the_largest_request_fits_wherever_it_begins() {
    run(async |rt| {
        let vol = port(&rt, OVER_SECTORS).unwrap();
        let (most, pool) = (vol.limits().transfer_max as usize, vol.stack().pool().clone());
        assert_eq!(most, 16 << 10);
        for at in [0, SECTOR, LARGE - SECTOR] {
            let mut bytes = vec![0; most];
            Stream::named(at, "bytes").fill(&mut bytes);
            let done = vol.submit(Bio::write(at, Buf::from_bytes(&pool, &bytes))).await;
            assert_eq!(done.result.err(), None);
            assert_eq!(done.buf.to_vec(), bytes, "the payload comes back");
            let done = vol.submit(Bio::read(at, Buf::unique(&pool, most))).await;
            assert!(done.buf.to_vec() == bytes, "at {at}");
        }
    });
}

/// Changes of sectors of a few blocks that begin at random instants: none touches a sector of another one.
fn check_neighbours(seed: u64, text: &'static str) {
    const SECTORS: u64 = 5 * IN_BLOCK;
    println!("seed {seed}, {text}");
    twice(SimConfig::seeded(seed), move |rt| async move {
        let vol = Rc::new(port(&rt, text).unwrap());
        let pool = vol.stack().pool().clone();
        let mut rng = Stream::named(seed, "cuts");
        let mut model = vec![0u8; SECTORS as usize];
        for round in 0..40u32 {
            let (mut at, mut tasks): (u64, Vec<JoinHandle<Done>>) = (0, Vec::new());
            while at < SECTORS {
                let len = (1 + rng.below(2 * IN_BLOCK)).min(SECTORS - at);
                let value = 1 + rng.below(255) as u8;
                let (start, bytes) = (at * SECTOR, len * SECTOR);
                let change = match rng.below(8) {
                    0..=4 => Some((value, Bio::write(start, Buf::from_bytes(&pool, &vec![value; bytes as usize])))),
                    5 | 6 => Some((0, Bio::zero(start, bytes))),
                    _ => None,
                };
                if let Some((value, bio)) = change {
                    model[at as usize..(at + len) as usize].fill(value);
                    let (vol, sleep) = (vol.clone(), rt.sleep(Nanos(rng.below(20_000))));
                    tasks.push(rt.spawn("change", async move {
                        sleep.await;
                        vol.submit(bio).await
                    }));
                }
                at += len;
            }
            let done = join_all(tasks).await;
            assert!(done.iter().all(|done| done.result.is_ok()), "seed {seed}, round {round}");
            let read = vol.submit(Bio::read(0, Buf::unique(&pool, (SECTORS * SECTOR) as usize / 2))).await;
            let rest = vol.submit(Bio::read(SECTORS * SECTOR / 2, Buf::unique(&pool, (SECTORS * SECTOR) as usize / 2)));
            let bytes = [read.buf.to_vec(), rest.await.buf.to_vec()].concat();
            let expected: Vec<u8> = model.iter().flat_map(|value| [*value; BLOCK]).collect();
            let lost = bytes.iter().zip(&expected).position(|(a, b)| a != b).map(|at| at as u64 / SECTOR);
            assert_eq!(lost, None, "seed {seed}, round {round}: the first sector that a neighbour undid");
        }
    });
}

#[test]
fn concurrent_neighbours_in_a_block_lose_no_update() {
    for seed in 0..12 {
        check_neighbours(seed, OVER_SECTORS);
        check_neighbours(seed, OVER_BLOCKS);
    }
}

/// A volume of large blocks over a gate. Block 0 holds `1`s.
async fn gated(rt: &Rt) -> (Bench, Keeper) {
    let (gate, keeper) = Gate::over(device(rt, &media(2 << 20)));
    let bench = open_large(rt, gate, 64 << 10, 1 << 30).await;
    change(&bench, write_of(&bench, 0, IN_BLOCK, 1)).await;
    (bench, keeper)
}

async fn open_large(rt: &Rt, device: Rc<dyn Device>, segment: u64, checkpoint: u64) -> Bench {
    let config = Config::over("vol", device.limits(), LARGE as u32, LARGE as u32, segment, checkpoint);
    let io = Io::over(rt, &Pool::default(), vec![device]);
    let volume = Volume::open(config, rt, io.pool(), io.below().clone()).await.unwrap_or_else(|e| panic!("{e}"));
    Bench { rt: rt.clone(), io, volume }
}

fn write_of(bench: &Bench, sector: u64, sectors: u64, value: u8) -> Bio {
    let bytes = vec![value; (sectors * SECTOR) as usize];
    Bio::write(sector * SECTOR, Buf::from_bytes(bench.io.pool(), &bytes))
}

/// As the layer answers a change.
async fn change(bench: &Bench, bio: Bio) {
    let volume = bench.volume.clone();
    let done = match volume.is_partial(&bio) {
        true => volume.change_part(bench.below(), bio).await,
        false => volume.change(bench.below(), bio).await,
    };
    assert_eq!(done.result.err(), None);
}

fn start(bench: &Bench, bio: Bio) {
    let bench = bench.clone();
    let rt = bench.rt.clone();
    rt.spawn("changer", async move { change(&bench, bio).await }).detach();
}

/// The value of each sector of the first blocks, all of whose bytes must be equal.
async fn sectors(bench: &Bench, blocks: u64) -> Vec<u8> {
    let bytes = bench.volume.read_blocks(&bench.below(), 0..blocks, Default::default()).await.unwrap().to_vec();
    let value = |sector: &[u8]| {
        assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector of different bytes");
        sector[0]
    };
    bytes.chunks(BLOCK).map(value).collect()
}

async fn quiesce(rt: &Rt) {
    rt.sleep(Nanos::millis(1)).await;
}

#[test]
fn a_part_waits_for_a_write_of_its_block_that_is_in_the_log() {
    run(async |rt| {
        let (bench, keeper) = gated(&rt).await;
        keeper.shut.set(true);
        start(&bench, write_of(&bench, 0, IN_BLOCK, 2));
        quiesce(&rt).await;
        start(&bench, write_of(&bench, 3, 1, 3));
        quiesce(&rt).await;
        assert_eq!(keeper.waiting().len(), 1, "the batch, and no read");
        keeper.open_all();
        quiesce(&rt).await;
        assert_eq!(sectors(&bench, 1).await, [2, 2, 2, 3, 2, 2, 2, 2]);
        assert!(bench.volume.claims.is_idle());
    });
}

#[test]
fn a_part_waits_for_another_part_of_its_block() {
    run(async |rt| {
        let (bench, keeper) = gated(&rt).await;
        keeper.shut.set(true);
        start(&bench, write_of(&bench, 0, 1, 2));
        start(&bench, write_of(&bench, 7, 2, 3));
        quiesce(&rt).await;
        assert_eq!(keeper.waiting().len(), 1, "one of them reads the block");
        keeper.open_all();
        quiesce(&rt).await;
        assert_eq!(sectors(&bench, 2).await, [2, 1, 1, 1, 1, 1, 1, 3, 3, 0, 0, 0, 0, 0, 0, 0]);
    });
}

/// The block is read for a part, when `bio` comes, which changes all of it.
async fn after_a_part(rt: &Rt, bench: &Bench, keeper: &Keeper, bio: Bio) -> Vec<u8> {
    keeper.shut.set(true);
    start(bench, write_of(bench, 3, 1, 9));
    quiesce(rt).await;
    start(bench, bio);
    quiesce(rt).await;
    assert_eq!(keeper.waiting().len(), 1, "the read of the part, and no batch");
    keeper.open_all();
    quiesce(rt).await;
    sectors(bench, 1).await
}

#[test]
fn writing_a_part_undoes_no_change_of_the_whole_block() {
    run(async |rt| {
        let (bench, keeper) = gated(&rt).await;
        let whole = write_of(&bench, 0, IN_BLOCK, 2);
        assert_eq!(after_a_part(&rt, &bench, &keeper, whole).await, [2; 8]);
        let zero = Bio::zero(0, LARGE);
        assert_eq!(after_a_part(&rt, &bench, &keeper, zero).await, [0; 8]);
        change(&bench, write_of(&bench, 0, 16, 4)).await;
        let src = esker_base::ByteRange::new(LARGE, LARGE).unwrap();
        let clone = Bio::ranges([RangeOp::Clone { src, dst: 0 }]);
        assert_eq!(after_a_part(&rt, &bench, &keeper, clone).await, [4; 8]);
        let shift = Bio::ranges([RangeOp::Move { src: esker_base::ByteRange::new(0, LARGE).unwrap(), dst: 2 * LARGE }]);
        assert_eq!(after_a_part(&rt, &bench, &keeper, shift).await, [0; 8]);
        assert_eq!(sectors(&bench, 3).await[16..], [4, 4, 4, 9, 4, 4, 4, 4]);
    });
}

#[test]
fn whole_blocks_claim_nothing_while_no_part_is_changed() {
    run(async |rt| {
        let (bench, keeper) = gated(&rt).await;
        keeper.shut.set(true);
        for block in 0..5 {
            start(&bench, write_of(&bench, block * IN_BLOCK, IN_BLOCK, 2));
        }
        quiesce(&rt).await;
        assert!(bench.volume.claims.is_idle() && !keeper.waiting().is_empty());
        keeper.open_all();
        quiesce(&rt).await;
        assert_eq!(sectors(&bench, 5).await, [2; 40]);
    });
}

#[test]
fn a_part_whose_block_cannot_be_read_fails_alone_and_changes_nothing() {
    run(async |rt| {
        let fails = Rc::new(Cell::new(false));
        let fail_reads = {
            let fails = fails.clone();
            move |bio: &Bio| {
                (bio.op == esker_block::Op::Read && fails.get()).then(|| esker_block::BioError::io("no read"))
            }
        };
        let failing = Failing { inner: device(&rt, &media(2 << 20)), fails: fail_reads };
        let bench = open_large(&rt, Rc::new(failing), 64 << 10, 1 << 30).await;
        change(&bench, write_of(&bench, 0, IN_BLOCK, 1)).await;
        fails.set(true);
        for bio in [write_of(&bench, 3, 1, 2), Bio::zero(3 * SECTOR, SECTOR)] {
            let done = bench.volume.clone().change_part(bench.below(), bio).await;
            assert_eq!(done.result, Err(esker_block::BioError::io("no read")));
        }
        assert!(bench.volume.claims.is_idle());
        change(&bench, write_of(&bench, IN_BLOCK + 3, 1, 4)).await;
        fails.set(false);
        change(&bench, write_of(&bench, 7, 1, 5)).await;
        assert_eq!(sectors(&bench, 2).await, [1, 1, 1, 1, 1, 1, 1, 5, 0, 0, 0, 4, 0, 0, 0, 0]);
    });
}

#[test]
fn zeroes_and_discards_of_parts_give_back_what_is_left_empty() {
    run(async |rt| {
        let (bench, _) = gated(&rt).await;
        let mapped = |bench: &Bench| bench.stat("mapped_bytes") as u64 / LARGE;
        change(&bench, write_of(&bench, 0, 3 * IN_BLOCK, 1)).await;
        change(&bench, Bio::discard(SECTOR, 2 * LARGE)).await;
        assert_eq!(sectors(&bench, 3).await, [[1; 8], [0; 8], [1; 8]].concat(), "a discard shrinks to whole blocks");
        change(&bench, Bio::discard(SECTOR, SECTOR)).await;
        change(&bench, Bio::zero(6 * SECTOR, 2 * SECTOR + LARGE + SECTOR)).await;
        let expected = [[1, 1, 1, 1, 1, 1, 0, 0], [0; 8], [0, 1, 1, 1, 1, 1, 1, 1]].concat();
        assert_eq!((sectors(&bench, 3).await, mapped(&bench)), (expected, 2));
        change(&bench, Bio::zero(0, 6 * SECTOR)).await;
        assert_eq!(mapped(&bench), 1, "nothing is left of the first block");
        let records = bench.stat("records");
        change(&bench, Bio::zero(SECTOR, SECTOR)).await;
        assert_eq!(bench.stat("records"), records, "a hole stays one");
        change(&bench, Bio::zero(SECTOR, SECTOR).fua()).await;
        assert_eq!((bench.stat("records"), mapped(&bench)), (records + 1.0, 1));
    });
}

/// Nothing is free, and the edges of what is zeroed need a block each.
#[test]
fn a_full_volume_zeroes_what_begins_and_ends_inside_blocks() {
    run(async |rt| {
        let bench = open_large(&rt, device(&rt, &media(1 << 20)), 64 << 10, 1 << 30).await;
        let mut blocks = 0;
        while bench.submit(write_of(&bench, blocks * IN_BLOCK, 4 * IN_BLOCK, 1)).await.result.is_ok() {
            blocks += 4;
        }
        assert!(blocks > 60, "{blocks}");
        let error = bench.volume.clone().change_part(bench.below(), write_of(&bench, 1, 1, 2)).await.result;
        assert!(matches!(error, Err(esker_block::BioError::NoSpace(_))), "{error:?}");
        change(&bench, Bio::zero(SECTOR, (blocks * IN_BLOCK - 2) * SECTOR)).await;
        let found = sectors(&bench, blocks).await;
        let (first, last) = (found[0], found[found.len() - 1]);
        assert!((first, last) == (1, 1) && found[1..found.len() - 1].iter().all(|value| *value == 0));
        assert_eq!(bench.stat("mapped_bytes") as u64, 2 * LARGE);
    });
}

#[test]
fn parts_are_read_alone_where_the_device_can_and_extents_are_cut() {
    run(async |rt| {
        for (text, generated) in [(OVER_SECTORS, 0), (OVER_BLOCKS, 1)] {
            let vol = port(&rt, text).unwrap();
            let pool = vol.stack().pool().clone();
            let bytes: Vec<u8> = (0..2 * LARGE).map(|at| (at / SECTOR) as u8 + 1).collect();
            assert_eq!(vol.submit(Bio::write(LARGE, Buf::from_bytes(&pool, &bytes))).await.result.err(), None);
            let made = || vol.stack().stats().iter().find(|part| part.kind == "thin").unwrap().work.generated;
            let read = async |at: u64, len: u64| {
                vol.submit(Bio::read(at, Buf::unique(&pool, len as usize))).await.buf.to_vec()
            };
            let before = made();
            assert_eq!(read(LARGE + 2 * SECTOR, SECTOR).await, vec![3; BLOCK], "{text}");
            assert_eq!(made() - before, generated, "{text}");
            assert_eq!(read(LARGE - SECTOR, 2 * SECTOR).await, [[0; BLOCK], [1; BLOCK]].concat(), "across a hole");
            let done = vol.submit(Bio::extents(LARGE - SECTOR, 2 * SECTOR)).await;
            let Ok(Reply::Extents(extents)) = done.result else { panic!("{:?}", done.result) };
            let got: Vec<_> = extents.iter().map(|extent| (extent.len, extent.state)).collect();
            assert_eq!(got, [(SECTOR, ExtentState::Hole), (SECTOR, ExtentState::Data)]);
        }
    });
}
