//! blktrace's binary form, blkparse's text and OCTF: one file.

use super::damage::reason;
use super::{by, read_all, record, write_all};
use crate::{Ending, Format, Op, Reason, Record, Source, TracePosition, TraceReader, detect};

const QUEUED: u32 = 1 | (1 << 4) << 16;
const ISSUED: u32 = 7 | (1 << 6) << 16;
const READ: u32 = 1 << 16;
const WRITE: u32 = 2 << 16;
const FLUSH: u32 = 4 << 16;
const NOTIFY: u32 = (1 << 10) << 16;
const DISCARD: u32 = (1 << 13) << 16;
const OF_CGROUP: u32 = 1 << 8;

/// What an event says.
#[derive(Clone, Copy)]
struct Event {
    at: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pdu: &'static [u8],
}

fn event(at: u64, sector: u64, bytes: u32, action: u32) -> Event {
    Event { at, sector, bytes, action, pdu: &[] }
}

/// The record of the kernel, in either byte order, on device 8,16.
fn bytes_of(e: &Event, is_big: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |little: &[u8]| {
        let mut field = little.to_vec();
        if is_big {
            field.reverse();
        }
        out.extend_from_slice(&field);
    };
    put(&0x6561_7407u32.to_le_bytes());
    put(&1u32.to_le_bytes());
    put(&e.at.to_le_bytes());
    put(&e.sector.to_le_bytes());
    for word in [e.bytes, e.action, 99, 8 << 20 | 16, 0] {
        put(&word.to_le_bytes());
    }
    put(&0u16.to_le_bytes());
    put(&(e.pdu.len() as u16).to_le_bytes());
    out.extend_from_slice(e.pdu);
    out
}

fn trace(events: &[Event], is_big: bool) -> Vec<u8> {
    events.iter().flat_map(|e| bytes_of(e, is_big)).collect()
}

#[test]
fn both_byte_orders_pdus_and_cgroups_read_alike() {
    let events = [
        Event { pdu: b"a process\0", ..event(5, 0, 0, NOTIFY) },
        Event { pdu: b"cgroupid", ..event(1_000, 8, 4096, QUEUED | OF_CGROUP | READ) },
        Event { pdu: b"12345678", ..event(1_500, 0, 0, 10 | (1 << 4) << 16) },
        event(2_000, 16, 512, QUEUED | WRITE),
        event(2_100, 16, 512, ISSUED | WRITE),
        event(3_000, 24, 1 << 20, QUEUED | WRITE | DISCARD),
        event(4_000, 0, 0, QUEUED | WRITE | FLUSH),
        event(5_000, 32, 512, QUEUED | WRITE | FLUSH),
    ];
    let expected = [
        record(0, 0, Op::Read, 4096, 4096),
        record(1_000, 0, Op::Write, 8192, 512),
        record(2_000, 0, Op::Discard, 12_288, 1 << 20),
        record(3_000, 0, Op::Flush, 0, 0),
        record(4_000, 0, Op::Flush, 0, 0),
        record(4_000, 0, Op::Write, 16_384, 512),
    ];
    let expected = expected.map(|record| by(99, record));
    for is_big in [false, true] {
        let data = trace(&events, is_big);
        assert_eq!(detect("x", &data), Some(Format::Blktrace));
        let (records, reader) = read_all(data, Format::Blktrace);
        assert_eq!(records, expected, "big endian: {is_big}");
        assert!(reader.report().is_clean(), "{}", reader.report());
        assert_eq!(reader.volumes(), ["8,16"]);
    }
}

#[test]
fn without_queueing_events_the_issued_ones_are_the_requests() {
    let events = [event(10, 8, 512, ISSUED | READ), event(20, 16, 512, ISSUED | WRITE)];
    let (records, _) = read_all(trace(&events, false), Format::Blktrace);
    assert_eq!(records, [by(99, record(0, 0, Op::Read, 4096, 512)), by(99, record(10, 0, Op::Write, 8192, 512))]);
    let text = "8,0 1 2 0.5 7 D R 8 + 1 [x]\n8,0 1 3 0.6 7 C R 8 + 1 [0]\n";
    assert_eq!(read_all(text, Format::Blkparse).0, [by(7, record(500_000_000, 0, Op::Read, 4096, 512))]);
    let text = "8,0 1 3 0.6 7 C R 8 + 1 [0]\n";
    assert_eq!(read_all(text, Format::Blkparse).0.len(), 1);
}

#[test]
fn damage_between_binary_records_is_passed_over_to_the_next_magic_number() {
    let one = |at| bytes_of(&event(at, at, 512, QUEUED | READ), false);
    let junk = vec![7; 70_000];
    let (records, reader) = read_all([one(10), one(20), junk, one(30), one(40)].concat(), Format::Blktrace);
    assert_eq!(records.iter().map(|r| r.at.0).collect::<Vec<_>>(), [0, 10, 20, 30]);
    let report = reader.report();
    assert_eq!(
        (report.malformed, report.faults[0].place, report.faults[0].reason),
        (1, TracePosition::Offset(96), Reason::NoMark)
    );
    assert_eq!(report.ending, Ending::Complete);
    let (records, reader) = read_all([one(10), one(20), vec![7; 500]].concat(), Format::Blktrace);
    assert_eq!(records.len(), 2);
    assert_eq!(reader.report().ending, Ending::Cut { offset: 96, why: "no record starts here or later".to_string() });
    let (records, reader) = read_all(&[one(10), one(20)].concat()[..90], Format::Blktrace);
    assert_eq!((records.len(), matches!(reader.report().ending, Ending::Cut { offset: 48, .. })), (1, true));
}

