//! The drive against what its numbers say analytically, its buffer and its collector, and both worlds.

use std::rc::Rc;

use esker_base::units::{GIB, KIB, MIB};
use esker_base::{Nanos, Stream, Time};
use esker_block::{Bio, Buf, Device, OpKind};
use esker_rt::mem::Pool;
use esker_rt::sim::twice;
use esker_rt::{Rt, Sim};

use super::*;
use crate::media::Media;
use crate::testing::{
    build, check_blocks, check_no_early_answer, check_power_cut, check_refusals, flood, read, seeded, stat, timed,
    write,
};
use crate::{Content, catalogue};

const PAGE: u64 = 4 * KIB;
const PROFILES: [&str; 2] = ["ssd-nvme-2022", "ssd-sata-2021"];

/// A drive of 1 GiB with 8 dies and blocks of 8 MiB.
const SMALL: [(&str, &str); 5] =
    [("capacity", "1GiB"), ("channels", "4"), ("dies", "2"), ("erase_block", "1MiB"), ("spare", "0.1")];

fn ssd(rt: &Rt, args: &[(&str, &str)]) -> Rc<dyn Device> {
    build(rt, &KIND, args).unwrap()
}

fn small(rt: &Rt, args: &[(&str, &str)]) -> Rc<dyn Device> {
    ssd(rt, &[&SMALL, args].concat())
}

fn profile(name: &str) -> SsdSpec {
    SsdSpec::profile(name).unwrap()
}

#[test]
fn single_requests_are_exact() {
    for name in PROFILES {
        let spec = profile(name);
        let times = twice(seeded(1), move |rt| async move {
            let (cached, direct) = (ssd(&rt, &[("profile", name)]), ssd(&rt, &[("profile", name), ("cache", "off")]));
            let read_took = timed(&rt, &*cached, read(8 * MIB, PAGE)).await;
            let cached_took = timed(&rt, &*cached, write(0, PAGE, 1)).await;
            let direct_took = timed(&rt, &*direct, write(0, PAGE, 1)).await;
            (read_took, cached_took, direct_took, timed(&rt, &*direct, Bio::discard(0, MIB)).await)
        });
        let host = Nanos::transfer(PAGE, spec.host_rate);
        let (unit, page) = (Nanos::transfer(PAGE, spec.unit_rate), Nanos::transfer(spec.page, spec.unit_rate));
        let buffered = spec.overhead + host;
        let expected = (buffered + spec.read + unit, buffered, buffered + page + spec.program, spec.overhead);
        assert_eq!(times, expected, "{name}");
    }
}

#[test]
fn profiles_meet_the_rates_of_their_data_sheets() {
    // (profile, depth, read?, bytes, requests per second on the sheet, tolerance)
    let sheets = [
        ("ssd-sata-2021", 1, true, PAGE, 13_000.0, 0.02),
        ("ssd-sata-2021", 32, true, PAGE, 98_000.0, 0.10),
        ("ssd-sata-2021", 1, false, PAGE, 36_000.0, 0.03),
        ("ssd-sata-2021", 32, false, PAGE, 88_000.0, 0.13),
        ("ssd-sata-2021", 32, true, 128 * KIB, 560e6 / 131_072.0, 0.02),
        ("ssd-sata-2021", 32, false, 128 * KIB, 530e6 / 131_072.0, 0.06),
        ("ssd-nvme-2022", 1, true, PAGE, 22_000.0, 0.02),
        ("ssd-nvme-2022", 512, true, PAGE, 1_400_000.0, 0.05),
        ("ssd-nvme-2022", 1, false, PAGE, 80_000.0, 0.02),
        ("ssd-nvme-2022", 512, false, PAGE, 1_550_000.0, 0.12),
        ("ssd-nvme-2022", 32, true, 128 * KIB, 7_450e6 / 131_072.0, 0.02),
        ("ssd-nvme-2022", 32, false, 128 * KIB, 6_900e6 / 131_072.0, 0.03),
    ];
    for (name, depth, reads, len, sheet, tolerance) in sheets {
        let random = len == PAGE;
        // Long writes go on until what the buffer took at the start does not count.
        let count = match (depth, reads) {
            (1, _) => 2_000,
            (_, true) => 20_000,
            _ => 60_000,
        };
        let span = twice(seeded(1), move |rt| async move {
            let drive = ssd(&rt, &[("profile", name)]);
            let (pages, mut at) = (drive.limits().size / len, 0);
            let make = move |rng: &mut Stream| {
                at = if random { rng.below(pages) } else { at + 1 };
                if reads { read(at * len, len) } else { write(at * len, len, 1) }
            };
            flood(&rt, drive, depth, count, make).await
        });
        let off = count as f64 / span.as_secs_f64() / sheet - 1.0;
        assert!(off.abs() < tolerance, "{name}, depth {depth}, reads {reads}, {len} bytes: off by {off}");
    }
}

