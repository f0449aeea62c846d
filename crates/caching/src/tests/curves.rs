//! Curves against simulated caches, and against each other.

use super::traces;
use crate::curve::{Curve, Method, MethodError};
use crate::request::{LineUse, lines_of};
use crate::{NAMED, Simulator, by_name};

const SIZES: [u64; 10] = [1, 2, 3, 10, 50, 100, 300, 1_000, 3_000, 20_000];

/// Requests for one line each.
fn single(keys: &[u64]) -> Vec<LineUse> {
    keys.iter().map(|key| LineUse { key: *key, bytes: 512, is_last: true }).collect()
}

/// Requests of up to six lines, some of which they use in part.
fn several(kind: usize) -> Vec<LineUse> {
    let requests = traces::keys(kind, 300, 20_000).into_iter().enumerate();
    let request = |(at, key): (usize, u64)| lines_of(key * 3_000, 1 + at as u64 * 7_919 % 20_000, 4096);
    requests.flat_map(request).collect()
}

fn curve(method: &str, policy: &str, sizes: &[u64], uses: &[LineUse]) -> Curve {
    let method: Method = method.parse().expect("a method");
    let mut estimator = method.estimator(policy, sizes).expect("a policy that it describes");
    // Pieces that end anywhere, as the next chunk of a trace would.
    uses.chunks(77).for_each(|piece| estimator.add(piece));
    estimator.curve()
}

/// Misses of requests and bytes in simulated caches.
fn simulated(policy: &str, uses: &[LineUse]) -> Vec<[f64; 2]> {
    let of = |lines: u64| {
        let mut cache = Simulator::new(by_name(policy).expect("a policy")(lines as u32), lines as u32);
        cache.play(uses);
        [cache.tally().request_misses as f64, cache.tally().byte_misses as f64]
    };
    SIZES.map(of).to_vec()
}

fn misses(curve: &Curve) -> Vec<[f64; 2]> {
    curve.points.iter().map(|point| [point.request_misses, point.byte_misses]).collect()
}

#[test]
fn the_exact_curve_is_that_of_simulated_caches() {
    for kind in 0..traces::ALL.len() {
        let uses = several(kind);
        let exact = curve("exact", "lru", &SIZES, &uses);
        assert_eq!(misses(&exact), simulated("lru", &uses), "trace {kind}");
        assert_eq!(exact.requests, 20_000.0);
        assert_eq!(exact.bytes, uses.iter().map(|line| f64::from(line.bytes)).sum());
    }
}

#[test]
fn the_exact_curve_of_other_policies_is_that_of_simulated_caches() {
    for (policy, _) in NAMED {
        let uses = several(1);
        assert_eq!(misses(&curve("exact", policy, &SIZES, &uses)), simulated(policy, &uses), "{policy}");
    }
}

#[test]
fn the_relaxed_curve_never_has_fewer_misses() {
    for kind in 0..traces::ALL.len() {
        let uses = several(kind);
        let [exact, relaxed] = ["exact", "relaxed"].map(|method| misses(&curve(method, "lru", &SIZES, &uses)));
        for (exact, relaxed) in exact.iter().zip(&relaxed) {
            assert!(exact[0] <= relaxed[0] && exact[1] <= relaxed[1], "trace {kind}: {exact:?} {relaxed:?}");
        }
        assert_ne!(exact, relaxed, "trace {kind}");
    }
}

/// The vectors of the thesis: the second use of A is at distance 2, and the relaxed distance is 3.
#[test]
fn relaxed_distances_count_uses_and_exact_ones_lines() {
    let uses = single(&[1, 2, 2, 1]);
    let hits = |method| {
        let curve = curve(method, "lru", &[1, 2, 3], &uses);
        curve.points.iter().map(|point| 4.0 - point.request_misses).collect::<Vec<_>>()
    };
    assert_eq!(hits("exact"), [1.0, 2.0, 2.0]);
    assert_eq!(hits("relaxed"), [1.0, 1.0, 2.0]);
}

#[test]
fn the_kinetic_model_is_near_and_nearer_than_relaxed_distances() {
    for kind in [0, 1, 2, 4] {
        let uses = single(&traces::keys(kind, 300, 100_000));
        let [exact, aet, relaxed] = ["exact", "aet", "relaxed"].map(|method| curve(method, "lru", &SIZES, &uses));
        let (near, far) = (aet.mean_error(&exact), relaxed.mean_error(&exact));
        assert!(near < 0.01 && near < far, "trace {kind}: {near} {far}");
    }
}

/// More than ten thousand sampled lines, and sizes of a hundred of them or more. In smaller caches a few hot lines make
/// most of the curve, and a sample has them or not.
#[test]
fn samples_are_near_the_exact_curve() {
    let sizes = [1_000, 3_000, 10_000, 30_000, 100_000];
    let uses = single(&traces::keys(1, 100_000, 400_000));
    let exact = curve("exact", "lru", &sizes, &uses);
    for (method, most) in [("shards=0.1", 0.01), ("shards-lines", 0.015), ("miniature=0.1", 0.015)] {
        let found = curve(method, "lru", &sizes, &uses);
        let error = found.mean_error(&exact);
        assert!(error < most, "{method}: {error}, {:?} for {:?}", found.request_ratios(), exact.request_ratios());
    }
}

