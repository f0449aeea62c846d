//! What the map says of volumes: which parts hold data, and where two of them differ. Nothing is read.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::transfer::{Ask, Outgoing, TransferError, ranges};

/// Where the bytes of a part are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// In blocks that the map leads to.
    Data,
    /// In the blocks of the volume that it was made from.
    Shared,
    /// Nowhere: it reads as zeroes.
    Hole,
}

/// A part of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Area {
    /// Its bytes.
    pub bytes: Range<u64>,
    /// Where they are.
    pub held: Held,
}

/// A part in which two volumes lead to different blocks. Those may hold equal bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Its bytes.
    pub bytes: Range<u64>,
    /// Whether the first volume holds data there.
    pub first: bool,
    /// Whether the second one does.
    pub second: bool,
}

/// The parts of a volume, without gaps. With `origin`, the volume that it was made from, shared parts are told.
///
/// # Errors
/// [`TransferError`].
pub fn map<A: Ask>(manager: &mut A, volume: &str, origin: Option<&str>) -> Result<Vec<Area>, TransferError<A::Error>> {
    let all = mapped(manager, volume, None)?;
    let own = match origin {
        Some(_) => mapped(manager, volume, origin)?.ranges,
        None => all.ranges.clone(),
    };
    let held = |(bytes, [is_mapped, is_own]): (Range<u64>, [bool; 2])| {
        let held = match (is_mapped, is_own) {
            (false, _) => Held::Hole,
            (true, true) => Held::Data,
            (true, false) => Held::Shared,
        };
        Area { bytes, held }
    };
    Ok(parts(all.bytes, [&all.ranges, &own]).into_iter().map(held).collect())
}

/// Where two volumes differ, as the map says. Behind the end of the shorter one, data of the other one counts.
///
/// # Errors
/// [`TransferError`].
pub fn differences<A: Ask>(
    manager: &mut A,
    first: &str,
    second: &str,
) -> Result<Vec<Difference>, TransferError<A::Error>> {
    let (these, those) = (mapped(manager, first, None)?, mapped(manager, second, None)?);
    let told = ranges(manager, "map", &Outgoing { snapshot: second, base: Some(first), start: 0 })?;
    let mut apart: Vec<Range<u64>> = told.ranges.iter().map(|range| range.0..range.1).collect();
    let behind = these.ranges.iter().filter(|range| range.end > those.bytes);
    apart.extend(behind.map(|range| range.start.max(those.bytes)..range.end));
    let all = parts(these.bytes.max(those.bytes), [&apart, &these.ranges, &those.ranges]);
    let differ = all.into_iter().filter(|(_, [differ, ..])| *differ);
    Ok(differ.map(|(bytes, [_, first, second])| Difference { bytes, first, second }).collect())
}

/// A volume, and what it maps: with a base, what that does not map alike.
struct Mapped {
    bytes: u64,
    ranges: Vec<Range<u64>>,
}

fn mapped<A: Ask>(manager: &mut A, volume: &str, base: Option<&str>) -> Result<Mapped, TransferError<A::Error>> {
    let told = ranges(manager, "map", &Outgoing { snapshot: volume, base, start: 0 })?;
    let mapped = told.ranges.iter().filter(|range| range.2).map(|range| range.0..range.1);
    Ok(Mapped { bytes: told.bytes, ranges: mapped.collect() })
}

/// Cuts `0..bytes` where a range of a set begins or ends: each part with whether each set has it. Neighbours differ.
fn parts<const N: usize>(bytes: u64, sets: [&[Range<u64>]; N]) -> Vec<(Range<u64>, [bool; N])> {
    let ends = sets.iter().copied().flatten().flat_map(|range| [range.start, range.end]);
    let cuts: BTreeSet<u64> = ends.filter(|at| *at < bytes).chain([bytes]).collect();
    let (mut parts, mut start) = (Vec::<(Range<u64>, [bool; N])>::new(), 0);
    for end in cuts.into_iter().filter(|end| *end > 0) {
        let has = sets.map(|set| {
            set.get(set.partition_point(|range| range.end <= start)).is_some_and(|range| range.start <= start)
        });
        match parts.last_mut() {
            Some((last, same)) if *same == has => last.end = end,
            Some(_) | None => parts.push((start..end, has)),
        }
        start = end;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_cut_where_a_set_begins_or_ends_and_joined_where_none_does() {
        assert_eq!(parts(10, [&[], &[]]), [(0..10, [false, false])]);
        let (these, those) = ([0..4, 4..6, 8..10], [2..3, 5..9]);
        let told = parts(10, [&these, &those]);
        let want = [
            (0..2, [true, false]),
            (2..3, [true, true]),
            (3..5, [true, false]),
            (5..6, [true, true]),
            (6..8, [false, true]),
            (8..9, [true, true]),
            (9..10, [true, false]),
        ];
        assert_eq!(told, want);
    }
}
