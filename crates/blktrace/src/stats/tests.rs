use super::*;
use esker_base::units::{KIB, MIB};

fn record(at: Nanos, op: Op, offset: u64, len: u64) -> Record {
    Record { at, volume: 0, op, offset, len }
}

fn summary(records: &[Record]) -> Summary {
    let mut stats = Stats::new();
    records.iter().for_each(|r| stats.add(r));
    stats.summary()
}

#[test]
fn nothing_has_no_figures_and_no_division_by_zero() {
    let s = summary(&[]);
    assert_eq!((s.requests, s.bytes, s.duration_ns, s.span_bytes), (0, 0, 0, 0));
    assert_eq!((s.read_share, s.gaps.mean_ns), (0.0, 0.0));
    assert!(s.to_string().contains("requests           0"), "{s}");
}

#[test]
fn footprint_counts_each_block_once_and_per_volume() {
    let mut again = record(Nanos(3), Op::Read, 0, 4096);
    again.volume = 7;
    let s = summary(&[record(Nanos(1), Op::Write, 0, 4096), record(Nanos(2), Op::Read, 2048, 4096), again]);
    assert_eq!(s.footprint_bytes, 3 * 4096);
    assert_eq!((s.volumes, s.span_bytes, s.reach_bytes), (2, 6144 + 4096, 6144));
    assert!((s.unaligned_share - 1.0 / 3.0).abs() < 1e-12);
}

#[test]
fn flushes_and_discards_are_counted_but_touch_nothing() {
    let s = summary(&[record(Nanos(0), Op::Discard, 0, MIB), record(Nanos(5), Op::Flush, 0, 0)]);
    assert_eq!((s.requests, s.flushes.requests, s.discards.bytes), (2, 1, MIB));
    assert_eq!((s.footprint_bytes, s.bytes, s.duration_ns), (0, 0, 5));
}

#[test]
fn interleaved_streams_are_told_from_strict_sequence() {
    let two_streams = |i: u64| record(Nanos(i), Op::Read, (i % 2) * MIB + (i / 2) * KIB, KIB);
    let records: Vec<Record> = (0..10).map(two_streams).collect();
    let s = summary(&records);
    assert_eq!((s.sequential_share, s.streamed_share), (0.0, 0.8));
    let one_stream: Vec<Record> = (0..10).map(|i| record(Nanos(i), Op::Read, i * KIB, KIB)).collect();
    assert_eq!(summary(&one_stream).sequential_share, 0.9);
}

#[test]
fn size_classes_end_at_powers_of_two() {
    let s = summary(&[512, 513, 1024, 4096, u64::MAX].map(|len| record(Nanos(0), Op::Write, 0, len)));
    let classes: Vec<_> = s.sizes.iter().map(|c| (c.up_to_bytes, c.requests)).collect();
    assert_eq!(classes, [(512, 1), (1024, 2), (4096, 1), (u64::MAX, 1)]);
}

#[test]
fn peak_and_gaps_follow_the_clock() {
    let at = [0, 1_000, 2_000, 1_500_000_000, 9_000_000_000];
    let s = summary(&at.map(|t| record(Nanos(t), Op::Read, 0, 4096)));
    assert_eq!(s.peak_second, Peak { requests: 3, bytes: 3 * 4096 });
    assert_eq!(s.duration_ns, 9_000_000_000);
    let near = |a: u64, b: u64| a.abs_diff(b) <= b / 500;
    assert!(near(s.gaps.p50_ns, 1_000) && near(s.gaps.max_ns, 7_500_000_000), "{:?}", s.gaps);
}

#[test]
fn the_busiest_second_may_be_the_last() {
    let at = [0, 5_000_000_000, 5_000_000_001];
    assert_eq!(summary(&at.map(|t| record(Nanos(t), Op::Write, 0, 512))).peak_second.requests, 2);
}

#[test]
fn figures_are_one_json_object() {
    let s = summary(&[record(Nanos(0), Op::Write, 0, 4096)]);
    let json = serde_json::to_value(&s).unwrap();
    assert_eq!(json["writes"]["bytes"], 4096);
    assert_eq!(json["sizes"][0]["up_to_bytes"], 4096);
    assert!(json["gaps"]["p999_ns"].is_u64());
}
