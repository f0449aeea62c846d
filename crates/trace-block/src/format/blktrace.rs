//! blktrace's binary form: `struct blk_io_trace` of the kernel, 48 bytes in the byte order of the machine that
//! recorded, then `pdu_len` bytes (a cgroup's id, data of a driver) that are passed over.
//!
//! Layout and numbers after `include/uapi/linux/blktrace_api.h`, version 7 of the format.

pub(crate) mod events;

use super::Yield;
use super::blk::{Alone, Event, Stage};
use super::fields::scaled;
use super::info::{About, FormatInfo, Signs};
use crate::fault::Reason;
use crate::input::{Framing, Length, Unit};
use crate::names::Names;
use crate::record::{Op, Record};
use crate::sink::{Loss, Losses};
use esker_base::Nanos;
use esker_base::codec::{Reader, Short};
use esker_base::units::SECTOR;

pub(crate) static INFO: FormatInfo = FormatInfo {
    about: About {
        file: "blktrace's binary form",
        form: "48-byte records and more",
        times: "ns",
        operations: "read, write, flush, discard",
        volumes: "major and minor number",
        addresses: "512 bytes, length in bytes",
    },
    encoder: Some(|| Box::new(Alone(encode))),
    endings: &[".blktrace", ".blktrace.0"],
    signs: Signs { mark: Some(fits), ..Signs::NONE },
    first_stage: Some(first_stage),
    has_volumes: true,
    has_parts: true,
    is_absolute: true,
    sorting_advice: Some("give the files of all CPUs unjoined, or merge them with blkparse"),
    ..FormatInfo::of("blktrace", Unit::Frame(&FRAMING), 1, |counted| Box::new(Parser { counted }))
};

const HEAD_BYTES: usize = 48;
const MAGIC: u32 = 0x6561_7400;
const VERSION: u8 = 7;

/// What an event says of its request, in the high half of its action.
pub mod category {
    /// Bytes are read.
    pub const READ: u32 = 1 << 0;
    /// Bytes are written.
    pub const WRITE: u32 = 1 << 1;
    /// Earlier writes become durable first.
    pub const FLUSH: u32 = 1 << 2;
    /// A program waits for it.
    pub const SYNC: u32 = 1 << 3;
    pub(super) const QUEUE: u32 = 1 << 4;
    pub(super) const ISSUE: u32 = 1 << 6;
    pub(super) const COMPLETE: u32 = 1 << 7;
    /// It carries a command of the driver and no block range.
    pub const COMMAND: u32 = 1 << 9;
    pub(super) const NOTIFY: u32 = 1 << 10;
    /// It reads ahead.
    pub const AHEAD: u32 = 1 << 11;
    /// It moves metadata of a file system.
    pub const META: u32 = 1 << 12;
    /// Bytes are no longer needed.
    pub const DISCARD: u32 = 1 << 13;
    /// It is durable when it ends.
    pub const FUA: u32 = 1 << 15;
}

use category::{COMMAND, DISCARD, FLUSH, NOTIFY, QUEUE, READ, WRITE};

/// Low half of the action of a note: the name of a process, the time of the clock, a text.
const NOTE_PROCESS: u32 = 0;
const NOTE_TIME: u32 = 1;
const NOTE_TEXT: u32 = 2;
/// Around the number of lost events in the text of a note.
const LOST: [&str; 2] = ["esker: ", " events lost"];
/// Set in the action of an event that belongs to a cgroup.
const OF_CGROUP: u32 = 1 << 8;

/// Fields in one byte order.
struct Words<'a> {
    bytes: Reader<'a>,
    is_big: bool,
}

impl Words<'_> {
    fn u16(&mut self) -> Result<u16, Short> {
        if self.is_big { self.bytes.be_u16() } else { self.bytes.le_u16() }
    }

    fn u32(&mut self) -> Result<u32, Short> {
        if self.is_big { self.bytes.be_u32() } else { self.bytes.le_u32() }
    }

    fn u64(&mut self) -> Result<u64, Short> {
        if self.is_big { self.bytes.be_u64() } else { self.bytes.le_u64() }
    }
}

/// `struct blk_io_trace`, without what is not used.
struct Raw {
    version: u8,
    nanos: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    device: u32,
    pid: u32,
    pdu_len: u16,
}

/// The fields of a head, or `None` if it is too short or has no magic number.
fn head(bytes: &[u8]) -> Option<Raw> {
    let magic: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
    let is_big = u32::from_be_bytes(magic) & !0xff == MAGIC;
    if !is_big && u32::from_le_bytes(magic) & !0xff != MAGIC {
        return None;
    }
    fields(Words { bytes: Reader::new(bytes), is_big }).ok()
}

fn fields(mut words: Words<'_>) -> Result<Raw, Short> {
    let version = (words.u32()? & 0xff) as u8;
    let _sequence = words.u32()?;
    let (nanos, sector) = (words.u64()?, words.u64()?);
    let (bytes, action) = (words.u32()?, words.u32()?);
    let (pid, device, _cpu, _error) = (words.u32()?, words.u32()?, words.u32()?, words.u16()?);
    Ok(Raw { version, nanos, sector, bytes, action, device, pid, pdu_len: words.u16()? })
}

/// How the bytes are cut.
static FRAMING: Framing = Framing { head: HEAD_BYTES, length, next_start };

