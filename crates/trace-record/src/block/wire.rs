//! The layout of what the programs at the block tracepoints put out, and its reader. Numbers are little-endian.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | time in ns of the monotonic clock |
//! | 8 | 8 | first sector of what is recorded; of a flush, anything |
//! | 16 | 8 | address of the request or bio: it names both ends of one |
//! | 24 | 4 | bytes |
//! | 28 | 4 | operation (low byte) and flags of the kernel |
//! | 32 | 4 | process |
//! | 36 | 4 | [`Tracepoint`] |
//! | 40 | 4 | error, or 0 |
//! | 44 | 4 | 0 |
//! | 48 | 16 | name of the process |

use esker_base::Nanos;
use esker_base::codec::{Reader, Short};
use esker_trace_block::{BlkEvent, BlkStage, category};

pub(super) const TIME: i16 = 0;
pub(super) const PLACE: i16 = 8;
pub(super) const ADDRESS: i16 = 16;
pub(super) const BYTES: i16 = 24;
pub(super) const FLAGS: i16 = 28;
pub(super) const PROCESS: i16 = 32;
pub(super) const TRACEPOINT: i16 = 36;
pub(super) const ERROR: i16 = 40;
pub(super) const NAME: i16 = 48;
pub(super) const NAME_BYTES: i32 = 16;
pub(super) const RECORD_BYTES: i16 = 64;

/// Which tracepoint told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tracepoint {
    BioQueued = 1,
    Issued = 2,
    Completed = 3,
    BioCompleted = 4,
}

impl Tracepoint {
    pub(super) const ALL: [Tracepoint; 4] =
        [Tracepoint::BioQueued, Tracepoint::Issued, Tracepoint::Completed, Tracepoint::BioCompleted];

    /// Its name in the kernel.
    pub(super) fn name(self) -> &'static str {
        match self {
            Tracepoint::BioQueued => "block_bio_queue",
            Tracepoint::Issued => "block_rq_issue",
            Tracepoint::Completed => "block_rq_complete",
            Tracepoint::BioCompleted => "block_bio_complete",
        }
    }

    /// How many arguments it has.
    pub(super) fn arguments(self) -> usize {
        match self {
            Tracepoint::BioQueued | Tracepoint::Issued => 1,
            Tracepoint::Completed => 3,
            Tracepoint::BioCompleted => 2,
        }
    }

    fn stage(self) -> BlkStage {
        match self {
            Tracepoint::BioQueued => BlkStage::Queued,
            Tracepoint::Issued => BlkStage::Issued,
            Tracepoint::Completed | Tracepoint::BioCompleted => BlkStage::Completed,
        }
    }
}

/// Operations: `enum req_op` of `include/linux/blk_types.h`. Odd ones write.
mod op {
    pub(super) const FLUSH: u32 = 2;
    pub(super) const DISCARD: u32 = 3;
    pub(super) const SECURE_ERASE: u32 = 5;
    pub(super) const WRITE_ZEROES: u32 = 9;
    /// From here on, commands of drivers.
    pub(super) const COMMANDS: u32 = 32;
}

/// Flags, by their bit: `enum req_flag_bits`, the same in Linux 5.15 to 6.18.
const FLAG_CATEGORIES: [(u32, u32); 5] =
    [(11, category::SYNC), (12, category::META), (17, category::FUA), (18, category::FLUSH), (19, category::AHEAD)];

/// One event, with what only the recorder uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub tracepoint: Tracepoint,
    pub address: u64,
    /// Blocks become zeroes. The trace has no such operation: it shows a write.
    pub makes_zeroes: bool,
    pub event: BlkEvent,
}

/// What a record tells of `device`. `None` if it is none: the programs and this reader are of one make, so that is a
/// mistake in them.
pub(super) fn read(record: &[u8], device: (u32, u32)) -> Option<Seen> {
    fields(Reader::new(record), device).ok().flatten()
}

