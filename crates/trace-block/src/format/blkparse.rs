//! blkparse's default text: `major,minor cpu sequence seconds pid action rwbs sector + sectors [process]`.
//!
//! After `blkparse(1)`: only the events of one stage (see [`Stage`]) are requests; merges, plugs, remaps and messages
//! are not, and the summary that starts with a `CPU` line ends the trace.

use super::Yield;
use super::blk::{Alone, Event, Stage};
use super::fields::{fill, is_remark, scaled, seconds, whole};
use super::info::{About, FormatInfo, Signs};
use crate::fault::Reason;
use crate::input::Unit;
use crate::names::Names;
use crate::record::{Op, Record};
use crate::sink::{Loss, Losses};
use esker_base::units::SECTOR;
use std::io::Write;

pub(crate) static INFO: FormatInfo = FormatInfo {
    about: About {
        file: "blkparse's default output",
        form: "text",
        times: "ns",
        operations: "read, write, flush, discard",
        volumes: "major and minor number",
        addresses: "512 bytes",
    },
    encoder: Some(|| Box::new(Alone(encode))),
    endings: &[".blkparse"],
    signs: Signs { line: Some(|line| event(line).is_ok()), ..Signs::NONE },
    first_stage: Some(first_stage),
    has_volumes: true,
    sorting_advice: Some("sort it first: sort -k4,4n"),
    ..FormatInfo::of("blkparse", Unit::Line, 1, |counted| Box::new(Parser { counted, is_over: false }))
};

/// Actions that are no stage of a request.
const OTHERS: [&[u8]; 14] = [b"A", b"B", b"F", b"G", b"I", b"M", b"P", b"R", b"S", b"U", b"UT", b"T", b"X", b"m"];

#[derive(Debug)]
struct Parser {
    counted: Stage,
    /// The summary at the end was reached.
    is_over: bool,
}

impl super::Parser for Parser {
    fn parse(&mut self, line: &[u8], names: &mut Names) -> Result<Yield, Reason> {
        let line = line.trim_ascii();
        self.is_over |= line.starts_with(b"CPU");
        if self.is_over || is_remark(line) {
            return Ok(Yield::Nothing);
        }
        match event(line)? {
            Some(event) => event.request(self.counted, names),
            None => Ok(Yield::Nothing),
        }
    }
}

/// The event of a line, or `None` if its action is no stage of a request.
fn event(line: &[u8]) -> Result<Option<Event>, Reason> {
    let mut columns = line.split(u8::is_ascii_whitespace).filter(|c| !c.is_empty());
    let [device, cpu, _sequence, time, pid, action, letters] = fill(&mut columns)?;
    let device = device_numbers(device)?;
    whole(cpu, "CPU number")?;
    let at = seconds(time, "time")?;
    let Some(stage) = stage(action)? else { return Ok(None) };
    let (is_flush, op) = operation(letters)?;
    // A number that is none says nothing of the process.
    let who = whole(pid, "process").ok().and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
    let mut event = Event { stage, at, device, is_flush, op, offset: 0, len: 0, who };
    let Some(sector) = columns.next().filter(|c| c[0].is_ascii_digit() && op.is_some()) else {
        // An event without a range carries no data: a bare flush, or nothing.
        event.op = None;
        return Ok(Some(event));
    };
    event.offset = scaled(whole(sector, "sector")?, SECTOR, "sector")?;
    // A completion of a flush shows `sector [error]`.
    match columns.next() {
        Some(b"+") => event.len = scaled(whole(columns.next().unwrap_or_default(), "length")?, SECTOR, "length")?,
        _ => event.op = None,
    }
    Ok(Some(event))
}

fn device_numbers(field: &[u8]) -> Result<(u32, u32), Reason> {
    let comma = field.iter().position(|b| *b == b',').ok_or(Reason::NotNumber("device"))?;
    let number = |text| u32::try_from(whole(text, "device")?).map_err(|_| Reason::TooLarge("device"));
    Ok((number(&field[..comma])?, number(&field[comma + 1..])?))
}

fn stage(action: &[u8]) -> Result<Option<Stage>, Reason> {
    match action {
        b"Q" => Ok(Some(Stage::Queued)),
        b"D" => Ok(Some(Stage::Issued)),
        b"C" => Ok(Some(Stage::Completed)),
        other if OTHERS.contains(&other) => Ok(None),
        _ => Err(Reason::UnknownOp("one of blkparse's actions, such as Q, D or C")),
    }
}

/// RWBS letters: `F` (flush first), the operation, then flags (`F` FUA, `S`, `A`, `M`, `E`).
pub(crate) fn operation(letters: &[u8]) -> Result<(bool, Option<Op>), Reason> {
    let unknown = Err(Reason::UnknownOp("RWBS letters, such as R, WS, FWS or D"));
    if letters.is_empty() || !letters.iter().all(u8::is_ascii_uppercase) {
        return unknown;
    }
    let (is_flush, rest) = match letters {
        [b'F', rest @ ..] => (true, rest),
        _ => (false, letters),
    };
    match rest.first() {
        Some(b'R') => Ok((is_flush, Some(Op::Read))),
        Some(b'W') => Ok((is_flush, Some(Op::Write))),
        Some(b'D') => Ok((is_flush, Some(Op::Discard))),
        Some(b'N') | None => Ok((is_flush, None)),
        // The kernel's own letter of an operation that only flushes.
        Some(b'F') if is_flush => Ok((true, None)),
        _ => unknown,
    }
}

/// The first stage that occurs in the beginning of a trace.
fn first_stage(head: &[u8]) -> Option<Stage> {
    let lines = head.split(|b| *b == b'\n');
    lines.filter_map(|line| event(line.trim_ascii()).ok().flatten()).map(|e| e.stage).min()
}

/// Writes one queued request to the device called `volume` (`major,minor`).
fn encode(volume: &str, serial: u64, r: &Record, losses: &mut Losses, out: &mut Vec<u8>) -> Result<(), Loss> {
    let range = losses.whole_sectors(r)?;
    let letters = match r.op {
        Op::Read => "R",
        Op::Write => "W",
        Op::Flush => "FN",
        Op::Discard => "D",
    };
    let (secs, nanos) = (r.at.0 / 1_000_000_000, r.at.0 % 1_000_000_000);
    let sequence = serial + 1;
    write!(out, "{volume:>7} {:>4} {sequence:>8} {secs:>5}.{nanos:09} {:>5} {:>2} {letters:>3} ", 0, r.who, "Q")
        .expect("a vector takes all");
    if r.op != Op::Flush {
        write!(out, "{} + {} ", range.start() / SECTOR, range.len() / SECTOR).expect("a vector takes all");
    }
    out.extend_from_slice(b"[esker]\n");
    Ok(())
}
