//! The source of generated records.

use super::clock::Clock;
use super::flaw::ProfileFlaw;
use super::places::{Ask, Places};
use super::profile::{Burst, Flow, Profile, ProfileError, check_hours};
use crate::fault::TraceError;
use crate::record::{Op, Record};
use crate::source::Source;
use esker_base::{Nanos, Stream};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Yields the records of a profile. Its memory does not grow with the number of records. It holds a few words for each
/// pair of flow and volume and for each burst under way, and one byte for each 32 KiB of a hot spot of SPC-1.
pub struct Generator {
    name: String,
    volumes: Vec<String>,
    clock: Clock,
    /// What the clock tells next: a request, or the first one of a run or burst.
    run: Option<(Nanos, usize)>,
    /// Requests of runs and bursts that are under way: their times, in which order they were known, their flows, and
    /// their numbers in a burst.
    runs: BinaryHeap<Reverse<(Nanos, u64, usize, u32)>>,
    known: u64,
    end: Nanos,
    flows: Vec<Running>,
}

/// A flow at work.
struct Running {
    /// The volumes that it reaches, and the part of its requests up to each one.
    ports: Vec<Port>,
    parts: Vec<f64>,
    reads: f64,
    sizes: Vec<(u64, f64)>,
    burst: Option<Burst>,
    choice: Stream,
    ops: Stream,
    lengths: Stream,
    who: u32,
    /// Mean nanoseconds between requests of a run.
    gap: f64,
    gaps: Stream,
    /// The port of the run that is under way, and runs that wait for its end.
    running: Option<usize>,
    waiting: u32,
}

/// A flow on one volume.
struct Port {
    volume: u32,
    op: Op,
    places: Box<dyn Places>,
    draw: Stream,
}

/// Cumulative parts of `weights`.
fn parts(weights: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let all: f64 = weights.clone().sum();
    let up_to = |sum: &mut f64, weight: f64| {
        *sum += weight;
        Some(*sum / all)
    };
    weights.scan(0.0, up_to).collect()
}

impl Generator {
    /// A trace called `name`, of `hours`.
    ///
    /// # Errors
    /// If the profile's flows do not fit on its volumes, or its numbers make no sense.
    pub fn new(name: &str, profile: &Profile, seed: u64, hours: f64) -> Result<Generator, ProfileError> {
        let wrong = |part: String, wrong| ProfileError::Number { name: name.to_string(), part, wrong };
        check_hours(hours).map_err(|flaw| wrong("length".into(), flaw))?;
        let volumes = profile.volumes();
        let run = |(number, flow): (usize, &Flow)| {
            let running = Running::new(number, flow, &profile.numbers(&flow.volume), &volumes, seed);
            running.map_err(|flaw| wrong(format!("flow {} (to {})", number + 1, flow.volume), flaw))
        };
        let flows = profile.flow.iter().enumerate().map(run).collect::<Result<_, _>>()?;
        let rates: Vec<_> = profile.flow.iter().map(Flow::rates).collect();
        let end = Nanos::from_secs_f64(hours * 3_600.0);
        let mut clock = Clock::new(&rates, end, seed);
        Ok(Generator {
            name: name.to_string(),
            volumes: volumes.into_iter().map(|(name, _)| name).collect(),
            run: clock.next(),
            clock,
            runs: BinaryHeap::new(),
            known: 0,
            end,
            flows,
        })
    }

    /// The next request, its flow, and its number in a burst: the first of a run or burst, or a later one.
    fn next(&mut self) -> Option<(Nanos, usize, u32)> {
        loop {
            let later = self.runs.peek().map(|Reverse((at, _, flow, nth))| (*at, *flow, *nth));
            match (self.run, later) {
                (Some(begun), later) if later.is_none_or(|later| begun.0 < later.0) => {
                    self.run = self.clock.next();
                    let flow = &mut self.flows[begun.1];
                    if flow.running.is_none() {
                        return Some((begun.0, begun.1, 0));
                    }
                    flow.waiting += 1;
                }
                (_, Some(later)) => {
                    self.runs.pop();
                    return (later.0 < self.end).then_some(later);
                }
                (_, None) => return None,
            }
        }
    }

