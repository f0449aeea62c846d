//! About how long requests would wait, from one pass over the columns.

use std::collections::VecDeque;

use esker_base::units::KIB;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::columns::{Columns, LINES, NEVER};
use crate::placing::{FAST, HOME, Placed, Tiering};
use crate::proposal::{Making, Mode, OfferedDevices, Shape};
use crate::queue::{Devices, Done};
use crate::stacks::{DIRTY_AGE_S, EPOCH_S, LOOK_S};

/// Lines that the layer fills at once.
const FILLS_MAX: u64 = 8;
/// Disks that were not used for so long have time to fetch pages, in nanoseconds: the layer's.
const QUIET_NS: f64 = 1e9;
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
    let devices = |ends: &OfferedDevices| Devices::new(&making.services[ends.offer], ends.count);
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
            let cache = CacheUse { line: *line, mode: *mode, bytes: making.fast_bytes(fast), below: None };
            cached(run, making, columns, &cache)
        }
        Shape::Tier { home, fast, extent } => {
            let run = Run::new(vec![(*fast, devices(fast)), (*home, devices(home))]);
            tiered(run, making, columns, *extent)
        }
        Shape::Both { home, fast, line, extent } => {
            let run = Run::new(vec![(*fast, devices(fast)), (*home, devices(home))]);
            let copies = making.copy_bytes(fast);
            let below = placed([*fast, *home], making, columns, making.fast_bytes(fast) - copies, *extent);
            let cache = CacheUse { line: *line, mode: Mode::WriteBack, bytes: copies, below: Some((below, *extent)) };
            cached(run, making, columns, &cache)
        }
        Shape::Resting { home, fast } => {
            let spin_up = making.offers[home.offer].rest.map_or(0.0, |rest| rest.spin_up_ns);
            let disks = devices(home).resting(making.rest_after_ns(home.offer), spin_up);
            resting(Run::new(vec![(*fast, devices(fast)), (*home, disks)]), making, columns)
        }
        Shape::Reorganised(ends) => reorganised(Run::new(vec![(*ends, devices(ends))]), making, columns),
    }
}

