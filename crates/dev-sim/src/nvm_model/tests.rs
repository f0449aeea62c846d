//! The DIMMs against what their numbers say, and what a power cut leaves of them.

use std::rc::Rc;

use esker_base::units::{KIB, MIB};
use esker_base::{Nanos, Stream};
use esker_block::Device;
use esker_rt::sim::twice;
use esker_rt::{Rt, Sim};

use super::*;
use crate::catalogue;
use crate::testing::{
    build, check_energy, check_no_early_answer, check_power_cut, check_refusals, flood, read, seeded, timed, write,
};

fn nvm(rt: &Rt, args: &[(&str, &str)]) -> Rc<dyn Device> {
    build(rt, &KIND, args).unwrap()
}

fn spec(name: &str) -> NvmSpec {
    NvmSpec::profile(name).unwrap()
}

#[test]
fn single_requests_are_exact() {
    let spec = spec("nvm-optane-2019");
    let times = twice(seeded(1), |rt| async move {
        let memory = nvm(&rt, &[("block", "64")]);
        let mut times = Vec::new();
        for bio in [read(0, 256), read(64, 64), read(MIB, 4 * KIB), write(2 * MIB, 4 * KIB, 1), write(3 * MIB, 256, 1)]
        {
            times.push(timed(&rt, &*memory, bio).await);
            rt.sleep(Nanos::micros(100)).await;
        }
        times
    });
    let (r, w) = (Nanos::transfer(256, spec.read_rate), Nanos::transfer(256, spec.write_rate));
    assert_eq!(
        times,
        [spec.read, spec.buffered, spec.read + r * 15, (w * 16).max(spec.write + w * 15), spec.write.max(w)]
    );
}

/// Bytes per second of 20,000 requests of `len` bytes with `depth` in flight.
fn rate(args: &'static [(&str, &str)], depth: u64, reads: bool, len: u64, random: bool) -> f64 {
    let span = twice(seeded(1), move |rt| async move {
        let memory = nvm(&rt, args);
        let mut at = 0;
        let make = move |rng: &mut Stream| {
            at = if random { rng.below((64 << 20) / len) } else { at + 1 };
            if reads { read(at * len, len) } else { write(at * len, len, 1) }
        };
        flood(&rt, memory, depth, 20_000, make).await
    });
    20_000.0 * len as f64 / span.as_secs_f64()
}

#[test]
fn bandwidth_is_that_of_the_dimms_and_asymmetric() {
    for (args, dimms) in [(&[("block", "64")][..], 1.0), (&[("block", "64"), ("dimms", "6")][..], 6.0)] {
        let (reads, writes) = (rate(args, 128, true, 4 * KIB, true), rate(args, 128, false, 4 * KIB, true));
        let spec = spec("nvm-optane-2019");
        for (found, one) in [(reads, spec.read_rate), (writes, spec.write_rate)] {
            let share = found / (one as f64 * dimms);
            assert!((0.85..1.01).contains(&share), "{share} of {dimms} DIMMs");
        }
    }
}

#[test]
fn writes_below_a_line_read_it_first_unless_they_follow_each_other() {
    let args = &[("block", "64")];
    let whole = rate(args, 16, false, 256, true);
    let random = rate(args, 16, false, 64, true) / whole;
    let sequential = rate(args, 16, false, 64, false) / whole;
    assert!((0.15..0.24).contains(&random), "64 of 256 bytes, and a read: {random}");
    assert!((0.6..1.05).contains(&sequential), "{sequential}");
}

#[test]
fn what_was_written_survives_a_cut_at_once_unless_caches_hold_it() {
    check_power_cut(|rt, setup| Rc::new(Nvm::new(rt, NvmModel::new(spec("nvm-optane-2019")).unwrap(), setup)));
    let sim = Sim::new(seeded(1));
    assert!(!nvm(&sim.rt(), &[]).limits().volatile_cache && nvm(&sim.rt(), &[("cache", "on")]).limits().volatile_cache);
}

#[test]
fn energy_is_active_and_idle_power_times_their_spans() {
    check_energy(&KIND, |at| write(at * 256, 4 * KIB, 1));
}

#[test]
fn every_memory_of_the_catalogue_can_be_built() {
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
            ("block", "32", "block = 32 is no power of two from 64"),
            ("dimms", "0", "dimms = 0"),
            ("line", "100", "line = 100"),
            ("interleave", "100", "interleave = 100"),
            ("write_rate", "0", "write_rate must be above 0"),
            ("depth", "5000", "depth = 5000"),
            ("size", "1TB", "at most"),
        ],
    );
}

#[test]
fn in_the_real_world_no_answer_is_early() {
    check_no_early_answer(&KIND, &[("read", "2ms")], Nanos::millis(2));
}
