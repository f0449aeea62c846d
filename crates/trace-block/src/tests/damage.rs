//! Malformed lines, wrong formats, truncation, failing reads and arbitrary bytes.

use super::read_all;
use crate::fault::{FAULTS_KEPT, TracePosition};
use crate::input::LINE_MAX;
use crate::names::VOLUMES_MAX;
use crate::{Ending, Format, Reason, TraceError, TraceReader};
use flate2::{Compression, write::GzEncoder};
use std::io::{self, Read, Write};

const HEADER: &str = "some notice\nstart ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n";

fn load(lines: &str) -> String {
    format!("{HEADER}{lines}")
}

/// One bad line after a good one, in `format`; returns the reason.
pub(super) fn reason(format: Format, prefix: &str, good: &str, bad: &str) -> Reason {
    let (records, reader) = read_all(format!("{prefix}{good}\n{bad}\n{good}\n"), format);
    assert_eq!(records.len(), 2, "the good lines around \"{bad}\" must be read");
    assert_eq!(reader.report().malformed, 1, "{bad}");
    let fault = &reader.report().faults[0];
    assert_eq!(fault.place, TracePosition::Line(prefix.lines().count() as u64 + 2));
    assert_eq!(fault.excerpt, bad.trim());
    fault.reason
}

#[test]
fn each_bad_load_line_is_counted_with_its_line_and_reason() {
    let check = |bad: &str| reason(Format::Load, HEADER, "0.5 ; 8 ; 8 ; R ; 0.0 ; 0.0", bad);
    assert_eq!(check("0.5 ; 8 ; 8"), Reason::Columns { found: 3, needed: 4 });
    assert_eq!(check("0.5 ; -8 ; 8 ; R ; 0 ; 0"), Reason::Negative("sector"));
    assert_eq!(check("-1.5 ; 8 ; 8 ; R ; 0 ; 0"), Reason::Negative("start"));
    assert_eq!(check("0.5 ; 8 ;  ; R ; 0 ; 0"), Reason::Missing("length"));
    assert_eq!(check("0.5e3 ; 8 ; 8 ; R ; 0 ; 0"), Reason::NotNumber("start"));
    assert_eq!(check("0.5 ; 8 ; 8 ; X ; 0 ; 0"), Reason::UnknownOp("R or W"));
    assert_eq!(check("0.5 ; 8 ; 0 ; R ; 0 ; 0"), Reason::Empty);
    assert_eq!(check("0.5 ; 99999999999999999999 ; 8 ; R ; 0 ; 0"), Reason::TooLarge("sector"));
    assert_eq!(check("0.5 ; 36028797018963968 ; 8 ; R ; 0 ; 0"), Reason::TooLarge("sector"));
    assert_eq!(check("0.5 ; 36028797018963967 ; 8 ; R ; 0 ; 0"), Reason::RangeOverflow);
    assert_eq!(check("18446744073.709551616 ; 8 ; 8 ; R ; 0 ; 0"), Reason::TooLarge("start"));
    assert_eq!(check("\u{1F4BE} ; 8 ; 8 ; R ; 0 ; 0"), Reason::NotNumber("start"));
}

#[test]
fn each_bad_msr_line_is_counted() {
    let check = |bad: &str| reason(Format::Msr, "", "128166372003061629,usr,0,Read,0,512,9", bad);
    assert_eq!(check("1281663720,usr,0,Read,0"), Reason::Columns { found: 5, needed: 6 });
    assert_eq!(check("1281663720,usr,x,Read,0,512,9"), Reason::NotNumber("disk number"));
    assert_eq!(check("1281663720,usr,0,Trim,0,512,9"), Reason::UnknownOp("Read or Write"));
    assert_eq!(check("18446744073709551615,usr,0,Read,0,512,9"), Reason::TooLarge("timestamp"));
    assert_eq!(check("1281663720,usr,0,Read,18446744073709551615,512,9"), Reason::RangeOverflow);
}

