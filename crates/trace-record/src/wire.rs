//! The layout of what the programs in the kernel put out, and its reader. All numbers are little-endian.
//!
//! | offset | bytes | what | in |
//! |---|---|---|---|
//! | 0 | 8 | time in ns of the monotonic clock: of the beginning of a call, or of the event | all |
//! | 8 | 4 + 4 | thread and process | all |
//! | 16 | 4 | number of the call, of the new thread, or under which the thread goes on; of a fault: 1 if it is in a call, 2 if a page became dirty | all |
//! | 20 | 4 | [`Kind`] | all |
//! | 24 | 8 | time of the end | `Call`, `Fault` |
//! | 24 | 8 | result, flags of the new thread, or the thread's old number | `Exit`, `ExitLate`, `Fork`, `Exec`, `End` |
//! | 32 | 88 | registers as the kernel saved them, from `r10` to `cs` | `Call`, `Enter` |
//! | 32 | 3 × 4 | lengths of items, [`NOTHING`] or [`UNREAD`] | `Exit`, `ExitLate` |
//! | 48 | | items | `Exit`, `ExitLate` |
//! | 32 | 8 | address | `Fault` |
//! | 40 | 8 + 8 | first and last page of the file | `Fault` |
//! | 16 | 4 | opcode of the request | `Request` |
//! | 24 | 8 | address of the request, or of the ring | `Request`, `Completion`, `Ring` |
//! | 32 | 8 | address of the ring | `Request` |
//! | 32 | 8 | result | `Completion` |
//! | 40 | 64 | the entry of the submission queue | `Request` |
//! | 104 | 2 × 4 | lengths of what `addr` and `addr2` point to | `Request` |
//! | 112 | | that | `Request` |
//! | 120 | 8 | result | `Call` |
//! | 128 | 8 | one | `Call`, `Enter` |
//! | 136 | 3 × 4 + 4 | lengths of the items of the beginning, and of that of the end | `Call`, `Enter` |
//! | 152 | 8 | bytes of the items of the beginning | `Call`, `Enter` |
//! | 160 | | items of the beginning, then that of the end | `Call`, `Enter` |

use crate::calls::ITEMS_MAX;
use crate::calls::requests::ENTRY_BYTES;
use crate::event::{Event, Items, What};

pub(crate) const TIME: i16 = 0;
pub(crate) const THREAD: i16 = 8;
pub(crate) const NUMBER: i16 = 16;
pub(crate) const KIND: i16 = 20;
pub(crate) const LEAVE: i16 = 24;
pub(crate) const SAVED: i16 = 32;
pub(crate) const SAVED_BYTES: i16 = 88;
pub(crate) const RESULT: i16 = SAVED + SAVED_BYTES;
pub(crate) const ONE: i16 = RESULT + 8;
pub(crate) const LENGTHS: i16 = 136;
pub(crate) const EXIT_LENGTH: i16 = 148;
pub(crate) const USED: i16 = 152;
pub(crate) const DATA: i16 = 160;

/// Of records of ends and of threads.
pub(crate) const SMALL_RESULT: i16 = 24;
pub(crate) const SMALL_LENGTHS: i16 = 32;
pub(crate) const SMALL_DATA: i16 = 48;
/// Records of threads, which end behind the result.
pub(crate) const SMALL_BYTES: i16 = 32;

/// Of faults.
pub(crate) const FAULT_ADDRESS: i16 = 32;
pub(crate) const FAULT_PAGES: i16 = 40;
pub(crate) const FAULT_BYTES: i16 = 56;

/// Of requests of an io_uring and their completions.
pub(crate) const REQUEST: i16 = 24;
pub(crate) const REQUEST_RING: i16 = 32;
pub(crate) const REQUEST_RESULT: i16 = 32;
pub(crate) const COMPLETION_BYTES: i16 = 40;
pub(crate) const ENTRY: i16 = 40;
pub(crate) const REQUEST_LENGTHS: i16 = ENTRY + ENTRY_BYTES as i16;
pub(crate) const REQUEST_DATA: i16 = REQUEST_LENGTHS + 8;

/// There was nothing to read.
pub(crate) const NOTHING: i32 = -1;
/// It could not be read.
pub(crate) const UNREAD: i32 = -2;

