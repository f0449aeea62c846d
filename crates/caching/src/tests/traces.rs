//! Traces of keys that policies find hard or easy.

use esker_base::Stream;

/// The kinds of traces.
pub(crate) const ALL: [fn(u64, &mut Stream, u64) -> u64; 5] = [uniform, zipf, scans, around, shifting];

/// Keys of a kind, for a cache of so many lines.
pub(crate) fn keys(kind: usize, lines: u64, count: u64) -> Vec<u64> {
    let mut rng = Stream::named(lines * 10 + kind as u64, "traces");
    (0..count).map(|at| ALL[kind](at, &mut rng, lines)).collect()
}

fn uniform(_: u64, rng: &mut Stream, lines: u64) -> u64 {
    rng.below(lines * 3)
}

/// Each key about as often as the inverse of its number.
fn zipf(_: u64, rng: &mut Stream, lines: u64) -> u64 {
    ((lines * 10) as f64).powf(rng.unit()) as u64
}

/// Keys that come back, between runs of keys that do not.
fn scans(at: u64, rng: &mut Stream, lines: u64) -> u64 {
    if (at / (lines * 2 + 3)).is_multiple_of(2) { zipf(at, rng, lines) } else { 1_000_000 + at }
}

/// A loop of a little more than the cache holds, and sometimes another key.
fn around(at: u64, rng: &mut Stream, lines: u64) -> u64 {
    if rng.chance(0.05) { zipf(at, rng, lines) } else { 10_000 + at % (lines + 1 + lines / 4) }
}

/// A few hot keys, which others replace from time to time.
fn shifting(at: u64, rng: &mut Stream, lines: u64) -> u64 {
    let hot = 2 + zipf(at, rng, lines);
    at / (lines * 20 + 7) * 1_000 + rng.below(hot)
}