#[test]
fn each_bad_fio_line_is_counted() {
    let v3 = |bad: &str| reason(Format::Fio3, "fio version 3 iolog\n", "5 /f read 0 512", bad);
    assert_eq!(v3("x /f read 0 512"), Reason::NotNumber("timestamp"));
    assert_eq!(v3("5"), Reason::Missing("file name"));
    assert_eq!(v3("5 /f"), Reason::Missing("action"));
    assert_eq!(v3("5 /f read 0"), Reason::Missing("length"));
    assert!(matches!(v3("5 /f wait 100 0"), Reason::UnknownOp(_)));
    let v2 = |bad: &str| reason(Format::Fio2, "fio version 2 iolog\n", "/f write 0 512", bad);
    assert_eq!(v2("/f wait 18446744073709551615 0"), Reason::TooLarge("wait"));
    assert_eq!(v2("/f write 0 0"), Reason::Empty);
}

#[test]
fn line_ends_of_other_systems_and_a_missing_last_one_are_fine() {
    let unix = load("0.0 ; 8 ; 8 ; R ; 0.0 ; 0.0\n\n1.5 ; 16 ; 8 ; W ; 0.0 ; 0.0\n");
    let (expected, _) = read_all(unix.clone(), Format::Load);
    assert_eq!((expected.len(), expected[1].at.0, expected[1].offset), (2, 1_500_000_000, 8192));
    assert_eq!(read_all(unix.replace('\n', "\r\n"), Format::Load).0, expected);
    assert_eq!(read_all(unix.trim_end(), Format::Load).0, expected);
    let msr = "128166372003061629,usr,0,Read,0,512\r\n";
    assert_eq!(read_all(msr, Format::Msr).0.len(), 1, "the size may be the last column");
}

#[test]
fn only_the_first_faults_are_kept() {
    let lines = "0.0 ; 8 ; 8 ; R ; 0 ; 0\n".repeat(100) + &"broken ; ; ;\n".repeat(500);
    let (records, reader) = read_all(load(&lines), Format::Load);
    let report = reader.report();
    assert_eq!((records.len(), report.malformed, report.faults.len()), (100, 500, FAULTS_KEPT));
    let text = report.to_string();
    assert!(text.contains("line 103: the start is not a number: \"broken ; ; ;\""), "{text}");
    assert!(text.ends_with("and 480 more"), "{text}");
}

#[test]
fn times_that_run_backwards_are_clamped_and_counted() {
    let lines = "5.0 ; 8 ; 8 ; R ; 0 ; 0\n2.0 ; 8 ; 8 ; R ; 0 ; 0\n6.0 ; 8 ; 8 ; R ; 0 ; 0\n";
    let (records, reader) = read_all(load(lines), Format::Load);
    assert_eq!(records.iter().map(|r| r.at.0 / 1_000_000_000).collect::<Vec<_>>(), [5, 5, 6]);
    assert_eq!(reader.report().times_clamped, 1);
    assert!(!reader.report().is_clean());
}

#[test]
fn overlong_lines_are_one_fault_and_cost_no_memory() {
    let long = "9".repeat(5 * LINE_MAX);
    let good = "0.0 ; 8 ; 8 ; R ; 0 ; 0\n";
    let (records, reader) = read_all(load(&format!("{good}{long}\n{good}{good}{long}")), Format::Load);
    assert_eq!((records.len(), reader.report().malformed), (3, 2));
    assert_eq!(reader.report().faults[0].reason, Reason::LineTooLong(LINE_MAX));
    assert!(reader.report().faults[0].excerpt.chars().count() <= 81);
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    out.write_all(data).unwrap();
    out.finish().unwrap()
}

fn numbered(n: u64) -> String {
    (0..n).map(|i| format!("{i}.0 ; {} ; 8 ; W ; 0.0 ; 0.0\n", i * 7919 % 100_003)).collect()
}

#[test]
fn truncated_gzip_and_zstd_deliver_what_came_before() {
    let text = load(&numbered(20_000));
    let (whole, _) = read_all(text.clone(), Format::Load);
    for packed in [gzip(text.as_bytes()), zstd::encode_all(text.as_bytes(), 1).unwrap()] {
        assert_eq!(read_all(packed.clone(), Format::Load).0, whole);
        let (part, reader) = read_all(&packed[..packed.len() * 2 / 3], Format::Load);
        assert!(part.len() > 1_000 && part.len() < whole.len(), "{} records", part.len());
        assert_eq!(part[..], whole[..part.len()], "a cut line must not be read as a shorter number");
        assert_eq!(reader.report().malformed, 0);
        let Ending::Cut { offset, why } = &reader.report().ending else { panic!("{}", reader.report()) };
        assert!(*offset > 0 && why.contains("truncated"), "{offset} {why}");
    }
}

