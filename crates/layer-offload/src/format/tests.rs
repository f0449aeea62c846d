use std::mem::offset_of;

use super::*;

fn head() -> Head {
    let mut head = Head::new(0x0102_0304, 1 << 20, 64 << 10, 512);
    (head.sequence, head.first, head.number) = (9, 70 << 10, 31);
    (head.epoch, head.since, head.durable) = (4, 35, 33);
    head
}

fn record() -> Record {
    let range = ByteRange::new(4096, 1024).unwrap();
    Record { number: 40, epoch: 4, position: 100 << 10, range, content: Content::Data(7), durable: 33 }
}

#[test]
fn the_layout_is_that_of_the_page() {
    let head = [
        offset_of!(HeadBytes, magic),
        offset_of!(HeadBytes, version),
        offset_of!(HeadBytes, features),
        offset_of!(HeadBytes, log),
        offset_of!(HeadBytes, home),
        offset_of!(HeadBytes, area),
        offset_of!(HeadBytes, block),
        offset_of!(HeadBytes, sequence),
        offset_of!(HeadBytes, first),
        offset_of!(HeadBytes, number),
        offset_of!(HeadBytes, epoch),
        offset_of!(HeadBytes, since),
        offset_of!(HeadBytes, durable),
        offset_of!(HeadBytes, checksum),
    ];
    assert_eq!(head, [0, 8, 12, 16, 32, 40, 48, 56, 64, 72, 80, 88, 96, 124]);
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
    assert_eq!((size_of::<HeadBytes>(), size_of::<RecordBytes>(), AREA_START), (HEADER, HEADER, 8192));
}

/// A head and a record as version 1 wrote them; they must stay readable.
#[test]
fn the_golden_bytes_read_as_they_were_written() {
    let golden = include_bytes!("../../golden/log-v1.bin");
    let bytes = [head().encode(), record().encode(&head())].concat();
    assert!(bytes == golden, "what is written has changed");
    assert_eq!(Head::decode(golden), Ok(head()));
    assert_eq!(Record::decode(&golden[512..], &head(), 40, 100 << 10), Some(record()));
}

fn slots(first: &[u8], second: &[u8]) -> Vec<u8> {
    let mut slots = vec![0; AREA_START as usize];
    slots[..first.len()].copy_from_slice(first);
    slots[SLOT as usize..][..second.len()].copy_from_slice(second);
    slots
}

#[test]
fn the_newer_head_counts_and_a_damaged_one_is_never_passed_over() {
    let (old, mut new) = (head(), head());
    new.sequence += 1;
    assert_eq!(Head::newest(&slots(&new.encode(), &old.encode())), Ok(new.clone()));
    assert_eq!(Head::newest(&slots(&[], &old.encode())), Ok(old.clone()));
    assert_eq!(Head::newest(&slots(&[], &[])), Err(HeadError::Blank));
    assert_eq!(Head::newest(&slots(&old.encode(), &old.encode())), Err(HeadError::Shifted));
    let mut damaged = new.encode();
    damaged[60] ^= 1;
    assert_eq!(Head::newest(&slots(&damaged, &old.encode())), Err(HeadError::Checksum));
    assert_eq!(Head::newest(&slots(b"a file system", &old.encode())), Err(HeadError::Foreign));
}

fn with(change: impl FnOnce(&mut HeadBytes)) -> Result<Head, HeadError> {
    let mut bytes = HeadBytes::read_from_bytes(&head().encode()[..HEADER]).unwrap();
    change(&mut bytes);
    bytes.checksum = checksum(bytes.as_bytes()).into();
    Head::decode(bytes.as_bytes())
}

#[test]
fn what_no_esker_writes_is_refused_under_a_right_checksum() {
    assert_eq!(with(|head| head.version = 2.into()), Err(HeadError::Newer(2, 0)));
    assert_eq!(with(|head| head.features = 1.into()), Err(HeadError::Newer(1, 1)));
    assert_eq!(with(|head| head.block = 0.into()), Err(HeadError::Range("block")));
    assert_eq!(with(|head| head.block = 8192.into()), Err(HeadError::Range("block")));
    assert_eq!(with(|head| head.home = 100.into()), Err(HeadError::Range("volume")));
    assert_eq!(with(|head| head.area = 0.into()), Err(HeadError::Range("area")));
    assert_eq!(with(|head| head.first = 7.into()), Err(HeadError::Range("first record")));
    assert_eq!(with(|head| head.sequence = 0.into()), Err(HeadError::Range("sequence")));
    assert_eq!(with(|head| head.number = u64::MAX.into()), Err(HeadError::Range("number")));
    assert_eq!(Head::decode(&[1; 40]), Err(HeadError::Foreign));
}

#[test]
fn a_record_counts_only_where_and_when_it_was_written() {
    let (head, bytes) = (head(), record().encode(&head()));
    let is_read = |head: &Head, number, position| Record::decode(&bytes, head, number, position).is_some();
    assert!(is_read(&head, 40, 100 << 10));
    assert!(!is_read(&head, 41, 100 << 10), "an earlier round of the log");
    assert!(!is_read(&head, 40, 36 << 10), "the same place in another round");
    assert!(!is_read(&Head { log: 9, ..head.clone() }, 40, 100 << 10), "another log");
    assert!(!is_read(&Head { epoch: 5, ..head.clone() }, 40, 100 << 10), "given up by a new epoch");
    assert!(is_read(&Head { epoch: 5, since: 41, ..head.clone() }, 40, 100 << 10), "before the new epoch");
    assert!(!is_read(&Head { home: 4096, ..head.clone() }, 40, 100 << 10), "outside the volume");
    for at in 0..HEADER {
        let mut torn = bytes.clone();
        torn[at] ^= 4;
        assert_eq!(Record::decode(&torn, &head, 40, 100 << 10), None, "byte {at}");
    }
}
