use std::mem::offset_of;

use super::*;

pub fn superblock() -> Superblock {
    let mut superblock = Superblock::new(0x0102_0304, 1 << 20, 64 << 10, 512);
    (superblock.sequence, superblock.first, superblock.number) = (9, 70 << 10, 31);
    (superblock.epoch, superblock.since, superblock.durable) = (4, 35, 33);
    superblock
}

fn record() -> Record {
    let range = ByteRange::new(4096, 1024).unwrap();
    Record { number: 40, epoch: 4, position: 100 << 10, range, content: Content::Data(7), durable: 33 }
}

#[test]
fn the_layout_is_that_of_the_page() {
    let record = [
        offset_of!(RecordBytes, magic),
        offset_of!(RecordBytes, kind),
        offset_of!(RecordBytes, flags),
        offset_of!(RecordBytes, payload),
        offset_of!(RecordBytes, log),
        offset_of!(RecordBytes, number),
        offset_of!(RecordBytes, epoch),
        offset_of!(RecordBytes, position),
        offset_of!(RecordBytes, start),
        offset_of!(RecordBytes, len),
        offset_of!(RecordBytes, durable),
        offset_of!(RecordBytes, checksum),
    ];
    assert_eq!(record, [0, 8, 10, 12, 16, 32, 40, 48, 56, 64, 72, 124]);
    assert_eq!((size_of::<RecordBytes>(), AREA_START), (HEADER, 8192));
}

/// A superblock and a record as version 2 wrote them; they must stay readable.
#[test]
fn the_golden_bytes_read_as_they_were_written() {
    let golden = include_bytes!("../../golden/log-v2.bin");
    let bytes = [superblock().encode(), record().encode(&superblock())].concat();
    assert!(bytes == golden, "what is written has changed");
    assert_eq!(Superblock::decode(golden), Ok(superblock()));
    assert_eq!(Record::decode(&golden[512..], &superblock(), 40, 100 << 10), Some(record()));
}

#[test]
fn a_record_counts_only_where_and_when_it_was_written() {
    let (superblock, bytes) = (superblock(), record().encode(&superblock()));
    let is_read =
        |superblock: &Superblock, number, position| Record::decode(&bytes, superblock, number, position).is_some();
    assert!(is_read(&superblock, 40, 100 << 10));
    assert!(!is_read(&superblock, 41, 100 << 10), "an earlier round of the log");
    assert!(!is_read(&superblock, 40, 36 << 10), "the same place in another round");
    assert!(!is_read(&Superblock { log: 9, ..superblock.clone() }, 40, 100 << 10), "another log");
    assert!(!is_read(&Superblock { epoch: 5, ..superblock.clone() }, 40, 100 << 10), "given up by a new epoch");
    assert!(is_read(&Superblock { epoch: 5, since: 41, ..superblock.clone() }, 40, 100 << 10), "before the new epoch");
    assert!(!is_read(&Superblock { home: 4096, ..superblock.clone() }, 40, 100 << 10), "outside the volume");
    for at in 0..HEADER {
        let mut torn = bytes.clone();
        torn[at] ^= 4;
        assert_eq!(Record::decode(&torn, &superblock, 40, 100 << 10), None, "byte {at}");
    }
}
