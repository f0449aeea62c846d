//! Inodes by number.
//!
//! A number is the place of an inode and how often the place was used before: so a look costs a constant, and a number
//! is never given twice. A place that was used too often rests for ever.

use std::rc::Rc;

use super::state::Node;
use crate::word::Ino;

/// Inodes by number.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Table {
    places: Vec<Place>,
    /// Places without an inode, the last one first.
    free: Vec<u32>,
    len: u64,
}

/// A place for an inode.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Place {
    /// Inodes that were here before.
    pub uses: u32,
    pub slot: Option<Slot>,
}

/// An inode and the pins on it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Slot {
    pub pins: u64,
    pub node: Rc<Node>,
}

impl Table {
    /// A table of these places.
    pub(super) fn of(places: Vec<Place>) -> Table {
        let is_free = |place: &Place| place.slot.is_none() && place.uses < u32::MAX;
        let mut free: Vec<u32> =
            (0..).zip(&places).filter(|(_, place)| is_free(place)).map(|(index, _)| index).collect();
        free.reverse();
        let len = places.iter().filter(|place| place.slot.is_some()).count() as u64;
        Table { places, free, len }
    }

    /// All places, with and without inodes.
    pub(super) fn places(&self) -> &[Place] {
        &self.places
    }

    /// Number of inodes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// An inode.
    #[inline]
    pub(super) fn get(&self, ino: Ino) -> Option<&Slot> {
        let (index, uses) = parts(ino)?;
        self.places.get(index).filter(|place| place.uses == uses)?.slot.as_ref()
    }

    /// An inode for a change.
    #[inline]
    pub(super) fn get_mut(&mut self, ino: Ino) -> Option<&mut Slot> {
        let (index, uses) = parts(ino)?;
        self.places.get_mut(index).filter(|place| place.uses == uses)?.slot.as_mut()
    }

    /// Adds an inode that is not pinned.
    pub(super) fn insert(&mut self, node: Rc<Node>) -> Ino {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { uses: 0, slot: None });
            u32::try_from(self.places.len() - 1).expect("memory ends before numbers do")
        });
        let place = &mut self.places[index as usize];
        place.slot = Some(Slot { pins: 0, node });
        self.len += 1;
        number(index, place.uses)
    }

    /// Removes an inode that is there.
    pub(super) fn remove(&mut self, ino: Ino) {
        let (index, _) = parts(ino).expect("it is there");
        let place = &mut self.places[index];
        place.slot = None;
        self.len -= 1;
        if let Some(uses) = place.uses.checked_add(1) {
            place.uses = uses;
            self.free.push(index as u32);
        }
    }

    /// All inodes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Ino, &Slot)> {
        let numbered = (0..).zip(&self.places);
        numbered.filter_map(|(index, place)| place.slot.as_ref().map(|slot| (number(index, place.uses), slot)))
    }
}

fn number(index: u32, uses: u32) -> Ino {
    Ino((u64::from(uses) << 32) + u64::from(index) + 1)
}

fn parts(ino: Ino) -> Option<(usize, u32)> {
    let place = ino.0.checked_sub(1)?;
    Some(((place & u64::from(u32::MAX)) as usize, (place >> 32) as u32))
}

#[cfg(test)]
mod tests {
    use super::super::state::State;
    use super::*;
    use crate::ram::RamConfig;

    fn node() -> Rc<Node> {
        State::new(RamConfig::tiny()).known(Ino(1)).clone()
    }

    #[test]
    fn places_are_used_again_and_numbers_are_not() {
        let mut table = Table::default();
        let [a, b] = [table.insert(node()), table.insert(node())];
        assert_eq!((a, b, table.len()), (Ino(1), Ino(2), 2));
        table.remove(a);
        let again = table.insert(node());
        assert_eq!(again, Ino((1 << 32) + 1));
        assert!(table.get(a).is_none() && table.get_mut(a).is_none() && table.get(again).is_some());
        assert!(table.get(Ino(0)).is_none() && table.get(Ino(3)).is_none() && table.get(Ino(u64::MAX)).is_none());
        assert_eq!(table.iter().map(|(ino, _)| ino).collect::<Vec<_>>(), [again, b]);
    }

    #[test]
    fn a_place_that_was_used_too_often_rests() {
        let mut table = Table::default();
        table.insert(node());
        table.places[0].uses = u32::MAX;
        let last = table.iter().next().unwrap().0;
        table.remove(last);
        assert_eq!((table.insert(node()), table.get(last).is_none()), (Ino(2), true));
    }
}
