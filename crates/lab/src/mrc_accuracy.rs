//! `mrc-accuracy`: curves of misses by size against simulated caches, and how fast they are found.
//!
//! The first load is Zipf's law over two million lines. The recorded traces of the project have lines of 4 KiB, and
//! hours of a generated week lines of 16 KiB. Each has ten sizes, from a thousandth of the footprint to all of it.
//! `exact_mismatches` counts the sizes at which the exact curve of LRU differs from a simulated cache, in requests or
//! bytes. `relaxed_above_exact` counts those at which the relaxed curve has more hits than the exact one.
//!
//! `shards_mae`, `aet_mae`, `relaxed_mae` and `mini_mae` are mean distances to exact curves, as shares of requests, on
//! Zipf's law. `mini_mae` is the worst of three policies. A sample is judged at sizes with at least a hundred sampled
//! lines: in smaller ones a few lines are the whole curve. The same of each trace is told beside them, where a trace
//! has such sizes. Recorded traces are short, so they are no bar.
//!
//! Rates are references of the load by CPU time, of the exact method and of SHARDS in turn.

use esker_caching::curve::{Curve, CurvePoint, Estimator, Exact, Method, Shards};
use esker_caching::policies::Lru;
use esker_caching::{LineUse, Simulator};

use esker_lab_kit::cpu_time::CpuTime;
use esker_lab_kit::timing::{in_rounds, median, over, worst};
use esker_lab_kit::{Figure, Lab, LabError};

use crate::cache_loads::{self, CacheLoad};

const LRU: &str = "lru";
/// The policies of miniature simulation, and its rate.
const MINIATURES: [&str; 3] = ["arc", "lirs", "s3-fifo"];
const MINIATURE: f64 = 0.1;
const SHARDS: f64 = 0.01;
/// A sample is judged at sizes with at least so many sampled lines.
const SAMPLED: f64 = 100.0;
const SIZES: u32 = 10;
/// Keys of Zipf's law. The long form uses more than a million of them, so a sample of a hundredth has over 10,000.
const KEYS: u32 = 2_000_000;
/// Uses that a method takes at once.
const PIECE: usize = 1 << 14;
/// SHARDS looks at so few lines that it runs so often in a turn.
const SHARDS_RUNS: u32 = 8;
const ERROR: &str = "share of requests";

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (count, hours, rounds) = lab.scale((5_000_000, 24.0, 3), (20_000_000, 168.0, 7));
    let zipf = cache_loads::zipf(lab.seed, KEYS, count);
    lab.say(format!("zipf: {count} references to {} lines", zipf.footprint));
    let first = judged(&zipf, lab)?;
    let mut figures = first.figures("");
    let (mut mismatches, mut above) = (first.mismatches, first.above);
    figures.extend(rates(&zipf, rounds, lab)?);
    drop(zipf);
    let mut loads = cache_loads::recorded(4096, lab)?;
    loads.push(cache_loads::week(hours, 16384, lab)?);
    for load in &loads {
        let one = judged(load, lab)?;
        (mismatches, above) = (mismatches + one.mismatches, above + one.above);
        figures.extend(one.figures(&format!("{}_", load.name)));
    }
    let counts = [("exact_mismatches", mismatches), ("relaxed_above_exact", above)];
    let counts = counts.map(|(id, count)| Figure::alone(id, count as f64, "sizes"));
    Ok(counts.into_iter().chain(figures).collect())
}

/// Curves of a load, judged.
struct Judged {
    mismatches: usize,
    above: usize,
    relaxed: f64,
    aet: f64,
    /// `None`: no size has enough sampled lines.
    shards: Option<f64>,
    miniature: Option<f64>,
}

impl Judged {
    fn figures(&self, prefix: &str) -> Vec<Figure> {
        let errors = [
            ("shards_mae", self.shards),
            ("mini_mae", self.miniature),
            ("aet_mae", Some(self.aet)),
            ("relaxed_mae", Some(self.relaxed)),
        ];
        let known = errors.into_iter().filter_map(|(id, error)| Some((id, error?)));
        known.map(|(id, error)| Figure::alone(format!("{prefix}{id}"), error, ERROR)).collect()
    }
}

fn judged(load: &CacheLoad, lab: &Lab<'_>) -> Result<Judged, LabError> {
    let sizes = load.sizes(SIZES);
    let exact = curve(Method::Exact, LRU, &sizes, load)?;
    let mismatches = mismatches(&exact, &load.uses);
    let [relaxed, aet] = [Method::Relaxed, Method::Aet].map(|method| curve(method, LRU, &sizes, load));
    let (relaxed, aet) = (relaxed?, aet?);
    let shards = sampled_error(Method::Shards(SHARDS), SHARDS, LRU, load)?;
    let errors = MINIATURES.map(|policy| sampled_error(Method::Miniature(MINIATURE), MINIATURE, policy, load));
    let errors = errors.into_iter().collect::<Result<Option<Vec<f64>>, _>>()?;
    let judged = Judged {
        mismatches,
        above: above(&relaxed, &exact),
        relaxed: relaxed.mean_error(&exact),
        aet: aet.mean_error(&exact),
        shards,
        miniature: errors.map(|errors| worst(&errors)),
    };
    lab.say(format!("{}: {} of {SIZES} sizes differ from simulated caches", load.name, judged.mismatches));
    Ok(judged)
}

