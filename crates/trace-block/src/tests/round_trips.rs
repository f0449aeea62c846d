//! What a format carries reads back, and what it cannot carry is counted.

use super::{Shared, by, read_all, record, write_all};
use crate::{Format, Loss, Op, Record, RecordSink, convert, detect};
use proptest::collection::vec;
use proptest::prelude::*;

/// What a format carries exactly.
struct Carries {
    ops: &'static [Op],
    volumes: u32,
    /// Unit of times in ns, and of offsets in bytes.
    tick: u64,
    sector: u64,
    /// Unit of lengths in bytes.
    granule: u64,
}

fn carries(format: Format) -> Carries {
    use Op::*;
    match format {
        Format::Load => Carries { ops: &[Read, Write], volumes: 1, tick: 1, sector: 512, granule: 512 },
        Format::Vscsi1 | Format::Vscsi2 => {
            Carries { ops: &[Read, Write], volumes: 1, tick: 1_000, sector: 512, granule: 1 }
        }
        Format::OracleGeneral => Carries { ops: &[Read], volumes: 1, tick: 1_000_000_000, sector: 512, granule: 1 },
        Format::Msr => Carries { ops: &[Read, Write], volumes: 3, tick: 100, sector: 1, granule: 1 },
        Format::Fio2 => Carries { ops: &Op::ALL, volumes: 3, tick: 0, sector: 1, granule: 1 },
        Format::Fio3 => Carries { ops: &Op::ALL, volumes: 3, tick: 1_000, sector: 1, granule: 1 },
        Format::Alibaba => Carries { ops: &[Read, Write], volumes: 3, tick: 1_000, sector: 1, granule: 1 },
        Format::Tencent => Carries { ops: &[Read, Write], volumes: 3, tick: 1_000_000_000, sector: 512, granule: 512 },
        Format::Fiu | Format::Mqsim | Format::Disksim => {
            Carries { ops: &[Read, Write], volumes: 3, tick: 1, sector: 512, granule: 512 }
        }
        Format::Arc => Carries { ops: &[Read], volumes: 1, tick: 0, sector: 512, granule: 512 },
        Format::Blkparse | Format::Blktrace | Format::Octf => {
            Carries { ops: &Op::ALL, volumes: 3, tick: 1, sector: 512, granule: 512 }
        }
        Format::DisksimMeasured | Format::Ids | Format::Biosnoop | Format::Cachelib | Format::Hfplayer => {
            panic!("{format} is not written")
        }
        Format::Ebt => Carries { ops: &Op::ALL, volumes: 3, tick: 1, sector: 1, granule: 1 },
    }
}

/// Records that `format` carries exactly: times from 0 upwards, volumes in order of first appearance.
fn exact(format: Format, raw: &[(u32, u32, u8, u32, u32)]) -> Vec<Record> {
    let c = carries(format);
    let (mut at, mut seen) = (0, 0);
    let to_record = |(i, (gap, volume, op, offset, len)): (usize, &(u32, u32, u8, u32, u32))| {
        at += if i == 0 { 0 } else { u64::from(*gap) % 1_000 * c.tick };
        let volume = if i == 0 { 0 } else { (volume % c.volumes).min(seen + 1) };
        seen = seen.max(volume);
        let op = c.ops[usize::from(*op) % c.ops.len()];
        match op {
            Op::Flush => record(at, volume, op, 0, 0),
            _ => record(at, volume, op, u64::from(*offset) * 100 * c.sector, u64::from(len % 9_999 + 1) * c.granule),
        }
    };
    raw.iter().enumerate().map(to_record).collect()
}

proptest! {
    #[test]
    fn every_format_reads_back_what_it_can_carry(raw in vec(any::<(u32, u32, u8, u32, u32)>(), 1..120)) {
        for format in Format::written() {
            let records = exact(format, &raw);
            let (bytes, written) = write_all(&records, &["usr.0", "a b,c", "a_b_c"], format);
            prop_assert!(written.losses.is_empty(), "{}: {}", format, written.losses);
            prop_assert_eq!(written.records, records.len() as u64);
            let (back, reader) = read_all(bytes, format);
            prop_assert_eq!(&back, &records, "{}", format);
            prop_assert!(reader.report().is_clean(), "{}", reader.report());
        }
    }

    /// Any format into any other: what comes out is what was neither dropped nor changed.
    #[test]
    fn conversions_count_every_loss(
        raw in vec(any::<(u32, u32, u8, u32, u32)>(), 1..60),
        from in proptest::sample::select(Format::written().collect::<Vec<_>>()),
    ) {
        let records = exact(from, &raw);
        let (bytes, _) = write_all(&records, &[], from);
        for to in Format::written() {
            let mut source = crate::TraceReader::from_bytes(bytes.clone(), from).unwrap();
            let out = Shared::default();
            let written = convert(&mut source, RecordSink::to_file(to, Box::new(out.clone())).unwrap()).unwrap();
            prop_assert_eq!(written.records + written.losses.dropped(), records.len() as u64);
            if written.records == 0 {
                continue;
            }
            let (back, reader) = read_all(out.bytes(), to);
            prop_assert!(reader.report().is_clean(), "{} to {}: {}", from, to, reader.report());
            prop_assert_eq!(back.len() as u64, written.records);
            let bytes_of = |all: &[Record]| all.iter().map(|r| r.len).sum::<u64>();
            if written.losses.is_empty() {
                prop_assert_eq!(bytes_of(&back), bytes_of(&records), "{} to {}", from, to);
            }
        }
    }
}

