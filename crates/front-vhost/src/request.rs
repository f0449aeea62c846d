//! What a chain asks of the disk: header, ranges and the place of the status byte.

use esker_base::ByteRange;

use crate::Memory;
use crate::chain::{Chain, Malformed};
use crate::disk::{Disk, RANGE_SECTORS_MAX, RANGES_MAX, SECTOR, SERIAL_BYTES};

const HEADER_BYTES: u64 = 16;
const RANGE_BYTES: u64 = 16;
const UNMAP: u32 = 1;

/// Types of requests, as the specification numbers them.
pub mod kind {
    /// Read.
    pub const IN: u32 = 0;
    /// Write.
    pub const OUT: u32 = 1;
    /// Flush.
    pub const FLUSH: u32 = 4;
    /// Serial.
    pub const GET_ID: u32 = 8;
    /// Discard.
    pub const DISCARD: u32 = 11;
    /// Write zeroes.
    pub const WRITE_ZEROES: u32 = 13;
}

/// The byte that answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// Failed, or a request that breaks the rules.
    Io = 1,
    /// Not known here.
    Unsupported = 2,
}

/// One range of a write-zeroes request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zeroes {
    /// Bytes.
    pub range: ByteRange,
    /// Whether space must stay allocated.
    pub keep: bool,
}

/// What is asked. Data of reads lies in the chain's writable bytes before the last one, data of writes in its readable
/// bytes after the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Fill the guest's memory.
    Read(ByteRange),
    /// Store what is in the guest's memory.
    Write(ByteRange),
    /// Make writes durable.
    Flush,
    /// Tell the serial.
    Serial,
    /// Ranges that are not needed.
    Discard(Vec<ByteRange>),
    /// Ranges to read as zeroes.
    Zero(Vec<Zeroes>),
}

/// Offset of a write's data in the readable bytes.
pub const DATA_AT: u64 = HEADER_BYTES;

impl Request {
    /// Reads what `chain` asks of `disk`.
    ///
    /// # Errors
    /// The status that refuses it: unknown types are unsupported, all that breaks a rule is an error.
    pub fn read(disk: &Disk, memory: &Memory, chain: &Chain) -> Result<Request, Status> {
        let mut header = [0; HEADER_BYTES as usize];
        chain.readable.read(memory, 0, &mut header).map_err(|_| Status::Io)?;
        let (what, sector) = (word(&header, 0), long(&header, 8));
        let room = chain.writable.len().checked_sub(1).ok_or(Status::Io)?;
        let data = chain.readable.len() - HEADER_BYTES;
        match what {
            kind::IN => Ok(Request::Read(transfer(disk, sector, room)?)),
            kind::OUT => Ok(Request::Write(transfer(disk, sector, data)?)),
            kind::FLUSH => Ok(Request::Flush),
            kind::GET_ID if room < SERIAL_BYTES as u64 => Err(Status::Io),
            kind::GET_ID => Ok(Request::Serial),
            kind::DISCARD => {
                let ranges = ranges(disk, memory, chain, data)?;
                let plain =
                    ranges.iter().map(|(range, flags)| if *flags == 0 { Ok(*range) } else { Err(Status::Unsupported) });
                Ok(Request::Discard(plain.collect::<Result<_, _>>()?))
            }
            kind::WRITE_ZEROES => {
                let ranges = ranges(disk, memory, chain, data)?;
                let zeroes = ranges.iter().map(|(range, flags)| match flags & !UNMAP {
                    0 => Ok(Zeroes { range: *range, keep: flags & UNMAP == 0 }),
                    _ => Err(Status::Unsupported),
                });
                Ok(Request::Zero(zeroes.collect::<Result<_, _>>()?))
            }
            _ => Err(Status::Unsupported),
        }
    }
}

/// Writes the status into the last writable byte.
///
/// # Errors
/// [`Malformed`] if there is none.
pub fn answer(memory: &Memory, chain: &Chain, status: Status) -> Result<(), Malformed> {
    let at = chain.writable.len().checked_sub(1).ok_or(Malformed::Order)?;
    chain.writable.write(memory, at, &[status as u8])
}

/// The bytes of a read or write, which must be whole blocks inside the disk.
fn transfer(disk: &Disk, sector: u64, len: u64) -> Result<ByteRange, Status> {
    let start = sector.checked_mul(SECTOR).ok_or(Status::Io)?;
    let range = ByteRange::new(start, len).ok_or(Status::Io)?;
    let whole = start.is_multiple_of(disk.block()) && len.is_multiple_of(disk.block());
    if whole && range.end() <= disk.device.size() { Ok(range) } else { Err(Status::Io) }
}

/// The ranges of a discard or write-zeroes request, with their flags. All are checked before any is acted on.
fn ranges(disk: &Disk, memory: &Memory, chain: &Chain, data: u64) -> Result<Vec<(ByteRange, u32)>, Status> {
    if !data.is_multiple_of(RANGE_BYTES) || data == 0 || data / RANGE_BYTES > u64::from(RANGES_MAX) {
        return Err(Status::Io);
    }
    let mut bytes = vec![0; data as usize];
    chain.readable.read(memory, HEADER_BYTES, &mut bytes).map_err(|_| Status::Io)?;
    let range = |record: &[u8]| {
        let (sectors, flags) = (word(record, 8), word(record, 12));
        if sectors > RANGE_SECTORS_MAX {
            return Err(Status::Io);
        }
        Ok((transfer(disk, long(record, 0), u64::from(sectors) * SECTOR)?, flags))
    };
    bytes.chunks_exact(RANGE_BYTES as usize).map(range).collect()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
