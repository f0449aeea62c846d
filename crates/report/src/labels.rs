//! Where the names of points stand: beside their marks, over as little else as possible.

use crate::ink::letters;

/// Room between a mark and its name.
const GAP: i32 = 9;
/// How far from its mark a name is tried to stand beyond [`GAP`].
const STEPS: [i32; 4] = [0, 14, 30, 48];
/// What a pixel of distance costs, in pixels that are covered.
const DISTANCE: i64 = 4;
/// What a pixel outside the frame costs.
const OUTSIDE: i64 = 40;

/// A rectangle in pixels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Space {
    pub(crate) left: i32,
    pub(crate) top: i32,
    pub(crate) right: i32,
    pub(crate) bottom: i32,
}

impl Space {
    /// A square around a point.
    pub(crate) fn around((x, y): (i32, i32), half: i32) -> Space {
        Space { left: x - half, top: y - half, right: x + half, bottom: y + half }
    }

    fn pixels(&self) -> i64 {
        i64::from((self.right - self.left).max(0)) * i64::from((self.bottom - self.top).max(0))
    }

    fn common(&self, other: &Space) -> i64 {
        let (left, right) = (self.left.max(other.left), self.right.min(other.right));
        Space { left, right, top: self.top.max(other.top), bottom: self.bottom.min(other.bottom) }.pixels()
    }

    /// Its point that is nearest to this one.
    pub(crate) fn nearest(&self, (x, y): (i32, i32)) -> (i32, i32) {
        (x.clamp(self.left, self.right), y.clamp(self.top, self.bottom))
    }
}

/// The spaces of the names of points, in their order. `taken` is what names should not cover, and they stay in `frame`
/// where they can.
pub(crate) fn place(points: &[((i32, i32), &str)], size: i32, mut taken: Vec<Space>, frame: Space) -> Vec<Space> {
    let mut places = Vec::new();
    for (at, name) in points {
        let cost = |(far, space): &(i32, Space)| {
            let covered: i64 = taken.iter().map(|other| space.common(other)).sum();
            covered + OUTSIDE * (space.pixels() - space.common(&frame)) + DISTANCE * i64::from(*far)
        };
        let best = around(*at, letters(name, size), size).min_by_key(cost).expect("there are places");
        taken.push(best.1);
        places.push(best.1);
    }
    places
}

/// Places of a name around its point, each with its distance.
fn around((x, y): (i32, i32), width: i32, height: i32) -> impl Iterator<Item = (i32, Space)> {
    let beside = move |far: i32| {
        let (gap, half) = (GAP + far, height / 2 + 1);
        let (right, left) = (x + gap, x - gap - width);
        let (above, below) = (y - gap - half, y + gap + half);
        [(right, y), (left, y), (x - width / 2, above), (x - width / 2, below)]
            .into_iter()
            .chain([(right, above), (right, below), (left, above), (left, below)])
            .map(move |(left, y)| (far, Space { left, right: left + width, top: y - half, bottom: y + half }))
    };
    STEPS.into_iter().flat_map(beside)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Space = Space { left: 0, top: 0, right: 400, bottom: 300 };

    #[test]
    fn names_of_near_points_do_not_cover_each_other() {
        let points = [((200, 150), "one name"), ((203, 152), "another"), ((199, 148), "a third"), ((206, 155), "last")];
        let marks: Vec<Space> = points.iter().map(|(at, _)| Space::around(*at, 5)).collect();
        let places = place(&points, 14, marks, FRAME);
        for (at, one) in places.iter().enumerate() {
            assert!(places[..at].iter().all(|other| one.common(other) == 0), "{places:?}");
            assert_eq!(one.common(&FRAME), one.pixels(), "inside");
        }
    }

    #[test]
    fn a_name_at_the_edge_stands_inside() {
        for at in [(398, 150), (2, 2), (200, 299)] {
            let place = place(&[(at, "a long name")], 14, vec![Space::around(at, 5)], FRAME)[0];
            assert_eq!(place.common(&FRAME), place.pixels(), "{at:?}: {place:?}");
        }
        let space = Space { left: 10, top: 10, right: 20, bottom: 20 };
        assert_eq!(space.nearest((0, 15)), (10, 15));
    }
}
