//! `ebt`: exactness, layout, golden trace, damage, index.

use super::{Shared, drain, read_all, record, write_all};
use crate::{Ending, Format, Index, Op, Origin, Reason, Record, RecordSink, Source, TraceReader, convert};
use esker_base::Nanos;
use std::io::Cursor;

const GOLDEN: &[u8] = include_bytes!("../../fixtures/golden-v1.ebt");

/// Records of several blocks and volumes that use every operation and both ends of every range.
fn varied(count: u64) -> Vec<Record> {
    let mut at = 0;
    let one = |i: u64| {
        let mix = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        at += mix >> 44;
        let op = Op::ALL[(mix >> 13) as usize % 4];
        let (offset, len) = match (op, i % 97) {
            (Op::Flush, _) => (0, 0),
            (_, 0) => (u64::MAX - 1, 1),
            (_, 1) => (0, u64::MAX),
            _ => (mix >> 20, (mix >> 50) + 1),
        };
        record(at, (i % 3).min(i / 2) as u32, op, offset, len)
    };
    (0..count).map(one).collect()
}

/// Aligned requests, as disks get them, of three blocks.
fn plain(count: u64) -> Vec<Record> {
    (0..count).map(|i| record(i * 1_000, 0, Op::ALL[(i % 2) as usize], i * 7_919 % 10_007 * 4096, 4096)).collect()
}

fn ebt(records: &[Record]) -> Vec<u8> {
    write_all(records, &["web", "db"], Format::Ebt).0
}

fn index(bytes: &[u8]) -> Index {
    Index::load(&mut Cursor::new(bytes)).unwrap()
}

#[test]
fn everything_reads_back_exactly_across_blocks() {
    let records = varied(10_000);
    let (back, reader) = read_all(ebt(&records), Format::Ebt);
    assert!(back == records, "all fields of all records");
    assert!(reader.report().is_clean(), "{}", reader.report());
    assert_eq!(reader.volumes(), ["web", "db", "volume2"]);
}

#[test]
fn notices_travel_with_the_trace() {
    let mut load =
        TraceReader::from_bytes(&include_bytes!("../../../../data/windows-shared-server.load.gz")[..], Format::Load)
            .unwrap();
    let out = Shared::default();
    convert(&mut load, RecordSink::new(Format::Ebt, Box::new(out.clone())).unwrap()).unwrap();
    let (_, reader) = read_all(out.bytes(), Format::Ebt);
    assert!(String::from_utf8_lossy(Source::comment(&reader)).contains("Copyright"));
    assert_eq!(Source::comment(&reader), Source::comment(&load));
}

#[test]
fn the_golden_trace_reads_as_it_did() {
    let (records, reader) = read_all(GOLDEN, Format::Ebt);
    assert_eq!(records, varied(5_000));
    assert!(reader.report().is_clean(), "{}", reader.report());
    assert_eq!(index(GOLDEN).entries().len(), 2);
}

/// The bytes as the page of the format gives them, put together by another program; a change here is a change of the
/// format.
#[test]
fn the_layout_is_that_of_the_page() {
    let (bytes, _) =
        write_all(&[record(5, 0, Op::Write, 4096, 512), record(7, 0, Op::Flush, 0, 0)], &["web"], Format::Ebt);
    let parts = [
        // Header: mark, version, length, features, reserved, checksum.
        "894542540d0a1a0a",
        "0100",
        "2000",
        "01000000",
        "000000000000000000000000",
        "8905778c",
        // Names: mark, kind, packing, items, stored, raw, checksum, first, time, reserved, checksum; payload.
        "894542420d0a1a0a",
        "02000000",
        "01000000",
        "04000000",
        "04000000",
        "b19179d9",
        "0000000000000000",
        "0000000000000000",
        "0000000000000000",
        "63fae77d",
        "03776562",
        // Records.
        "894542420d0a1a0a",
        "01000000",
        "02000000",
        "08000000",
        "08000000",
        "da74dde8",
        "0000000000000000",
        "0500000000000000",
        "0000000000000000",
        "b7d922e8",
        // Shift, operations, volumes, times, lengths, places.
        "09",
        "09",
        "0000",
        "0002",
        "01",
        "10",
        // Directory: the names again, then the index with one entry.
        "894542420d0a1a0a02000000010000000400000004000000b19179d900000000000000000000000000000000000000000000000063fae77d03776562",
        "894542420d0a1a0a0400000001000000030000000300000083fa90e7000000000000000005000000000000000000000000000000640bab5a",
        "5c0500",
        // End: mark, directory, records, blocks, last time, reserved, checksum.
        "894542450d0a1a0a",
        "9c00000000000000",
        "0200000000000000",
        "0100000000000000",
        "0700000000000000",
        "000000000000000000000000",
        "ead70f2b",
    ];
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(hex, parts.concat());
}

