//! Where requests go next: for each volume the slots that have it as an upper port, topmost first, and its leaf. The
//! table is as large as what stands in the stack, whatever stands on what.

use esker_block::VolumeId;

use crate::contract::LimitsCheck;

/// Where a request goes next.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    Slot { index: u16, port: u16 },
    Leaf(u16),
    Nowhere,
}

/// What a request meets that is addressed to one volume.
pub(crate) struct Hop {
    pub fence: LimitsCheck,
    pub target: Target,
    /// The last position from which it is met: behind its own, a request meets the next hop of its volume.
    until: u16,
}

/// The position behind which no slot stands.
const LAST: u16 = u16::MAX;
/// The number of the hop that leads nowhere.
const NOWHERE: u32 = 0;

impl Hop {
    /// Into an upper port of the slot `index`.
    pub(crate) fn slot(fence: LimitsCheck, index: u16, port: u16) -> Hop {
        Hop { fence, target: Target::Slot { index, port }, until: index }
    }

    /// To the leaf `index`, which every slot is above.
    pub(crate) fn leaf(fence: LimitsCheck, index: u16) -> Hop {
        Hop { fence, target: Target::Leaf(index), until: LAST }
    }

    /// Nothing keeps to the contract of a volume that is not there.
    fn nowhere() -> Hop {
        Hop { fence: LimitsCheck::closed(), target: Target::Nowhere, until: LAST }
    }
}

/// The hops of one arrangement. Those of one volume stand together, in the order in which they are met, and the last of
/// them is met from everywhere.
pub(crate) struct Hops {
    hops: Vec<Hop>,
    /// The first hop of each volume.
    firsts: Vec<u32>,
}

impl Hops {
    /// `met` in any order; `volumes` is one more than the largest volume number. No slot has the number [`LAST`].
    pub(crate) fn new(mut met: Vec<(VolumeId, Hop)>, volumes: usize) -> Hops {
        met.sort_by_key(|(volume, hop)| (*volume, hop.until));
        let (mut hops, mut firsts) = (vec![Hop::nowhere()], vec![NOWHERE; volumes]);
        let mut met = met.into_iter().peekable();
        while let Some((volume, hop)) = met.next() {
            let first = &mut firsts[volume.0 as usize];
            if *first == NOWHERE {
                *first = hops.len() as u32;
            }
            let is_open = hop.until != LAST && met.peek().is_none_or(|(next, _)| *next != volume);
            hops.push(hop);
            if is_open {
                hops.push(Hop::nowhere());
            }
        }
        Hops { hops, firsts }
    }

    /// The number of the hop of a request at `position` that is addressed to `volume`.
    #[inline]
    pub(crate) fn at(&self, position: u16, volume: VolumeId) -> usize {
        let first = self.first(volume);
        // Nothing is behind a request of a client.
        if position == 0 { first } else { self.behind(first, position) }
    }

    #[inline(never)]
    fn behind(&self, first: usize, position: u16) -> usize {
        let mut number = first;
        while self.hops[number].until < position {
            number += 1;
        }
        number
    }

    #[inline]
    fn first(&self, volume: VolumeId) -> usize {
        self.firsts.get(volume.0 as usize).copied().unwrap_or(NOWHERE) as usize
    }

    #[inline]
    pub(crate) fn get(&self, number: usize) -> &Hop {
        &self.hops[number]
    }

    /// A volume has another size now.
    pub(crate) fn set_size(&self, volume: VolumeId, bytes: u64) {
        let hops = &self.hops[self.first(volume)..];
        let last = hops.iter().position(|hop| hop.until == LAST).expect("the last hop is met from everywhere");
        hops[..=last].iter().for_each(|hop| hop.fence.set_size(bytes));
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.hops.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(volume: u16, index: u16) -> (VolumeId, Hop) {
        (VolumeId(volume), Hop::slot(LimitsCheck::closed(), index, 0))
    }

    /// Where requests to `volume` go from each of the first positions: a slot's number, -1 for a leaf, -2 for nowhere.
    fn ways(hops: &Hops, volume: u16) -> Vec<i32> {
        let way = |position| match hops.get(hops.at(position, VolumeId(volume))).target {
            Target::Slot { index, .. } => i32::from(index),
            Target::Leaf(_) => -1,
            Target::Nowhere => -2,
        };
        (0..5).map(way).collect()
    }

    #[test]
    fn a_request_meets_the_first_slot_that_is_not_behind_it() {
        let leaf = (VolumeId(0), Hop::leaf(LimitsCheck::closed(), 0));
        let hops = Hops::new(vec![slot(0, 3), leaf, slot(2, 1), slot(2, 2), slot(1, 0)], 4);
        assert_eq!(ways(&hops, 0), [3, 3, 3, 3, -1], "a meter stands on the leaf");
        assert_eq!(ways(&hops, 1), [0, -2, -2, -2, -2]);
        assert_eq!(ways(&hops, 2), [1, 1, 2, -2, -2]);
        assert_eq!(ways(&hops, 3), [-2; 5], "this arrangement does not have it");
        assert_eq!(ways(&hops, 77), [-2; 5]);
    }
}
