//! A disk that spins down: what wakes it, how long that takes, and what it costs.

use esker_block::Usage;
use esker_rt::sync::join_all;

use super::*;

const ARGS: [(&str, &str); 6] = [
    ("standby_after", "10s"),
    ("standby_w", "1"),
    ("spin_up", "6s"),
    ("spin_up_w", "20"),
    ("active_w", "8"),
    ("idle_w", "5"),
];
const SPIN_UP: Nanos = Nanos::secs(6);
/// More than a seek, a turn and a transfer take.
const ACCESS: Nanos = Nanos::millis(25);

fn spins_down(rt: &Rt, more: &[(&str, &str)]) -> Rc<dyn Device> {
    disk(rt, &[&ARGS[..], more].concat())
}

fn second(n: u64) -> Time {
    Time::ZERO + Nanos::secs(n)
}

/// What it took and cost to wake a disk.
#[derive(Debug)]
struct Woken {
    /// Time of each request.
    took: Vec<Nanos>,
    /// Busy time before the rest, and all of it.
    before: f64,
    busy: f64,
    /// Usage up to second 40.
    usage: Usage,
    hits: f64,
}

/// A disk serves `first`, if there is one, and rests 10 s after it. It gets the requests of `make`, all at once, in
/// second 30.
fn woken(more: &'static [(&str, &str)], first: Option<fn() -> Bio>, make: fn() -> Vec<Bio>) -> Woken {
    twice(seeded(1), move |rt| async move {
        let disk = spins_down(&rt, more);
        if let Some(first) = first {
            timed(&rt, &*disk, first()).await;
        }
        rt.sleep_until(second(30)).await;
        let (before, hits) = (disk.usage().unwrap().busy.as_secs_f64(), stat(&*disk, "cache_hits"));
        let took = join_all(make().into_iter().map(|bio| timed(&rt, &*disk, bio))).await;
        rt.sleep_until(second(40)).await;
        assert_eq!((stat(&*disk, "spin_ups"), stat(&*disk, "dirty_bytes")), (1.0, 0.0));
        let usage = disk.usage().unwrap();
        Woken { took, before, busy: usage.busy.as_secs_f64(), usage, hits: stat(&*disk, "cache_hits") - hits }
    })
}

impl Woken {
    /// Every request waited for the spin-up and for little more. The spin-up, the rest before it and the work after it
    /// are paid for, each with its own power.
    fn check(&self, what: &str) {
        let after = self.took.iter().map(|took| took.saturating_sub(SPIN_UP));
        assert!(after.clone().all(|after| after > Nanos::ZERO && after < ACCESS * 4), "{what}: {self:?}");
        assert!(self.busy - self.before < 0.1, "{what}: the spin-up is no work: {self:?}");
        let (standby, work) = (20.0 - self.before, self.busy - self.before);
        let idle = 10.0 + (40.0 - 36.0 - work);
        let joules = 8.0 * self.busy + 5.0 * idle + 1.0 * standby + 20.0 * 6.0;
        assert!((self.usage.energy_j - joules).abs() < 1e-6, "{what}: {} of {joules}", self.usage.energy_j);
    }
}

#[test]
fn every_command_for_data_wakes_a_disk_in_standby_and_waits_for_it() {
    type Case = (&'static str, &'static [(&'static str, &'static str)], Option<fn() -> Bio>, fn() -> Vec<Bio>);
    let cases: [Case; 8] = [
        ("read", &[], None, || vec![read(512 * MIB, PAGE)]),
        ("read of what the track buffer holds", &[], Some(|| read(0, PAGE)), || vec![read(0, PAGE)]),
        ("cached write", &[], None, || vec![write(MIB, PAGE, 1)]),
        ("zeroing", &[], None, || vec![Bio::zero(MIB, PAGE)]),
        ("forced write", &[], None, || vec![write(MIB, PAGE, 1).fua()]),
        ("write without a cache", &[("cache", "off")], None, || vec![write(MIB, PAGE, 1)]),
        ("flush of nothing", &[], Some(|| write(MIB, PAGE, 1)), || vec![Bio::flush()]),
        ("flush without a cache", &[("cache", "off")], None, || vec![Bio::flush()]),
    ];
    for (what, more, first, make) in cases {
        woken(more, first, make).check(what);
    }
}

#[test]
fn commands_that_come_while_a_disk_spins_up_wait_for_the_same_spin_up() {
    let write_flush = woken(&[], None, || vec![write(MIB, PAGE, 1), Bio::flush()]);
    write_flush.check("write and flush");
    let [written, flushed] = write_flush.took[..] else { panic!("two requests") };
    assert!(written < SPIN_UP + Nanos::millis(1) && flushed > written + Nanos::millis(1), "{write_flush:?}");
    let read_back = woken(&[], None, || vec![write(MIB, PAGE, 1), read(MIB, PAGE)]);
    read_back.check("write and read of the cached bytes");
    assert!(read_back.took[1] < SPIN_UP + Nanos::millis(1) && read_back.hits == 1.0, "{read_back:?}");
    let reads = woken(&[], None, || (0..4).map(|at| read(at * 1024 * MIB, PAGE)).collect());
    reads.check("four reads");
}