#[test]
fn a_cut_says_how_many_bytes_were_delivered_even_of_a_short_trace() {
    let text = load(&numbered(40));
    // All the text arrives, then a second frame is cut off in its magic number.
    let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
    let (records, reader) = read_all([packed, vec![0x28, 0xb5, 0x2f]].concat(), Format::Load);
    assert_eq!(records.len(), 40);
    let Ending::Cut { offset, .. } = reader.report().ending else { panic!("{}", reader.report()) };
    assert_eq!(offset, text.len() as u64);
}

#[test]
fn damaged_packing_is_a_cut_not_a_panic() {
    let text = load(&numbered(20_000));
    for mut packed in [gzip(text.as_bytes()), zstd::encode_all(text.as_bytes(), 1).unwrap()] {
        let middle = packed.len() / 2;
        packed[middle..middle + 64].fill(0xff);
        match TraceReader::from_bytes(packed, Format::Load) {
            Ok(mut reader) => {
                for record in reader.by_ref() {
                    record.unwrap();
                }
                assert_ne!(reader.report().ending, Ending::Complete);
            }
            Err(e) => assert!(matches!(e, TraceError::WrongFormat(_) | TraceError::Damaged { .. }), "{e}"),
        }
    }
}

#[test]
fn several_gzip_members_are_one_trace() {
    let (a, b) = (gzip(load(&numbered(10)).as_bytes()), gzip(numbered(5).as_bytes()));
    assert_eq!(read_all([a, b].concat(), Format::Load).0.len(), 15);
}

#[test]
fn a_binary_tail_is_reported() {
    let mut data = Vec::new();
    (1..=3u64).for_each(|i| {
        data.extend_from_slice(&[0, 0, 0, 0, 0, 2, 0, 0, 1, 0, 0, 0, 0x28, 0, 0, 1]);
        data.extend_from_slice(&i.to_le_bytes());
        data.extend_from_slice(&(i * 1000).to_le_bytes());
    });
    let (records, reader) = read_all(&data[..data.len() - 5], Format::Vscsi1);
    assert_eq!(records.len(), 2);
    let why = "the last record has 27 of 32 bytes".to_string();
    assert_eq!(reader.report().ending, Ending::Cut { offset: 64, why });
    data[32 + 15] = 9;
    let (records, reader) = read_all(data, Format::Vscsi1);
    let fault = &reader.report().faults[0];
    assert_eq!((records.len(), fault.place), (2, TracePosition::Offset(32)));
    assert_eq!(fault.reason, Reason::Version { found: 9, needed: 1 });
}

#[test]
fn other_scsi_commands_are_skipped_not_faults() {
    let command = |code: u8| {
        let mut r = vec![0, 0, 0, 0, 0, 2, 0, 0, 1, 0, 0, 0, code, 0, 0, 1];
        r.resize(32, 0);
        r
    };
    let (records, reader) =
        read_all([command(0x28), command(0x12), command(0x35), command(0x42)].concat(), Format::Vscsi1);
    assert_eq!(records.iter().map(|r| r.op).collect::<Vec<_>>(), [crate::Op::Read, crate::Op::Flush]);
    assert_eq!((reader.report().skipped, reader.report().malformed), (2, 0));
}

