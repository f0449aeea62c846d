//! What holds for the layer as a whole. Most tests run it over a medium that outlives it, so that it can be opened
//! again.

mod damage;
mod power;
mod random;

use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::conformance::{self, Options};
use esker_block::{
    Bio, BioError, Buf, Ctx, Device, Done, Extension, Flow, Kind, KindError, Layer, Limits, Make, OpKind, Step,
};
use esker_dev::{Defer, Media, MemoryDevice};
use esker_layer_kit::Io;
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::sim::{Sim, SimConfig};
use esker_rt::sync::join_all;
use esker_stack::{Spec, Stack};
use esker_testkit::bench;

use crate::check::{self, Verdict};
use crate::layout::Layout;
use crate::run::Dedup;
use crate::store::{Config, OpenError, Store};

/// Bytes of a block in most tests.
const BLOCK: usize = 512;

/// A volume without a stack.
pub(crate) struct Volume {
    dedup: Rc<Dedup>,
    io: Io,
    limits: Limits,
}

impl Device for Volume {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let (dedup, io) = (self.dedup.clone(), self.io.clone());
        Step::later(async move { dedup.serve(&io, bio).await })
    }
}

/// A volume of blocks of 512 bytes, as large as `size` says or as there is room for.
pub(crate) fn config(device: &Limits, size: Option<u64>) -> Config {
    let block = u64::from(device.block);
    Config {
        name: "vol".to_string(),
        layout: Layout::plan(device.size, block, size).unwrap(),
        device: device.size,
        unit: block / 512,
        transfer_max: 1 << 20,
        zeroes: true,
        pages_max: 16,
        pending_max: 50,
        refs_max: u32::MAX,
        verify: false,
    }
}

/// Opens the volume on a device.
pub(crate) async fn open_on(rt: &Rt, device: Rc<dyn Device>, config: Config) -> Result<Volume, OpenError> {
    let limits = Limits {
        size: config.layout.size(),
        block: config.layout.block as u32,
        volatile_cache: true,
        ..device.limits().clone()
    };
    let io = Io::over(rt, &Pool::default(), vec![device]);
    let dedup = Rc::new(Dedup::new(Store::open(config, &io).await?));
    Ok(Volume { dedup, io, limits })
}

pub(crate) fn memory(rt: &Rt, media: &Rc<Media>) -> Rc<dyn Device> {
    Rc::new(MemoryDevice::over(rt, media.clone(), BLOCK as u32, Defer::Always(esker_base::Nanos(1000))))
}

/// Runs `body` on the volume of a medium, whose configuration `change` may change.
fn on<T: 'static, F: Future<Output = T> + 'static>(
    media: &Rc<Media>,
    change: impl FnOnce(&mut Config),
    body: impl FnOnce(Volume) -> F + 'static,
) -> T {
    let sim = Sim::new(SimConfig::seeded(1));
    let (rt, device) = (sim.rt(), memory(&sim.rt(), media));
    let mut config = config(device.limits(), None);
    change(&mut config);
    sim.block_on(async move {
        let volume = open_on(&rt, device, config).await.unwrap_or_else(|error| panic!("the lower device {error}"));
        body(volume).await
    })
}

fn plain(_: &mut Config) {}

fn with_size(blocks: u64) -> impl Fn(&mut Config) {
    move |config| config.layout = Layout::plan(config.device, BLOCK as u64, Some(blocks * BLOCK as u64)).unwrap()
}

fn write_bio(volume: &Volume, block: u64, bytes: &[u8]) -> Bio {
    Bio::write(block * BLOCK as u64, Buf::from_bytes(volume.io.pool(), bytes))
}

async fn try_write(volume: &Volume, block: u64, bytes: &[u8]) -> Result<(), BioError> {
    volume.submit(write_bio(volume, block, bytes)).await.result.map(drop)
}

async fn write(volume: &Volume, block: u64, bytes: &[u8]) {
    try_write(volume, block, bytes).await.unwrap_or_else(|error| panic!("write of block {block}: {error}"));
}

async fn read(volume: &Volume, block: u64, blocks: usize) -> Vec<u8> {
    let buf = Buf::unique(volume.io.pool(), blocks * BLOCK);
    let done = volume.submit(Bio::read(block * BLOCK as u64, buf)).await;
    assert_eq!(done.result.err(), None, "read of block {block}");
    done.buf.to_vec()
}