#[test]
fn another_version_of_the_binary_form_is_refused() {
    let mut data = trace(&[event(1, 8, 512, QUEUED | READ), event(2, 8, 512, QUEUED | READ)], false);
    (data[0], data[48]) = (6, 6);
    let e = TraceReader::from_bytes(data, Format::Blktrace).err().expect("refused").to_string();
    assert!(e.contains("byte 0: record version 6 where 7 is needed"), "{e}");
}

#[test]
fn blkparse_lines_of_every_kind() {
    let text = "\
  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  G   W 223490 + 8 [kjournald]
  8,0    3        0     0.000002000     0  m   N cfq697 insert_request
  8,0    3        3     0.000002197   697  P   N [kjournald]
  8,17   1        4     0.000003000   697  A  WS 1 + 8 <- (8,1) 0
  8,17   1        5     0.000003500   698  Q  RAM 16 + 256 [(null)]
  8,17   1        6     0.000004000   698  Q FWFSM 24 + 8 [jbd2/sda1-8]
  8,17   1        7     0.000005000   698  Q FWS [jbd2/sda1-8]
  8,17   1        8     0.000006000   698  Q  DS 32 + 64 [fstrim]
  8,17   1        9     0.000007000     0  C  FN 0 [0]
CPU0 (8,0):
 Reads Queued:           0,        0KiB
";
    let (records, reader) = read_all(text, Format::Blkparse);
    let expected = [
        by(697, record(0, 0, Op::Write, 223_490 * 512, 4096)),
        by(698, record(3_500, 1, Op::Read, 8192, 131_072)),
        by(698, record(4_000, 1, Op::Flush, 0, 0)),
        by(698, record(4_000, 1, Op::Write, 12_288, 4096)),
        by(698, record(5_000, 1, Op::Flush, 0, 0)),
        by(698, record(6_000, 1, Op::Discard, 16_384, 32_768)),
    ];
    assert_eq!((records, reader.volumes().join(" ")), (expected.to_vec(), "8,0 8,17".to_string()));
    assert!(reader.report().is_clean(), "{}", reader.report());
}

#[test]
fn each_bad_blkparse_line_is_counted() {
    let check = |bad: &str| reason(Format::Blkparse, "", "8,0 0 1 0.0 1 Q R 8 + 8 [x]", bad);
    assert_eq!(check("8,0 0 1 0.0 1 Q"), Reason::Columns { found: 6, needed: 7 });
    assert_eq!(check("80 0 1 0.0 1 Q R 8 + 8"), Reason::NotNumber("device"));
    assert_eq!(check("8,4294967296 0 1 0.0 1 Q R 8 + 8"), Reason::TooLarge("device"));
    assert_eq!(check("8,0 0 1 zero 1 Q R 8 + 8"), Reason::NotNumber("time"));
    assert!(matches!(check("8,0 0 1 0.0 1 Y R 8 + 8"), Reason::UnknownOp(_)));
    assert!(matches!(check("8,0 0 1 0.0 1 Q Y 8 + 8"), Reason::UnknownOp(_)));
    assert_eq!(check("8,0 0 1 0.0 1 Q R 8 + many"), Reason::NotNumber("length"));
    assert_eq!(check("8,0 0 1 0.0 1 Q R 8 + 0"), Reason::Empty);
}

#[test]
fn octf_without_a_description_names_the_device_by_its_number() {
    // 1: {1: 9, 2: 100}, 2: {1: 8, 2: 16, 4: 5, 5: 1}; behind it a flush of the same device, 50 ns later.
    let read = [0x0a, 4, 8, 9, 16, 100, 0x12, 8, 8, 8, 16, 16, 32, 5, 40, 1];
    let flush = [0x0a, 5, 8, 10, 16, 0x96, 1, 0x12, 4, 32, 5, 48, 1];
    let data = [&[16][..], &read, &[13], &flush].concat();
    assert_eq!(detect("octf", &data), Some(Format::Octf));
    let (records, reader) = read_all(data, Format::Octf);
    assert_eq!(records, [record(0, 0, Op::Read, 4096, 8192), record(50, 0, Op::Flush, 0, 0)]);
    assert_eq!(reader.volumes(), ["device 5"]);
}

#[test]
fn damaged_octf_messages_are_faults_and_a_lost_length_is_a_cut() {
    let records: Vec<Record> = (0..50).map(|i| record(i * 1_000, 0, Op::Write, i * 4096, 4096)).collect();
    let (whole, _) = write_all(&records, &["nvme0n1"], Format::Octf);
    let (back, reader) = read_all(whole.clone(), Format::Octf);
    assert_eq!((back, &reader.volumes()[0][..]), (records.clone(), "nvme0n1"));
    // The first message is the description; the second one's first tag becomes one of an unknown type.
    let second = 1 + usize::from(whole[0]);
    let mut bad = whole.clone();
    bad[second + 1] = 0x0f;
    let (back, reader) = read_all(bad, Format::Octf);
    assert_eq!(back.len(), 49);
    let fault = &reader.report().faults[0];
    assert_eq!((fault.place, fault.reason), (TracePosition::Offset(second as u64), Reason::NotMessage));
    let mut lost = whole.clone();
    lost.truncate(second);
    lost.extend_from_slice(&whole[second..second + 1 + usize::from(whole[second])]);
    let sound = lost.len() as u64;
    lost.extend_from_slice(&[0xff; 40]);
    let (back, reader) = read_all(lost, Format::Octf);
    assert_eq!(back.len(), 1);
    assert!(matches!(reader.report().ending, Ending::Cut { offset, .. } if offset == sound), "{}", reader.report());
}
