//! The source of generated records.

use super::clock::Clock;
use super::flaw::ProfileFlaw;
use super::places::{Ask, Places};
use super::profile::{Burst, Flow, Profile, ProfileError, check_hours};
use crate::fault::TraceError;
use crate::record::{Op, Record};
use crate::source::Source;
use esker_base::{Nanos, Stream};
use std::collections::BTreeSet;

/// Yields the records of a profile. Its memory does not grow with the number of records: it holds a few words for each
/// pair of flow and volume, for each burst under way, and one byte for each 32 KiB of a hot spot of SPC-1.
pub struct Generator {
    name: String,
    volumes: Vec<String>,
    clock: Clock,
    /// What the clock says next: a request, or the first one of a burst.
    next: Option<(Nanos, usize)>,
    /// Bursts under way: the time of the next request, the flow, and the number of the burst and of the request.
    bursts: BTreeSet<(Nanos, usize, u64, u32)>,
    begun: u64,
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
            next: clock.next(),
            clock,
            bursts: BTreeSet::new(),
            begun: 0,
            end,
            flows,
        })
    }

    /// The time of the next request and its flow.
    fn next_request(&mut self) -> Option<(Nanos, usize)> {
        let is_first = |next: &(Nanos, usize)| self.bursts.first().is_none_or(|burst| *next < (burst.0, burst.1));
        let (at, flow, burst, number) = match self.next.filter(is_first) {
            Some((at, flow)) => {
                self.next = self.clock.next();
                self.begun += 1;
                (at, flow, self.begun, 0)
            }
            None => self.bursts.pop_first()?,
        };
        if let Some(Burst { requests, within_s }) = self.flows[flow].burst
            && number + 1 < requests
        {
            let behind = at + Nanos::from_secs_f64(within_s / f64::from(requests - 1));
            if behind < self.end {
                self.bursts.insert((behind, flow, burst, number + 1));
            }
        }
        Some((at, flow))
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
        })
    }

    fn next(&mut self, at: Nanos) -> Record {
        let chosen = self.choice.unit();
        let index = self.parts.partition_point(|part| *part <= chosen).min(self.ports.len() - 1);
        let port = &mut self.ports[index];
        if port.places.moves_on(&mut port.draw) {
            port.op = if self.ops.chance(self.reads) { Op::Read } else { Op::Write };
        }
        let size = self.lengths.unit();
        let class = self.sizes.partition_point(|(_, part)| *part <= size).min(self.sizes.len() - 1);
        let len = self.sizes[class].0;
        let offset = port.places.offset(&Ask { at, op: port.op, len }, &mut port.draw);
        Record { at, volume: port.volume, op: port.op, offset, len }
    }
}

impl Source for Generator {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        Ok(self.next_request().map(|(at, flow)| self.flows[flow].next(at)))
    }

    fn volumes(&self) -> &[String] {
        &self.volumes
    }

    fn name(&self) -> &str {
        &self.name
    }
}
