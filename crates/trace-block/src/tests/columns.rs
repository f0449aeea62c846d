//! The formats of fixed columns: samples, hand-written lines, damage, packings, sorting.

use super::damage::reason;
use super::{by, read_all, record};
use crate::order::WINDOW;
use crate::{Format, Op, Reason, Record, Source, TraceError, TraceReader, detect};

/// Reads a sample by its bytes alone.
fn sample(data: &[u8], format: Format) -> (Vec<Record>, TraceReader) {
    let mut reader = TraceReader::open("sample", Box::new(std::io::Cursor::new(data.to_vec())), None).unwrap();
    assert_eq!(reader.format(), format);
    let records = reader.by_ref().map(Result::unwrap).collect();
    assert!(reader.report().is_clean(), "{}", reader.report());
    (records, reader)
}

/// Requests, reads, bytes, first and last time in ns: counted with awk.
fn figures(records: &[Record]) -> (usize, usize, u64, u64, u64) {
    let reads = records.iter().filter(|r| r.op == Op::Read).count();
    let ends = [records.first(), records.last()].map(|r| r.unwrap().at.0);
    (records.len(), reads, records.iter().map(|r| r.len).sum(), ends[0], ends[1])
}

#[test]
fn mqsim_sample() {
    let data = include_bytes!("../../../../data/mqsim/tpcc-small.trace.zst");
    let (records, reader) = sample(data, Format::Mqsim);
    assert_eq!(figures(&records), (6_999, 4_381, 59_718_656, 938_513_000, 1_075_002_000));
    assert_eq!((reader.volumes().len(), &reader.volumes()[0][..]), (16, "4"));
}

#[test]
fn disksim_sample() {
    let data = include_bytes!("../../../../data/disksim/ascii-first-10000.trace.zst");
    let (records, reader) = sample(data, Format::Disksim);
    assert_eq!(figures(&records), (10_000, 7_980, 52_396_032, 13_191_135, 156_878_181_305));
    assert_eq!(&reader.volumes()[..2], ["30", "20"]);
}

#[test]
fn alibaba_lines_are_sorted_and_keep_their_devices() {
    let (records, reader) = sample(include_bytes!("../../fixtures/synthetic-alibaba.csv"), Format::Alibaba);
    let expected = [
        record(0, 1, Op::Write, 126_703_644_672, 4096),
        record(6_000, 0, Op::Read, 4096, 8192),
        record(82_000, 0, Op::Write, 12_288, 16_384),
        record(99_960_000, 1, Op::Read, 126_703_648_768, 512),
    ];
    assert_eq!((records, reader.volumes()), (expected.to_vec(), &["727".to_string(), "64".to_string()][..]));
}

#[test]
fn tencent_lines_are_seconds_and_sectors() {
    let (records, reader) = sample(include_bytes!("../../fixtures/synthetic-tencent.csv"), Format::Tencent);
    let expected = [
        record(0, 0, Op::Write, 12_910_952 * 512, 8192),
        record(1_000_000_000, 0, Op::Read, 12_910_952 * 512, 65_536),
        record(1_000_000_000, 1, Op::Write, 6_338_688 * 512, 4096),
        record(2_000_000_000, 2, Op::Read, 4096, 4096),
    ];
    assert_eq!((records, reader.volumes().join(" ")), (expected.to_vec(), "1063 1071 9".to_string()));
}

#[test]
fn fiu_lines_name_devices_by_two_columns() {
    let (records, reader) = sample(include_bytes!("../../fixtures/synthetic-fiu.blkparse"), Format::Fiu);
    let expected = [
        by(4892, record(0, 0, Op::Write, 904_265_560 * 512, 4096)),
        by(2559, record(995_461_570, 1, Op::Read, 926_858_664 * 512, 8192)),
        by(2559, record(995_467_640, 0, Op::Write, 926_858_672 * 512, 4096)),
    ];
    assert_eq!((records, reader.volumes().join(" ")), (expected.to_vec(), "6,0 6,1".to_string()));
}

#[test]
fn arc_lines_are_runs_without_time_and_operation() {
    let (records, reader) = sample(include_bytes!("../../fixtures/synthetic-arc.lis"), Format::Arc);
    let again = record(0, 0, Op::Read, 512_000, 4096);
    assert_eq!(records, [again, record(0, 0, Op::Read, 1_842_745 * 512, 32_768), again]);
    assert_eq!(reader.volumes(), ["sample"]);
}

