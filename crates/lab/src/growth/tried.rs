//! Traces that are played against one stack, as `esker try` does it.

use std::sync::Arc;

use esker_base::units::{GIB, KIB};
use esker_base::{Nanos, Stream};
use esker_predict::{Candidate, ComparisonPlan, SpeedChoice, Trace, Watch};
use esker_trace_block::{Op, Record};

use super::{Series, cpu_ms};
use esker_lab_kit::{Figure, LabError, rig};

/// One load, at several sizes.
struct Load {
    id: &'static str,
    stack: &'static str,
    /// Time between requests.
    gap: Nanos,
    /// Requests begin at multiples of it.
    grain: u64,
    sizes: [u64; 5],
}

/// Bytes that requests are spread over.
const REACH: u64 = 2 * GIB;
/// Bytes of a request.
const LEN: u64 = 4 * KIB;
/// Requests that come all at once stay below what a candidate lets in.
const AT_ONCE: [u64; 5] = [3_750, 7_500, 15_000, 30_000, 60_000];

const LOADS: [Load; 3] = [
    Load { id: "try_overload_cpu", stack: "vol = disk-model size=2GiB @", gap: Nanos(10), grain: LEN, sizes: AT_ONCE },
    Load {
        id: "try_overload_unaligned_cpu",
        stack: "vol = ssd-model size=2GiB | align block=512 @",
        gap: Nanos(10),
        grain: 512,
        sizes: AT_ONCE,
    },
    Load {
        id: "try_requests_cpu",
        stack: "vol = ssd-model size=2GiB | align block=512 @",
        gap: Nanos::micros(300),
        grain: LEN,
        sizes: [20_000, 40_000, 80_000, 160_000, 320_000],
    },
];

pub fn figures(seed: u64, rounds: u32, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let figure = |load: &Load| {
        let mut series = Series::default();
        for _ in 0..rounds {
            for size in load.sizes {
                series.note(size, load.cost(seed, size)?);
            }
        }
        Ok(series.figure(load.id, "ms", progress))
    };
    LOADS.iter().map(figure).collect()
}

impl Load {
    /// Milliseconds of CPU time for so many requests.
    fn cost(&self, seed: u64, requests: u64) -> Result<f64, LabError> {
        let plan = self.plan(seed, requests);
        let watch: Watch = Arc::new(|_, _| {});
        let (cost, compared) = cpu_ms(|| plan.compare(&watch));
        let run = compared?.runs.remove(0);
        match run.all.requests == requests && run.failed == 0 {
            true => Ok(cost),
            false => Err(LabError::Data(format!(
                "{}: {} of {requests} requests were answered, {} with an error",
                self.id, run.all.requests, run.failed
            ))),
        }
    }

    fn plan(&self, seed: u64, requests: u64) -> ComparisonPlan {
        let spec = rig::spec(self.stack);
        let candidate = Candidate { name: "vol".to_string(), what: self.stack.to_string(), spec };
        let mut random = Stream::named(seed, self.id);
        let record = |nth: u64| Record {
            at: self.gap * nth,
            volume: 0,
            op: if random.chance(0.5) { Op::Read } else { Op::Write },
            offset: random.below((REACH - LEN) / self.grain) * self.grain,
            len: LEN,
        };
        let mut plan = ComparisonPlan::of(vec![Trace::from_records("requests", (0..requests).map(record).collect())]);
        plan.candidates = vec![candidate];
        plan.seed = seed;
        plan.speed = SpeedChoice::Factor(1.0);
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_as_they_are_called() {
        let deepest = |load: &Load| {
            let watch: Watch = Arc::new(|_, _| {});
            let compared = load.plan(1, 2_000).compare(&watch).unwrap();
            (compared.traces[0].unaligned, compared.runs[0].inflight_max)
        };
        let [all_at_once, unaligned, served] = LOADS.each_ref().map(deepest);
        assert!(all_at_once.0 == 0 && all_at_once.1 > 1_900, "{all_at_once:?}");
        assert!(unaligned.0 > 1_500 && unaligned.1 > 1_900, "{unaligned:?}");
        assert!(served.0 == 0 && served.1 < 100, "{served:?}");
    }
}