#[test]
fn reads_scale_with_the_dies_and_no_further() {
    let rate = |depth: u64| {
        let count = 2_000 * depth;
        let span = twice(seeded(1), move |rt| async move {
            let drive = small(&rt, &[("page", "4KiB"), ("overhead", "0")]);
            let mut at = 0;
            let make = move |_: &mut Stream| {
                at += PAGE;
                read(at, PAGE)
            };
            flood(&rt, drive, depth, count, make).await
        });
        count as f64 / span.as_secs_f64()
    };
    let one = rate(1);
    let eight = rate(8) / one;
    assert!((7.6..8.2).contains(&eight), "{eight}");
    let more = rate(64) / rate(8);
    assert!((0.99..1.15).contains(&more), "{more}: transfers overlap with sensing, dies do not");
}

#[test]
fn energy_is_active_idle_and_die_power_times_their_spans() {
    let (usage, busy, total) = twice(seeded(1), |rt| async move {
        let drive = ssd(&rt, &[("active_w", "5"), ("idle_w", "0.5"), ("die_w", "0.25"), ("cache", "off")]);
        let mut busy = Nanos::ZERO;
        for at in 0..3 {
            busy += timed(&rt, &*drive, write(at * MIB, PAGE, 1)).await;
            rt.sleep(Nanos::millis(1)).await;
        }
        (drive.usage().unwrap(), busy, rt.now().since(Time::ZERO))
    });
    assert_eq!((usage.busy, usage.read, usage.written), (busy, 0, 3 * PAGE));
    let dies = 0.25 * 3.0 * profile("ssd-nvme-2022").program.as_secs_f64();
    let expected = 5.0 * busy.as_secs_f64() + 0.5 * (total - busy).as_secs_f64() + dies;
    assert!((usage.energy_j / expected - 1.0).abs() < 1e-12, "{} J, expected {expected}", usage.energy_j);
}

#[test]
fn a_full_buffer_slows_writes_to_the_programs() {
    let (rate, stalls) = twice(seeded(1), |rt| async move {
        let drive = small(&rt, &[("buffer", "64KiB"), ("channels", "2"), ("dies", "1"), ("page", "4KiB")]);
        let pages = drive.limits().size / PAGE;
        let span = flood(&rt, drive.clone(), 64, 5_000, move |rng| write(rng.below(pages) * PAGE, PAGE, 1)).await;
        (5_000.0 / span.as_secs_f64(), stat(&*drive, "buffer_stalls"))
    });
    let spec = profile("ssd-nvme-2022");
    let bound = 2.0 / (spec.program + Nanos::transfer(PAGE, spec.unit_rate)).as_secs_f64();
    assert!((0.8 * bound..1.02 * bound).contains(&rate), "{rate} writes/s of at most {bound}");
    assert!(stalls > 4_000.0, "{stalls}");
}

