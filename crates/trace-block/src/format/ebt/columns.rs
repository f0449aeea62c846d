//! The payload of a block of records: one column after the other.
//!
//! In this order: `shift` (u8); operations, 2 bits each; volumes; times; lengths; places; processes, in blocks that
//! have them. Lengths and places are in units of 2^`shift` bytes, the largest that divides all of the block. A flush
//! has neither.

use super::super::varint;
use crate::fault::Reason;
use crate::record::{Op, Record};
use esker_base::Nanos;
use std::collections::BTreeMap;

/// All records of the block are of one volume, or each has its own.
const ONE_VOLUME: u64 = 0;
const MANY_VOLUMES: u64 = 1;

/// Largest unit of lengths and places, as a power of two.
const SHIFT_MAX: u32 = 63;

/// Where the last request to each volume ended: what comes next is often there.
type Ends = BTreeMap<u32, u64>;

/// Appends the payload of `records`, whose first time is in the block's head.
pub(super) fn put(records: &[Record], out: &mut Vec<u8>) {
    let placed = || records.iter().filter(|r| r.op != Op::Flush);
    let shift = placed().map(|r| (r.offset | r.len).trailing_zeros()).min().unwrap_or(0).min(SHIFT_MAX);
    out.push(shift as u8);
    for four in records.chunks(4) {
        out.push(four.iter().rev().fold(0, |byte, r| byte << 2 | r.op as u8));
    }
    put_volumes(records, out);
    let mut last = records.first().map_or(0, |r| r.at.0);
    for record in records {
        // Wrapping, so that even times that run backwards read back as they were.
        varint::put(record.at.0.wrapping_sub(last), out);
        last = record.at.0;
    }
    placed().for_each(|r| varint::put(r.len >> shift, out));
    let mut ends = Ends::new();
    for r in placed() {
        let end = ends.entry(r.volume).or_default();
        varint::put_signed(r.offset.wrapping_sub(*end) as i64 >> shift, out);
        *end = r.offset.wrapping_add(r.len);
    }
    if has_processes(records) {
        records.iter().for_each(|r| varint::put(u64::from(r.who), out));
    }
}

/// Whether a block needs the column of processes.
pub(super) fn has_processes(records: &[Record]) -> bool {
    records.iter().any(|r| r.who != 0)
}

fn put_volumes(records: &[Record], out: &mut Vec<u8>) {
    let first = records.first().map_or(0, |r| r.volume);
    if records.iter().all(|r| r.volume == first) {
        varint::put(ONE_VOLUME, out);
        varint::put(u64::from(first), out);
    } else {
        varint::put(MANY_VOLUMES, out);
        records.iter().for_each(|r| varint::put(u64::from(r.volume), out));
    }
}

/// The `count` records of a payload, the first of them at `at`. Offsets and lengths are as stored: they may overflow.
pub(super) fn take(mut payload: &[u8], count: usize, at: Nanos, has_processes: bool) -> Result<Vec<Record>, Reason> {
    let bytes = &mut payload;
    let shift = u32::from(*cut(bytes, 1)?.first().ok_or(Reason::Columnar)?);
    if shift > SHIFT_MAX {
        return Err(Reason::Columnar);
    }
    let ops = cut(bytes, count.div_ceil(4))?;
    let op = |i: usize| Op::ALL[usize::from(ops[i / 4] >> (2 * (i % 4)) & 3)];
    let blank = |i| Record { at, volume: 0, op: op(i), offset: 0, len: 0, who: 0 };
    let mut records: Vec<Record> = (0..count).map(blank).collect();
    take_volumes(bytes, &mut records)?;
    let mut last = at.0;
    for record in &mut records {
        last = last.wrapping_add(number(bytes)?);
        record.at = Nanos(last);
    }
    for record in records.iter_mut().filter(|r| r.op != Op::Flush) {
        record.len = number(bytes)? << shift;
    }
    let mut ends = Ends::new();
    for record in records.iter_mut().filter(|r| r.op != Op::Flush) {
        let end = ends.entry(record.volume).or_default();
        let ahead = varint::take_signed(bytes).ok_or(Reason::Columnar)? << shift;
        record.offset = end.wrapping_add(ahead as u64);
        *end = record.offset.wrapping_add(record.len);
    }
    for record in records.iter_mut().filter(|_| has_processes) {
        record.who = u32::try_from(number(bytes)?).map_err(|_| Reason::Columnar)?;
    }
    if bytes.is_empty() { Ok(records) } else { Err(Reason::Columnar) }
}

fn take_volumes(bytes: &mut &[u8], records: &mut [Record]) -> Result<(), Reason> {
    let mode = number(bytes)?;
    if mode > MANY_VOLUMES {
        return Err(Reason::Columnar);
    }
    let mut volume = 0;
    for (i, record) in records.iter_mut().enumerate() {
        if i == 0 || mode == MANY_VOLUMES {
            volume = u32::try_from(number(bytes)?).map_err(|_| Reason::Columnar)?;
        }
        record.volume = volume;
    }
    Ok(())
}

fn number(bytes: &mut &[u8]) -> Result<u64, Reason> {
    varint::take(bytes).ok_or(Reason::Columnar)
}

fn cut<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], Reason> {
    let (head, rest) = bytes.split_at_checked(len).ok_or(Reason::Columnar)?;
    *bytes = rest;
    Ok(head)
}