fn fields(mut bytes: Reader<'_>, device: (u32, u32)) -> Result<Option<Seen>, Short> {
    let (at, place, address) = (Nanos(bytes.le_u64()?), bytes.le_u64()?, bytes.le_u64()?);
    let (len, flags, process) = (bytes.le_u32()?, bytes.le_u32()?, bytes.le_u32()?);
    let (told, error, _) = (bytes.le_u32()?, bytes.le_u32()?, bytes.le_u32()?);
    let mut name = [0; NAME_BYTES as usize];
    name.copy_from_slice(bytes.take(NAME_BYTES as usize)?);
    let Some(tracepoint) = Tracepoint::ALL.into_iter().find(|known| *known as u32 == told) else { return Ok(None) };
    let event = BlkEvent {
        stage: tracepoint.stage(),
        at,
        device,
        categories: categories(flags),
        // A flush has no place, whatever the kernel leaves in the field.
        sector: if len == 0 { 0 } else { place },
        bytes: len,
        process,
        name,
        has_failed: error != 0,
    };
    Ok(Some(Seen { tracepoint, address, makes_zeroes: flags & 0xff == op::WRITE_ZEROES, event }))
}

/// The categories of an operation with flags, as the kernel's own block tracer chooses them.
fn categories(flags: u32) -> u32 {
    let operation = flags & 0xff;
    let direction = if operation & 1 == 1 { category::WRITE } else { category::READ };
    let special = match operation {
        op::FLUSH => category::FLUSH,
        op::DISCARD | op::SECURE_ERASE => category::DISCARD,
        op::COMMANDS.. => category::COMMAND,
        _ => 0,
    };
    let set = FLAG_CATEGORIES.into_iter().filter(|(bit, _)| flags >> bit & 1 == 1);
    set.fold(direction | special, |all, (_, category)| all | category)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(tracepoint: u32, flags: u32, bytes: u32, error: u32) -> Vec<u8> {
        let mut record = Vec::new();
        for word in [10u64, 2048, 0xffff_8880_0000_1000] {
            record.extend(word.to_le_bytes());
        }
        for word in [bytes, flags, 42, tracepoint, error, 0] {
            record.extend(word.to_le_bytes());
        }
        record.extend(*b"fio\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(record.len(), RECORD_BYTES as usize);
        record
    }

    fn event(tracepoint: u32, flags: u32, bytes: u32, error: u32) -> BlkEvent {
        read(&record(tracepoint, flags, bytes, error), (7, 0)).expect("it is whole").event
    }

    #[test]
    fn an_event_has_the_fields_of_its_record() {
        let seen = read(&record(3, 1 << 11 | 1, 4096, 10), (7, 0)).expect("it is whole");
        let name = *b"fio\0\0\0\0\0\0\0\0\0\0\0\0\0";
        let event = BlkEvent {
            stage: BlkStage::Completed,
            at: Nanos(10),
            device: (7, 0),
            categories: category::WRITE | category::SYNC,
            sector: 2048,
            bytes: 4096,
            process: 42,
            name,
            has_failed: true,
        };
        let address = 0xffff_8880_0000_1000;
        assert_eq!(seen, Seen { tracepoint: Tracepoint::Completed, address, makes_zeroes: false, event });
    }

    #[test]
    fn operations_and_flags_become_the_categories_of_blktrace() {
        let of = |flags| event(1, flags, 512, 0).categories;
        assert_eq!(of(0), category::READ);
        assert_eq!(of(1 << 19), category::READ | category::AHEAD);
        assert_eq!(of(1 | 1 << 18 | 1 << 17), category::WRITE | category::FLUSH | category::FUA);
        assert_eq!(of(1 | 1 << 12), category::WRITE | category::META);
        assert_eq!([of(3), of(5)], [category::WRITE | category::DISCARD; 2]);
        assert_eq!(of(9), category::WRITE, "zeroes are a write");
        assert_eq!([of(34) & category::COMMAND, of(35) & category::COMMAND], [category::COMMAND; 2]);
        assert!(read(&record(1, 9, 512, 0), (7, 0)).is_some_and(|seen| seen.makes_zeroes));
    }

    #[test]
    fn a_flush_has_no_place() {
        let flush = event(2, 2, 0, 0);
        assert_eq!((flush.sector, flush.categories & category::FLUSH), (0, category::FLUSH));
    }

    #[test]
    fn no_record_is_read_past_its_end() {
        let whole = record(1, 0, 512, 0);
        assert!((0..whole.len()).all(|len| read(&whole[..len], (7, 0)).is_none()));
        assert_eq!(read(&record(5, 0, 512, 0), (7, 0)), None, "no such tracepoint");
    }
}
