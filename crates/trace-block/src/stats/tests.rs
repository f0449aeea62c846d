use super::*;
use esker_base::units::{KIB, MIB};

fn record(at: Nanos, op: Op, offset: u64, len: u64) -> Record {
    Record { at, volume: 0, op, offset, len, who: 0 }
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
    assert_eq!(json["blocks"]["hours"][0]["unique"], 1);
    assert_eq!(json["by_volume"][0]["name"], "volume0");
}

/// Reads 4 KiB at each place, one after the other.
fn reads_at(places: &[u64]) -> Summary {
    let records: Vec<Record> = places.iter().map(|at| record(Nanos(0), Op::Read, *at, 4096)).collect();
    summary(&records)
}

#[test]
fn the_512_kib_rule_ends_at_512_kib() {
    let first = 64 * MIB;
    let end = first + 4096;
    for (kib, is_near) in [(511, true), (512, true), (513, false)] {
        for place in [end + kib * KIB, end - kib * KIB] {
            let s = reads_at(&[first, place]);
            let expected = if is_near { 0.5 } else { 0.0 };
            assert_eq!((s.near_share, s.near_stream_share), (expected, expected), "{kib} KiB");
        }
    }
}

#[test]
fn a_stream_is_found_behind_others_but_not_behind_32() {
    for (others, is_near) in [(1, true), (31, true), (32, false)] {
        let far = |i: u64| (i + 1) << 32;
        let places: Vec<u64> = std::iter::once(0).chain((0..others).map(far)).chain([100 * KIB]).collect();
        let s = reads_at(&places);
        assert_eq!(s.near_stream_share > 0.0, is_near, "{others} others");
        assert_eq!(s.near_share, 0.0);
    }
}

#[test]
fn distances_are_counted_in_both_directions_from_the_end_of_the_transfer_before() {
    let s = reads_at(&[MIB, MIB + 4096, MIB + 8191, 0, 4096 + MIB, 4 * MIB]);
    let classes: Vec<_> = s.distances.iter().map(|c| (c.below_bytes, c.requests)).collect();
    assert_eq!(
        classes,
        [(1, 1), (1, 0), (2, 1), (2 * MIB, 2), (4 * MIB, 1)].into_iter().filter(|c| c.1 > 0).collect::<Vec<_>>()
    );
    assert_eq!(s.within_mib_share, 3.0 / 5.0);
}

#[test]
fn working_sets_tell_hours_days_and_what_came_back() {
    let hour = |h: u64| Nanos::secs(3600 * h);
    let at = |h: u64, block: u64, op: Op| record(hour(h), op, block * BLOCK, BLOCK);
    let read = |h, block| at(h, block, Op::Read);
    let records =
        [read(0, 0), read(0, 1), read(0, 0), at(1, 1, Op::Write), read(3, 0), read(25, 1), at(25, 9, Op::Write)];
    let s = summary(&records);
    let spans = |spans: &[Span]| spans.iter().map(|s| (s.number, s.unique, s.again, s.known)).collect::<Vec<_>>();
    assert_eq!(spans(&s.blocks.hours), [(0, 2, 0, 0), (1, 1, 1, 1), (3, 1, 0, 1), (25, 2, 0, 1)]);
    assert_eq!(spans(&s.blocks.days), [(0, 2, 0, 0), (1, 2, 1, 1)]);
    assert_eq!((s.blocks.read_only, s.blocks.written_only, s.blocks.both), (1, 1, 1));
    assert_eq!((s.blocks.touches, s.blocks.one_in, s.extents.unique), (7, 1, 1));
    assert_eq!(s.by_volume[0].overlap_bytes, BLOCK);
    assert_eq!(s.hours.iter().map(|h| (h.number, h.requests, h.reads)).collect::<Vec<_>>()[0], (0, 3, 3));
}

#[test]
fn jumps_recur_when_they_have_the_same_ends() {
    let s = reads_at(&[0, 4096, MIB, 0, MIB, 9 * MIB]);
    // 4096 -> MIB, MIB -> 0, 0 -> MIB, MIB -> 9 MIB: none twice, although places are visited again.
    assert_eq!((s.jumps.requests, s.jumps.recurring_share), (4, 0.0));
    let s = reads_at(&[0, MIB, 0, MIB, 0, 9 * MIB]);
    assert_eq!((s.jumps.requests, s.jumps.recurring_share), (5, 0.8));
}

#[test]
fn the_gap_variation_tells_even_times_from_bursts() {
    let even: Vec<Record> = (0..100).map(|i| record(Nanos::millis(i), Op::Read, 0, 512)).collect();
    assert!(summary(&even).gaps.variation < 1e-6);
    let bursts: Vec<Record> = (0..100).map(|i| record(Nanos::secs(i / 10), Op::Read, 0, 512)).collect();
    assert!((summary(&bursts).gaps.variation - 3.16).abs() < 0.1);
}

