//! The live writer: batching, flushing, corrections, failing writes.

use super::{Shared, read_all, record, write_all};
use crate::sink::TAP_FORMAT;
use crate::{Format, Op, RecordSink, SinkError};
use std::io::{self, Write};

#[test]
fn the_tap_format_loses_nothing_but_nanoseconds() {
    let records = [
        record(1_000, 0, Op::Write, 1, 3),
        record(2_000, 1, Op::Discard, 7, 9),
        record(3_000, 0, Op::Flush, 0, 0),
        record(3_000, 1, Op::Read, 0, 1 << 40),
    ];
    let (bytes, written) = write_all(&records, &["data", "log"], TAP_FORMAT);
    assert!(written.losses.is_empty(), "{}", written.losses);
    assert_eq!(
        String::from_utf8(bytes.clone()).unwrap(),
        "fio version 3 iolog\n1 data add\n1 data open\n1 data write 1 3\n2 log add\n2 log open\n2 log trim 7 9\n\
         3 data sync 0 0\n3 log read 0 1099511627776\n3 data close\n3 log close\n"
    );
    assert_eq!(read_all(bytes, TAP_FORMAT).0, records);
}

#[test]
fn what_was_flushed_is_readable_while_the_sink_lives() {
    let out = Shared::default();
    let mut sink = RecordSink::new(TAP_FORMAT, Box::new(out.clone())).unwrap();
    sink.put(&record(5_000, 0, Op::Write, 0, 4096)).unwrap();
    assert!(out.bytes().is_empty(), "one record must not cost a write");
    sink.flush().unwrap();
    assert_eq!(read_all(out.bytes(), TAP_FORMAT).0, [record(5_000, 0, Op::Write, 0, 4096)]);
}

#[test]
fn oracle_general_needs_a_file_that_can_be_corrected() {
    let e = RecordSink::new(Format::OracleGeneral, Box::new(io::sink())).err().expect("a pipe must be refused");
    assert!(matches!(e, SinkError::NeedsSeek(Format::OracleGeneral)));
    assert!(e.to_string().contains("seekable file"), "{e}");
}

#[test]
fn next_accesses_are_right_across_batches_and_flushes() {
    // Far revisits cross the batch; the flush in the middle splits the corrections.
    const OBJECTS: u64 = 30_000;
    let out = Shared::default();
    let mut sink = RecordSink::to_file(Format::OracleGeneral, Box::new(out.clone())).unwrap();
    for i in 0..4 * OBJECTS {
        sink.put(&record(0, 0, Op::Read, i % OBJECTS * 4096, 4096)).unwrap();
        if i == OBJECTS + 77 {
            sink.flush().unwrap();
        }
    }
    sink.finish().unwrap();
    let bytes = out.bytes();
    assert_eq!(bytes.len() as u64, 4 * OBJECTS * 24);
    for (i, entry) in bytes.chunks(24).enumerate() {
        let object = u64::from_le_bytes(entry[4..12].try_into().unwrap());
        let next = i64::from_le_bytes(entry[16..].try_into().unwrap());
        let again = i as u64 + OBJECTS + 1;
        assert_eq!(object, i as u64 % OBJECTS * 8, "record {i}");
        assert_eq!(next, if again <= 4 * OBJECTS { again as i64 } else { -1 }, "record {i}");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut sink = RecordSink::new(Format::Load, Box::new(Full)).unwrap();
    let many = (0..10_000).map(|i| sink.put(&record(i, 0, Op::Read, 0, 512)));
    let e = many.filter_map(Result::err).next().expect("the batch must be handed on");
    assert!(e.to_string().starts_with("the trace cannot be written: "), "{e}");
}