#[test]
fn any_changed_byte_is_noticed_and_never_becomes_another_record() {
    let records = plain(9_000);
    let whole = ebt(&records);
    let step = whole.len() / 700 + 1;
    for at in (0..200).chain((200..whole.len()).step_by(step)).chain(whole.len() - 200..whole.len()) {
        let mut bad = whole.clone();
        bad[at] ^= 0x10;
        let Ok(mut reader) = TraceReader::from_bytes(bad, Format::Ebt) else { continue };
        let back = drain(&mut reader);
        assert!(!reader.report().is_clean(), "byte {at}");
        let mut rest = records.iter();
        assert!(back.iter().all(|r| rest.any(|o| o == r)), "byte {at}: only records that were written, in order");
        assert!(
            back.len() >= records.len() - 4096,
            "byte {at}: only one block is lost, not {}",
            records.len() - back.len()
        );
    }
}

#[test]
fn a_lost_block_is_told_by_the_numbers_of_its_records() {
    let whole = ebt(&plain(9_000));
    let entries = index(&whole).entries().to_vec();
    let [from, to] = [entries[1].offset as usize, entries[2].offset as usize];
    let (back, reader) = read_all([&whole[..from], &whole[to..]].concat(), Format::Ebt);
    assert_eq!(back.len(), 9_000 - 4096);
    assert_eq!(reader.report().faults[0].reason, Reason::Gap { expected: 4096, found: 8192 });
    assert_eq!(reader.report().malformed, 1, "{}", reader.report());
}

#[test]
fn a_cut_trace_yields_its_whole_blocks_and_its_index_is_found_again() {
    let records = plain(9_000);
    let whole = ebt(&records);
    let full = index(&whole);
    assert_eq!((full.origin(), full.records(), full.entries().len()), (&Origin::Stored, 9_000, 3));
    for cut in [whole.len() - 1, whole.len() - 60, full.entries()[2].offset as usize + 100] {
        let part = &whole[..cut];
        let (back, reader) = read_all(part, Format::Ebt);
        let blocks = back.len().div_ceil(4096);
        assert!(blocks >= 2 && back == records[..back.len()], "{} records", back.len());
        assert!(matches!(reader.report().ending, Ending::Cut { .. }), "{}", reader.report());
        let found = index(part);
        assert!(
            matches!(found.origin(), Origin::Rebuilt(why) if why.to_string().contains("end mark is missing")),
            "{:?}",
            found.origin()
        );
        assert_eq!(found.entries(), &full.entries()[..blocks]);
        assert_eq!(found.records(), back.len() as u64);
    }
}

#[test]
fn a_stopped_writer_leaves_what_it_flushed() {
    let out = Shared::default();
    let mut sink = RecordSink::new(Format::Ebt, Box::new(out.clone())).unwrap();
    let records = plain(100);
    records.iter().for_each(|r| sink.put(r).unwrap());
    sink.flush().unwrap();
    let (back, reader) = read_all(out.bytes(), Format::Ebt);
    assert_eq!(back, records);
    assert!(reader.report().to_string().contains("the end mark is missing"), "{}", reader.report());
}

