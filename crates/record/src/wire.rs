//! The layout of what the programs in the kernel put out, and its reader. All numbers are little-endian.
//!
//! | offset | bytes | what | in |
//! |---|---|---|---|
//! | 0 | 8 | time in ns of the monotonic clock | all |
//! | 8 | 4 + 4 | thread and process | all |
//! | 16 | 4 | number of the call, of the new thread, or under which the thread goes on | all |
//! | 20 | 4 | [`Kind`] | all |
//! | 24 | 8 | result, flags of the new thread, or the thread's old number | all but `Enter` |
//! | 24 | 48 | arguments | `Enter` |
//! | 32 | 3 × 4 | lengths of items, [`NOTHING`] or [`UNREAD`] | `Exit`, `ExitLate` |
//! | 48 | | items | `Exit`, `ExitLate` |
//! | 72 | 3 × 4 | lengths of items | `Enter` |
//! | 88 | | items | `Enter` |

use crate::calls::ITEMS_MAX;
use crate::event::{Event, Items, What};

pub const TIME: i16 = 0;
pub const THREAD: i16 = 8;
pub const NUMBER: i16 = 16;
pub const KIND: i16 = 20;
pub const RESULT: i16 = 24;
pub const ARGS: i16 = 24;
pub const EXIT_LENGTHS: i16 = 32;
pub const EXIT_DATA: i16 = 48;
pub const ENTER_LENGTHS: i16 = 72;
pub const ENTER_DATA: i16 = 88;
/// Records of threads, which end behind [`RESULT`].
pub const SMALL_BYTES: i16 = 32;

/// There was nothing to read.
pub const NOTHING: i32 = -1;
/// It could not be read.
pub const UNREAD: i32 = -2;

/// What a record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Enter = 1,
    Exit = 2,
    /// The items are those of the call's beginning.
    ExitLate = 3,
    Fork = 4,
    Exec = 5,
    End = 6,
}

const KINDS: [Kind; 6] = [Kind::Enter, Kind::Exit, Kind::ExitLate, Kind::Fork, Kind::Exec, Kind::End];

/// Reads a record. `None` if it is none: the programs and this reader are of one make, so that is a mistake in them.
pub fn read(record: &[u8]) -> Option<Event<'_>> {
    let (number, result) = (u32_at(record, NUMBER)?, u64_at(record, RESULT)?);
    let kind = u32_at(record, KIND)?;
    let what = match KINDS.into_iter().find(|known| *known as u32 == kind)? {
        Kind::Enter => {
            let mut args = [0; 6];
            for (index, arg) in args.iter_mut().enumerate() {
                *arg = u64_at(record, ARGS + index as i16 * 8)?;
            }
            What::Enter { number, args, items: items(record, ENTER_LENGTHS, ENTER_DATA)? }
        }
        kind @ (Kind::Exit | Kind::ExitLate) => What::Exit {
            number,
            result: result as i64,
            late: kind == Kind::ExitLate,
            items: items(record, EXIT_LENGTHS, EXIT_DATA)?,
        },
        Kind::Fork => What::Fork { child: number, flags: result },
        Kind::Exec => What::Exec { old: result as u32, new: number },
        Kind::End => What::End,
    };
    Some(Event {
        time: u64_at(record, TIME)?,
        thread: u32_at(record, THREAD)?,
        process: u32_at(record, THREAD + 4)?,
        what,
    })
}

fn items(record: &[u8], lengths: i16, data: i16) -> Option<Items<'_>> {
    let mut items = Items::default();
    let mut rest = record.get(data as usize..)?;
    for index in 0..ITEMS_MAX {
        let length = u32_at(record, lengths + index as i16 * 4)? as i32;
        if let Ok(length) = usize::try_from(length) {
            let (item, behind) = rest.split_at_checked(length)?;
            items[index] = Some(item);
            rest = behind;
        }
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