    fn push_later(&mut self, at: Nanos, flow: usize, nth: u32) {
        self.known += 1;
        self.runs.push(Reverse((at, self.known, flow, nth)));
    }
}

impl Running {
    fn new(
        number: usize,
        flow: &Flow,
        reached: &[u32],
        volumes: &[(String, u64)],
        seed: u64,
    ) -> Result<Running, ProfileFlaw> {
        let longest = flow.sizes.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0);
        let stream = |of: &str| Stream::named(seed, &format!("generate/flow {number}/{of}"));
        let port = |volume: &u32| {
            let (name, bytes) = &volumes[*volume as usize];
            let mut layout = Stream::named(seed, &format!("generate/volume {name}/layout"));
            let mut draw = stream(&format!("volume {name}/places"));
            let places = flow.places.build(*bytes, longest, &mut layout, &mut draw)?;
            Ok(Port { volume: *volume, op: Op::Read, places, draw })
        };
        Ok(Running {
            ports: reached.iter().map(port).collect::<Result<_, ProfileFlaw>>()?,
            parts: parts(reached.iter().map(|volume| volumes[*volume as usize].1 as f64)),
            reads: flow.reads,
            burst: flow.burst,
            sizes: flow
                .sizes
                .iter()
                .map(|(bytes, _)| *bytes)
                .zip(parts(flow.sizes.iter().map(|size| size.1)))
                .collect(),
            choice: stream("volumes"),
            ops: stream("operations"),
            lengths: stream("sizes"),
            who: flow.who,
            gap: flow.gap_ms * 1e6,
            gaps: stream("gaps"),
            running: None,
            waiting: 0,
        })
    }

    /// The request at a time, and when the next one of its run comes.
    fn next(&mut self, at: Nanos) -> (Record, Option<Nanos>) {
        let index = self.running.unwrap_or_else(|| {
            let chosen = self.choice.unit();
            self.parts.partition_point(|part| *part <= chosen).min(self.ports.len() - 1)
        });
        let port = &mut self.ports[index];
        let given = port.places.given(at.as_secs_f64(), &mut port.draw);
        if port.places.moves_on(&mut port.draw) {
            let drawn = given.map_or_else(|| self.ops.unit(), |given| given[0]);
            port.op = if drawn < self.reads { Op::Read } else { Op::Write };
        }
        let size = given.map_or_else(|| self.lengths.unit(), |given| given[1]);
        let class = self.sizes.partition_point(|(_, part)| *part <= size).min(self.sizes.len() - 1);
        let len = self.sizes[class].0;
        let offset = port.places.offset(&Ask { at, op: port.op, len }, &mut port.draw);
        let goes_on = port.places.goes_on();
        self.running = goes_on.then_some(index);
        let has_next = goes_on || self.waiting > 0;
        self.waiting -= u32::from(!goes_on && has_next);
        let next = has_next.then(|| at + Nanos((self.gaps.exponential() * self.gap) as u64));
        (Record { at, volume: port.volume, op: port.op, offset, len, who: self.who }, next)
    }
}

impl Source for Generator {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        let Some((at, number, nth)) = self.next() else { return Ok(None) };
        let (record, next) = self.flows[number].next(at);
        if let Some(next) = next {
            self.push_later(next, number, 0);
        }
        if let Some(Burst { requests, within_s }) = self.flows[number].burst
            && nth + 1 < requests
        {
            let behind = at + Nanos::from_secs_f64(within_s / f64::from(requests - 1));
            self.push_later(behind, number, nth + 1);
        }
        Ok(Some(record))
    }

    fn volumes(&self) -> &[String] {
        &self.volumes
    }

    fn name(&self) -> &str {
        &self.name
    }
}
