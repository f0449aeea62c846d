//! The text of biosnoop (of bcc, in Python or with libbpf): one line for each request when it ends, with its latency.
//!
//! `TIME(s)` counts from the first line; `LAT(ms)` from when the request went to the driver, `QUE(ms)` (option -Q) from
//! when it was queued to then. `T` is `R` or `W`, in libbpf's version blkparse's letters. `COMM` may hold spaces.

use super::Yield;
use super::blkparse::operation;
use super::fields::{flushed, scaled, seconds, time, whole};
use super::info::{About, FormatInfo, Signs, US};
use super::named::{Table, Wanted};
use crate::fault::Reason;
use crate::input::Unit;
use crate::names::Names;
use crate::record::Op;
use esker_base::Nanos;
use esker_base::units::SECTOR;

pub(crate) static INFO: FormatInfo = FormatInfo {
    about: About {
        file: "the text of bcc's biosnoop",
        form: "text",
        times: "µs, latencies in ms",
        operations: "read, write, flush, discard",
        volumes: "named devices",
        addresses: "512 bytes, length in bytes",
    },
    signs: Signs { header: Some(|line| COLUMNS.is_header(line)), ..Signs::NONE },
    has_volumes: true,
    is_absolute: true,
    sorting_advice: Some("give each recording on its own"),
    ..FormatInfo::of("biosnoop", Unit::Line, 10 * US, |_| Box::new(Parser::default()))
};

static COLUMNS: Wanted<7> = Wanted {
    separator: b' ',
    names: ["TIME(s)", "DISK", "T", "SECTOR", "BYTES", "LAT(ms)", "QUE(ms)"],
    needed: 6,
    loose: Some("COMM"),
    example: "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)",
};

/// The first line has time 0, and its request came before that: times are moved by this much, and latencies are below
/// it.
const HEADROOM: Nanos = Nanos::secs(86_400);

#[derive(Debug)]
struct Parser(Table<7>);

impl Default for Parser {
    fn default() -> Parser {
        Parser(Table::new(&COLUMNS))
    }
}

impl super::Parser for Parser {
    fn parse(&mut self, line: &[u8], names: &mut Names) -> Result<Yield, Reason> {
        let Some(columns) = self.0.columns(line)? else { return Ok(Yield::Nothing) };
        let [end, disk, letters, sector, bytes, latency, queued] = columns;
        let queued = if queued.is_empty() { Nanos::ZERO } else { time(queued, 6, "QUE(ms)")? };
        let took = time(latency, 6, "LAT(ms)")?.0.checked_add(queued.0).filter(|took| *took <= HEADROOM.0);
        let took = took.ok_or(Reason::Beyond { what: "latency in ms", most: HEADROOM.0 / 1_000_000 })?;
        let end = seconds(end, "TIME(s)")?.0.checked_add(HEADROOM.0).ok_or(Reason::TooLarge("TIME(s)"))?;
        let at = Nanos(end - took);
        let (is_flush, op) = operation(letters)?;
        let len = whole(bytes, "BYTES")?;
        let op = match op {
            Some(op) if len > 0 => op,
            _ if is_flush => Op::Flush,
            _ => return Ok(Yield::Nothing),
        };
        // A flush has no place, whatever the program prints.
        let (offset, len) = match op {
            Op::Flush => (0, 0),
            Op::Read | Op::Write | Op::Discard => (scaled(whole(sector, "SECTOR")?, SECTOR, "SECTOR")?, len),
        };
        // A request that is refused must not name a volume.
        flushed(is_flush, at, 0, op, offset, len)?;
        let volume = names.number(disk, str::to_string)?;
        flushed(is_flush, at, volume, op, offset, len)
    }

    fn missing_mark(&self) -> Option<Reason> {
        self.0.missing_mark()
    }
}
