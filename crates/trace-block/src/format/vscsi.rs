//! CloudPhysics vscsi: fixed little-endian records of SCSI commands as a hypervisor saw them.
//!
//! Version 1 (32 bytes): `u32 serial, u32 bytes, u32 scatter_count, u16 command, u16 version, u64 block, u64 µs`.
//! Version 2 (40 bytes): `u16 command, u16 version, u32 serial, u32 bytes, u32 scatter_count, u64 block, u64 µs,
//! u64 response_time`. The high byte of `version` is 1 or 2. Layouts after libCacheSim's vscsi reader.

use super::blk::Stage;
use super::encoder::{Encoder, RecordContext, Revisit};
use super::fields::{request, scaled};
use super::info::{About, FormatInfo, Signs, US};
use super::{Parser, Yield};
use crate::fault::Reason;
use crate::input::Unit;
use crate::names::Names;
use crate::record::{Op, Record};
use crate::sink::{Loss, Losses};
use esker_base::Nanos;
use esker_base::codec::{Reader, Short};
use esker_base::units::SECTOR;

pub(crate) static V1: FormatInfo = FormatInfo {
    about: About {
        file: "CloudPhysics vscsi version 1",
        form: "32-byte records",
        times: "µs",
        operations: "read, write, flush",
        volumes: "one",
        addresses: "512 bytes, length in bytes",
    },
    encoder: Some(|| Box::new(Version::V1)),
    endings: &[".vscsi1", ".vscsi"],
    signs: Signs { by_ending: true, records: Some(|head| fits(Version::V1, head)), ..Signs::NONE },
    ..info("vscsi1", Version::V1, |_| Box::new(Version::V1))
};

pub(crate) static V2: FormatInfo = FormatInfo {
    about: About {
        file: "CloudPhysics vscsi version 2",
        form: "40-byte records",
        times: "µs",
        operations: "read, write, flush",
        volumes: "one",
        addresses: "512 bytes, length in bytes",
    },
    encoder: Some(|| Box::new(Version::V2)),
    endings: &[".vscsi2", ".vscsi"],
    signs: Signs { by_ending: true, records: Some(|head| fits(Version::V2, head)), ..Signs::NONE },
    ..info("vscsi2", Version::V2, |_| Box::new(Version::V2))
};

const fn info(name: &'static str, version: Version, parser: fn(Stage) -> Box<dyn Parser>) -> FormatInfo {
    FormatInfo { is_absolute: true, ..FormatInfo::of(name, Unit::Bytes(version.record_bytes()), US, parser) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

impl Version {
    const fn record_bytes(self) -> usize {
        match self {
            Version::V1 => 32,
            Version::V2 => 40,
        }
    }

    fn number(self) -> u8 {
        match self {
            Version::V1 => 1,
            Version::V2 => 2,
        }
    }
}

impl Parser for Version {
    fn parse(&mut self, piece: &[u8], _: &mut Names) -> Result<Yield, Reason> {
        parse(*self, piece).map(Yield::from)
    }
}

impl Encoder for Version {
    fn put(
        &mut self,
        place: &RecordContext<'_>,
        r: &Record,
        losses: &mut Losses,
        out: &mut Vec<u8>,
    ) -> Result<Option<Revisit>, Loss> {
        encode(*self, place.serial, r, losses, out).map(|()| None)
    }
}

/// The columns that matter, as they stand.
struct Raw {
    command: u16,
    version: u16,
    bytes: u32,
    block: u64,
    micros: u64,
}

fn fields(version: Version, piece: &[u8]) -> Result<Raw, Short> {
    let mut r = Reader::new(piece);
    let (mut command, mut mark) = (0, 0);
    if version == Version::V2 {
        (command, mark) = (r.le_u16()?, r.le_u16()?);
    }
    let (_serial, bytes, _scatter) = (r.le_u32()?, r.le_u32()?, r.le_u32()?);
    if version == Version::V1 {
        (command, mark) = (r.le_u16()?, r.le_u16()?);
    }
    Ok(Raw { command, version: mark, bytes, block: r.le_u64()?, micros: r.le_u64()? })
}

fn parse(version: Version, piece: &[u8]) -> Result<Option<Record>, Reason> {
    let raw = fields(version, piece).expect("the feed cuts whole records");
    let found = (raw.version >> 8) as u8;
    if found != version.number() {
        return Err(Reason::Version { found, needed: version.number() });
    }
    let Some(op) = operation(raw.command) else { return Ok(None) };
    let at = Nanos(scaled(raw.micros, 1_000, "time")?);
    let offset = scaled(raw.block, SECTOR, "block number")?;
    request(at, 0, op, offset, u64::from(raw.bytes)).map(Some)
}

/// READ, WRITE, WRITE AND VERIFY and SYNCHRONIZE CACHE in their 6, 10, 12 and 16 byte forms (SBC-4). The ranges of
/// UNMAP are not in the trace, so that it counts, like INQUIRY and others, as a record without a request.
fn operation(command: u16) -> Option<Op> {
    match command {
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Op::Read),
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Some(Op::Write),
        0x35 | 0x91 => Some(Op::Flush),
        _ => None,
    }
}

/// Whether `head` starts with records of this version (the first two, as far as there are two).
fn fits(version: Version, head: &[u8]) -> bool {
    let mut records = head.chunks_exact(version.record_bytes()).take(2).peekable();
    let is_marked = |piece| fields(version, piece).is_ok_and(|raw| (raw.version >> 8) as u8 == version.number());
    records.peek().is_some() && records.all(is_marked)
}

/// Writes one record. The length keeps its bytes; an offset inside a sector moves the start down.
fn encode(version: Version, serial: u64, r: &Record, losses: &mut Losses, out: &mut Vec<u8>) -> Result<(), Loss> {
    let is_far = r.offset / SECTOR > u64::from(u32::MAX);
    let command: u16 = match (r.op, is_far) {
        (Op::Read, false) => 0x28,
        (Op::Read, true) => 0x88,
        (Op::Write, false) => 0x2a,
        (Op::Write, true) => 0x8a,
        (Op::Flush, _) => return Err(Loss::Flush),
        (Op::Discard, _) => return Err(Loss::Discard),
    };
    let (block, bytes) = losses.sector_start(r)?;
    let micros = losses.whole_time(r.at, 1_000);
    let mark = u16::from(version.number()) << 8;
    if version == Version::V2 {
        out.extend_from_slice(&command.to_le_bytes());
        out.extend_from_slice(&mark.to_le_bytes());
    }
    for word in [(serial & 0xffff_ffff) as u32, bytes, 1] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    if version == Version::V1 {
        out.extend_from_slice(&command.to_le_bytes());
        out.extend_from_slice(&mark.to_le_bytes());
    }
    out.extend_from_slice(&block.to_le_bytes());
    out.extend_from_slice(&micros.to_le_bytes());
    if version == Version::V2 {
        out.extend_from_slice(&0u64.to_le_bytes());
    }
    Ok(())
}