#[test]
fn what_is_in_the_buffer_is_read_without_flash() {
    let (fresh, leaving, later, trimmed) = twice(seeded(1), |rt| async move {
        let drive = small(&rt, &[("page", "16KiB")]);
        timed(&rt, &*drive, write(0, PAGE, 1)).await;
        let fresh = timed(&rt, &*drive, read(0, PAGE)).await;
        timed(&rt, &*drive, write(PAGE, 3 * PAGE, 1)).await;
        let leaving = timed(&rt, &*drive, read(0, PAGE)).await;
        rt.sleep(Nanos::millis(5)).await;
        let later = timed(&rt, &*drive, read(0, PAGE)).await;
        timed(&rt, &*drive, Bio::discard(0, PAGE)).await;
        (fresh, leaving, later, timed(&rt, &*drive, read(0, PAGE)).await)
    });
    let spec = profile("ssd-nvme-2022");
    assert!(fresh < spec.read && fresh == leaving && fresh == trimmed, "{fresh:?} {leaving:?} {trimmed:?}");
    assert!(later > spec.read, "{later:?}");
}

#[test]
fn reads_wait_for_programs_and_erasures_no_longer_than_suspending_takes() {
    let times = twice(seeded(1), |rt| async move {
        let drive = small(&rt, &[("fill", "1"), ("suspend", "15us"), ("buffer", "4MiB")]);
        let pages = drive.limits().size / PAGE;
        let flooded = {
            let drive = drive.clone();
            let world = rt.clone();
            rt.spawn("writes", async move {
                flood(&world, drive, 32, 60_000, move |rng| write(rng.below(pages) * PAGE, PAGE, 1)).await
            })
        };
        let mut rng = rt.rng("reads");
        let mut times = Vec::new();
        while times.len() < 1_000 {
            rt.sleep(Nanos::micros(500)).await;
            times.push(timed(&rt, &*drive, read(rng.below(pages) * PAGE, PAGE)).await);
        }
        flooded.await;
        assert!(stat(&*drive, "erased_blocks") > 20.0 && stat(&*drive, "write_amplification") > 3.0);
        times
    });
    let spec = profile("ssd-nvme-2022");
    let idle =
        spec.overhead + spec.read + Nanos::transfer(PAGE, spec.unit_rate) + Nanos::transfer(PAGE, spec.host_rate);
    let waited = times.iter().filter(|took| **took > idle).count();
    assert!(waited > 500, "{waited} of 1000 find their die busy");
    let most = *times.iter().max().unwrap();
    assert!(most >= idle + Nanos::micros(15) && most < idle + Nanos::micros(200), "{most:?}, alone {idle:?}");
}

#[test]
fn the_collector_takes_its_share_of_the_dies() {
    let rates = [("0.3", "0"), ("0.3", "1"), ("0.1", "1")].map(|(spare, fill)| {
        twice(seeded(1), move |rt| async move {
            let drive = small(&rt, &[("spare", spare), ("fill", fill), ("buffer", "1MiB"), ("unit_rate", "8GB")]);
            let pages = drive.limits().size / PAGE;
            let span = flood(&rt, drive.clone(), 64, 200_000, move |rng| write(rng.below(pages) * PAGE, PAGE, 1)).await;
            (200_000.0 / span.as_secs_f64(), stat(&*drive, "write_amplification"))
        })
    });
    let [(new, one), (steady, some), (full, much)] = rates;
    assert!(one < 1.01 && some > 2.0 && much > 4.0, "{rates:?}");
    // Programs, the collector's reads and the erasures all take time of dies.
    let spec = profile("ssd-nvme-2022");
    let units = (spec.page / PAGE) as f64;
    for (rate, amplification) in [(new, one), (steady, some), (full, much)] {
        let program = (spec.program + Nanos::transfer(spec.page, 8_000_000_000)).as_secs_f64() / units;
        let most = 8.0 / (amplification * program);
        let least =
            8.0 / (amplification * (program + spec.read.as_secs_f64() + spec.erase.as_secs_f64() / 64.0 / units));
        assert!((0.95 * least..1.05 * most).contains(&rate), "{rate} at {amplification}, from {least} to {most}");
    }
}

