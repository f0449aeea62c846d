//! The disk against what its numbers say analytically, its caches, and both worlds.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::units::{KIB, MIB};
use esker_base::{Nanos, Stream, Time};
use esker_block::{Bio, BioError, Buf, Device, Support};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::sim::twice;

use super::parts::ReadsOn;
use super::*;
use crate::testing::{
    build, check_blocks, check_energy, check_no_early_answer, check_power_cut, check_refusals, flood, read, seeded,
    stat, timed, write,
};

mod standby;

const PAGE: u64 = 4 * KIB;

fn spec() -> DiskSpec {
    DiskSpec::profile("hdd-7200-2021").unwrap()
}

fn disk(rt: &Rt, args: &[(&str, &str)]) -> Rc<dyn Device> {
    build(rt, &KIND, args).unwrap()
}

fn random_page(size: u64) -> impl Fn(&mut Stream) -> u64 {
    move |rng| rng.below(size / PAGE) * PAGE
}

/// Mean service time of random 4 KiB reads, one at a time.
fn measured_random(profile: &'static str, count: u64) -> f64 {
    let spec = DiskSpec::profile(profile).unwrap();
    let span = twice(seeded(1), move |rt| {
        let at = random_page(spec.capacity);
        async move {
            let disk = disk(&rt, &[("profile", profile)]);
            flood(&rt, disk, 1, count, move |rng| read(at(rng), PAGE)).await
        }
    });
    span.as_secs_f64() / count as f64
}

#[test]
fn random_reads_take_overhead_seek_half_a_turn_and_transfer() {
    for profile in crate::catalogue::DISKS {
        let spec = DiskSpec::profile(profile).unwrap();
        let half_turn = 30.0 / f64::from(spec.rpm);
        let rate = (spec.rate_outer + spec.rate_inner) as f64 / 2.0;
        let fixed = spec.overhead + spec.seek_average;
        let analytic = fixed.as_secs_f64() + half_turn + PAGE as f64 / rate;
        let measured = measured_random(profile, 20_000);
        let off = measured / analytic - 1.0;
        assert!(off.abs() < 0.03, "{profile}: measured {measured}, analytic {analytic}");
    }
}

#[test]
fn one_read_is_exact_to_the_nanosecond() {
    let took = twice(seeded(1), |rt| async move {
        let disk = disk(&rt, &[]);
        rt.sleep(Nanos::millis(3)).await;
        timed(&rt, &*disk, read(0, PAGE)).await
    });
    let spec = spec();
    // The arm rests at cylinder 0; byte 0 passes the head at multiples of a turn, here at the first one after 3.1 ms.
    let turn = 60_000_000_000u64.div_ceil(7200);
    let geometry = spec.parts().unwrap().geometry;
    let transfer = geometry.span(geometry.end(PAGE).at) + Nanos::transfer(512, spec.host_rate);
    assert!(took.0.abs_diff(turn - 3_000_000 + transfer.0) <= 2, "{took:?}");
}

fn sequential_rate(at: u64, depth: u64, args: &'static [(&str, &str)], writes: bool) -> f64 {
    const CHUNK: u64 = 64 * KIB;
    // Long enough that the search for the first track does not count.
    let count = 16_000;
    let span = twice(seeded(1), move |rt| async move {
        let disk = disk(&rt, args);
        let mut next = at;
        let make = move |_: &mut Stream| {
            next += CHUNK;
            if writes { write(next - CHUNK, CHUNK, 1) } else { read(next - CHUNK, CHUNK) }
        };
        let start = rt.now();
        flood(&rt, disk.clone(), depth, count, make).await;
        timed(&rt, &*disk, Bio::flush()).await;
        rt.now().since(start)
    });
    (count * CHUNK) as f64 / span.as_secs_f64()
}

#[test]
fn sequential_transfers_run_at_the_rate_of_their_zone() {
    let spec = spec();
    let inner = spec.capacity - 1_200_000_000;
    let inner = inner - inner % PAGE;
    for (at, rate) in [(0, spec.rate_outer), (inner, spec.rate_inner)] {
        for depth in [1, 32] {
            let read = sequential_rate(at, depth, &[], false) / rate as f64;
            assert!((read - 1.0).abs() < 0.02, "read at {at}, depth {depth}: {read} of the zone's rate");
        }
        let write = sequential_rate(at, 32, &[("cache", "off")], true) / rate as f64;
        assert!((write - 1.0).abs() < 0.02, "write at {at}: {write} of the zone's rate");
    }
}