#[test]
fn processes_read_back_from_formats_that_have_them() {
    let records: Vec<Record> =
        (0..9_000).map(|i| by((i / 5_000) as u32 * (i % 7) as u32, record(i, 0, Op::Read, i * 4096, 4096))).collect();
    for format in Format::written() {
        let has_processes = matches!(format, Format::Ebt | Format::Fiu | Format::Blkparse | Format::Blktrace);
        let (bytes, _) = write_all(&records, &[], format);
        let (back, _) = read_all(bytes, format);
        let expected = |r: &Record| if has_processes { r.who } else { 0 };
        assert!(back.iter().zip(&records).all(|(back, r)| back.who == expected(r)), "{format}");
    }
}

#[test]
fn written_traces_are_detected_without_a_name() {
    let records = [record(0, 0, Op::Read, 0, 4096), record(2_000_000_000, 0, Op::Read, 8192, 512)];
    for format in Format::written() {
        let (bytes, _) = write_all(&records, &[], format);
        let expected = (format != Format::OracleGeneral).then_some(format);
        assert_eq!(detect("trace", &bytes), expected, "{format}");
    }
    assert_eq!(detect("w.oracleGeneral.bin.zst", &[1; 48]), Some(Format::OracleGeneral));
    assert_eq!(detect("dir.load/w.load.gz", b"1.0 ; 8 ; 8 ; R\n"), Some(Format::Load));
    assert_eq!(detect("dir.load/w", b"1.0 ; 8 ; 8 ; R\n"), None);
}

#[test]
fn names_of_formats_read_back() {
    for format in Format::ALL {
        assert_eq!(format.name().parse(), Ok(format));
    }
    let e = "vhd".parse::<Format>().unwrap_err().to_string();
    assert!(e.contains("\"vhd\" is no trace format; use one of: load"), "{e}");
}

#[test]
fn volumes_with_alike_names_stay_apart() {
    let records = [0, 1, 2, 3].map(|v| record(0, v, Op::Write, 0, 512));
    for format in [Format::Msr, Format::Fio3] {
        let (bytes, _) = write_all(&records, &["a b", "a_b", "a\tb", ""], format);
        let (back, reader) = read_all(bytes, format);
        assert_eq!(back, records, "{format}");
        assert_eq!(crate::Source::volumes(&reader).len(), 4, "{format}");
    }
}

#[test]
fn far_blocks_and_large_times_survive_vscsi() {
    let far = [record(0, 0, Op::Write, (1 << 45) * 512, 4096), record(1_000 << 40, 0, Op::Read, (1 << 33) * 512, 1)];
    for format in [Format::Vscsi1, Format::Vscsi2] {
        let (bytes, written) = write_all(&far, &[], format);
        assert_eq!((written.losses.is_empty(), read_all(bytes, format).0), (true, far.to_vec()));
    }
}

#[test]
fn each_loss_is_counted_by_its_name() {
    let records = [
        record(1, 0, Op::Write, 512, 512),
        record(2, 0, Op::Flush, 0, 0),
        record(3, 0, Op::Discard, 0, 4096),
        record(4, 1, Op::Write, 0, 512),
        record(5, 0, Op::Write, 100, 512),
        record(6, 0, Op::Write, 0, 1 << 33),
        record((1 << 33) * 1_000_000_000, 0, Op::Write, 0, 512),
    ];
    let count = |format: Format, losses: &[(Loss, u64)]| {
        let (_, written) = write_all(&records, &[], format);
        for loss in Loss::ALL {
            let expected = losses.iter().find(|(l, _)| *l == loss).map_or(0, |(_, n)| *n);
            assert_eq!(written.losses.count(loss), expected, "{format} {loss:?}");
        }
        written.records
    };
    use Loss::*;
    assert_eq!(count(Format::Load, &[(Flush, 1), (Discard, 1), (Volume, 1), (Sectors, 1)]), 4);
    assert_eq!(
        count(Format::Vscsi1, &[(Flush, 1), (Discard, 1), (Volume, 1), (Sectors, 1), (Length, 1), (Rounded, 2)]),
        3
    );
    let oracle =
        [(Flush, 1), (Discard, 1), (Volume, 1), (Sectors, 1), (Length, 1), (Time, 1), (Rounded, 2), (WriteAsRead, 2)];
    assert_eq!(count(Format::OracleGeneral, &oracle), 2);
    assert_eq!(count(Format::Msr, &[(Flush, 1), (Discard, 1), (Rounded, 5 - 1)]), 5);
    assert_eq!(count(Format::Fio3, &[(Rounded, 6)]), 7);
    assert_eq!(count(Format::Fio2, &[(NoTime, 7)]), 7);
    let (_, written) = write_all(&records[..3], &[], Format::Load);
    assert_eq!(written.losses.to_string(), "1 flushes left out, 1 discards left out");
}
