//! libCacheSim oracleGeneral: `u32 time s, u64 object_id, u32 bytes, i64 next_access`, little endian, no padding.
//!
//! Block traces in this format use the number of the first sector as object id, so that offset = object_id × 512.
//! `next_access` is the number (counted from 1) of the record that next names the same object, or -1.

use super::encoder::{self, RecordContext, Revisit};
use super::fields::{request, scaled};
use super::info::{About, FormatInfo, SECOND, Signs};
use super::{Parser, Yield};
use crate::fault::Reason;
use crate::input::Unit;
use crate::names::Names;
use crate::record::{Op, Record};
use crate::sink::{Loss, Losses};
use esker_base::Nanos;
use esker_base::codec::{Reader, Short};
use esker_base::units::SECTOR;
use std::collections::BTreeMap;

pub(crate) static INFO: FormatInfo = FormatInfo {
    about: About {
        file: "libCacheSim oracleGeneral",
        form: "24-byte records",
        times: "s",
        operations: "none: all are reads",
        volumes: "one",
        addresses: "512 bytes, length in bytes",
    },
    encoder: Some(|| Box::new(Encoder::default())),
    needs_seek: true,
    endings: &[".oracle-general"],
    is_called: Some(|file| file.contains("oraclegeneral")),
    signs: Signs { by_ending: true, ..Signs::NONE },
    has_operations: false,
    is_absolute: true,
    ..FormatInfo::of("oracle-general", Unit::Bytes(RECORD_BYTES), SECOND, |_| Box::new(Records))
};

const RECORD_BYTES: usize = 24;

/// Offset of `next_access` in a record.
const NEXT_AT: u64 = 16;

const NEVER: i64 = -1;

fn fields(piece: &[u8]) -> Result<(u32, u64, u32), Short> {
    let mut r = Reader::new(piece);
    Ok((r.le_u32()?, r.le_u64()?, r.le_u32()?))
}

/// Records stand alone.
#[derive(Debug)]
struct Records;

impl Parser for Records {
    fn parse(&mut self, piece: &[u8], _: &mut Names) -> Result<Yield, Reason> {
        parse(piece).map(Yield::One)
    }
}

/// The operation is not in the trace; every record is taken as a read.
fn parse(piece: &[u8]) -> Result<Record, Reason> {
    let (secs, object, bytes) = fields(piece).expect("the feed cuts whole records");
    let offset = scaled(object, SECTOR, "object id, as a sector,")?;
    request(Nanos::secs(u64::from(secs)), 0, Op::Read, offset, u64::from(bytes))
}

/// Numbers the records and knows where each object was named last: memory grows with the distinct objects.
#[derive(Debug, Default)]
struct Encoder {
    /// Byte offset of each object's last record.
    last: BTreeMap<u64, u64>,
    written: u64,
}

impl encoder::Encoder for Encoder {
    /// Writes one record; returns the record (by number) whose `next_access` is this one.
    fn put(
        &mut self,
        _: &RecordContext<'_>,
        r: &Record,
        losses: &mut Losses,
        out: &mut Vec<u8>,
    ) -> Result<Option<Revisit>, Loss> {
        match r.op {
            Op::Flush => return Err(Loss::Flush),
            Op::Discard => return Err(Loss::Discard),
            Op::Read | Op::Write => {}
        }
        let secs = u32::try_from(r.at.0 / 1_000_000_000).map_err(|_| Loss::Time)?;
        let (object, bytes) = losses.sector_start(r)?;
        losses.whole_time(r.at, 1_000_000_000);
        if r.op == Op::Write {
            losses.note(Loss::WriteAsRead);
        }
        out.extend_from_slice(&secs.to_le_bytes());
        out.extend_from_slice(&object.to_le_bytes());
        out.extend_from_slice(&bytes.to_le_bytes());
        out.extend_from_slice(&NEVER.to_le_bytes());
        let place = self.written * RECORD_BYTES as u64;
        self.written += 1;
        let earlier = self.last.insert(object, place);
        Ok(earlier.map(|earlier| Revisit { at: earlier + NEXT_AT, next: self.written as i64 }))
    }
}
