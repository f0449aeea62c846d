//! In which order moves are made, and which of them are one request.

use std::ops::Range;

use esker_base::{ByteRange, span};

use crate::mover::{Move, Shape};
use esker_block::split::LowerAddress;

/// Moves that contradict each other. Nothing was moved.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadMoves {
    /// A move of nothing.
    #[error("move {0} has no byte; leave it out")]
    Empty(usize),
    /// A move whose end does not fit in 64 bits.
    #[error("move {0} ends beyond 64 bits")]
    TooLong(usize),
    /// Two moves write one byte, or one writes what another reads.
    #[error("moves {0} and {1} touch the same bytes; make one after the other")]
    Overlap(usize, usize),
}

/// Refuses moves whose outcome would depend on their order.
pub(super) fn check(moves: &[Move]) -> Result<(), BadMoves> {
    for (at, one) in moves.iter().enumerate() {
        if one.len == 0 {
            return Err(BadMoves::Empty(at));
        }
        if [one.upper, one.from.at, one.to.at].iter().any(|start| start.checked_add(one.len).is_none()) {
            return Err(BadMoves::TooLong(at));
        }
    }
    check_overlaps(moves)
}

/// A side of a move: where it is, which move, and whether it is written.
type Side = (LowerAddress, u64, usize, bool);

fn check_overlaps(moves: &[Move]) -> Result<(), BadMoves> {
    let sides = |(at, one): (usize, &Move)| [(one.from, one.len, at, false), (one.to, one.len, at, true)];
    let mut sides: Vec<Side> = moves.iter().enumerate().flat_map(sides).collect();
    sides.sort();
    // The end that reaches furthest so far, of all sides and of written ones.
    let (mut any, mut written): (Option<Side>, Option<Side>) = (None, None);
    for side in sides {
        let meets = |other: &Side| other.0.lower == side.0.lower && other.0.at + other.1 > side.0.at;
        let other = if side.3 { any } else { written };
        if let Some(other) = other.filter(meets) {
            return Err(BadMoves::Overlap(other.2.min(side.2), other.2.max(side.2)));
        }
        let further = |best: Option<Side>| match best {
            Some(best) if (best.0.lower, best.0.at + best.1) >= (side.0.lower, side.0.at + side.1) => Some(best),
            _ => Some(side),
        };
        any = further(any);
        if side.3 {
            written = further(written);
        }
    }
    Ok(())
}

/// Cuts moves into batches of at most `max` bytes, in the order that suits their shape. A move that is larger than that
/// is cut itself.
pub(super) fn batches(moves: Vec<Move>, shape: Shape, max: u64) -> Vec<Vec<Move>> {
    let mut moves: Vec<Move> = moves.into_iter().flat_map(|one| cut(one, max)).collect();
    match shape {
        Shape::Gather => moves.sort_by_key(|one| one.to),
        Shape::Copy | Shape::Scatter => moves.sort_by_key(|one| one.from),
    }
    let mut batches: Vec<Vec<Move>> = Vec::new();
    let mut room = 0;
    for one in moves {
        match batches.last_mut() {
            Some(batch) if one.len <= room => batch.push(one),
            _ => {
                batches.push(vec![one]);
                room = max;
            }
        }
        room -= one.len;
    }
    batches
}

fn cut(one: Move, max: u64) -> Vec<Move> {
    let piece = |at: u64| Move {
        upper: one.upper + at,
        from: one.from.plus(at),
        to: one.to.plus(at),
        len: max.min(one.len - at),
    };
    (0..one.len.div_ceil(max)).map(|i| piece(i * max)).collect()
}

/// The ranges of the upper port that moves touch, as few as possible and in order.
pub(super) fn joined(moves: &[Move]) -> Vec<ByteRange> {
    let mut ranges: Vec<ByteRange> = moves.iter().map(Move::upper_range).collect();
    ranges.sort_by_key(|range| range.start());
    ranges.dedup_by(|next, last| {
        let is_joined = next.start() <= last.end();
        if is_joined {
            *last = span(last.start(), last.end().max(next.end()) - last.start());
        }
        is_joined
    });
    ranges
}

/// Sorts `moves` by `place` and groups those that lie one after the other, up to `max` bytes.
pub(super) fn runs(moves: &mut [Move], place: fn(&Move) -> LowerAddress, max: u64) -> Vec<Range<usize>> {
    moves.sort_by_key(place);
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut len = 0;
    for (at, one) in moves.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if len + one.len <= max && place(&moves[run.start]).plus(len) == place(one) => {
                run.end = at + 1;
                len += one.len;
            }
            _ => {
                runs.push(at..at + 1);
                len = one.len;
            }
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moving(from: u64, to: u64, len: u64) -> Move {
        Move { upper: from, from: LowerAddress { lower: 0, at: from }, to: LowerAddress { lower: 0, at: to }, len }
    }

    #[test]
    fn moves_that_depend_on_each_other_are_refused() {
        let check = |moves: &[Move]| check(moves);
        assert_eq!(check(&[moving(0, 100, 10), moving(20, 110, 10), moving(0, 200, 10)]), Ok(()));
        assert_eq!(check(&[moving(0, 100, 10), moving(20, 109, 10)]), Err(BadMoves::Overlap(0, 1)));
        assert_eq!(check(&[moving(0, 100, 10), moving(105, 300, 10)]), Err(BadMoves::Overlap(0, 1)));
        assert_eq!(check(&[moving(0, 9, 10)]), Err(BadMoves::Overlap(0, 0)));
        assert_eq!(check(&[moving(0, 100, 50), moving(300, 20, 10), moving(400, 0, 2)]), Err(BadMoves::Overlap(0, 2)));
        assert_eq!(check(&[moving(0, 100, 0)]), Err(BadMoves::Empty(0)));
        assert_eq!(check(&[moving(u64::MAX, 0, 2)]), Err(BadMoves::TooLong(0)));
    }

    #[test]
    fn batches_keep_to_their_size_and_cut_what_is_larger() {
        let batches = batches(vec![moving(100, 900, 25), moving(0, 800, 5), moving(50, 500, 5)], Shape::Copy, 10);
        let lens: Vec<Vec<(u64, u64)>> =
            batches.iter().map(|batch| batch.iter().map(|one| (one.from.at, one.len)).collect()).collect();
        assert_eq!(lens, [vec![(0, 5), (50, 5)], vec![(100, 10)], vec![(110, 10)], vec![(120, 5)]]);
    }

    #[test]
    fn ranges_that_touch_are_joined() {
        let moves = [moving(20, 0, 10), moving(0, 100, 10), moving(10, 200, 5), moving(12, 300, 2), moving(29, 400, 9)];
        assert_eq!(joined(&moves), [span(0, 15), span(20, 18)]);
    }

    #[test]
    fn neighbours_are_one_run_up_to_a_size() {
        let mut moves = [moving(30, 0, 10), moving(0, 100, 10), moving(10, 200, 10), moving(20, 300, 10)];
        assert_eq!(runs(&mut moves, |one| one.from, 20), [0..2, 2..4]);
        assert_eq!(moves[3].from.at, 30);
    }
}
