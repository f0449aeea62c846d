use std::mem::offset_of;

use esker_framing::{Epochs, LogCursor, RECORD_HEADER};

use super::*;

pub(crate) fn superblock() -> Superblock {
    let mut superblock = Superblock::new(0x0102_0304, 1 << 20, 64 << 10, 512);
    (superblock.sequence, superblock.first, superblock.number) = (9, 70 << 10, 31);
    (superblock.epoch, superblock.since, superblock.durable) = (4, 35, 33);
    superblock
}

fn record() -> Record {
    let range = ByteRange::new(4096, 1024).unwrap();
    Record { number: 40, epoch: 4, position: 100 << 10, range, content: Content::Data(7), durable: 33 }
}

/// The record of this number and place, if these bytes are its header.
fn decode(bytes: &[u8], superblock: &Superblock, number: u64, position: u64) -> Option<Record> {
    let epochs = Epochs { now: superblock.epoch, since: superblock.since, rise: false };
    let cursor = LogCursor::new(superblock.log, epochs, number, position, 0);
    cursor.record(bytes).and_then(|header| Record::decode(&header, superblock))
}

#[test]
fn the_layout_is_that_of_the_page() {
    let change =
        [offset_of!(Change, start), offset_of!(Change, len), offset_of!(Change, data), offset_of!(Change, flags)];
    assert_eq!(change.map(|at| RECORD_HEADER + at), [64, 72, 80, 84]);
    assert_eq!((RECORD_HEADER + size_of::<Change>(), AREA_START), (88, 8192));
}

/// A superblock and a record as version 3 wrote them; they must stay readable.
#[test]
fn the_golden_bytes_read_as_they_were_written() {
    let golden = include_bytes!("../../golden/log-v3.bin");
    let bytes = [superblock().encode(), record().encode(&superblock())].concat();
    assert!(bytes == golden, "what is written has changed");
    assert_eq!(Superblock::decode(golden), Ok(superblock()));
    assert_eq!(decode(&golden[512..], &superblock(), 40, 100 << 10), Some(record()));
}

#[test]
fn a_record_counts_only_where_and_when_it_was_written() {
    let (superblock, bytes) = (superblock(), record().encode(&superblock()));
    let is_read = |superblock: &Superblock, number, position| decode(&bytes, superblock, number, position).is_some();
    assert!(is_read(&superblock, 40, 100 << 10));
    assert!(!is_read(&superblock, 41, 100 << 10), "an earlier round of the log");
    assert!(!is_read(&superblock, 40, 36 << 10), "the same place in another round");
    assert!(!is_read(&Superblock { log: 9, ..superblock.clone() }, 40, 100 << 10), "another log");
    assert!(!is_read(&Superblock { epoch: 5, ..superblock.clone() }, 40, 100 << 10), "given up by a new epoch");
    assert!(is_read(&Superblock { epoch: 5, since: 41, ..superblock.clone() }, 40, 100 << 10), "before the new epoch");
    assert!(!is_read(&Superblock { home: 4096, ..superblock.clone() }, 40, 100 << 10), "outside the volume");
    for at in 0..RECORD_HEADER + size_of::<Change>() {
        let mut torn = bytes.clone();
        torn[at] ^= 4;
        assert_eq!(decode(&torn, &superblock, 40, 100 << 10), None, "byte {at}");
    }
}