#[test]
fn small_sequential_writes_reach_the_medium_joined() {
    let spec = spec();
    let share = sequential_rate(0, 1, &[], true) / spec.rate_outer as f64;
    assert!(share > 0.8, "{share} of the zone's rate, with one write in flight, through the write cache");
}

fn random_read_rate(depth: u64) -> f64 {
    let count = 20_000;
    let span = twice(seeded(3), move |rt| async move {
        let disk = disk(&rt, &[]);
        let at = random_page(disk.limits().size);
        flood(&rt, disk, depth, count, move |rng| read(at(rng), PAGE)).await
    });
    count as f64 / span.as_secs_f64()
}

#[test]
fn ordering_32_commands_doubles_the_rate_of_random_reads() {
    let (fifo, sptf) = (random_read_rate(1), random_read_rate(32));
    let gain = sptf / fifo;
    assert!((2.0..3.5).contains(&gain), "{fifo}/s one by one, {sptf}/s ordered: {gain}");
}

#[test]
fn what_waits_outside_the_queue_does_not_disturb_its_order() {
    let (full, beyond) = (random_read_rate(32), random_read_rate(200));
    assert!((0.97..1.05).contains(&(beyond / full)), "{full}/s with 32 in flight, {beyond}/s with 200");
}

/// When two reads at far ends of a disk are answered; if `hog_at` is given, a program keeps the only CPU for 2 ms then.
fn two_reads(hog_at: Option<Time>) -> Vec<Time> {
    twice(seeded(1), move |rt| async move {
        let disk = disk(&rt, &[("read_ahead", "0")]);
        let places = [disk.limits().size / 2, disk.limits().size - PAGE];
        let reads = places.map(|at| {
            let (rt2, disk) = (rt.clone(), disk.clone());
            rt.spawn("read", async move {
                timed(&rt2, &*disk, read(at, PAGE)).await;
                rt2.now()
            })
        });
        if let Some(at) = hog_at {
            rt.sleep_until(at).await;
            rt.charge(Nanos::millis(2));
            rt.yield_now().await;
        }
        let mut ends = Vec::new();
        for read in reads {
            ends.push(read.await);
        }
        ends
    })
}

#[test]
fn a_busy_cpu_sees_answers_late_and_does_not_slow_the_arm() {
    let alone = two_reads(None);
    let (first, second) = (*alone.iter().min().unwrap(), *alone.iter().max().unwrap());
    assert!(second.since(first) > Nanos::millis(3), "{alone:?}");
    let hogged = two_reads(Some(Time(first.0 - 10)));
    let (late, same) = (*hogged.iter().min().unwrap(), *hogged.iter().max().unwrap());
    assert!(late.since(first) > Nanos::millis(1), "the program has the CPU: {late:?} after {first:?}");
    assert_eq!(same, second);
}

#[test]
fn no_command_starves() {
    let far_took = twice(seeded(1), |rt| async move {
        let disk = disk(&rt, &[("read_ahead", "0")]);
        let done = Rc::new(Cell::new(false));
        for _ in 0..8 {
            let (near, done, rt2) = (disk.clone(), done.clone(), rt.clone());
            let mut rng = rt.rng("near");
            let near = async move {
                while !done.get() {
                    timed(&rt2, &*near, read(rng.below(1_000) * PAGE, PAGE)).await;
                }
            };
            rt.spawn("near", near).detach();
        }
        let took = timed(&rt, &*disk, read(disk.limits().size - PAGE, PAGE)).await;
        done.set(true);
        took
    });
    assert!(far_took > Nanos::millis(400), "{far_took}: nearer commands do go first");
    assert!(far_took < Nanos::millis(500 + 50), "{far_took}: until the bound, plus what the arm had begun");
}

#[test]
fn energy_is_active_and_idle_power_times_their_spans() {
    check_energy(&KIND, |at| read(at * MIB, PAGE));
}

#[test]
fn cached_writes_are_fast_and_a_flush_waits_for_the_medium() {
    let (first, read_back, flush, again, bytes) = twice(seeded(1), |rt| async move {
        let disk = disk(&rt, &[]);
        let first = timed(&rt, &*disk, write(7 * MIB, PAGE, 1)).await;
        let read_back = timed(&rt, &*disk, read(9 * MIB, PAGE)).await;
        for at in 0..16 {
            timed(&rt, &*disk, write(at * 100_000 * MIB, PAGE, 1)).await;
        }
        let flush = timed(&rt, &*disk, Bio::flush()).await;
        let again = timed(&rt, &*disk, Bio::flush()).await;
        (first, read_back, flush, again, disk.usage().unwrap().written)
    });
    let spec = spec();
    assert_eq!(first, spec.overhead + Nanos::transfer(PAGE, spec.host_rate));
    assert!(read_back > Nanos::millis(1), "{read_back}");
    assert!(flush > Nanos::millis(40), "{flush} for 16 scattered writes");
    assert_eq!((again, bytes), (spec.overhead, 17 * PAGE));
}