#[test]
fn a_new_or_filled_drive_takes_little_memory_and_no_time_to_build() {
    for fill in ["0", "1"] {
        let sim = Sim::new(seeded(1));
        let drive = ssd(&sim.rt(), &[("capacity", "3TB"), ("fill", fill)]);
        assert_eq!(drive.limits().size, 3_000_000_000_000 / PAGE * PAGE);
        let rt = sim.rt();
        sim.block_on(async move {
            timed(&rt, &*drive, write(2_999 * 1_000_000_000 / PAGE * PAGE, PAGE, 1)).await;
            let discarded = if fill == "0" { drive.limits().size } else { 64 * MIB };
            timed(&rt, &*drive, Bio::discard(0, discarded)).await;
        });
    }
}

/// Write amplification and rate of 20,000 random writes of 4 KiB all over a small drive, behind `before` others.
fn random_writes(fill: &'static str, before: u64) -> (f64, f64) {
    twice(seeded(1), move |rt| async move {
        let drive = small(&rt, &[("fill", fill), ("buffer", "1MiB")]);
        let pages = drive.limits().size / PAGE;
        let next = |mut rng: Stream| move |_: &mut Stream| write(rng.below(pages) * PAGE, PAGE, 1);
        flood(&rt, drive.clone(), 64, before, next(rt.rng("before"))).await;
        let counts = || (stat(&*drive, "host_units"), stat(&*drive, "moved_units"));
        let (host, moved) = counts();
        let span = flood(&rt, drive.clone(), 64, 20_000, next(rt.rng("after"))).await;
        let amplification = 1.0 + (counts().1 - moved) / (counts().0 - host);
        (amplification, 20_000.0 / span.as_secs_f64())
    })
}

#[test]
fn a_filled_drive_writes_from_the_first_request_on_as_after_long_use() {
    let [(new, fast), (fresh, slow), (used, rate)] =
        [("0", 0), ("1", 0), ("1", 600_000)].map(|(f, b)| random_writes(f, b));
    assert!(new == 1.0 && fast > 3.0 * slow, "a new drive has nothing to collect: {new}, {fast} and {slow} writes/s");
    assert!(fresh > 4.0 && (fresh / used - 1.0).abs() < 0.05, "{fresh} units at once, {used} after long use");
    // What the buffer takes at the start counts a little.
    assert!((0.95..1.15).contains(&(slow / rate)), "{slow} writes/s at once, {rate} after long use");
}

#[test]
fn partial_units_are_read_before_they_are_written() {
    let (whole, partial) = twice(seeded(1), |rt| async move {
        let drive = small(&rt, &[("block", "512"), ("cache", "off")]);
        let whole = timed(&rt, &*drive, write(0, PAGE, 1)).await;
        (whole, timed(&rt, &*drive, write(MIB + 512, 512, 1)).await)
    });
    let spec = profile("ssd-nvme-2022");
    let host = Nanos::transfer(PAGE, spec.host_rate) - Nanos::transfer(512, spec.host_rate);
    assert_eq!(partial + host, whole + spec.read + Nanos::transfer(PAGE, spec.unit_rate));
}

fn new_drive() -> FtlSetup {
    FtlSetup { cleaner: Cleaner::Greedy, moved: Moved::Apart, fill: 0.0, rng: Stream::seeded(1) }
}

#[test]
fn a_power_cut_loses_part_of_what_was_not_flushed_and_nothing_else() {
    check_power_cut(|rt, setup| {
        Rc::new(Ssd::new(rt, SsdModel::new(profile("ssd-sata-2021")).unwrap(), &new_drive(), setup, false))
    });
}