#[test]
fn a_command_in_the_middle_of_a_spin_up_waits_for_the_rest_of_it() {
    let (took, usage) = twice(seeded(1), |rt| async move {
        let disk = spins_down(&rt, &[]);
        let (late, rt2) = (disk.clone(), rt.clone());
        let late = rt.spawn("late", async move {
            rt2.sleep_until(second(34)).await;
            let usage = late.usage().unwrap();
            (timed(&rt2, &*late, Bio::flush()).await, usage)
        });
        rt.sleep_until(second(30)).await;
        timed(&rt, &*disk, write(MIB, PAGE, 1)).await;
        let found = late.await;
        assert_eq!(stat(&*disk, "spin_ups"), 1.0);
        found
    });
    assert!(took > Nanos::secs(2) && took < Nanos::secs(2) + ACCESS, "{took}");
    let joules = 10.0 * 5.0 + 20.0 * 1.0 + 4.0 * 20.0;
    assert_eq!((usage.busy, usage.energy_j), (Nanos::ZERO, joules), "while it spins up, it does not work yet");
}

#[test]
fn a_disk_is_awake_until_all_that_was_cached_is_written_and_rests_then() {
    let (busy, early, usage) = twice(seeded(1), |rt| async move {
        let disk = spins_down(&rt, &[("standby_after", "500ms")]);
        for at in 0..300 {
            timed(&rt, &*disk, write(at * 7919 % 300 * 10_000 * MIB, PAGE, 1)).await;
        }
        assert!(rt.now() < Time::ZERO + Nanos::millis(500), "the cache takes them all: {:?}", rt.now());
        while stat(&*disk, "dirty_bytes") > 0.0 {
            rt.sleep(Nanos::millis(1)).await;
        }
        let early = rt.now().since(Time::ZERO);
        rt.sleep_until(second(100)).await;
        let usage = disk.usage().unwrap();
        assert_eq!((stat(&*disk, "spin_ups"), usage.written), (0.0, 300 * PAGE));
        let took = timed(&rt, &*disk, Bio::flush()).await;
        assert!(took > SPIN_UP && stat(&*disk, "spin_ups") == 1.0, "{took}");
        (usage.busy, early, usage)
    });
    assert!(busy > Nanos::secs(1) && early <= busy && busy < early + ACCESS, "one span of work: {busy}, {early}");
    let busy = busy.as_secs_f64();
    let joules = 8.0 * busy + 5.0 * 0.5 + 1.0 * (100.0 - 0.5 - busy);
    assert!((usage.energy_j - joules).abs() < 1e-6, "{} of {joules}", usage.energy_j);
}

/// Energy of one step every 100 s up to second 2000, and how long the steps took that found the disk at rest.
fn every_100_s(args: &'static [(&str, &str)], step: fn() -> Vec<Bio>) -> (f64, Vec<Nanos>) {
    twice(seeded(1), move |rt| async move {
        let disk = disk(&rt, &[&[("standby_after", "10s")], args].concat());
        let mut took = Vec::new();
        for at in 0..20 {
            rt.sleep_until(second(at * 100)).await;
            let start = rt.now();
            for bio in step() {
                timed(&rt, &*disk, bio).await;
            }
            took.push(rt.now().since(start));
        }
        rt.sleep_until(second(2000)).await;
        assert_eq!(stat(&*disk, "spin_ups"), 19.0);
        (disk.usage().unwrap().energy_j, took.split_off(1))
    })
}

#[test]
fn spinning_down_saves_and_costs_the_same_for_reads_cached_writes_and_flushes() {
    let spec = spec();
    let bill = spec.bill;
    // Of 100 s the disk spins up in 15 s, is idle for 10 s and rests; in the first 100 s it does not spin up. What the
    // accesses of some milliseconds take is neglected.
    let joules = 20.0 * 10.0 * bill.idle_w + 19.0 * 15.0 * 14.0 + (90.0 + 19.0 * 75.0) * 0.8;
    type Case = (&'static str, &'static [(&'static str, &'static str)], fn() -> Vec<Bio>);
    let cases: [Case; 5] = [
        ("read", &[], || vec![read(512 * MIB, PAGE)]),
        ("cached write", &[], || vec![write(512 * MIB, PAGE, 1)]),
        ("write and flush", &[], || vec![write(512 * MIB, PAGE, 1), Bio::flush()]),
        ("write without a cache", &[("cache", "off")], || vec![write(512 * MIB, PAGE, 1)]),
        ("flush", &[], || vec![Bio::flush()]),
    ];
    for (what, args, step) in cases {
        let (energy, took) = every_100_s(args, step);
        assert!((energy / joules - 1.0).abs() < 0.002, "{what}: {energy} J of {joules}");
        let right = took.iter().all(|took| *took > Nanos::secs(15) && *took < Nanos::secs(15) + ACCESS);
        assert!(right, "{what}: {took:?}");
    }
}