fn length(bytes: &[u8]) -> Length {
    if bytes.len() < HEAD_BYTES {
        return Length::Unknown;
    }
    head(bytes).map_or(Length::Lost, |raw| Length::Whole(HEAD_BYTES + usize::from(raw.pdu_len)))
}

/// The next magic number of either byte order.
fn next_start(bytes: &[u8]) -> Option<usize> {
    let number = MAGIC | u32::from(VERSION);
    let starts = [number.to_le_bytes(), number.to_be_bytes()].map(|mark| memchr::memmem::find(bytes, &mark));
    starts.into_iter().flatten().min()
}

/// The event of a record, or `None` if it is no stage of a request.
fn event(piece: &[u8]) -> Result<Option<Event>, Reason> {
    let raw = head(piece).expect("the feed cuts at heads");
    if raw.version != VERSION {
        return Err(Reason::Version { found: raw.version, needed: VERSION });
    }
    let category = raw.action >> 16;
    if category & NOTIFY != 0 && raw.action & 0xffff == NOTE_TEXT {
        return lost(&piece[HEAD_BYTES..]).map_or(Ok(None), |count| Err(Reason::Unrecorded(count)));
    }
    let stage = match raw.action & 0xffff & !OF_CGROUP {
        _ if category & (NOTIFY | COMMAND) != 0 => return Ok(None),
        1 => Stage::Queued,
        7 => Stage::Issued,
        8 => Stage::Completed,
        _ => return Ok(None),
    };
    let op = match category {
        _ if raw.bytes == 0 => None,
        c if c & DISCARD != 0 => Some(Op::Discard),
        c if c & WRITE != 0 => Some(Op::Write),
        c if c & READ != 0 => Some(Op::Read),
        _ => None,
    };
    // A flush has no place, whatever the kernel leaves in the field.
    let offset = if op.is_some() { scaled(raw.sector, SECTOR, "sector")? } else { 0 };
    let device = (raw.device >> 20, raw.device & 0xf_ffff);
    let is_flush = category & FLUSH != 0;
    Ok(Some(Event {
        stage,
        at: Nanos(raw.nanos),
        device,
        is_flush,
        op,
        offset,
        len: u64::from(raw.bytes),
        who: raw.pid,
    }))
}

/// The number of lost events that a note tells.
fn lost(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.strip_prefix(LOST[0])?.strip_suffix(LOST[1])?.parse().ok()
}

#[derive(Debug)]
struct Parser {
    counted: Stage,
}

impl super::Parser for Parser {
    fn parse(&mut self, piece: &[u8], names: &mut Names) -> Result<Yield, Reason> {
        match event(piece)? {
            Some(event) => event.request(self.counted, names),
            None => Ok(Yield::Nothing),
        }
    }
}

/// Whether `bytes` start with a record.
fn fits(bytes: &[u8]) -> bool {
    head(bytes).is_some_and(|raw| raw.version == VERSION)
}

/// The first stage that occurs in the beginning of a trace.
fn first_stage(mut bytes: &[u8]) -> Option<Stage> {
    let mut first = None;
    while let Length::Whole(len) = length(bytes)
        && len <= bytes.len()
    {
        let stage = event(&bytes[..len]).ok().flatten().map(|e| e.stage);
        first = first.into_iter().chain(stage).min();
        bytes = &bytes[len..];
    }
    first
}

/// Writes one queued request, little-endian, to the device called `volume` (`major,minor`).
fn encode(volume: &str, serial: u64, r: &Record, losses: &mut Losses, out: &mut Vec<u8>) -> Result<(), Loss> {
    let range = losses.whole_sectors(r)?;
    let bytes = u32::try_from(range.len()).map_err(|_| Loss::Length)?;
    let category = match r.op {
        Op::Read => READ,
        Op::Write => WRITE,
        Op::Flush => WRITE | FLUSH,
        Op::Discard => WRITE | DISCARD,
    };
    let (major, minor) = volume.split_once(',').expect("volumes are called `major,minor`");
    let number = |text: &str| text.parse::<u32>().expect("volumes are called by numbers");
    let device = number(major) << 20 | number(minor);
    let raw = Raw {
        version: VERSION,
        nanos: r.at.0,
        sector: range.start() / SECTOR,
        bytes,
        action: (category | QUEUE) << 16 | 1,
        device,
        pid: r.who,
        pdu_len: 0,
    };
    put(&raw, Origin { sequence: ((serial + 1) & 0xffff_ffff) as u32, error: 0 }, out);
    Ok(())
}

/// The fields of a head that no reader uses.
#[derive(Clone, Copy, Default)]
struct Origin {
    sequence: u32,
    error: u16,
}

/// Writes a head, little-endian.
fn put(raw: &Raw, origin: Origin, out: &mut Vec<u8>) {
    out.extend_from_slice(&(MAGIC | u32::from(raw.version)).to_le_bytes());
    out.extend_from_slice(&origin.sequence.to_le_bytes());
    out.extend_from_slice(&raw.nanos.to_le_bytes());
    out.extend_from_slice(&raw.sector.to_le_bytes());
    let cpu = 0;
    for word in [raw.bytes, raw.action, raw.pid, raw.device, cpu] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&origin.error.to_le_bytes());
    out.extend_from_slice(&raw.pdu_len.to_le_bytes());
}