fn curve(method: Method, policy: &str, sizes: &[u64], load: &CacheLoad) -> Result<Curve, LabError> {
    let mut estimator = method.estimator(policy, sizes).map_err(LabError::data)?;
    load.uses.chunks(PIECE).for_each(|piece| estimator.add(piece));
    Ok(estimator.curve())
}

/// The error of a method with samples of this rate, at the sizes that have enough sampled lines.
fn sampled_error(method: Method, rate: f64, policy: &str, load: &CacheLoad) -> Result<Option<f64>, LabError> {
    let sizes: Vec<u64> = load.sizes(SIZES).into_iter().filter(|size| *size as f64 * rate >= SAMPLED).collect();
    if sizes.is_empty() {
        return Ok(None);
    }
    let exact = curve(Method::Exact, policy, &sizes, load)?;
    Ok(Some(curve(method, policy, &sizes, load)?.mean_error(&exact)))
}

/// Sizes at which a curve of LRU is not that of a simulated cache.
fn mismatches(curve: &Curve, uses: &[LineUse]) -> usize {
    let differs = |point: &&CurvePoint| {
        let lines = point.lines as u32;
        let mut cache = Simulator::new(Lru::new(lines), lines);
        cache.play(uses);
        let tally = cache.tally();
        [point.request_misses, point.byte_misses] != [tally.request_misses as f64, tally.byte_misses as f64]
    };
    curve.points.iter().filter(differs).count()
}

/// Sizes at which a curve has fewer misses than the exact one.
fn above(curve: &Curve, exact: &Curve) -> usize {
    let points = curve.points.iter().zip(&exact.points);
    let fewer = points
        .filter(|(point, exact)| point.request_misses < exact.request_misses || point.byte_misses < exact.byte_misses);
    fewer.count()
}

/// Rates of the exact method and of SHARDS.
fn rates(load: &CacheLoad, rounds: usize, lab: &Lab<'_>) -> Result<[Figure; 3], LabError> {
    let sizes = load.sizes(SIZES);
    let rates = in_rounds(rounds, &[false, true], |round, is_sampled| {
        let runs = if *is_sampled { SHARDS_RUNS } else { 1 };
        let before = CpuTime::now().own;
        for _ in 0..runs {
            match is_sampled {
                true => Shards::with_rate(SHARDS, &sizes).add(&load.uses),
                false => Exact::new(&sizes).add(&load.uses),
            }
        }
        let rate = f64::from(runs) * load.uses.len() as f64 / (CpuTime::now().own - before) / 1e6;
        let what = if *is_sampled { "SHARDS" } else { "exact" };
        lab.say(format!("round {round} of {rounds}, {what}: {rate:.1} million references per second"));
        Ok(rate)
    })?;
    let [exact, shards] = [0, 1].map(|arm| rates[arm].clone());
    let unit = "million references per second of CPU time";
    Ok([
        Figure::alone("exact_mrefs_per_s", median(exact.clone()), unit),
        Figure::alone("shards_mrefs_per_s", median(shards.clone()), unit),
        over("shards_speedup", &shards, exact, "exact, million references per second"),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load() -> CacheLoad {
        cache_loads::zipf(3, 40_000, 100_000)
    }

    #[test]
    fn a_point_that_is_off_by_one_miss_is_a_mismatch() {
        let load = load();
        let mut exact = curve(Method::Exact, LRU, &load.sizes(SIZES), &load).unwrap();
        assert_eq!(mismatches(&exact, &load.uses), 0);
        exact.points[3].request_misses += 1.0;
        exact.points[7].byte_misses -= 1.0;
        assert_eq!(mismatches(&exact, &load.uses), 2);
    }

    #[test]
    fn fewer_misses_in_requests_or_bytes_are_above() {
        let point = |request_misses, byte_misses| CurvePoint { lines: 1, request_misses, byte_misses };
        let curve = |points: [[f64; 2]; 3]| Curve {
            requests: 9.0,
            bytes: 9.0,
            points: points.map(|[requests, bytes]| point(requests, bytes)).to_vec(),
        };
        let exact = curve([[5.0, 5.0]; 3]);
        assert_eq!(above(&curve([[5.0, 5.0], [4.0, 6.0], [6.0, 4.0]]), &exact), 2);
    }

    #[test]
    fn samples_are_judged_where_they_have_a_hundred_lines() {
        let load = load();
        assert_eq!(sampled_error(Method::Shards(1e-4), 1e-4, LRU, &load).unwrap(), None);
        let error = sampled_error(Method::Miniature(0.1), 0.1, "arc", &load).unwrap();
        assert!(error.is_some_and(|error| error > 0.0 && error < 0.03), "{error:?}");
        assert_eq!(sampled_error(Method::Shards(1.0), 1.0, LRU, &load).unwrap(), Some(0.0));
    }
}