struct CacheUse {
    line: usize,
    mode: Mode,
    bytes: u64,
    /// If a tier lies below: where extents are, and their bytes.
    below: Option<(Placed, u64)>,
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
fn cached(mut run: Run<'_>, making: &Making<'_>, columns: &Columns, cache: &CacheUse) -> Screened {
    let line = LINES[cache.line];
    let most = u32::try_from(cache.bytes / line).unwrap_or(u32::MAX - 1);
    let (fast, waiting_ns) = (usize::from(FAST), DIRTY_AGE_S * 1e9 / making.speed);
    let home_of = |row: usize| cache.below.as_ref().map_or(HOME, |(placed, _)| placed.end[row]).into();
    let count = columns.line[cache.line].iter().max().map_or(0, |last| *last as usize + 1);
    let mut lines = vec![Line { kept_from: f64::INFINITY, changed: f64::NEG_INFINITY }; count];
    let (mut reads, mut hits, mut fills) = (0u64, 0u64, VecDeque::new());
    for pass in 0..2 {
        run.begin_pass(columns, pass);
        (reads, hits) = (0, 0);
        let mut moves = Moves::of(cache.below.as_ref());
        for row in 0..columns.len() {
            let home: usize = home_of(row);
            run.catch_up(columns.at[row], &mut moves);
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
                    if at - known.changed > waiting_ns {
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
    let placed = placed(ends, making, columns, making.fast_bytes(&ends[0]), extent);
    let below = (placed, extent);
    let mut moves = Moves::of(Some(&below));
    let placed = &below.0;
    let (mut reads, mut hits) = (0u64, 0u64);
    for row in 0..columns.len() {
        run.catch_up(columns.at[row], &mut moves);
        reads += u64::from(!columns.is_write[row]);
        hits += u64::from(!columns.is_write[row] && placed.end[row] == FAST);
        run.ask(columns, row, placed.end[row].into());
    }
    run.conclude(making, columns, Some(hits as f64 / reads.max(1) as f64))
}

/// Where a tier of a fast end and a slow one has extents.
fn placed(ends: [OfferedDevices; 2], making: &Making<'_>, columns: &Columns, fast_bytes: u64, extent: u64) -> Placed {
    let sheets = ends.map(|ends| making.services[ends.offer].sheet(&making.offers[ends.offer]));
    let seconds = |seconds: f64| (seconds * 1e9 / making.speed) as u64;
    let (look_ns, epoch_ns) = (seconds(LOOK_S), seconds(EPOCH_S));
    let devices = ends.map(|ends| ends.count);
    Tiering { sheets, devices, fast_bytes, extent, look_ns, epoch_ns, columns }.place()
}

/// Plays the columns two times. The fast side has what was written, and what was read before the disks paused last:
/// then they still turn, and pages are fetched.
fn resting(mut run: Run<'_>, making: &Making<'_>, columns: &Columns) -> Screened {
    let (fast, home) = (usize::from(FAST), usize::from(HOME));
    let most = u32::try_from(making.fast_bytes(&run.ends[fast].0) / LINES[0]).unwrap_or(NEVER - 1);
    let count = columns.line[0].iter().max().map_or(0, |last| *last as usize + 1);
    // For each page the number of pauses from which on the fast side has it.
    let mut kept_from = vec![u32::MAX; count];
    let quiet = (making.rest_after_ns(run.ends[home].0.offer) / 4.0).min(QUIET_NS);
    let (mut pauses, mut used) = (0u32, f64::NEG_INFINITY);
    let (mut reads, mut hits) = (0u64, 0u64);
    for pass in 0..2 {
        run.begin_pass(columns, pass);
        (reads, hits) = (0, 0);
        for row in 0..columns.len() {
            let (at, is_write) = (run.at(columns, row), columns.is_write[row]);
            let kept_from = &mut kept_from[columns.line[0][row] as usize];
            if columns.distance[0][row] > most {
                *kept_from = u32::MAX;
            }
            let paused = pauses + u32::from(at - used > quiet);
            let has = *kept_from <= paused;
            *kept_from = (*kept_from).min(if is_write { 0 } else { paused + 1 });
            reads += u64::from(!is_write);
            hits += u64::from(!is_write && has);
            if is_write || has {
                run.ask(columns, row, fast);
            } else {
                (pauses, used) = (paused, at);
                run.ask(columns, row, home);
            }
        }
    }
    run.conclude(making, columns, Some(hits as f64 / reads.max(1) as f64))
}

/// Pages of plans lie in the area. Writes of other pages follow each other behind them, and are read there.
fn reorganised(mut run: Run<'_>, making: &Making<'_>, columns: &Columns) -> Screened {
    let (area, begin) = (making.area_bytes(), making.volume / 2);
    let buffer = begin + u64::from(making.planned_slots()) * LINES[0];
    let slots = (area - (buffer - begin)) / LINES[0];
    let count = columns.line[0].iter().max().map_or(0, |last| *last as usize + 1);
    // How many pages writes have brought to the buffer, which goes round, and of each page how many with it, or none.
    let (mut all, mut brought) = (0, vec![0; count]);
    for row in 0..columns.len() {
        let (offset, slot) = (columns.offset[row], columns.planned[row]);
        let brought = &mut brought[columns.line[0][row] as usize];
        let mut is_there = *brought > 0 && all - *brought < slots;
        if columns.is_write[row] && slot == NEVER && !is_there {
            (*brought, is_there) = (all + 1, true);
            all += u64::from(columns.bytes[row]).div_ceil(LINES[0]);
        }
        let place = match slot {
            NEVER if is_there => buffer + *brought % slots * LINES[0],
            // What lies behind the area is so much further.
            NEVER => offset + if offset >= begin { area } else { 0 },
            slot => begin + u64::from(slot) * LINES[0],
        };
        run.ask_at(columns, row, 0, place);
    }
    run.conclude(making, columns, None)
}

/// What moves between the ends of a tier, in the order of time.
struct Moves<'p> {
    left: &'p [(u64, u32)],
    extent: u64,
}

impl<'p> Moves<'p> {
    fn of(below: Option<&'p (Placed, u64)>) -> Moves<'p> {
        below.map_or(Moves { left: &[], extent: 0 }, |(placed, extent)| Moves { left: &placed.moves, extent: *extent })
    }
}

/// Requests that wait.
struct Run<'s> {
    ends: Vec<(OfferedDevices, Devices<'s>)>,
    waits: Histogram<u64>,
    moved: u64,
    /// When the pass began, in nanoseconds, and what each end had done until then.
    begun: f64,
    before: Vec<Done>,
}

impl<'s> Run<'s> {
    fn new(ends: Vec<(OfferedDevices, Devices<'s>)>) -> Run<'s> {
        let before = vec![Done::default(); ends.len()];
        Run { ends, waits: Histogram::new(3).expect("three digits are some"), moved: 0, begun: 0.0, before }
    }

    /// Forgets what was counted. Queues stay as they are.
    fn begin_pass(&mut self, columns: &Columns, pass: u32) {
        self.begun = f64::from(pass) * columns.span_ns() as f64;
        self.waits.reset();
        self.moved = 0;
        self.before = self.ends.iter().map(|(_, devices)| devices.done(self.begun)).collect();
    }

    fn at(&self, columns: &Columns, row: usize) -> f64 {
        self.begun + columns.at[row] as f64
    }

    /// Sends a request to one of the ends.
    fn ask(&mut self, columns: &Columns, row: usize, end: usize) {
        self.ask_at(columns, row, end, columns.offset[row]);
    }

    /// Sends a request to another place of one of the ends.
    fn ask_at(&mut self, columns: &Columns, row: usize, end: usize, offset: u64) {
        let (at, devices) = (self.at(columns, row), &mut self.ends[end].1);
        let bytes = u64::from(columns.bytes[row]).next_multiple_of(4 * KIB);
        let done =
            if columns.is_write[row] { devices.write(at, offset, bytes) } else { devices.read(at, offset, bytes) };
        self.waits.record((done - at + LAYERS_NS) as u64).expect("a histogram grows");
    }

    /// Has an end write what no client waits for.
    fn copy(&mut self, end: usize, offset: u64, bytes: u64) {
        self.ends[end].1.later(offset, bytes);
        self.moved += bytes;
    }

    /// Has extents move that move until a time of the pass.
    fn catch_up(&mut self, at: u64, moves: &mut Moves<'_>) {
        while let Some((&(_, count), left)) = moves.left.split_first().filter(|((when, _), _)| *when <= at) {
            moves.left = left;
            for number in 0..u64::from(count) {
                for end in [FAST, HOME] {
                    self.ends[usize::from(end)].1.later(number * moves.extent, moves.extent);
                }
            }
            self.moved += u64::from(count) * moves.extent;
        }
    }

    fn conclude(self, making: &Making<'_>, columns: &Columns, fast_share: Option<f64>) -> Screened {
        let span = columns.span_ns() as f64;
        // Of each end: its offer, what all of its devices did, and the time of all.
        let ends = self.ends.iter().zip(&self.before).map(|((ends, devices), before)| {
            let (all, now) = (f64::from(ends.count) * span, devices.done(self.begun + span));
            let busy = (now.busy - before.busy).min(all);
            let rested = (now.rested - before.rested).clamp(0.0, all - busy);
            (&making.offers[ends.offer], Done { busy, rested, spin_ups: now.spin_ups - before.spin_ups }, all)
        });
        let energy = ends.clone().map(|(offer, done, all)| {
            let awake = done.busy * offer.active_w + (all - done.busy - done.rested) * offer.idle_w;
            let rest = offer.rest.map_or(0.0, |rest| done.rested * rest.watts + done.spin_ups * rest.spin_up_j * 1e9);
            (awake + rest) / 1e9
        });
        let at = |quantile: f64| self.waits.value_at_quantile(quantile) as f64;
        Screened {
            mean_ns: self.waits.mean(),
            p50_ns: at(0.50),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            busy: ends.map(|(_, done, all)| done.busy / all).fold(0.0, f64::max),
            energy_j: energy.sum(),
            fast_share,
            moved_bytes: self.moved,
        }
    }
}
