//! `cache-modes`: what lines, write modes and fills of the kind `cache` cost. A modelled flash drive stands before a
//! modelled disk. Source: items 49, 50 and 56 of the specification of extensions.
//!
//! Lines are compared in [`crate::cache_lines`]. The load of all others follows the printed numbers of the source:
//! 60 % of the requests lie within 1 MiB of the one before, and the others go to places by Zipf's law. One client asks
//! for 8 KiB, and pauses behind each answer for 20 ms in the mean. Its first half warms the cache. The mean time of an
//! answer in its second half is what is told. Times are simulated.

use std::rc::Rc;

use esker_base::digest::mix;
use esker_base::units::{GIB, KIB, MIB};
use esker_base::{Nanos, Stream};
use esker_block::{Bio, Buf, Limits};
use esker_layer_kit::slots::{CommitRule, Doubt, SlotKind, SlotMap, SlotShape, Suspects, ZONES};
use esker_stack::Stack;

use esker_lab_kit::rig::{Rig, vol};
use esker_lab_kit::{Figure, Lab, LabError};

use crate::cache_lines::LineLoad;

/// Bytes of the part of the disk that is used, in places of 1 MiB.
const FOOTPRINT: u64 = 4 * GIB;
const PLACE: u64 = MIB;
const REQUEST: u64 = 8 * KIB;
/// Mean pause of the client behind an answer.
const PAUSE: Nanos = Nanos::millis(20);
/// Share of requests within 1 MiB of the one before.
const NEAR: f64 = 0.6;
/// A cache of a hundredth of the footprint.
const SMALL: u64 = FOOTPRINT / 100;
/// Room for the map and the slots that are kept free.
const ROOM: u64 = 64 * MIB;

/// A cache under a load.
#[derive(Clone, Copy)]
struct Case {
    fast: u64,
    args: &'static str,
    /// Share of reads.
    reads: f64,
    requests: u64,
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let requests = 100_000;
    let of = |fast, args, reads| Case { fast, args, reads, requests };
    let mean = |name: &str, case: Case| {
        let ms = mean_ms(lab.seed, case)?;
        lab.say(format!("{name}: {ms:.3} ms a request"));
        Ok::<_, LabError>(ms)
    };
    let load = LineLoad::new(lab)?;
    let lines = |name: &str, fast| {
        let mut means = [0.0; 2];
        for (mean, line) in means.iter_mut().zip(["4KiB", "1MiB"]) {
            *mean = load.mean_ms(lab.seed, fast, line)?;
            lab.say(format!("{name}, lines of {line}: {mean:.3} ms a request"));
        }
        Ok::<_, LabError>(means)
    };
    let [small, large] = load.sizes();
    let (small, large) = (lines("small", small)?, lines("large", large)?);
    let modes =
        |reads| [of(FOOTPRINT / 4, "line=64KiB mode=write-through", reads), of(FOOTPRINT / 4, "line=64KiB", reads)];
    let [through, back] = modes(0.95);
    let read_heavy = [mean("reads, through", through)?, mean("reads, back", back)?];
    let [through, back] = modes(0.2);
    let write_heavy = [mean("writes, through", through)?, mean("writes, back", back)?];
    let fills = [
        mean("fill before", of(SMALL, "line=1MiB fill=before", 1.0))?,
        mean("fill behind", of(SMALL, "line=1MiB fill=behind", 1.0))?,
    ];
    let rate = |id: &str, [slow, fast]: [f64; 2]| {
        Figure::alone(id, slow / fast, "ratio of rates").peer("4 KiB lines, ms", slow)
    };
    let time = |id: &str, [through, back]: [f64; 2]| {
        Figure::alone(id, through / back, "ratio of times").peer("write-back, ms", back)
    };
    Ok(vec![
        rate("line_1m_over_4k_small", small),
        rate("line_1m_over_4k_large", large),
        time("through_over_back_read_heavy", read_heavy).paper(1.0 / 1.09),
        time("through_over_back_write_heavy", write_heavy).paper(1.15),
        Figure::alone("fill_behind_saves", 1.0 - fills[1] / fills[0], "share of the time")
            .peer("the same with fills before the answer, ms", fills[0]),
        Figure::alone("map_bytes_over_formula", map_bytes_over_formula()?, "ratio"),
    ])
}