#[test]
fn a_full_write_cache_slows_writes_to_the_medium() {
    let (rate, dirty) = twice(seeded(1), |rt| async move {
        let disk = disk(&rt, &[("buffer", "64KiB")]);
        let at = random_page(disk.limits().size);
        let span = flood(&rt, disk.clone(), 32, 500, move |rng| write(at(rng), PAGE, 1)).await;
        (500.0 / span.as_secs_f64(), stat(&*disk, "dirty_bytes"))
    });
    assert!((60.0..400.0).contains(&rate), "{rate} writes per second");
    assert!(dirty <= 65_536.0, "{dirty}");
}

#[test]
fn a_power_cut_loses_part_of_what_was_not_flushed_and_nothing_else() {
    check_power_cut(|rt, common| {
        let setup = DiskSetup { common, age_max: Nanos::millis(500) };
        Rc::new(Disk::new(rt, DiskModel::new(spec().parts().unwrap()), setup))
    });
}

#[test]
fn content_reads_back_and_described_disks_give_zeroes() {
    twice(seeded(1), |rt| async move {
        let pool = Pool::default();
        let kept = disk(&rt, &[("content", "memory"), ("size", "16MiB"), ("block", "512")]);
        assert!(!kept.limits().described && kept.limits().volatile_cache);
        timed(&rt, &*kept, write(512, 1024, 5)).await;
        timed(&rt, &*kept, Bio::zero(1024, 512)).await;
        let back = kept.submit(Bio::read(512, Buf::unique(&pool, 1024))).await.buf.to_vec();
        assert_eq!(back[..512], Buf::described(1024, 5).to_vec()[..512]);
        assert_eq!(back[512..], [0; 512]);
        let described = disk(&rt, &[("cache", "off")]);
        assert!(described.limits().described && !described.limits().volatile_cache);
        let mut dirty = Buf::unique(&pool, PAGE as usize);
        dirty.bytes_mut().unwrap().fill(7);
        assert_eq!(described.submit(Bio::read(0, dirty)).await.buf.to_vec(), [0; PAGE as usize]);
        let refused = described.submit(Bio::discard(0, PAGE)).await.result;
        assert!(matches!(refused, Err(BioError::Unsupported(OpKind::Discard))));
        assert_eq!(described.limits().support(OpKind::Discard), Support::No);
    });
}

#[test]
fn blocks_are_those_of_present_drives_unless_told_otherwise() {
    check_blocks(&KIND);
}

#[test]
fn numbers_that_do_not_fit_are_refused_by_name() {
    check_refusals(
        &KIND,
        &[
            ("size", "5TB", "at most 4000787030016"),
            ("size", "100", "multiple of 4096"),
            ("block", "1000", "block = 1000 is no power of two from 512"),
            ("depth", "0", "depth = 0"),
            ("rpm", "0", "rpm must be above 0"),
            ("rpm", "200000", "rpm = 200000 is above"),
            ("heads", "5000", "more than 1000 heads"),
            ("seek_full", "8ms", "a curve that falls"),
            ("rate_inner", "1GB", "rate_inner must not be above"),
            ("rate_inner", "1", "check their units"),
            ("idle_w", "-1", "idle_w = -1 must not be negative"),
            ("profile", "floppy", "one of hdd-"),
            ("measured", "no files", "expected one .model"),
        ],
    );
}

#[test]
fn in_the_real_world_no_answer_is_early() {
    check_no_early_answer(&KIND, &[("overhead", "2ms")], Nanos::millis(2));
}