async fn flush(volume: &Volume) {
    assert_eq!(volume.submit(Bio::flush()).await.result.err(), None);
}

async fn discard(volume: &Volume, block: u64, blocks: u64) {
    let done = volume.submit(Bio::discard(block * BLOCK as u64, blocks * BLOCK as u64)).await;
    assert_eq!(done.result.err(), None);
}

/// A block that no other number gives.
fn unique(number: u64) -> Vec<u8> {
    Buf::described(BLOCK, number + 1).to_vec()
}

fn stat(volume: &Volume, name: &str) -> f64 {
    let stats = volume.dedup.stats();
    stats.iter().find(|stat| stat.name == name).map_or_else(|| panic!("no {name} in {stats:?}"), |stat| stat.value)
}

/// Checks everything that a medium holds.
pub(crate) fn checked(media: &Media) -> Verdict {
    let verdict = check::check(
        &mut |at, out| {
            out.copy_from_slice(&media.bytes(ByteRange::new(at, out.len() as u64).unwrap()));
            Ok(())
        },
        true,
    );
    verdict.unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_deduplicated_volume_conforms() {
    static KINDS: &[&Kind] = &[&crate::KIND, &esker_dev::memory::KIND, &esker_layers::align::KIND];
    for text in [
        "vol = memory size=2MiB defer=always latency=5us | dedup",
        "vol = memory size=1MiB defer=always latency=5us | dedup block=512 cache=64KiB verify=true",
        "vol = memory size=1MiB block=4096 | dedup size=600KiB | align",
    ] {
        let report = conformance::check(
            |rt| {
                let spec = Spec::parse("test", text).unwrap();
                Rc::new(Stack::build(rt, &Pool::default(), KINDS, &spec).unwrap().device("vol").unwrap())
            },
            Options { batches: 80, ..Options::facade(7) },
        );
        assert!(report.answered(OpKind::Read) > 50 && report.answered(OpKind::Discard) > 5, "{text}: {report:?}");
    }
}

/// Item 45 of ABLE's list.
#[test]
fn a_second_identical_write_takes_no_data_block_and_both_are_read_after_a_restart() {
    let media = Media::new(64 << 10);
    on(&media, plain, async |volume| {
        write(&volume, 3, &unique(1)).await;
        let data = volume.dedup.store().layout().data();
        let before = held_from(&volume, data).await;
        write(&volume, 9, &unique(1)).await;
        assert_eq!(held_from(&volume, data).await, before, "no byte of data was written");
        let counts = ["logical_blocks", "physical_blocks", "ratio", "hits", "fresh"].map(|name| stat(&volume, name));
        assert_eq!(counts, [2.0, 1.0, 2.0, 1.0, 1.0]);
        flush(&volume).await;
    });
    on(&media, plain, async |volume| {
        assert_eq!(stat(&volume, "replayed_records"), 2.0);
        assert_eq!((read(&volume, 3, 1).await, read(&volume, 9, 1).await), (unique(1), unique(1)));
        write(&volume, 3, &unique(2)).await;
        write(&volume, 4, &unique(1)).await;
        assert_eq!((read(&volume, 9, 1).await, stat(&volume, "physical_blocks")), (unique(1), 2.0));
        flush(&volume).await;
    });
    let verdict = checked(&media);
    assert_eq!((verdict.mapped, verdict.used, verdict.records, verdict.wrong), (3, 2, 2, 0), "{verdict:?}");
}

async fn held_from(volume: &Volume, at: u64) -> Vec<u8> {
    let len = volume.dedup.store().layout().end() - at;
    volume.io.read(volume.io.lower(0), at, len as usize).await.unwrap().to_vec()
}

#[test]
fn equal_blocks_of_one_request_and_of_concurrent_ones_are_written_once() {
    on(&Media::new(64 << 10), plain, async |volume| {
        write(&volume, 0, &[unique(1), unique(2), unique(1), unique(1)].concat()).await;
        assert_eq!(stat(&volume, "physical_blocks"), 2.0);
        let same = unique(7);
        let writes = (10..20).map(|block| volume.submit(write_bio(&volume, block, &same)).into_future());
        let answers = join_all(writes.collect::<Vec<_>>()).await;
        assert!(answers.iter().all(|done| done.result.is_ok()));
        assert_eq!((stat(&volume, "physical_blocks"), stat(&volume, "fresh")), (3.0, 3.0));
        assert_eq!(read(&volume, 0, 4).await, [unique(1), unique(2), unique(1), unique(1)].concat());
        assert_eq!(read(&volume, 10, 10).await, same.repeat(10));
    });
}

/// Reads are slow below, so that a data block could be left, be free and be taken while one of them is under way.
#[test]
fn a_read_never_sees_what_its_data_block_was_taken_for_meanwhile() {
    static KINDS: &[&Kind] = &[&esker_dev::memory::KIND, &esker_layers::delay::KIND];
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    sim.block_on(async move {
        let spec = Spec::parse("test", "d = memory size=40KiB defer=always latency=1us | delay read=1ms").unwrap();
        let below = Stack::build(&rt, &Pool::default(), KINDS, &spec).unwrap().device("d").unwrap();
        let config = config(below.limits(), None);
        let volume = Rc::new(open_on(&rt, Rc::new(below), config).await.unwrap_or_else(|error| panic!("{error}")));
        let blocks = volume.limits.size / 512;
        write(&volume, 0, &unique(0)).await;
        let reader = volume.clone();
        let reads = rt.spawn("reader", async move {
            for _ in 0..50 {
                let bytes = read(&reader, 0, 1).await;
                assert!((0..50).any(|round| bytes == unique(round * 1000)), "a block of another write");
            }
        });
        for round in 0..50 {
            write(&volume, 0, &unique(round * 1000)).await;
            flush(&volume).await;
            for block in 1..blocks {
                write(&volume, block, &unique(round * 1000 + block)).await;
            }
        }
        reads.await;
    });
}

#[test]
fn zeroes_and_discards_take_nothing_and_give_blocks_back() {
    let media = Media::new(64 << 10);
    on(&media, plain, async |volume| {
        write(&volume, 0, &[0; 4 * BLOCK]).await;
        assert_eq!((stat(&volume, "logical_blocks"), stat(&volume, "zero_blocks")), (0.0, 4.0));
        for block in 0..8 {
            write(&volume, block, &unique(block)).await;
        }
        discard(&volume, 0, 3).await;
        assert_eq!(volume.submit(Bio::zero(3 * 512, 512)).await.result.err(), None);
        write(&volume, 4, &[0; BLOCK]).await;
        assert_eq!((stat(&volume, "logical_blocks"), stat(&volume, "physical_blocks")), (3.0, 3.0));
        assert_eq!(read(&volume, 0, 6).await, [vec![0; 5 * BLOCK], unique(5)].concat());
        let done = volume.submit(Bio::extents(0, 8 * 512)).await;
        let esker_block::Reply::Extents(extents) = done.result.unwrap() else { panic!("no extents") };
        assert_eq!(extents.iter().map(|extent| extent.len).collect::<Vec<_>>(), [5 * 512, 3 * 512]);
        flush(&volume).await;
    });
    assert_eq!(checked(&media).wrong, 0);
}

#[test]
fn without_room_reads_duplicates_and_discards_go_on_and_room_comes_back() {
    on(&Media::new(64 << 10), with_size(200), async |volume| {
        let capacity = u64::from(volume.dedup.store().layout().physical);
        assert!(capacity < 150, "{capacity}");
        for block in 0..capacity {
            write(&volume, block, &unique(block)).await;
        }
        let error = try_write(&volume, capacity, &unique(9999)).await;
        assert_eq!(error, Err(BioError::NoSpace("vol".into())));
        assert_eq!(try_write(&volume, 0, &unique(9999)).await, Err(BioError::NoSpace("vol".into())));
        assert_eq!(read(&volume, 0, 1).await, unique(0), "what could not be written left the old bytes");
        write(&volume, capacity, &unique(5)).await;
        write(&volume, 7, &unique(8)).await;
        assert_eq!(stat(&volume, "free_blocks"), 1.0, "a duplicate over a single block frees it");
        write(&volume, 0, &unique(9999)).await;
        discard(&volume, 10, 2).await;
        write(&volume, capacity + 1, &[unique(10_000), unique(10_001)].concat()).await;
        assert_eq!(read(&volume, capacity + 1, 2).await, [unique(10_000), unique(10_001)].concat());
        assert_eq!(stat(&volume, "full"), 2.0);
    });
}

#[test]
fn a_volume_of_the_default_size_never_lacks_room() {
    let media = Media::new(64 << 10);
    on(&media, plain, async |volume| {
        let blocks = u64::from(volume.dedup.store().layout().logical);
        for round in 0..5 {
            // Larger than the spare blocks: it goes on as fast as old blocks come free.
            let bytes: Vec<u8> = (0..blocks).flat_map(|block| unique(round * 1000 + block)).collect();
            write(&volume, 0, &bytes).await;
            assert!(read(&volume, 0, blocks as usize).await == bytes, "round {round}");
        }
        flush(&volume).await;
    });
    assert_eq!(checked(&media).wrong, 0);
}

#[test]
fn a_block_with_all_references_it_can_have_gets_a_second_copy() {
    let media = Media::new(64 << 10);
    on(
        &media,
        |config| config.refs_max = 3,
        async |volume| {
            for block in 0..7 {
                write(&volume, block, &unique(1)).await;
            }
            assert_eq!((stat(&volume, "physical_blocks"), stat(&volume, "hits")), (3.0, 4.0));
            discard(&volume, 0, 3).await;
            assert_eq!(stat(&volume, "physical_blocks"), 2.0);
            assert_eq!(read(&volume, 3, 4).await, unique(1).repeat(4));
            flush(&volume).await;
        },
    );
    assert_eq!(checked(&media).wrong, 0);
}

#[test]
fn a_stack_that_is_closed_leaves_nothing_to_replay() {
    let media = Media::new(64 << 10);
    on(&media, plain, async |volume| {
        write(&volume, 0, &unique(1)).await;
        volume.dedup.store().quiesce(&volume.io).await.unwrap();
    });
    assert_eq!(checked(&media).records, 0);
    on(&media, plain, async |volume| assert_eq!(read(&volume, 0, 1).await, unique(1)));
}

#[test]
fn tables_that_do_not_fit_in_memory_are_read_again() {
    let media = Media::new(4 << 20);
    let blocks = on(&media, plain, async |volume| {
        let blocks = u64::from(volume.dedup.store().layout().logical);
        for block in (0..blocks).step_by(16) {
            let bytes: Vec<u8> = (block..(block + 16).min(blocks)).flat_map(unique).collect();
            write(&volume, block, &bytes).await;
        }
        assert!(
            stat(&volume, "cached_pages") <= 24.0 && stat(&volume, "table_reads") > 100.0,
            "{:?}",
            volume.dedup.stats()
        );
        assert!(
            stat(&volume, "checkpoints") > 10.0 && stat(&volume, "index_reads") > 50.0,
            "{:?}",
            volume.dedup.stats()
        );
        for block in (0..blocks).step_by(97) {
            assert_eq!(read(&volume, block, 1).await, unique(block));
            write(&volume, block, &unique((block + 1) % blocks)).await;
        }
        flush(&volume).await;
        blocks
    });
    let verdict = checked(&media);
    assert_eq!((verdict.mapped, verdict.wrong, verdict.unindexed), (blocks, 0, 0));
    assert!(verdict.used < blocks, "{verdict:?}");
}

/// A device that takes requests of 64 KiB.
static NARROW: Kind = Kind::layer("narrow", "Takes small requests.", &[], build_narrow);

struct Narrow;

fn build_narrow(make: &Make<'_>) -> Result<Layer, KindError> {
    Ok(Layer::single(Narrow, Limits { transfer_max: 64 << 10, atomic: 512, ..make.lowers[0].clone() }))
}

impl Extension for Narrow {
    fn issue(&self, _: &mut Ctx<'_>, _: &mut Bio) -> Step<Flow> {
        Step::Now(Flow::Down)
    }
}

#[test]
fn tables_are_written_in_requests_that_the_device_takes() {
    static KINDS: &[&Kind] = &[&crate::KIND, &NARROW, &esker_dev::memory::KIND];
    bench::with(KINDS, "vol = memory size=16MiB | narrow | dedup block=512", async |vol| {
        for request in 0..256u64 {
            let content: Vec<u8> = (0..64).flat_map(|block| unique(request * 64 + block)).collect();
            bench::write(&vol, request << 15, &content).await;
        }
        drop(vol.stack().quiesce(Nanos::secs(1)).await.unwrap());
        assert_eq!(bench::read(&vol, 0, 512).await, unique(0));
    });
}
