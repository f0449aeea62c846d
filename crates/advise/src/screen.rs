//! About how long requests would wait, from one pass over the columns.

use std::collections::VecDeque;

use esker_base::units::KIB;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::columns::{Columns, LINES};
use crate::placing::{FAST, HOME, Tiering};
use crate::proposal::{Ends, Making, Mode, Shape};
use crate::queue::Devices;

/// Lines that changed so recently wait for more changes before home gets them: the default of the layer.
const WAITING_NS: f64 = 5e9;
/// Lines that the layer fills at once.
const FILLS_MAX: u64 = 8;
/// What the layers of a stack take for each request, in nanoseconds.
const LAYERS_NS: f64 = 2_000.0;

/// What a screen tells of a proposal. All of it is estimated.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Screened {
    /// Mean response, nanoseconds.
    pub mean_ns: f64,
    /// Half of the requests are faster.
    pub p50_ns: f64,
    /// 95 % are faster.
    pub p95_ns: f64,
    /// 99 % are faster.
    pub p99_ns: f64,
    /// Time at work of the busiest device, as a share.
    pub busy: f64,
    /// Joules of all devices.
    pub energy_j: f64,
    /// The share of reads that the fast side answers, if there is one.
    pub fast_share: Option<f64>,
    /// Bytes that are copied or moved between both sides.
    pub moved_bytes: u64,
}

/// Screens a proposal.
pub(crate) fn screen(making: &Making<'_>, columns: &Columns, shape: &Shape) -> Screened {
    let devices = |ends: &Ends| Devices::new(&making.services[ends.offer], ends.count);
    match shape {
        Shape::Plain(ends) => {
            let mut run = Run::new(vec![(*ends, devices(ends))]);
            for row in 0..columns.len() {
                run.ask(columns, row, 0);
            }
            run.conclude(making, columns, None)
        }
        Shape::Cache { home, fast, line, mode } => {
            let run = Run::new(vec![(*fast, devices(fast)), (*home, devices(home))]);
            cached(run, making, columns, CacheUse { line: *line, mode: *mode, bytes: making.fast_bytes(fast) })
        }
        Shape::Tier { home, fast, extent } => {
            let run = Run::new(vec![(*fast, devices(fast)), (*home, devices(home))]);
            tiered(run, making, columns, *extent)
        }
    }
}

struct CacheUse {
    line: usize,
    mode: Mode,
    bytes: u64,
}

/// What is known of a line.
#[derive(Clone, Copy)]
struct Line {
    /// From when on a read finds its copy, in nanoseconds.
    kept_from: f64,
    /// When it changed last, in nanoseconds.
    changed: f64,
}

/// Plays the columns two times. The first time fills the cache.
fn cached(mut run: Run<'_>, making: &Making<'_>, columns: &Columns, cache: CacheUse) -> Screened {
    let line = LINES[cache.line];
    let most = u32::try_from(cache.bytes / line).unwrap_or(u32::MAX - 1);
    let (fast, home) = (usize::from(FAST), usize::from(HOME));
    let count = columns.line[cache.line].iter().max().map_or(0, |last| *last as usize + 1);
    let mut lines = vec![Line { kept_from: f64::INFINITY, changed: f64::NEG_INFINITY }; count];
    let (mut reads, mut hits, mut fills) = (0u64, 0u64, VecDeque::new());
    for pass in 0..2 {
        run.begin_pass(columns, pass);
        (reads, hits) = (0, 0);
        for row in 0..columns.len() {
            let (offset, bytes) = (columns.offset[row], u64::from(columns.bytes[row]));
            let (at, passes_by) = (run.at(columns, row), columns.passes_by[row]);
            let known = &mut lines[columns.line[cache.line][row] as usize];
            if columns.distance[cache.line][row] > most {
                known.kept_from = f64::INFINITY;
            }
            let is_kept = known.kept_from <= at;
            if columns.is_write[row] {
                let aside = cache.mode == Mode::WriteBack && (is_kept || !passes_by);
                run.ask(columns, row, if aside { fast } else { home });
                if !aside && is_kept {
                    run.copy(fast, offset, bytes);
                } else if aside {
                    // A write brings a line only if it has all of it.
                    if bytes >= line {
                        known.kept_from = known.kept_from.min(at);
                    }
                    if at - known.changed > WAITING_NS {
                        run.copy(home, offset, bytes);
                    }
                    known.changed = at;
                }
                continue;
            }
            reads += 1;
            hits += u64::from(is_kept);
            run.ask(columns, row, if is_kept { fast } else { home });
            while fills.front().is_some_and(|end| *end <= at) {
                fills.pop_front();
            }
            // A request that misses several lines has each of them filled.
            let wanted = bytes.div_ceil(line);
            if !is_kept && !passes_by && fills.len() as u64 + wanted <= FILLS_MAX {
                let end = run.ends[home].1.read(at, offset / line * line, wanted * line);
                fills.extend(std::iter::repeat_n(end, wanted as usize));
                run.copy(fast, offset, wanted * line);
                known.kept_from = end;
            }
        }
    }
    run.conclude(making, columns, Some(hits as f64 / reads.max(1) as f64))
}