/// A disk of one zone with 100 sectors a track and four heads, and reads of one sector.
fn small_disk(rt: &Rt, buffer: parts::BufferSpec) -> Disk {
    let zone = zone::ZoneSpec { last: 999, sectors: 100, track_skew: 20.0, cylinder_skew: 30.0, ..Default::default() };
    let (sparing, backwards) = (zone::Sparing::Zone(false), geometry::Backwards::Never);
    let layout = geometry::Layout { heads: 4, zones: vec![zone], sparing, backwards };
    let disk = DiskSimSpec {
        layout,
        rpm: 6000,
        seek: seek::SeekCurve::Table(vec![(1, Nanos::millis(1)), (1000, Nanos::millis(10))]),
        head_switch: Nanos::millis(1),
        write_settle: Nanos::ZERO,
        interface: parts::Interface::plain(100_000_000, Nanos::micros(100)),
        buffer,
    };
    let parts = disk.parts(spec().bill, None);
    let content = crate::Content::None;
    let common = Setup { size: parts.capacity, block: 512, depth: 1, cache: false, content };
    Disk::new(rt, DiskModel::new(parts), DiskSetup { common, age_max: Nanos::secs(1) })
}

/// Whether each of these sectors is a hit, each read 100 ms after the one before.
fn hits(buffer: parts::BufferSpec, sectors: &'static [u64]) -> Vec<bool> {
    twice(seeded(1), move |rt| async move {
        let disk = small_disk(&rt, buffer);
        let mut hits = Vec::new();
        for sector in sectors {
            let before = stat(&disk, "cache_hits");
            timed(&rt, &disk, read(sector * 512, 512)).await;
            hits.push(stat(&disk, "cache_hits") > before);
            rt.sleep(Nanos::millis(100)).await;
        }
        hits
    })
}

#[test]
fn what_the_buffer_holds_depends_on_how_far_the_disk_reads_on() {
    let buffer = |reads_on| parts::BufferSpec {
        segments: 2,
        segment: 300 * 512,
        read_ahead: 300 * 512,
        reads_on,
        ..parts::BufferSpec::NONE
    };
    let sectors = &[50, 99, 100, 349, 350];
    assert_eq!(hits(buffer(ReadsOn::Window), sectors), [false, true, true, true, false]);
    assert_eq!(hits(buffer(ReadsOn::Track), sectors), [false, true, false, false, true]);
    assert_eq!(
        hits(buffer(ReadsOn::NextTrack), &[50, 120, 250]),
        [false, false, true],
        "the second track follows the first"
    );
    assert_eq!(hits(buffer(ReadsOn::NextTrack), &[50, 320, 400]), [false, false, false]);
    assert_eq!(hits(buffer(ReadsOn::Cylinder), &[150, 399, 400]), [false, true, false]);
    let replaces = |replaces| parts::BufferSpec { replaces, ..buffer(ReadsOn::Window) };
    assert_eq!(hits(replaces(true), &[50, 350, 50]), [false, true, false], "reading on replaced what was asked for");
    assert_eq!(hits(replaces(false), &[50, 349, 50]), [false, true, true]);
    let none = parts::BufferSpec { read_ahead: 0, ..buffer(ReadsOn::Window) };
    assert_eq!(hits(none, &[50, 50, 51, 150, 250, 50]), [false, true, false, false, false, false], "two segments");
    let on_hit = |read_on_hit| parts::BufferSpec { read_on_hit, ..replaces(false) };
    assert_eq!(hits(on_hit(false), &[50, 300, 360]), [false, true, false]);
    assert_eq!(hits(on_hit(true), &[50, 300, 360]), [false, true, true]);
}

#[test]
fn free_blocks_are_those_that_pass_while_the_head_waits() {
    let free = |read_free| parts::BufferSpec {
        segments: 1,
        segment: 300 * 512,
        reads_on: ReadsOn::Track,
        read_free,
        ..parts::BufferSpec::NONE
    };
    // The head is there 0.1 ms after a turn begins, which is one sector, and waits for sector 80 of its track.
    assert_eq!(hits(free(true), &[80, 79, 2]), [false, true, true]);
    assert_eq!(hits(free(true), &[80, 0]), [false, false]);
    assert_eq!(hits(free(false), &[80, 79]), [false, false]);
}

#[test]
fn sectors_in_any_order_take_a_turn_and_in_order_nearly_two() {
    let took = |any_order| {
        let buffer = parts::BufferSpec { any_order, ..parts::BufferSpec::NONE };
        twice(seeded(1), move |rt| async move { timed(&rt, &small_disk(&rt, buffer), read(0, 100 * 512)).await })
    };
    // A turn takes 10 ms. The command's overhead of 0.1 ms lets the first sector pass.
    let (any, ordered) = (took(true), took(false));
    assert!(any > Nanos::millis(10) && any < Nanos::micros(10_700), "{any}");
    assert!(ordered > Nanos::micros(19_900) && ordered < Nanos::micros(20_200), "{ordered}");
}
