//! Traces that are played against one stack, as `esker try` does it.

use esker_base::units::{GIB, KIB};
use esker_base::{Nanos, Stream};
use esker_predict::{ComparisonPlan, Load::Open};
use esker_trace_block::{Op, Record};

use super::{Series, cpu_ms};
use crate::played::{self, silent};
use esker_lab_kit::{Figure, Lab, LabError};

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

const AS_THEY_COME: [u64; 5] = [20_000, 40_000, 80_000, 160_000, 320_000];

const DISK: &str = "vol = disk-model size=2GiB @";
const SSD: &str = "vol = ssd-model size=2GiB | align block=512 @";
const LOADS: [Load; 3] = [
    Load { id: "try_overload_cpu", stack: DISK, gap: Nanos(10), grain: LEN, sizes: AT_ONCE },
    Load { id: "try_overload_unaligned_cpu", stack: SSD, gap: Nanos(10), grain: 512, sizes: AT_ONCE },
    Load { id: "try_requests_cpu", stack: SSD, gap: Nanos::micros(300), grain: LEN, sizes: AS_THEY_COME },
];

pub(crate) fn figures(rounds: u32, lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let figure = |load: &Load| {
        let series = Series::of(rounds, &load.sizes, |size| load.cost(lab.seed, size))?;
        Ok(series.figure(load.id, "ms", lab))
    };
    LOADS.iter().map(figure).collect()
}

impl Load {
    /// Milliseconds of CPU time for so many requests.
    fn cost(&self, seed: u64, requests: u64) -> Result<f64, LabError> {
        let plan = self.plan(seed, requests);
        let (cost, compared) = cpu_ms(|| plan.compare(&silent()));
        let run = compared?.runs.remove(0);
        let (id, answered, failed) = (self.id, run.all.requests, run.failed);
        let what = format!("{id}: {answered} of {requests} requests were answered, {failed} with an error");
        if answered == requests && failed == 0 { Ok(cost) } else { Err(LabError::Data(what)) }
    }

    fn plan(&self, seed: u64, requests: u64) -> ComparisonPlan {
        let mut random = Stream::named(seed, self.id);
        let record = |nth: u64| Record {
            at: self.gap * nth,
            volume: 0,
            op: if random.chance(0.5) { Op::Read } else { Op::Write },
            offset: random.below((REACH - LEN) / self.grain) * self.grain,
            len: LEN,
            who: 0,
        };
        let records = (0..requests).map(record).collect();
        played::plan(self.stack, seed, Open, records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_as_they_are_called() {
        let deepest = |load: &Load| {
            let compared = load.plan(1, 2_000).compare(&silent()).unwrap();
            (compared.traces[0].unaligned, compared.runs[0].inflight_max)
        };
        let [all_at_once, unaligned, served] = LOADS.each_ref().map(deepest);
        assert!(all_at_once.0 == 0 && all_at_once.1 > 1_900, "{all_at_once:?}");
        assert!(unaligned.0 > 1_500 && unaligned.1 > 1_900, "{unaligned:?}");
        assert!(served.0 == 0 && served.1 < 100, "{served:?}");
    }
}