fn tiered(mut run: Run<'_>, making: &Making<'_>, columns: &Columns, extent: u64) -> Screened {
    let ends = [run.ends[0].0, run.ends[1].0];
    let sheets = ends.map(|ends| making.services[ends.offer].sheet(&making.offers[ends.offer]));
    let seconds = |seconds: f64| (seconds * 1e9 / making.speed) as u64;
    let placed = Tiering {
        sheets,
        devices: ends.map(|ends| ends.count),
        fast_bytes: making.fast_bytes(&ends[0]),
        extent,
        look_ns: seconds(60.0),
        epoch_ns: seconds(1800.0),
        columns,
    }
    .place();
    let mut moves = placed.moves.iter().copied().peekable();
    let (mut reads, mut hits) = (0u64, 0u64);
    for row in 0..columns.len() {
        while let Some((_, count)) = moves.next_if(|(at, _)| *at <= columns.at[row]) {
            for number in 0..u64::from(count) {
                run.copy(usize::from(FAST), number * extent, extent);
                run.copy(usize::from(HOME), number * extent, extent);
            }
            run.moved -= u64::from(count) * extent;
        }
        reads += u64::from(!columns.is_write[row]);
        hits += u64::from(!columns.is_write[row] && placed.end[row] == FAST);
        run.ask(columns, row, placed.end[row].into());
    }
    run.conclude(making, columns, Some(hits as f64 / reads.max(1) as f64))
}

/// Requests that wait.
struct Run<'s> {
    ends: Vec<(Ends, Devices<'s>)>,
    waits: Histogram<u64>,
    moved: u64,
    /// When the pass began, and the time at work of each end until then, in nanoseconds.
    begun: f64,
    worked: Vec<f64>,
}

impl<'s> Run<'s> {
    fn new(ends: Vec<(Ends, Devices<'s>)>) -> Run<'s> {
        let worked = vec![0.0; ends.len()];
        Run { ends, waits: Histogram::new(3).expect("three digits are some"), moved: 0, begun: 0.0, worked }
    }

    /// Forgets what was counted. Queues stay as they are.
    fn begin_pass(&mut self, columns: &Columns, pass: u32) {
        self.begun = f64::from(pass) * columns.span_ns() as f64;
        self.waits.reset();
        self.moved = 0;
        self.worked = self.ends.iter().map(|(_, devices)| devices.worked_ns()).collect();
    }

    fn at(&self, columns: &Columns, row: usize) -> f64 {
        self.begun + columns.at[row] as f64
    }

    /// Sends a request to one of the ends.
    fn ask(&mut self, columns: &Columns, row: usize, end: usize) {
        let (at, devices) = (self.at(columns, row), &mut self.ends[end].1);
        let (offset, bytes) = (columns.offset[row], u64::from(columns.bytes[row]).next_multiple_of(4 * KIB));
        let done =
            if columns.is_write[row] { devices.write(at, offset, bytes) } else { devices.read(at, offset, bytes) };
        self.waits.record((done - at + LAYERS_NS) as u64).expect("a histogram grows");
    }

    /// Has an end write what no client waits for.
    fn copy(&mut self, end: usize, offset: u64, bytes: u64) {
        self.ends[end].1.later(offset, bytes);
        self.moved += bytes;
    }

    fn conclude(self, making: &Making<'_>, columns: &Columns, fast_share: Option<f64>) -> Screened {
        let span = columns.span_ns() as f64;
        // Of each end: its offer, the time at work of all of its devices, and the time of all.
        let ends = self.ends.iter().zip(&self.worked).map(|((ends, devices), before)| {
            let all = f64::from(ends.count) * span;
            (&making.offers[ends.offer], (devices.worked_ns() - before).min(all), all)
        });
        let energy =
            ends.clone().map(|(offer, worked, all)| (worked * offer.active_w + (all - worked) * offer.idle_w) / 1e9);
        let at = |quantile: f64| self.waits.value_at_quantile(quantile) as f64;
        Screened {
            mean_ns: self.waits.mean(),
            p50_ns: at(0.50),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            busy: ends.map(|(_, worked, all)| worked / all).fold(0.0, f64::max),
            energy_j: energy.sum(),
            fast_share,
            moved_bytes: self.moved,
        }
    }
}