#[test]
fn each_bad_line_is_counted_with_its_reason() {
    let alibaba = |bad: &str| reason(Format::Alibaba, "", "1,R,0,512,7", bad);
    assert_eq!(alibaba("1,R,0,512"), Reason::Columns { found: 4, needed: 5 });
    assert_eq!(alibaba("x,R,0,512,7"), Reason::NotNumber("volume number"));
    assert_eq!(alibaba("1,X,0,512,7"), Reason::UnknownOp("R or W"));
    assert_eq!(alibaba("1,R,0,0,7"), Reason::Empty);
    assert_eq!(alibaba("1,R,-1,512,7"), Reason::Negative("offset"));
    let tencent = |bad: &str| reason(Format::Tencent, "", "7,0,8,0,1", bad);
    assert_eq!(tencent("7,0,8,2,1"), Reason::UnknownOp("0 (read) or 1 (write)"));
    assert_eq!(tencent("18446744074,0,8,0,1"), Reason::TooLarge("timestamp"));
    assert_eq!(tencent("7,36028797018963968,8,0,1"), Reason::TooLarge("offset"));
    let fiu = |bad: &str| reason(Format::Fiu, "", "7 1 p 0 8 W 6 0 00", bad);
    assert_eq!(fiu("7 1 p 0 8 W 6"), Reason::Columns { found: 7, needed: 8 });
    assert_eq!(fiu("7 1 p 0 8 W 6 x 00"), Reason::NotNumber("minor number"));
    assert_eq!(reason(Format::Mqsim, "", "7 0 0 8 1", "7 0 0 8 R"), Reason::UnknownOp("0 (write) or 1 (read)"));
    let disksim = |bad: &str| reason(Format::Disksim, "", "7.5 0 0 8 1", bad);
    assert_eq!(disksim("7.5 0 0 8 z"), Reason::NotNumber("flags"));
    assert_eq!(disksim("7.x 0 0 8 1"), Reason::NotNumber("timestamp"));
    assert_eq!(reason(Format::Arc, "", "1 8 0 0", "1 eight 0 0"), Reason::NotNumber("length"));
}

#[test]
fn disksim_flags_are_hexadecimal_and_only_their_lowest_bit_counts() {
    let (records, _) = read_all("0.0 0 0 1 1\n0.1 0 0 1 0x10\n0.25 0 0 1 5\n0.3 0 0 1 e\n", Format::Disksim);
    assert_eq!(records.iter().map(|r| r.op).collect::<Vec<_>>(), [Op::Read, Op::Write, Op::Read, Op::Write]);
    assert_eq!(records[2].at.0, 250_000);
}

#[test]
fn formats_with_alike_columns_are_told_apart() {
    let told = |line: &str| detect("trace", format!("{line}\n").as_bytes());
    assert_eq!(told("938513000 4 264719034 16 0"), Some(Format::Mqsim));
    assert_eq!(told("938.513 4 264719034 16 0"), Some(Format::Disksim));
    assert_eq!(told("1 1 0 0"), Some(Format::Arc));
    assert_eq!(told("1538323200,12910952,128,0,1063"), Some(Format::Tencent));
    assert_eq!(told("Timestamp,Offset,Size,IOType,VolumeID"), Some(Format::Tencent));
    assert_eq!(told("device_id,opcode,offset,length,timestamp"), Some(Format::Alibaba));
    assert_eq!(told("1 2 3"), None);
    assert_eq!(told("938513000 4 264719034 16 2"), None);
}

#[test]
fn xz_and_bzip2_are_unpacked_and_told_when_cut() {
    let (plain, _) = read_all(include_bytes!("../../fixtures/synthetic-msr.csv"), Format::Msr);
    let xz = include_bytes!("../../fixtures/synthetic-msr.csv.xz").as_slice();
    let bzip2 = include_bytes!("../../fixtures/synthetic-msr.csv.bz2").as_slice();
    for packed in [xz, bzip2] {
        assert_eq!(read_all(packed, Format::Msr).0, plain);
        assert_eq!(read_all([packed, packed].concat(), Format::Msr).0.len(), 2 * plain.len(), "two streams");
        let e = TraceReader::from_bytes(&packed[..packed.len() / 2], Format::Msr).err().expect("a half is nothing");
        assert!(e.to_string().contains("packed data is damaged or truncated"), "{e}");
    }
}

/// Alibaba lines with these times in µs.
fn at_times(times: impl IntoIterator<Item = u64>) -> String {
    times.into_iter().map(|t| format!("1,W,{},512,{t}\n", t * 512)).collect()
}

#[test]
fn what_is_late_by_less_than_the_window_is_sorted_in() {
    let window = WINDOW as u64;
    // Each block of a window's length runs backwards.
    let (records, reader) =
        read_all(at_times((0..3 * window).map(|i| i - i % window + window - i % window)), Format::Alibaba);
    assert!(reader.report().is_clean(), "{}", reader.report());
    assert_eq!(records.len() as u64, 3 * window);
    assert!(records.iter().enumerate().all(|(i, r)| r.at.0 == i as u64 * 1_000), "sorted, none lost");
}

#[test]
fn a_single_time_beyond_the_window_is_a_fault_of_its_line() {
    let n = 3 * WINDOW as u64;
    let (records, reader) = read_all(at_times((1..=n).chain([1]).chain(n + 1..=2 * n)), Format::Alibaba);
    let report = reader.report();
    assert_eq!((records.len() as u64, report.malformed, report.times_clamped), (2 * n, 1, 0));
    assert_eq!(report.faults[0].place, crate::TracePosition::Line(n + 1));
    assert_eq!(report.faults[0].reason, Reason::Late(WINDOW));
}

#[test]
fn a_trace_that_is_not_sorted_is_refused_with_what_to_do() {
    let n = 2 * WINDOW as u64;
    let text = at_times((n..2 * n).chain(0..n));
    let mut reader = TraceReader::open("day.csv", Box::new(std::io::Cursor::new(text)), None).unwrap();
    let (records, error): (Vec<_>, Vec<_>) = reader.by_ref().take(5 * n as usize).partition(Result::is_ok);
    assert!(records.len() >= WINDOW, "what could be sorted was delivered");
    let e = error.into_iter().next().expect("refused").unwrap_err();
    assert!(matches!(e, TraceError::OutOfOrder { late: 101, .. }), "{e}");
    assert!(e.to_string().ends_with("sort it first: sort -t, -k5,5n"), "{e}");
}