#[test]
fn a_damaged_length_costs_no_time_and_is_told() {
    let s = summary(&vec![record(Nanos(0), Op::Write, 4096, u64::MAX); 100]);
    assert_eq!((s.long, s.blocks.unique, s.extents.unique), (100, 64 * MIB / BLOCK, 64));
}

#[test]
fn a_small_room_gives_the_same_figures_within_its_error() {
    let mut random = esker_base::Stream::seeded(5);
    // The square of an even number is skewed: the first hundredth of the blocks gets a tenth of the requests.
    let place = |random: &mut esker_base::Stream| (random.unit().powi(2) * 2e5) as u64 * BLOCK;
    let records: Vec<Record> = (0..400_000u64)
        .map(|i| record(Nanos::secs(i / 20), if i % 4 == 0 { Op::Write } else { Op::Read }, place(&mut random), BLOCK))
        .collect();
    let (mut exact, mut sampled) = (Stats::new(), Stats::with_room(1 << 13));
    records.iter().for_each(|r| (exact.add(r), sampled.add(r)).0);
    let (exact, sampled) = (exact.summary(), sampled.summary());
    assert_eq!(exact.blocks.one_in, 1);
    assert!(sampled.blocks.one_in >= 16, "{}", sampled.blocks.one_in);
    // Four standard errors of a count, of which the sample holds one in so many.
    let near = |name: &str, a: u64, b: u64| {
        let error = 4.0 / (b as f64 / sampled.blocks.one_in as f64).sqrt();
        assert!((a as f64 / b as f64 - 1.0).abs() < error, "{name}: {a} for {b}");
    };
    near("unique", sampled.blocks.unique, exact.blocks.unique);
    near("both", sampled.blocks.both, exact.blocks.both);
    for (a, b) in sampled.blocks.hours.iter().zip(&exact.blocks.hours) {
        near("hour", a.unique, b.unique);
    }
    let shares = |s: &Summary| [s.blocks.top_1_share, s.blocks.top_20_share];
    for (a, b) in shares(&sampled).into_iter().zip(shares(&exact)) {
        assert!((a / b - 1.0).abs() < 0.1, "{a} for {b}");
    }
    assert_eq!((sampled.blocks.touches, sampled.requests), (exact.blocks.touches, exact.requests));
}

#[test]
fn popularity_and_gap_classes_add_up() {
    let mut places = vec![0; 70];
    places.extend((1..=30).map(|i| i * MIB));
    let s = reads_at(&places);
    let first = s.blocks.popularity[0];
    assert_eq!((first.rank, first.uses, first.share), (1, 70, 0.7));
    assert!(s.blocks.popularity.windows(2).all(|pair| pair[0].rank < pair[1].rank && pair[0].share < pair[1].share));
    assert_eq!(s.gaps.classes.iter().map(|class| class.requests).sum::<u64>(), 99);
}

#[test]
fn a_page_has_all_figures_and_says_how_exact_they_are() {
    let hour = |i: u64| record(Nanos::secs(600 * i), Op::Read, i * i * BLOCK, BLOCK);
    let records: Vec<Record> = (0..100).map(hour).collect();
    let page_of = |stats: Stats| page("a<b", "Written by a test", &stats.summary()).unwrap();
    let fill = |mut stats: Stats| {
        records.iter().for_each(|r| stats.add(r));
        page_of(stats)
    };
    let exact = fill(Stats::new());
    assert_eq!(exact.matches("<svg ").count(), 7);
    assert!(exact.contains("All figures are exact counts") && exact.contains("a&lt;b"));
    assert!(fill(Stats::with_room(16)).contains("estimated from one in "));
    assert_eq!(page_of(Stats::new()).matches("<svg ").count(), 7, "nothing has a page too");
}

#[test]
fn a_browser_shows_the_page_of_long_short_and_empty_traces() {
    let page_of = |name: &str, records: Vec<Record>| {
        let mut stats = Stats::new();
        records.iter().for_each(|record| stats.add(record));
        esker_testkit::browser::check(name, &page("a <x>", "Written by a test", &stats.summary()).unwrap());
    };
    let reads = |count: u64, gap_s: u64| {
        (0..count).map(|i| record(Nanos::secs(gap_s * i), Op::Read, i * i * BLOCK, BLOCK)).collect::<Vec<_>>()
    };
    page_of("stat", reads(100, 600));
    page_of("stat-of-a-minute", reads(60, 1));
    page_of("stat-of-one-request", reads(1, 1));
    page_of("stat-of-nothing", Vec::new());
}
