//! The shipped traces give exactly the figures that an independent program counted.

use super::Shared;
use crate::{Format, Loss, Op, RecordSink, Source, Stats, Summary, TraceReader, convert, detect};
use std::io::Read;

const MYSQL: &[u8] = include_bytes!("../../../../data/linux-mysql.load.gz");
const WEB: &[u8] = include_bytes!("../../../../data/linux-webserver-2.load.gz");
const WINDOWS: &[u8] = include_bytes!("../../../../data/windows-shared-server.load.gz");
const VSCSI: &[u8] = include_bytes!("../../../../data/cloudPhysicsIO.vscsi.zst");
const ORACLE: &[u8] = include_bytes!("../../../../data/cloudPhysicsIO.oracleGeneral.bin.zst");

/// Opens a sample by its name alone, as a user would.
fn open(name: &str, data: &'static [u8], format: Format) -> TraceReader {
    let reader = TraceReader::open(name, Box::new(data), None).unwrap();
    assert_eq!(reader.format(), format, "{name}");
    reader
}

fn summary(name: &str, data: &'static [u8], format: Format) -> Summary {
    let mut reader = open(name, data, format);
    let mut stats = Stats::new();
    while let Some(record) = reader.next_record().unwrap() {
        stats.add(&record);
    }
    assert!(reader.report().is_clean(), "{name}: {}", reader.report());
    stats.summary()
}

/// Requests, reads, bytes, footprint, span, seconds.
fn figures(s: &Summary) -> (u64, u64, u64, u64, u64, u64) {
    (s.requests, s.reads.requests, s.bytes, s.footprint_bytes, s.span_bytes, s.duration_ns / 1_000_000_000)
}

#[test]
fn mysql_server() {
    let s = summary("linux-mysql.load.gz", MYSQL, Format::Load);
    assert_eq!(figures(&s), (80_794, 7_187, 1_184_387_072, 583_938_048, 32_556_998_656, 3_599));
    assert_eq!(format!("{:.1}", s.read_share * 100.0), "8.9");
    assert_eq!((s.unaligned_share * 80_794.0).round() as u64, 7_760);
    assert_eq!(s.duration_ns, 3_599_890_074_831);
}

#[test]
fn web_server() {
    let s = summary("linux-webserver-2.load.gz", WEB, Format::Load);
    assert_eq!(figures(&s), (269_007, 149_018, 4_692_769_792, 1_998_995_456, 773_733_978_112, 3_600));
    assert_eq!(format!("{:.1}", s.read_share * 100.0), "55.4");
}

#[test]
fn windows_host() {
    let s = summary("windows-shared-server.load.gz", WINDOWS, Format::Load);
    assert_eq!(figures(&s), (1_371, 0, 5_398_016, 1_089_536, 3_222_487_040 - 3_055_276_032, 3_597));
}

#[test]
fn cloud_physics_disk() {
    let s = summary("cloudPhysicsIO.vscsi.zst", VSCSI, Format::Vscsi1);
    assert_eq!(figures(&s), (113_872, 46_974, 4_205_978_112, 1_102_684_160, 33_584_938_496 - 8_162_816, 7_200));
    assert_eq!(s.writes.requests, 66_898);
}

#[test]
fn cloud_physics_disk_without_operations() {
    let s = summary("cloudPhysicsIO.oracleGeneral.bin.zst", ORACLE, Format::OracleGeneral);
    assert_eq!(figures(&s), (113_872, 113_872, 4_368_040_448, 1_098_833_920, 33_584_938_496 - 8_162_816, 7_200));
}