/// What a cut leaves of the first MiB after `scenario` has run on a small drive with bytes.
fn left_after<F: Future<Output = ()> + 'static>(
    cache: bool,
    protected: bool,
    seed: u64,
    scenario: impl FnOnce(Rt, Ssd) -> F,
) -> Vec<u8> {
    let (sim, media) = (Sim::new(seeded(1)), Rc::new(Media::new(4096)));
    let spec =
        SsdSpec { capacity: GIB, channels: 4, dies: 2, erase_block: MIB, spare: 0.1, ..profile("ssd-sata-2021") };
    let setup = Setup { size: GIB, block: 4096, depth: 32, cache, content: Content::Memory(media.clone()) };
    let drive = Ssd::new(&sim.rt(), SsdModel::new(spec).unwrap(), &new_drive(), setup, protected);
    sim.block_on(scenario(sim.rt(), drive));
    sim.kill();
    media.power_cut(&mut Stream::seeded(seed));
    let mut buf = Buf::unique(&Pool::new(0), MIB as usize);
    media.read(0, &mut buf);
    buf.to_vec()
}

fn bytes(seed: u64) -> Vec<u8> {
    Buf::described(MIB as usize, seed).to_vec()
}

#[test]
fn a_protected_buffer_survives_a_cut() {
    for seed in 0..4 {
        let left = left_after(false, true, seed, |rt, drive| async move {
            assert!(!drive.limits().volatile_cache);
            let took = timed(&rt, &drive, write(0, MIB, 7)).await;
            assert!(took < Nanos::millis(3), "it is answered from the buffer: {took:?}");
        });
        assert!(left == bytes(7));
    }
}

#[test]
fn a_flush_makes_zeroing_and_discarding_durable_and_what_follows_is_open_again() {
    let mut open = 0;
    for seed in 0..8 {
        let left = left_after(true, false, seed, |rt, drive| async move {
            timed(&rt, &drive, write(0, MIB, 7)).await;
            timed(&rt, &drive, Bio::zero(0, 64 * KIB)).await;
            timed(&rt, &drive, Bio::discard(64 * KIB, 64 * KIB)).await;
            timed(&rt, &drive, Bio::flush()).await;
            timed(&rt, &drive, Bio::zero(MIB - 64 * KIB, 64 * KIB)).await;
        });
        assert!(left[..128 << 10].iter().all(|byte| *byte == 0), "flushed zeroing comes back");
        assert!(left[128 << 10..960 << 10] == bytes(7)[128 << 10..960 << 10]);
        open += usize::from(left[960 << 10..] == bytes(7)[960 << 10..] || left[960 << 10..].iter().any(|b| *b > 0));
    }
    assert!(open > 4, "{open} of 8 cuts undo some of what was zeroed after the flush");
}

#[test]
fn full_pages_reach_flash_without_a_flush_and_open_ones_do_not() {
    let mut undone = 0;
    for seed in 0..16 {
        let left = left_after(true, false, seed, |rt, drive| async move {
            // 32 KiB fill a page, 4 KiB more stay in the open one for as long as nothing follows.
            timed(&rt, &drive, write(0, 32 * KIB, 7)).await;
            timed(&rt, &drive, write(32 * KIB, 4 * KIB, 7)).await;
            rt.sleep(Nanos::secs(1)).await;
            timed(&rt, &drive, Bio::read(512 * KIB, Buf::unique(&Pool::new(0), PAGE as usize))).await;
        });
        assert!(left[..32 << 10] == bytes(7)[..32 << 10], "a programmed page survives");
        undone += usize::from(left[32 << 10..36 << 10].iter().all(|byte| *byte == 0));
    }
    assert!((4..13).contains(&undone), "{undone} of 16");
}

