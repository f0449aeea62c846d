//! Traces of several files, one for each CPU: recorded ones.

use super::{drain, read_all, record, write_all};
use crate::{Ending, Format, Op, Record, Source, TraceError, TraceReader};

const CPU0: &[u8] = include_bytes!("../../fixtures/recorded.blktrace.0.zst");
const CPU1: &[u8] = include_bytes!("../../fixtures/recorded.blktrace.1.zst");
const TEXT: &[u8] = include_bytes!("../../fixtures/recorded.blkparse.zst");

const QUEUES: [(&str, &[u8]); 8] = [
    ("octf.trace.13.zst", include_bytes!("../../../../data/opencas/octf.trace.13.zst")),
    ("octf.trace.16.zst", include_bytes!("../../../../data/opencas/octf.trace.16.zst")),
    ("octf.trace.18.zst", include_bytes!("../../../../data/opencas/octf.trace.18.zst")),
    ("octf.trace.2.zst", include_bytes!("../../../../data/opencas/octf.trace.2.zst")),
    ("octf.trace.4.zst", include_bytes!("../../../../data/opencas/octf.trace.4.zst")),
    ("octf.trace.5.zst", include_bytes!("../../../../data/opencas/octf.trace.5.zst")),
    ("octf.trace.6.zst", include_bytes!("../../../../data/opencas/octf.trace.6.zst")),
    ("octf.trace.7.zst", include_bytes!("../../../../data/opencas/octf.trace.7.zst")),
];

fn open(parts: &[(&str, &[u8])]) -> Result<TraceReader, TraceError> {
    let input = |data: &[u8]| Box::new(std::io::Cursor::new(data.to_vec())) as Box<_>;
    let parts = parts.iter().map(|(name, data)| (name.to_string(), input(data))).collect();
    TraceReader::open_parts("all", parts, None)
}

/// Reads, writes, flushes, discards: requests and bytes.
fn figures(records: &[Record]) -> [(usize, u64); 4] {
    Op::ALL.map(|op| {
        let of_op = records.iter().filter(|r| r.op == op);
        (of_op.clone().count(), of_op.map(|r| r.len).sum())
    })
}

#[test]
fn the_files_of_two_cpus_are_what_blkparse_prints_of_them() {
    let mut reader = open(&[("r.blktrace.0", CPU0), ("r.blktrace.1", CPU1)]).unwrap();
    let records = drain(&mut reader);
    assert!(reader.report().is_clean(), "{}", reader.report());
    assert_eq!(figures(&records), [(76, 311_296), (114, 2_924_544), (4, 0), (20, 655_360)]);
    assert_eq!((records[4].at.0, records.last().unwrap().at.0), (194_051, 7_209_840));
    let (text, reader) = read_all(TEXT, Format::Blkparse);
    assert_eq!(records, text);
    assert_eq!(reader.volumes(), ["7,0"]);
    // One after the other in one file, the window suffices for so short a trace.
    let unpack = |data| zstd::decode_all(data).unwrap();
    assert_eq!(read_all([unpack(CPU0), unpack(CPU1)].concat(), Format::Blktrace).0, records);
}

#[test]
fn the_queues_of_a_database_become_one_trace() {
    let mut reader = open(&QUEUES).unwrap();
    assert_eq!(reader.format(), Format::Octf);
    let records = drain(&mut reader);
    assert!(reader.report().is_clean(), "{}", reader.report());
    assert_eq!(figures(&records), [(0, 0), (1_568, 203_048_960), (0, 0), (32, 1_573_195_776)]);
    assert_eq!(records.last().unwrap().at.0, 24_245_535_459);
    assert!(records.is_sorted_by_key(|r| r.at));
    assert_eq!(reader.volumes(), ["nvme0n1"]);
    assert_eq!(reader.report().skipped, 1_558 + 35 + 7_606 + 20 + 8, "other events");
}

#[test]
fn a_cut_or_damaged_part_is_named_and_the_others_are_read() {
    let unpack = |data| zstd::decode_all(data).unwrap();
    let (whole, mut bad) = (unpack(CPU0), unpack(CPU1));
    bad.truncate(bad.len() - 20);
    bad[48] ^= 0xff;
    let mut reader = open(&[("r.blktrace.0", &whole), ("r.blktrace.1", &bad), ("r.blktrace.2", b"")]).unwrap();
    assert!(drain(&mut reader).len() > 200);
    let report = reader.report().to_string();
    assert!(report.contains("r.blktrace.1: byte 48: record version 248 where 7 is needed"), "{report}");
    assert!(
        matches!(&reader.report().ending, Ending::Cut { why, .. } if why.starts_with("r.blktrace.1: ")),
        "{report}"
    );
}

#[test]
fn parts_of_other_formats_and_parts_without_a_byte_are_refused() {
    let (text, _) = write_all(&[record(0, 0, Op::Read, 0, 512)], &[], Format::Fio3);
    let e = open(&[("a", &text), ("b", &text)]).err().expect("refused").to_string();
    assert_eq!(e, "all: several files make no trace in format fio3; give one of them");
    let e = open(&[("a", b""), ("b", b"")]).err().expect("refused").to_string();
    assert!(e.starts_with("all: is empty"), "{e}");
}
