//! Numbers of volumes. A number belongs to one volume as long as anything can mean that volume by it: the stack's
//! parts, and every arrangement that a request, a piece of work or a layer still holds. Then it is given to the next
//! volume, so that a stack can be changed for ever.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use esker_block::VolumeId;

/// What no volume is called.
pub(crate) const GONE: VolumeId = VolumeId(u16::MAX);

/// Where the numbers of one stack come from. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Numbers(Rc<RefCell<Free>>);

#[derive(Default)]
struct Free {
    /// Numbers below this one were given out at least once.
    next: u16,
    /// Those of them that no volume has now.
    back: BTreeSet<u16>,
}

/// The number of one volume. It comes back when the last that holds it is dropped.
pub(crate) struct Number {
    volume: VolumeId,
    home: Numbers,
}

impl Numbers {
    /// The smallest number that nothing holds; none if there is none.
    pub(crate) fn take(&self) -> Option<Rc<Number>> {
        let mut free = self.0.borrow_mut();
        let number = match free.back.pop_first() {
            Some(number) => number,
            None if free.next < GONE.0 => {
                free.next += 1;
                free.next - 1
            }
            None => return None,
        };
        Some(Rc::new(Number { volume: VolumeId(number), home: self.clone() }))
    }

    /// One more than the largest number that was ever given out.
    pub(crate) fn span(&self) -> usize {
        usize::from(self.0.borrow().next)
    }
}

impl Number {
    pub(crate) fn volume(&self) -> VolumeId {
        self.volume
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        self.home.0.borrow_mut().back.insert(self.volume.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_comes_back_when_the_last_that_holds_it_is_dropped() {
        let numbers = Numbers::default();
        let [a, b] = [numbers.take().unwrap(), numbers.take().unwrap()];
        let held = a.clone();
        drop(a);
        assert_eq!(numbers.take().unwrap().volume(), VolumeId(2), "0 is held, and 1 is b's");
        drop(held);
        let again = numbers.take().unwrap();
        assert_eq!((again.volume(), b.volume(), numbers.span()), (VolumeId(0), VolumeId(1), 3));
    }

    #[test]
    fn there_are_as_many_numbers_as_the_mark_of_what_is_gone_leaves() {
        let numbers = Numbers::default();
        let all: Vec<_> = std::iter::from_fn(|| numbers.take()).collect();
        assert_eq!(all.len(), usize::from(GONE.0));
        assert!(all.iter().all(|number| number.volume() != GONE));
        drop(all);
        assert!(numbers.take().is_some());
    }
}