/// Mean time of a request in the second half of a load, in milliseconds.
fn mean_ms(seed: u64, case: Case) -> Result<f64, LabError> {
    let fast = (case.fast + ROOM).next_multiple_of(MIB);
    let text = format!(
        "h = disk-model size={}; s = ssd-model capacity={} erase_block=1MiB; f = offset start=0 size={fast} on s; \
         vol = cache bypass=0 {} on h, f",
        2 * FOOTPRINT,
        2 * FOOTPRINT,
        case.args
    );
    let Rig { world, stack } = Rig::simulated(seed, &text)?;
    let sums = sums();
    world.block_on(async move {
        play(&stack, &sums, case, "warm").await;
        let waited = play(&stack, &sums, case, "measured").await;
        Ok(waited.as_secs_f64() * 1e3 / (case.requests / 2) as f64)
    })
}

/// The sums of the inverses up to each rank.
fn sums() -> Rc<Vec<f64>> {
    let mut sum = 0.0;
    let ranks = FOOTPRINT / PLACE;
    let mut add = |rank: u64| {
        sum += 1.0 / (rank + 1) as f64;
        sum
    };
    Rc::new((0..ranks).map(&mut add).collect())
}

/// The time in which the client waited for answers.
async fn play(stack: &Rc<Stack>, sums: &[f64], case: Case, part: &'static str) -> Nanos {
    let (device, rt) = (vol(stack), stack.rt());
    let (mut random, mut last, mut waited) = (rt.rng(part), 0, Nanos::ZERO);
    for _ in 0..case.requests / 2 {
        last = next(&mut random, sums, last);
        let buf = Buf::described(REQUEST as usize, 1);
        let bio = if random.unit() < case.reads { Bio::read(last, buf) } else { Bio::write(last, buf) };
        let begun = rt.now();
        let done = device.request(bio).await;
        assert!(done.result.is_ok(), "a request of the experiment failed: {:?}", done.result);
        waited = Nanos(waited.0 + rt.now().since(begun).0);
        rt.sleep(Nanos::from_secs_f64(-(1.0 - random.unit()).ln() * PAUSE.as_secs_f64())).await;
    }
    waited
}

/// Where the next request lies.
fn next(random: &mut Stream, sums: &[f64], last: u64) -> u64 {
    let at = if random.unit() < NEAR {
        (last + random.below(2 * PLACE)).saturating_sub(PLACE)
    } else {
        let drawn = random.unit() * sums[sums.len() - 1];
        let rank = sums.partition_point(|up_to| *up_to <= drawn) as u64;
        mix(rank) % (FOOTPRINT / PLACE) * PLACE + random.below(PLACE)
    };
    at.min(FOOTPRINT - REQUEST) / REQUEST * REQUEST
}

/// Bytes that the two images of a map take beside 8 bytes for each slot.
fn map_bytes_over_formula() -> Result<f64, LabError> {
    let (unit, size) = (64 * KIB, 64 * GIB);
    let shape = SlotShape {
        kind: SlotKind::Cache,
        unit,
        keys: size / unit,
        slots: None,
        journal: MIB,
        zones: ZONES,
        doubt: Doubt::Zones,
        suspects: Suspects::Dirty,
        commit: CommitRule::Group,
    };
    let layout = SlotMap::plan(&shape, &Limits::plain(size, 4096)).map_err(LabError::data)?;
    Ok(f64::from(layout.cells()) * 504.0 / (f64::from(layout.slots) * 8.0))
}