/// Where each argument lies among the saved registers: `rdi`, `rsi`, `rdx`, `r10`, `r8`, `r9`.
pub(crate) const ARGUMENTS: [u8; 6] = [56, 48, 40, 0, 16, 8];

/// What a record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A call, from its beginning to its end.
    Call = 1,
    /// The beginning of a call, whose end comes alone or never.
    Enter = 2,
    /// Its end.
    Exit = 3,
    /// Its end; the items are those of its beginning.
    ExitLate = 4,
    Fork = 5,
    Exec = 6,
    End = 7,
    Fault = 8,
    /// A thread makes or changes a ring, in the call under way.
    Ring = 9,
    /// A request was taken from a ring.
    Request = 10,
    /// A request was refused when it was taken: it does nothing.
    Refused = 11,
    /// A request ended.
    Completion = 12,
}

const KINDS: [Kind; 12] = [
    Kind::Call,
    Kind::Enter,
    Kind::Exit,
    Kind::ExitLate,
    Kind::Fork,
    Kind::Exec,
    Kind::End,
    Kind::Fault,
    Kind::Ring,
    Kind::Request,
    Kind::Refused,
    Kind::Completion,
];

/// Shows what a record tells. `None` if it is none: the programs and this reader are of one make, so that is a mistake
/// in them.
pub(crate) fn read(record: &[u8], mut show: impl FnMut(&Event<'_>)) -> Option<()> {
    let (time, thread, process) = (u64_at(record, TIME)?, u32_at(record, THREAD)?, u32_at(record, THREAD + 4)?);
    let kind = KINDS.into_iter().find(|known| u32_at(record, KIND) == Some(*known as u32))?;
    let number = u32_at(record, NUMBER)?;
    let mut tell = |time, what| show(&Event { time, thread, process, what });
    match kind {
        Kind::Call | Kind::Enter => {
            let items = items(record, LENGTHS, DATA)?;
            tell(time, What::Enter { number, args: arguments(record)?, items });
            if kind == Kind::Call {
                let exit = exit_item(record)?;
                let result = u64_at(record, RESULT)? as i64;
                tell(u64_at(record, LEAVE)?, What::Exit { number, result, late: false, items: exit });
            }
        }
        Kind::Exit | Kind::ExitLate => {
            let (result, late) = (u64_at(record, SMALL_RESULT)? as i64, kind == Kind::ExitLate);
            tell(time, What::Exit { number, result, late, items: items(record, SMALL_LENGTHS, SMALL_DATA)? });
        }
        Kind::Fork => tell(time, What::Fork { child: number, flags: u64_at(record, SMALL_RESULT)? }),
        Kind::Exec => tell(time, What::Exec { old: u64_at(record, SMALL_RESULT)? as u32, new: number }),
        Kind::End => tell(time, What::End),
        Kind::Fault => {
            let (done, address) = (u64_at(record, LEAVE)?, u64_at(record, FAULT_ADDRESS)?);
            let pages = [u64_at(record, FAULT_PAGES)?, u64_at(record, FAULT_PAGES + 8)?];
            tell(time, What::Fault { done, address, pages, in_call: number & 1 != 0, is_write: number & 2 != 0 });
        }
        Kind::Ring => tell(time, What::Ring { ring: u64_at(record, REQUEST)? }),
        Kind::Refused => tell(time, What::RequestRefused),
        Kind::Request => tell(time, request(record, number)?),
        Kind::Completion => {
            let result = u64_at(record, REQUEST_RESULT)? as i32;
            tell(time, What::RequestEnd { request: u64_at(record, REQUEST)?, result });
        }
    }
    Some(())
}

fn request(record: &[u8], opcode: u32) -> Option<What<'_>> {
    let entry = record.get(ENTRY as usize..)?.first_chunk::<ENTRY_BYTES>()?;
    let mut items = [None; 2];
    let mut rest = record.get(REQUEST_DATA as usize..)?;
    for (item, at) in items.iter_mut().zip([REQUEST_LENGTHS, REQUEST_LENGTHS + 4]) {
        if let Ok(length) = usize::try_from(u32_at(record, at)? as i32) {
            let (read, behind) = rest.split_at_checked(length)?;
            *item = Some(read);
            rest = behind;
        }
    }
    let (request, ring) = (u64_at(record, REQUEST)?, u64_at(record, REQUEST_RING)?);
    Some(What::Request { request, ring, opcode: opcode as u8, entry, items })
}

