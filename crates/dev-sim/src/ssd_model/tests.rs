//! The drive against what its numbers say analytically, its buffer, and both worlds.

use std::rc::Rc;

use esker_base::units::{KIB, MIB};
use esker_base::{Nanos, Stream, Time};
use esker_block::{Bio, Buf, Device};
use esker_rt::mem::Pool;
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::sim::twice;
use esker_rt::{Rt, Sim};

use super::*;
use crate::media::Media;
use crate::testing::{build, flood, read, seeded, stat, timed, write};

const PAGE: u64 = 4 * KIB;

fn ssd(rt: &Rt, args: &[(&str, &str)]) -> Rc<dyn Device> {
    build(rt, &KIND, args).unwrap()
}

fn profile(name: &str) -> SsdSpec {
    SsdSpec::profile(name).unwrap()
}

#[test]
fn single_requests_are_exact() {
    for name in spec::PROFILES {
        let spec = profile(name);
        let times = twice(seeded(1), move |rt| async move {
            let (cached, direct) = (ssd(&rt, &[("profile", name)]), ssd(&rt, &[("profile", name), ("cache", "off")]));
            let read_took = timed(&rt, &*cached, read(8 * MIB, PAGE)).await;
            let cached_took = timed(&rt, &*cached, write(0, PAGE, 1)).await;
            let direct_took = timed(&rt, &*direct, write(0, PAGE, 1)).await;
            (read_took, cached_took, direct_took, timed(&rt, &*direct, Bio::discard(0, MIB)).await)
        });
        let (host, unit) = (Nanos::transfer(PAGE, spec.host_rate), Nanos::transfer(PAGE, spec.unit_rate));
        let buffered = spec.overhead + host;
        let expected = (buffered + spec.read + unit, buffered, buffered + unit + spec.program, spec.overhead);
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
        ("ssd-sata-2021", 32, true, 128 * KIB, 560e6 / 131_072.0, 0.02),
        ("ssd-sata-2021", 32, false, 128 * KIB, 530e6 / 131_072.0, 0.02),
        ("ssd-nvme-2022", 1, true, PAGE, 22_000.0, 0.02),
        ("ssd-nvme-2022", 512, true, PAGE, 1_400_000.0, 0.05),
        ("ssd-nvme-2022", 1, false, PAGE, 80_000.0, 0.02),
        ("ssd-nvme-2022", 32, true, 128 * KIB, 7_450e6 / 131_072.0, 0.02),
        ("ssd-nvme-2022", 32, false, 128 * KIB, 6_900e6 / 131_072.0, 0.02),
    ];
    for (name, depth, reads, len, sheet, tolerance) in sheets {
        let random = len == PAGE;
        // Long writes go on until what the buffer took at the start does not count.
        let count = if depth == 1 {
            2_000
        } else if reads {
            20_000
        } else {
            60_000
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
fn reads_scale_with_the_channels_and_no_further() {
    let rate = |depth: u64| {
        let count = 2_000 * depth;
        let span = twice(seeded(1), move |rt| async move {
            let drive = ssd(&rt, &[("channels", "8"), ("page", "4KiB"), ("overhead", "0")]);
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
    assert!((7.8..8.2).contains(&eight), "{eight}");
    let more = rate(64) / rate(8);
    assert!((0.99..1.03).contains(&more), "{more}");
}

#[test]
fn energy_is_active_and_idle_power_times_their_spans() {
    let (usage, busy, total) = twice(seeded(1), |rt| async move {
        let drive = ssd(&rt, &[("active_w", "5"), ("idle_w", "0.5"), ("cache", "off")]);
        let mut busy = Nanos::ZERO;
        for at in 0..3 {
            busy += timed(&rt, &*drive, write(at * MIB, PAGE, 1)).await;
            rt.sleep(Nanos::millis(1)).await;
        }
        (drive.usage().unwrap(), busy, rt.now().since(Time::ZERO))
    });
    assert_eq!((usage.busy, usage.read, usage.written), (busy, 0, 3 * PAGE));
    assert_eq!(usage.energy_j, 5.0 * busy.as_secs_f64() + 0.5 * (total - busy).as_secs_f64());
}

#[test]
fn a_full_buffer_slows_writes_to_the_programs() {
    let (rate, stalls) = twice(seeded(1), |rt| async move {
        let drive = ssd(&rt, &[("buffer", "64KiB"), ("channels", "2"), ("page", "4KiB")]);
        let pages = drive.limits().size / PAGE;
        let span = flood(&rt, drive.clone(), 64, 5_000, move |rng| write(rng.below(pages) * PAGE, PAGE, 1)).await;
        (5_000.0 / span.as_secs_f64(), stat(&*drive, "buffer_stalls"))
    });
    let spec = profile("ssd-nvme-2022");
    let bound = 2.0 / (spec.program + Nanos::transfer(PAGE, spec.unit_rate)).as_secs_f64();
    assert!((0.8 * bound..1.02 * bound).contains(&rate), "{rate} writes/s of at most {bound}");
    assert!(stalls > 4_000.0, "{stalls}");
}

fn media_after_a_cut(cache: bool, flushed: bool, seed: u64) -> Vec<u8> {
    let media = Rc::new(Media::new(512));
    let sim = Sim::new(seeded(1));
    let (rt, kept) = (sim.rt(), media.clone());
    sim.block_on(async move {
        let setup = SsdSetup { size: MIB, block: 512, depth: 32, cache, content: Content::Memory(kept) };
        let drive = Ssd::new(&rt, SsdModel::new(profile("ssd-sata-2021")).unwrap(), setup);
        timed(&rt, &drive, write(0, 64 * KIB, 1)).await;
        timed(&rt, &drive, Bio::flush()).await;
        timed(&rt, &drive, write(0, 64 * KIB, 2)).await;
        if flushed {
            timed(&rt, &drive, Bio::flush()).await;
        }
    });
    sim.kill();
    media.power_cut(&mut Stream::seeded(seed));
    let mut buf = Buf::unique(&Pool::new(0), 64 * KIB as usize);
    media.read(0, &mut buf);
    buf.to_vec()
}

#[test]
fn a_power_cut_loses_part_of_what_was_not_flushed_and_nothing_else() {
    let of = |seed| Buf::described(64 * KIB as usize, seed).to_vec();
    let (old, new) = (of(1), of(2));
    let mut torn = 0;
    for seed in 0..8 {
        let left = media_after_a_cut(true, false, seed);
        let units = left.chunks(512).zip(old.chunks(512)).zip(new.chunks(512));
        assert!(units.clone().all(|((l, o), n)| l == o || l == n), "each unit is old or new");
        torn += usize::from(left != old && left != new);
        assert!(media_after_a_cut(true, true, seed) == new, "flushed data survives");
        assert!(media_after_a_cut(false, false, seed) == new, "without a cache, so does all");
    }
    assert!(torn > 4, "{torn} of 8 cuts tear a write of 128 units");
}

#[test]
fn a_write_in_flight_may_be_torn_even_without_a_cache() {
    let of = |seed| Buf::described(64 * KIB as usize, seed).to_vec();
    let mut torn = 0;
    for seed in 0..8 {
        let media = Rc::new(Media::new(512));
        let sim = Sim::new(seeded(1));
        let setup =
            SsdSetup { size: MIB, block: 512, depth: 32, cache: false, content: Content::Memory(media.clone()) };
        let drive = Ssd::new(&sim.rt(), SsdModel::new(profile("ssd-sata-2021")).unwrap(), setup);
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
    let sim = Sim::new(seeded(1));
    for (args, block) in [(&[][..], 4096), (&[("block", "512")], 512)] {
        let limits = ssd(&sim.rt(), args).limits().clone();
        assert_eq!((limits.block, limits.atomic, limits.size % u64::from(block)), (block, block, 0));
    }
}

#[test]
fn numbers_that_do_not_fit_are_refused_by_name() {
    let sim = Sim::new(seeded(1));
    let rt = sim.rt();
    for (args, words) in [
        ([("size", "3TB")], "at most 2000398934016"),
        ([("block", "1MiB")], "block = 1048576 is no power of two from 512"),
        ([("channels", "0")], "channels = 0"),
        ([("page", "1000")], "page = 1000"),
        ([("host_rate", "0")], "host_rate must be above 0"),
        ([("depth", "70000")], "depth = 70000"),
    ] {
        let error = build(&rt, &KIND, &args).err().unwrap().to_string();
        assert!(error.contains(words), "{args:?}: {error}");
    }
}

#[test]
fn in_the_real_world_no_answer_is_early() {
    let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
    let rt = reactor.rt();
    let took = reactor.block_on(async move {
        let drive = ssd(&rt, &[("read", "2ms")]);
        timed(&rt, &*drive, read(0, PAGE)).await
    });
    assert!(took >= Nanos::millis(2), "{took:?} for a service of 2 ms");
}
