//! MSR Cambridge CSV: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, times in 100 ns (Windows
//! filetime), offset and size in bytes. The volume is `Hostname.DiskNumber`.

use super::fields::{fill, request, scaled, whole};
use crate::fault::Reason;
use crate::names::Names;
use crate::record::{Op, Record};
use crate::sink::{Loss, Losses};
use esker_base::Nanos;
use std::io::Write;

/// Length of a Windows filetime tick in ns.
const TICK: u64 = 100;

pub(crate) fn parse(line: &[u8], names: &mut Names) -> Result<Option<Record>, Reason> {
    if line.trim_ascii().is_empty() || line.starts_with(b"Timestamp,") {
        return Ok(None);
    }
    let [time, host, disk, kind, offset, size] = fill(line.split(|b| *b == b','))?;
    let at = Nanos(scaled(whole(time, "timestamp")?, TICK, "timestamp")?);
    whole(disk, "disk number")?;
    let op = match kind.trim_ascii() {
        k if k.eq_ignore_ascii_case(b"read") => Op::Read,
        k if k.eq_ignore_ascii_case(b"write") => Op::Write,
        _ => return Err(Reason::UnknownOp("Read or Write")),
    };
    let mut record = request(at, 0, op, whole(offset, "offset")?, whole(size, "size")?)?;
    // The two columns as they stand in the line are the key, so that a known volume costs no allocation.
    let key = &line[time.len() + 1..][..host.len() + 1 + disk.len()];
    record.volume = names.number(key, |key| key.replace(',', "."))?;
    Ok(Some(record))
}

/// Whether `line` could be one of this format.
pub(crate) fn fits(line: &[u8]) -> bool {
    line.starts_with(b"Timestamp,Hostname,") || matches!(parse(line, &mut Names::default()), Ok(Some(_)))
}

/// The host and disk columns for a volume called `name`.
pub(crate) fn columns(name: &str) -> String {
    let clean = name.replace(|c: char| c == ',' || c.is_control(), "_");
    match clean.rsplit_once('.') {
        Some((host, disk)) if !disk.is_empty() && disk.bytes().all(|b| b.is_ascii_digit()) => format!("{host},{disk}"),
        _ => format!("{clean},0"),
    }
}

/// Writes one record of the volume with these `columns`.
pub(crate) fn encode(columns: &str, r: &Record, losses: &mut Losses, out: &mut Vec<u8>) -> Result<(), Loss> {
    let op = match r.op {
        Op::Read => "Read",
        Op::Write => "Write",
        Op::Flush => return Err(Loss::Flush),
        Op::Discard => return Err(Loss::Discard),
    };
    let ticks = losses.whole_time(r.at, TICK);
    writeln!(out, "{ticks},{columns},{op},{},{},0", r.offset, r.len).expect("a vector takes all");
    Ok(())
}