#[test]
fn data_survive_collection() {
    let sim = Sim::new(seeded(1));
    let rt = sim.rt();
    sim.block_on(async move {
        let args = [("capacity", "64MiB"), ("erase_block", "64KiB"), ("page", "16KiB"), ("spare", "0.15")];
        let drive = small(&rt, &[&args[..], &[("content", "memory"), ("size", "64MiB"), ("fill", "1")]].concat());
        let (pages, mut rng, mut model) = (64 * MIB / PAGE, rt.rng("data"), std::collections::BTreeMap::new());
        for seed in 1..40_000 {
            let page = rng.below(pages);
            timed(&rt, &*drive, write(page * PAGE, PAGE, seed)).await;
            model.insert(page, seed);
        }
        assert!(stat(&*drive, "moved_units") > 20_000.0 && stat(&*drive, "erases_max") > 1.0);
        for (page, seed) in model {
            let buf = Buf::unique(&Pool::new(0), PAGE as usize);
            let done = drive.submit(Bio::read(page * PAGE, buf)).await;
            assert!(done.buf.same_bytes(&Buf::described(PAGE as usize, seed)), "page {page}");
        }
    });
}

#[test]
fn a_write_in_flight_may_be_torn_even_without_a_cache() {
    let of = |seed| Buf::described(64 * KIB as usize, seed).to_vec();
    let mut torn = 0;
    for seed in 0..8 {
        let media = Rc::new(Media::new(512));
        let sim = Sim::new(seeded(1));
        let setup = Setup { size: MIB, block: 512, depth: 32, cache: false, content: Content::Memory(media.clone()) };
        let model = SsdModel::new(profile("ssd-sata-2021")).unwrap();
        let drive = Ssd::new(&sim.rt(), model, &new_drive(), setup, false);
        sim.stop_at_event(0);
        let halt = sim.try_block_on(async move { drive.submit(write(0, 64 * KIB, 2)).await.result });
        assert!(halt.is_err(), "the world stops before the write ends");
        sim.kill();
        media.power_cut(&mut Stream::seeded(seed));
        let mut buf = Buf::unique(&Pool::new(0), 64 * KIB as usize);
        media.read(0, &mut buf);
        torn += usize::from(buf.to_vec() != of(0) && buf.to_vec() != of(2));
    }
    assert!(torn > 4, "{torn} of 8");
}

#[test]
fn blocks_are_those_of_present_drives_unless_told_otherwise() {
    check_blocks(&KIND);
    assert!(KIND.passes.has(OpKind::Discard));
}

#[test]
fn every_drive_of_the_catalogue_can_be_built() {
    let sim = Sim::new(seeded(1));
    let entries = catalogue::all().into_iter().filter(|entry| entry.kind == KIND.name);
    let sizes = entries.map(|entry| build(&sim.rt(), &KIND, &[("profile", &entry.name)]).unwrap().limits().size);
    assert!(sizes.filter(|size| *size > 1 << 30).count() >= 2);
}

#[test]
fn numbers_that_do_not_fit_are_refused_by_name() {
    check_refusals(
        &KIND,
        &[
            ("size", "3TB", "at most 2000398934016"),
            ("block", "1MiB", "block = 1048576 is no power of two from 512"),
            ("channels", "0", "channels = 0"),
            ("dies", "0", "dies = 0"),
            ("page", "1000", "page = 1000"),
            ("erase_block", "20KiB", "erase_block = 20480"),
            ("buffer", "16KiB", "buffer = 16384"),
            ("host_rate", "0", "host_rate must be above 0"),
            ("spare", "-1", "spare = -1"),
            ("spare", "0", "more spare than 0"),
            ("capacity", "100TB", "more than the map can name"),
            ("depth", "70000", "depth = 70000"),
            ("profile", "floppy", "expected one of flash-cf-2007"),
        ],
    );
}

#[test]
fn in_the_real_world_no_answer_is_early() {
    check_no_early_answer(&KIND, &[("read", "2ms")], Nanos::millis(2));
}