fn refusal(file: &str, data: &[u8], format: Option<Format>) -> String {
    match TraceReader::open(file, Box::new(io::Cursor::new(data.to_vec())), format) {
        Ok(_) => panic!("{file} must be refused"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn a_wrong_format_names_file_line_text_and_fix() {
    let text = load(&numbered(5));
    let e = refusal("a.load", text.as_bytes(), Some(Format::Msr));
    assert_eq!(
        e,
        "a.load: is not a trace in format msr: line 1: 1 columns where 6 are needed: \"some notice\" \
         (7 of the first 7 do not fit); it looks like load: read it as that"
    );
    let prose = "all work and no play\n".repeat(40);
    let e = refusal("b.txt", prose.as_bytes(), Some(Format::Load));
    assert!(e.starts_with("b.txt: is not a trace in format load: line 1: no line `start ; sector"), "{e}");
    assert!(e.contains("name the right format, one of: load, vscsi1"), "{e}");
    let e = refusal("c", &[7; 4096], Some(Format::Vscsi2));
    assert!(e.contains("byte 0: record version 7 where 2 is needed: \"0707"), "{e}");
    let e = refusal("d", b"no magic\n/f read 0 512\n", Some(Format::Fio3));
    assert!(e.contains("line 1: the first line is not `fio version 3 iolog`: \"no magic\""), "{e}");
}

#[test]
fn empty_unknown_and_otherwise_packed_traces_are_refused() {
    assert_eq!(refusal("e", b"", None), "e: is empty; give a trace that holds at least one record");
    assert_eq!(refusal("e.gz", &gzip(b""), Some(Format::Load)), refusal("e.gz", b"", None));
    let e = refusal("e.gz", &gzip(b"0")[..4], None);
    assert!(e.starts_with("e.gz: nothing can be read: packed data is damaged or truncated"), "{e}");
    let e = refusal("f", b"whatever\n", None);
    assert!(
        e.contains("not recognised; name it with --from, one of: load, vscsi1, vscsi2, oracle-general, msr"),
        "{e}"
    );
    let e = refusal("g.zip", b"PK\x03\x04junk", None);
    assert!(e.contains("packed with zip; unpack it first"), "{e}");
    let e = refusal("g.xz", &[0xfd, b'7', b'z', b'X', b'Z', 0, 1], None);
    assert!(e.starts_with("g.xz: nothing can be read: packed data is damaged or truncated"), "{e}");
}

#[test]
fn a_failing_disk_is_an_error_not_an_end() {
    struct Failing(io::Cursor<Vec<u8>>);
    impl Read for Failing {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buf)? {
                0 => Err(io::Error::other("the medium is gone")),
                n => Ok(n),
            }
        }
    }
    let text = load(&numbered(50_000));
    for data in [text.clone().into_bytes(), gzip(text.as_bytes())[..30_000].to_vec()] {
        let reader = TraceReader::open("h", Box::new(Failing(io::Cursor::new(data))), Some(Format::Load)).unwrap();
        let error = reader.filter_map(Result::err).next().expect("the failure must be seen");
        assert_eq!(error.to_string(), "h: cannot be read: the medium is gone");
    }
}

#[test]
fn too_many_volumes_are_refused_one_by_one() {
    let mut text = "fio version 3 iolog\n".to_string();
    (0..VOLUMES_MAX + 3).for_each(|i| text.push_str(&format!("0 /f{i} read 0 512\n")));
    let (records, reader) = read_all(text, Format::Fio3);
    assert_eq!((records.len(), reader.report().malformed), (VOLUMES_MAX, 3));
    assert_eq!(reader.report().faults[0].reason, Reason::TooManyVolumes(VOLUMES_MAX));
}

proptest::proptest! {
    /// Whatever the bytes: no panic, and every record keeps its promises.
    #[test]
    fn any_bytes_are_survived(data in proptest::collection::vec(proptest::num::u8::ANY, 0..600), cut in 0usize..600) {
        let text = load(&numbered(20));
        let mixed = [&text.as_bytes()[..cut.min(text.len())], &data].concat();
        for (format, bytes) in Format::ALL.into_iter().flat_map(|f| [(f, &data), (f, &mixed)]) {
            let Ok(reader) = TraceReader::from_bytes(bytes.as_slice(), format) else { continue };
            let mut last = esker_base::Nanos::ZERO;
            for record in reader {
                let record = record.unwrap();
                assert!(record.at >= last && record.offset.checked_add(record.len).is_some());
                assert_eq!(record.len == 0, record.op == crate::Op::Flush);
                last = record.at;
            }
        }
    }
}
