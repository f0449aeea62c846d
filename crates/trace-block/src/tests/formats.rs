//! What is told of formats agrees with what is read and written in them.

use super::{record, write_all};
use crate::format::detect::named;
use crate::{Format, Op, Record, RecordSink, SinkError, TraceReader};

#[test]
fn a_format_is_written_if_it_has_an_encoder() {
    for format in Format::ALL {
        let sink = RecordSink::to_file(format, Box::new(std::io::Cursor::new(Vec::new())));
        assert_eq!(sink.is_ok(), format.is_written(), "{format}");
    }
    assert_eq!(Format::written().count(), 17);
}

#[test]
fn a_format_that_is_only_read_is_refused_with_the_ones_that_are_written() {
    let e = RecordSink::new(Format::Cachelib, Box::new(std::io::sink())).err().expect("refused");
    assert!(matches!(e, SinkError::OnlyRead(Format::Cachelib)));
    assert!(e.to_string().starts_with("traces in format cachelib are read, not written; choose one of: load"), "{e}");
    assert!(!e.to_string().contains("hfplayer"), "{e}");
}

#[test]
fn times_operations_and_steps_are_those_that_read_back() {
    let sent = record(1_234_567_891, 0, Op::Write, 4096, 4096);
    for format in Format::written() {
        let (bytes, _) = write_all(&[record(0, 0, Op::Read, 0, 512), sent], &[], format);
        let back: Vec<Record> = TraceReader::from_bytes(bytes, format).unwrap().map(Result::unwrap).collect();
        assert_eq!(back[1].op == Op::Write, format.has_operations(), "{format}");
        let step = format.time_resolution().0;
        let expected = if format.has_times() { sent.at.0 / step * step } else { 0 };
        assert_eq!(back[1].at.0, expected, "{format}");
    }
    let timeless = Format::ALL.into_iter().filter(|format| !format.has_times()).collect::<Vec<_>>();
    assert_eq!(timeless, [Format::Fio2, Format::Arc, Format::Ids]);
    let without = Format::ALL.into_iter().filter(|format| !format.has_operations()).collect::<Vec<_>>();
    assert_eq!(without, [Format::OracleGeneral, Format::Arc, Format::Ids]);
}

#[test]
fn a_name_tells_the_formats_that_a_trace_may_be_written_in() {
    assert_eq!(named("dir.load/mine.iolog"), [Format::Fio3]);
    assert_eq!(named("mine.LOAD"), [Format::Load]);
    assert_eq!(named("mine.csv"), [Format::Msr, Format::Alibaba, Format::Tencent]);
    assert_eq!(named("w.oracleGeneral.bin"), [Format::OracleGeneral]);
    assert_eq!(named("sda.blktrace.0"), [Format::Blktrace]);
    assert_eq!(named("mine.txt"), []);
    for format in Format::written() {
        assert!(named(&format!("t.{format}")).contains(&format), "{format}");
    }
}