#[test]
fn seeking_gives_what_reading_and_passing_over_gives() {
    let mut records = varied(10_000);
    // Equal times around the border of the first blocks.
    let at = records[4096].at;
    records[4090..4100].iter_mut().for_each(|r| r.at = at);
    let whole = ebt(&records);
    let index = index(&whole);
    for from in [0, 1, at.0, at.0 + 1, records[9_000].at.0, records[9_999].at.0, u64::MAX].map(Nanos) {
        let mut reader = TraceReader::open_at("w.ebt", Cursor::new(whole.clone()), &index, from).unwrap();
        let expected: Vec<Record> = records.iter().filter(|r| r.at >= from).copied().collect();
        let found = drain(&mut reader);
        let names = |r: &Record, volumes: &[String]| (r.at, r.op, r.offset, r.len, volumes[r.volume as usize].clone());
        let volumes = ["web", "db", "volume2"].map(str::to_string);
        let left: Vec<_> = found.iter().map(|r| names(r, reader.volumes())).collect();
        let right: Vec<_> = expected.iter().map(|r| names(r, &volumes)).collect();
        assert!(left == right, "from {from}");
        assert!(reader.report().is_clean(), "{}", reader.report());
        if from.0 > records[9_000].at.0 {
            assert!(reader.report().records < 4096, "blocks before were not read");
        }
    }
}

#[test]
fn the_checker_compares_the_index_with_the_blocks() {
    let check = |bytes: &[u8]| {
        Index::check(&mut Cursor::new(bytes.to_vec()))
            .unwrap()
            .map(|index| index.records())
            .map_err(|flaw| flaw.to_string())
    };
    let whole = ebt(&plain(9_000));
    assert_eq!(check(&whole), Ok(9_000));
    let mut cut = whole.clone();
    cut.truncate(whole.len() - 3);
    assert!(check(&cut).unwrap_err().contains("the end mark is missing"));
    let mut bad = whole.clone();
    bad[index(&whole).entries()[1].offset as usize + 20] ^= 1;
    assert_eq!(check(&bad).unwrap_err(), "the index and the blocks differ from block 1 on");
}

#[test]
fn a_trace_of_a_newer_program_is_refused_by_its_features() {
    let newer = |at: usize, value: u8| {
        let mut bytes = ebt(&plain(10));
        bytes[at] = value;
        let crc = crc32fast::hash(&bytes[..28]).to_le_bytes();
        bytes[28..32].copy_from_slice(&crc);
        let refused = TraceReader::from_bytes(bytes.clone(), Format::Ebt).err().expect("refused").to_string();
        (refused, Index::load(&mut Cursor::new(bytes)).expect_err("refused").to_string())
    };
    let (stream, seek) = newer(12, 0x81);
    assert!(stream.contains("features 0x80 are not known; read the trace with a newer esker"), "{stream}");
    assert!(seek.contains("features 0x80 are not known"), "{seek}");
    assert!(newer(8, 2).0.contains("version 2 where 1 is needed"), "{}", newer(8, 2).0);
}

#[test]
fn other_files_have_no_index() {
    let e = Index::load(&mut Cursor::new(b"1 1 0 0\n".to_vec())).expect_err("refused").to_string();
    assert!(e.contains("is not an unpacked trace in format ebt"), "{e}");
}

proptest::proptest! {
    /// Whatever the fields: what is written is read.
    #[test]
    fn any_records_read_back(raw in proptest::collection::vec(proptest::prelude::any::<(u64, u32, u8, u64, u64)>(), 1..300)) {
        let mut at = 0u64;
        let to_record = |(gap, volume, op, offset, len): &(u64, u32, u8, u64, u64)| {
            at = at.saturating_add(gap >> (gap % 64));
            let op = Op::ALL[usize::from(op % 4)];
            let len = (len >> (len % 64)).clamp(1, u64::MAX - offset.min(&(u64::MAX - 1)));
            let offset = *offset.min(&(u64::MAX - 1));
            let (offset, len) = if op == Op::Flush { (0, 0) } else { (offset, len) };
            record(at, volume % 5, op, offset, len)
        };
        let records: Vec<Record> = raw.iter().map(to_record).collect();
        let (back, reader) = read_all(ebt(&records), Format::Ebt);
        assert!(reader.report().is_clean(), "{}", reader.report());
        let key = |r: &Record| (r.at, r.op, r.offset, r.len);
        assert_eq!(back.iter().map(key).collect::<Vec<_>>(), records.iter().map(key).collect::<Vec<_>>());
    }
}
