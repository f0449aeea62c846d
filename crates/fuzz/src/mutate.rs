//! How inputs come about: a seed of the corpus with bytes changed, cut, doubled, moved, or joined with another seed.

use esker_base::Stream;

/// Longest input in bytes.
const INPUT_MAX: usize = 64 << 10;
/// Numbers that are often at a border.
const NUMBERS: [&[u8]; 8] =
    [b"0", b"-1", b"4294967296", b"18446744073709551615", b"18446744073709551616", b"1e400", b"\"", b"\n"];

/// The next input; one in sixteen is a seed as it is.
pub(crate) fn mutate(seeds: &[Vec<u8>], rng: &mut Stream) -> Vec<u8> {
    let mut input = pick(seeds, rng).clone();
    if rng.below(16) == 0 {
        return input;
    }
    for _ in 0..=rng.below(5) {
        change(&mut input, seeds, rng);
    }
    input.truncate(INPUT_MAX);
    input
}

fn pick<'a, T>(list: &'a [T], rng: &mut Stream) -> &'a T {
    &list[rng.below(list.len() as u64) as usize]
}

fn change(input: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut Stream) {
    let at = rng.below(input.len() as u64 + 1) as usize;
    let end = (at + rng.below(48) as usize).min(input.len());
    match rng.below(8) {
        0 if at < input.len() => input[at] ^= 1 << rng.below(8),
        1 if at < input.len() => input[at] = *pick(&[0, 1, 0x7f, 0x80, 0xff, b' ', b'=', b'9'], rng),
        2 => input.truncate(at),
        3 => drop(input.drain(at..end)),
        4 => {
            let copy = input[at..end].to_vec();
            input.splice(at..at, copy);
        }
        5 => drop(input.splice(at..end, pick(&NUMBERS, rng).iter().copied())),
        6 => {
            let other = pick(seeds, rng);
            let from = rng.below(other.len() as u64 + 1) as usize;
            input.splice(at.., other[from..].iter().copied());
        }
        _ => {
            let mut junk = vec![0; end - at];
            rng.fill(&mut junk);
            input.splice(at..end, junk);
        }
    }
}