#[test]
fn a_load_trace_converted_to_load_is_the_same_file() {
    let mut original = Vec::new();
    flate2::read::MultiGzDecoder::new(MYSQL).read_to_end(&mut original).unwrap();
    let mut reader = open("linux-mysql.load.gz", MYSQL, Format::Load);
    let out = Shared::default();
    let written = convert(&mut reader, RecordSink::new(Format::Load, Box::new(out.clone())).unwrap()).unwrap();
    assert_eq!((written.records, written.losses.is_empty()), (80_794, true));
    // The one read ahead loses its flag; the notice and every other line is kept byte for byte.
    let expected = String::from_utf8(original).unwrap().replacen(";RA ;", "; R ;", 1);
    assert!(out.bytes() == expected.as_bytes());
}

#[test]
fn vscsi_converted_to_oracle_general_names_the_next_access_as_the_original_does() {
    let mut reader = open("cloudPhysicsIO.vscsi.zst", VSCSI, Format::Vscsi1);
    let out = Shared::default();
    let written =
        convert(&mut reader, RecordSink::to_file(Format::OracleGeneral, Box::new(out.clone())).unwrap()).unwrap();
    assert_eq!(written.losses.count(Loss::WriteAsRead), 66_898);
    let original = zstd::decode_all(ORACLE).unwrap();
    let ours = out.bytes();
    assert_eq!(ours.len(), original.len());
    for (i, (a, b)) in ours.chunks(24).zip(original.chunks(24)).enumerate() {
        // The original keeps the size of an object's first request (bytes 12..16), ours that of each request.
        assert_eq!((&a[4..12], &a[16..]), (&b[4..12], &b[16..]), "object and next access of record {i}");
    }
}

#[test]
fn vscsi_versions_carry_each_other() {
    let first = |data: Vec<u8>, format| -> Vec<_> {
        TraceReader::from_bytes(data, format).unwrap().map(Result::unwrap).collect()
    };
    let records = first(VSCSI.to_vec(), Format::Vscsi1);
    let out = Shared::default();
    let mut sink = RecordSink::new(Format::Vscsi2, Box::new(out.clone())).unwrap();
    records.iter().for_each(|r| sink.put(r).unwrap());
    assert!(sink.finish().unwrap().losses.is_empty());
    assert_eq!(detect("disk.bin", &out.bytes()), Some(Format::Vscsi2));
    assert_eq!(first(out.bytes(), Format::Vscsi2), records);
}

#[test]
fn synthetic_msr_fixture_keeps_disks_apart_and_time_monotone() {
    let mut reader = open("synthetic-msr.csv", include_bytes!("../../fixtures/synthetic-msr.csv"), Format::Msr);
    let records: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!(reader.volumes(), ["synth.0", "synth.1", "other.0"]);
    assert_eq!(records.iter().map(|r| r.volume).collect::<Vec<_>>(), [0, 0, 1, 2, 1]);
    let at: Vec<_> = records.iter().map(|r| r.at.0).collect();
    assert_eq!(at, [0, 1_000, 50_000_000, 50_000_000, 1_000_000_000]);
    assert_eq!(reader.report().times_clamped, 1);
}

#[test]
fn synthetic_fio_fixtures_carry_flush_and_discard() {
    let v2 = open("synthetic-fio-v2.iolog", include_bytes!("../../fixtures/synthetic-fio-v2.iolog"), Format::Fio2);
    let v3 = open("synthetic-fio-v3.iolog", include_bytes!("../../fixtures/synthetic-fio-v3.iolog"), Format::Fio3);
    for (reader, times, volumes) in [(v2, [0, 1_500, 1_500, 1_750], 2), (v3, [12, 1_512, 1_513, 1_600], 1)] {
        let mut reader = reader;
        let records: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
        assert_eq!(records.iter().map(|r| r.op).collect::<Vec<_>>(), [Op::Write, Op::Read, Op::Flush, Op::Discard]);
        assert_eq!(records.iter().map(|r| r.at.0 / 1_000).collect::<Vec<_>>(), times);
        assert_eq!((records[1].offset, records[1].len), (12_345, 678));
        assert_eq!(reader.volumes().len(), volumes);
        assert!(reader.report().is_clean(), "{}", reader.report());
    }
}
