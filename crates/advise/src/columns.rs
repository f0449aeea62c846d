//! What a load asks, request by request, in columns that one pass over the traces fills.

use std::ops::Range;

use esker_base::units::{KIB, MIB};
use esker_caching::curve::Distances;
use esker_caching::ids::Ids;
use esker_caching::lines_in;
use esker_caching::streams::Streams;
use esker_predict::Prepared;
use esker_tiering::Classifier;
use esker_trace_block::{Op, Record};

use crate::error::AdviseError;
use crate::window::Busiest;

/// Sizes of lines at which distances are known.
pub const LINES: [u64; 5] = [4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB];
/// The distance of what was never used before.
pub const NEVER: u32 = u32::MAX;
/// Requests that are looked at. Of longer traces the busiest window counts.
const REQUESTS_MAX: usize = 10_000_000;
/// Streams that are told apart, as the tier does.
const HEADS: usize = 32;
/// A stream that has run for so many bytes passes by caches, as it does by default.
const BYPASS: u64 = 4 * MIB;

/// Reads and writes in the order of their times, a row for each.
///
/// Distances and streams are those of a second pass over the same traces: what a cache in its steady state sees.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    /// When each comes, in nanoseconds: of a whole trace since its start, of a window since its first request.
    pub at: Vec<u64>,
    /// First byte on the joined volume.
    pub offset: Vec<u64>,
    /// Bytes.
    pub bytes: Vec<u32>,
    /// Whether it is a write.
    pub is_write: Vec<bool>,
    /// Whether it is far from all streams before it.
    pub is_random: Vec<bool>,
    /// Whether it belongs to a stream that passes by caches.
    pub passes_by: Vec<bool>,
    /// For each size of a line: the lines that were used since its oldest one, or [`NEVER`]. Lines
    /// that only streams use count as never used.
    pub distance: [Vec<u32>; LINES.len()],
    /// The number of its first line among those of that size that are used.
    pub line: [Vec<u32>; LINES.len()],
    /// The slot of its first page in the area of a reorganised disk, or [`NEVER`]. Empty if none is proposed.
    pub planned: Vec<u32>,
    /// End of the last byte.
    pub reach: u64,
    /// Requests before and behind the window that is looked at.
    pub left_out: u64,
    /// When the window begins, in nanoseconds since the start of the traces.
    pub begun: u64,
}

impl Columns {
    /// Reads the traces of a plan, whose volumes are joined, two times.
    ///
    /// # Errors
    /// An unreadable trace, one without times, or no read and no write.
    pub fn of(prepared: &Prepared) -> Result<Columns, AdviseError> {
        Columns::of_busiest(prepared, REQUESTS_MAX)
    }

    /// The same of the busiest window of so many requests.
    pub(crate) fn of_busiest(prepared: &Prepared, most: usize) -> Result<Columns, AdviseError> {
        if prepared.speed().is_none() {
            return Err(AdviseError::Untimed);
        }
        let mut filling = Filling::new(window(prepared, most)?);
        prepared.visit_requests(|record| filling.warm(record))?;
        filling.begin();
        prepared.visit_requests(|record| filling.add(record))?;
        let reach = prepared.exports().iter().map(|export| export.reach_bytes).max().unwrap_or(0);
        let columns = Columns { reach, ..filling.columns };
        if columns.at.is_empty() { Err(AdviseError::Idle) } else { Ok(columns) }
    }

    /// Requests.
    pub fn len(&self) -> usize {
        self.at.len()
    }

    /// Whether there is no request.
    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    /// From the start to the last request, in nanoseconds.
    pub fn span_ns(&self) -> u64 {
        self.at.last().copied().unwrap_or(0).max(1)
    }

    /// Bytes of the lines that requests outside long streams use: what a cache can be asked to hold.
    pub fn footprint(&self) -> u64 {
        let most = self.distance[0].iter().filter(|distance| **distance != NEVER).max();
        most.map_or(0, |lines| u64::from(*lines) * LINES[0])
    }