fn arguments(record: &[u8]) -> Option<[u64; 6]> {
    let mut args = [0; 6];
    for (arg, place) in args.iter_mut().zip(ARGUMENTS) {
        *arg = u64_at(record, SAVED + i16::from(place))?;
    }
    Some(args)
}

fn items(record: &[u8], lengths: i16, data: i16) -> Option<Items<'_>> {
    let mut items = Items::default();
    let mut rest = record.get(data as usize..)?;
    for (index, item) in items.iter_mut().enumerate() {
        let length = u32_at(record, lengths + index as i16 * 4)? as i32;
        if let Ok(length) = usize::try_from(length) {
            let (read, behind) = rest.split_at_checked(length)?;
            *item = Some(read);
            rest = behind;
        }
    }
    Some(items)
}

/// The item of the end, behind those of the beginning.
fn exit_item(record: &[u8]) -> Option<Items<'_>> {
    let mut items = [None; ITEMS_MAX];
    if let Ok(length) = usize::try_from(u32_at(record, EXIT_LENGTH)? as i32) {
        let at = usize::try_from(u64_at(record, USED)?).ok()?;
        items[0] = Some(record.get(DATA as usize..)?.get(at..)?.get(..length)?);
    }
    Some(items)
}

fn u32_at(bytes: &[u8], at: i16) -> Option<u32> {
    let at = at as usize;
    bytes.get(at..at + 4).map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")))
}

fn u64_at(bytes: &[u8], at: i16) -> Option<u64> {
    let at = at as usize;
    bytes.get(at..at + 8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: Kind, data: &[u8], lengths: [i32; 4], used: u64) -> Vec<u8> {
        let mut bytes = vec![0; DATA as usize];
        let mut put = |at: i16, value: &[u8]| bytes[at as usize..][..value.len()].copy_from_slice(value);
        put(TIME, &10u64.to_le_bytes());
        put(THREAD, &7u32.to_le_bytes());
        put(THREAD + 4, &6u32.to_le_bytes());
        put(NUMBER, &5u32.to_le_bytes());
        put(KIND, &(kind as u32).to_le_bytes());
        put(LEAVE, &12u64.to_le_bytes());
        put(SAVED + i16::from(ARGUMENTS[2]), &99u64.to_le_bytes());
        put(RESULT, &(-2i64).to_le_bytes());
        put(USED, &used.to_le_bytes());
        lengths.iter().enumerate().for_each(|(i, length)| put(LENGTHS + i as i16 * 4, &length.to_le_bytes()));
        bytes.extend_from_slice(data);
        bytes
    }

    #[test]
    fn a_call_is_its_beginning_and_its_end() {
        let bytes = record(Kind::Call, b"a\0bcxyz", [2, UNREAD, 2, 3], 4);
        let mut shown = Vec::new();
        read(&bytes, |event| shown.push(format!("{event:?}"))).expect("it is whole");
        let enter = Event {
            time: 10,
            thread: 7,
            process: 6,
            what: What::Enter { number: 5, args: [0, 0, 99, 0, 0, 0], items: [Some(b"a\0"), None, Some(b"bc")] },
        };
        let exit = What::Exit { number: 5, result: -2, late: false, items: [Some(b"xyz"), None, None] };
        let exit = Event { time: 12, what: exit, ..enter };
        assert_eq!(shown, [format!("{enter:?}"), format!("{exit:?}")]);
    }

    #[test]
    fn no_record_is_read_past_its_end() {
        let whole = record(Kind::Call, b"a\0bcxyz", [2, UNREAD, 2, 3], 4);
        for len in 0..whole.len() {
            assert_eq!(read(&whole[..len], |_| ()), None, "cut to {len} bytes");
        }
        assert_eq!(read(&record(Kind::Call, b"", [NOTHING, NOTHING, NOTHING, 1], u64::MAX), |_| ()), None);
    }
}