/// A line that every second request uses is in the sample or not: only the correction makes up for it.
#[test]
fn hot_lines_outside_a_sample_are_made_up_for() {
    let keys = traces::keys(1, 20_000, 100_000);
    for hot in [7_000_001, 7_000_003, 7_000_005, 7_000_007] {
        let keys: Vec<u64> = keys.iter().flat_map(|key| [*key, hot]).collect();
        let uses = single(&keys);
        let sizes = [1_000, 10_000, 100_000];
        let exact = curve("exact", "lru", &sizes, &uses);
        for method in ["shards=0.1", "shards-lines=2000", "miniature=0.1"] {
            let error = curve(method, "lru", &sizes, &uses).mean_error(&exact);
            assert!(error < 0.02, "{method}, {hot}: {error}");
        }
    }
}

#[test]
fn a_sample_of_all_lines_is_exact() {
    let uses = single(&traces::keys(1, 300, 20_000));
    let exact = curve("exact", "lru", &SIZES, &uses);
    for method in ["shards=1", "shards-lines=100000", "miniature=1"] {
        assert_eq!(curve(method, "lru", &SIZES, &uses), exact, "{method}");
    }
}

#[test]
fn miniatures_are_near_simulated_caches() {
    let sizes = [1_000, 3_000, 10_000, 30_000];
    let uses = single(&traces::keys(1, 30_000, 150_000));
    for policy in ["arc", "lirs", "s3-fifo"] {
        let exact = curve("exact", policy, &sizes, &uses);
        let error = curve("miniature=0.1", policy, &sizes, &uses).mean_error(&exact);
        assert!(error < 0.015, "{policy}: {error}");
    }
}

#[test]
fn sampled_requests_of_several_lines_are_near_too() {
    let uses = several(1);
    let exact = curve("exact", "lru", &SIZES, &uses);
    for method in ["shards=0.5", "miniature=0.5"] {
        let found = curve(method, "lru", &SIZES, &uses);
        let bytes = found.byte_ratios().into_iter().zip(exact.byte_ratios());
        assert!(bytes.into_iter().all(|(found, exact)| (found - exact).abs() < 0.06), "{method}");
        assert_eq!((found.requests, found.bytes), (exact.requests, exact.bytes));
    }
}

#[test]
fn an_empty_trace_has_no_misses() {
    for method in ["exact", "relaxed", "aet", "shards=0.1", "shards-lines", "miniature=0.1"] {
        let curve = curve(method, "lru", &[0, 10], &[]);
        assert_eq!((curve.request_ratios(), curve.byte_ratios()), (vec![0.0; 2], vec![0.0; 2]), "{method}");
    }
}

#[test]
fn a_cache_without_lines_misses_all() {
    let uses = single(&[5, 5, 5, 5]);
    for method in ["exact", "relaxed", "aet", "miniature=1"] {
        assert_eq!(curve(method, "lru", &[0], &uses).request_ratios(), [1.0], "{method}");
    }
}

/// Item 49: three of five requests are near the one before, and the others go to any of a thousand places. Long lines
/// win in small caches, and lose in large ones, where they hold many bytes that nothing uses.
#[test]
fn long_lines_win_in_small_caches_and_lose_in_large_ones() {
    let mut rng = esker_base::Stream::named(1, "line sizes");
    let mut offset = 0;
    let mut request = || {
        offset = if rng.chance(0.6) { offset + 4096 } else { rng.below(1_000) << 20 };
        offset
    };
    let requests: Vec<u64> = (0..60_000).map(|_| request()).collect();
    let ratios = |line: u32| {
        let uses: Vec<LineUse> = requests.iter().flat_map(|offset| lines_of(*offset, 4096, line)).collect();
        let sizes = [4 << 20, 64 << 20].map(|bytes: u64| bytes / u64::from(line));
        curve("exact", "lru", &sizes, &uses).request_ratios()
    };
    let (short, long) = (ratios(4096), ratios(1 << 20));
    assert!(long[0] < short[0], "small cache: {long:?} {short:?}");
    assert!(long[1] > short[1], "large cache: {long:?} {short:?}");
}

#[test]
fn methods_have_names() {
    for name in ["exact", "relaxed", "aet", "shards=0.01", "shards-lines=8192", "miniature=0.1"] {
        assert_eq!(name.parse::<Method>().map(|method| method.to_string()).as_deref(), Ok(name));
    }
    let error = |name: &str| name.parse::<Method>().expect_err("no method");
    assert_eq!(error("shard"), MethodError::Unknown("shard".into()));
    assert_eq!(error("exact=1"), MethodError::Unknown("exact=1".into()));
    for rate in ["0", "1.01", "-1", "nan", "x", ""] {
        assert_eq!(error(&format!("shards={rate}")), MethodError::Rate(rate.into()));
    }
    assert_eq!(error("shards-lines=0"), MethodError::Count("0".into()));
}

#[test]
fn methods_say_what_they_do_not_describe() {
    let error = |method: Method, policy| method.estimator(policy, &[1]).err().expect("no estimator").to_string();
    assert_eq!(error(Method::Exact, "lfu"), "there is no policy `lfu`");
    assert_eq!(error(Method::Aet, "arc"), "`aet` describes `lru` only; use `exact` or `miniature=RATE` for `arc`");
}