    /// The share of reads that a cache of so many bytes answers, with lines of [`LINES`]`[line]`.
    pub fn read_hits(&self, line: usize, bytes: u64) -> f64 {
        let lines = u32::try_from(bytes / LINES[line]).unwrap_or(NEVER - 1);
        let reads = || self.is_write.iter().zip(&self.distance[line]).filter(|(is_write, _)| !**is_write);
        let hits = reads().filter(|(_, distance)| **distance <= lines).count();
        hits as f64 / reads().count().max(1) as f64
    }
}

/// Numbers of the requests that are looked at, among those that are counted.
fn window(prepared: &Prepared, most: usize) -> Result<Range<u64>, AdviseError> {
    let requests: u64 = prepared.facts().iter().map(|facts| facts.requests).sum();
    if requests <= most as u64 {
        return Ok(0..u64::MAX);
    }
    let mut busiest = Busiest::new(most);
    prepared.visit_requests(|record| {
        if is_counted(record) {
            busiest.add(record.at.0);
        }
    })?;
    Ok(busiest.range())
}

fn is_counted(record: &Record) -> bool {
    record.op.is_transfer() && record.len > 0
}

/// Columns that are being filled.
struct Filling {
    columns: Columns,
    window: Range<u64>,
    /// Requests of this pass that were counted.
    seen: u64,
    distances: [Distances; LINES.len()],
    ids: [Ids; LINES.len()],
    heads: Classifier,
    streams: Streams,
}

impl Filling {
    fn new(window: Range<u64>) -> Filling {
        Filling {
            columns: Columns::default(),
            window,
            seen: 0,
            distances: LINES.map(|_| Distances::new()),
            ids: LINES.map(|_| Ids::new()),
            heads: Classifier::new(HEADS),
            streams: Streams::new(HEADS),
        }
    }

    /// Counts a request, and answers whether it is looked at.
    fn is_in_window(&mut self, record: &Record) -> bool {
        if !is_counted(record) {
            return false;
        }
        self.seen += 1;
        self.window.contains(&(self.seen - 1))
    }

    /// Whether a request passes by caches, and its distances.
    fn uses(&mut self, record: &Record) -> (bool, [u32; LINES.len()]) {
        let passes_by = self.streams.note(record.range().start()..record.range().end()) > BYPASS;
        let mut at = 0;
        let distances = self.distances.each_mut().map(|distances| {
            let line = LINES[at] as u32;
            at += 1;
            let of = |distance: Option<u64>| distance.map_or(NEVER, |lines| lines.min(u64::from(NEVER - 1)) as u32);
            let lines = lines_in(0, record.offset, record.len, line);
            let mut use_line = |key| if passes_by { distances.look(key) } else { distances.reference(key) };
            lines.map(|line| of(use_line(line.key))).max().unwrap_or(NEVER)
        });
        (passes_by, distances)
    }

    fn warm(&mut self, record: &Record) {
        if self.is_in_window(record) {
            self.uses(record);
        }
    }

    /// The first pass is over, and its requests are as many as those of the second one.
    fn begin(&mut self) {
        let window = self.window.start..self.window.end.min(self.seen);
        let (columns, requests) = (&mut self.columns, window.end.saturating_sub(window.start) as usize);
        columns.left_out = self.seen - requests as u64;
        columns.at.reserve(requests);
        columns.offset.reserve(requests);
        columns.distance.iter_mut().for_each(|column| column.reserve(requests));
        self.seen = 0;
    }

    fn add(&mut self, record: &Record) {
        if !self.is_in_window(record) {
            return;
        }
        let (passes_by, distances) = self.uses(record);
        let is_random = self.heads.is_random(record.offset);
        let columns = &mut self.columns;
        if columns.left_out > 0 && columns.at.is_empty() {
            columns.begun = record.at.0;
        }
        columns.at.push(record.at.0 - columns.begun);
        columns.offset.push(record.offset);
        columns.bytes.push(u32::try_from(record.len).unwrap_or(u32::MAX));
        columns.is_write.push(record.op == Op::Write);
        columns.is_random.push(is_random);
        columns.passes_by.push(passes_by);
        columns.distance.iter_mut().zip(distances).for_each(|(column, distance)| column.push(distance));
        for ((column, ids), line) in columns.line.iter_mut().zip(&mut self.ids).zip(LINES) {
            column.push(ids.of(record.offset / line).0);
        }
    }
}
