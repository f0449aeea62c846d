//! One zone of a disk: tracks of equal length, and how data blocks lie on them around spares and defects.
//!
//! Three numberings: *data* sectors in the order of the logical blocks, *slots* in the order of the tracks, and *ticks*
//! along the way of the head, which also counts the skews between tracks.

use super::geometry::TURN;

/// A zone as its source describes it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ZoneSpec {
    /// First cylinder.
    pub first: u32,
    /// Last cylinder.
    pub last: u32,
    /// Sectors of a track.
    pub sectors: u32,
    /// Angle of the first slot, in sectors.
    pub offset: f64,
    /// Sectors by which a track begins after the end of the one before, within a cylinder.
    pub track_skew: f64,
    /// The same between cylinders.
    pub cylinder_skew: f64,
    /// Slots without data at its begin.
    pub dead: u64,
    /// Spare slots (or tracks) of each group.
    pub spares: u64,
    /// Bad slots (or tracks) that the data skips, ascending.
    pub slips: Vec<u64>,
    /// Bad slots whose data is elsewhere: (bad, instead), by slot of the zone.
    pub remaps: Vec<(u64, u64)>,
}

/// After how many slots spares lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sparing {
    /// At the end of each so many cylinders.
    Cylinders(u32),
    /// At the begin of each cylinder.
    CylinderFront,
    /// At the end of each track.
    Track,
    /// At the end of the zone; spares and slips are whole tracks.
    ZoneTracks,
    /// At the end of the zone. With `true`, skipped slots make the zone smaller instead of using up spares.
    Zone(bool),
}

/// A zone that is ready for use.
#[derive(Clone, PartialEq, Debug)]
pub struct Zone {
    /// First cylinder.
    pub first: u32,
    /// Slots of a track.
    pub sectors: u64,
    /// First data sector of the disk in it, and their number.
    pub start: u64,
    /// Data sectors.
    pub data: u64,
    /// Ticks along the head's way at which it begins.
    pub base: u64,
    heads: u64,
    /// Ticks of the skews.
    track_skew: u64,
    cylinder_skew: u64,
    dead: u64,
    /// Slots of a group, and how many of them are spare at its end or begin.
    group: u64,
    spares: u64,
    front: bool,
    /// Slots in a unit of `slips`: 1, or a track.
    unit: u64,
    slips: Vec<u64>,
    remaps: Vec<(u64, u64)>,
}

/// A slot's position in its zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Cylinder from the zone's first.
    pub cylinder: u64,
    /// Track of the cylinder, in the order of the data.
    pub head: u64,
    /// Slot of the track.
    pub sector: u64,
}

impl Zone {
    /// A zone of a disk with `heads` surfaces, whose data begins at sector `start`. Each skew must leave the heads
    /// `switch` and `step` ticks; a skew that is too small costs a turn.
    pub fn new(spec: &ZoneSpec, sparing: Sparing, heads: u32, start: u64, [switch, step]: [u64; 2]) -> Zone {
        let (heads, sectors) = (u64::from(heads), u64::from(spec.sectors));
        let cylinders = u64::from(spec.last - spec.first + 1);
        let slots = cylinders * heads * sectors;
        // The skews of all tracks fit into 64 bits, however long an absurd text says that a switch takes.
        let most = u64::MAX / 4 / (cylinders * heads).max(1);
        let skew = |sectors_skewed: f64, least: u64| {
            let ticks = (sectors_skewed / f64::from(spec.sectors) * TURN as f64).round() as u64;
            let turns = least.saturating_sub(ticks).div_ceil(TURN);
            ticks.saturating_add(turns.saturating_mul(TURN)).min(most)
        };
        let (group, unit) = match sparing {
            Sparing::Cylinders(n) => (u64::from(n) * heads * sectors, 1),
            Sparing::CylinderFront => (heads * sectors, 1),
            Sparing::Track => (sectors, 1),
            Sparing::ZoneTracks => (slots, sectors),
            Sparing::Zone(_) => (slots, 1),
        };
        let lost = if sparing == Sparing::Zone(true) { spec.slips.len() as u64 } else { 0 };
        let groups = slots / group.max(1);
        Zone {
            first: spec.first,
            sectors,
            start,
            data: slots.saturating_sub(spec.dead + groups * spec.spares * unit + lost),
            base: 0,
            heads,
            track_skew: skew(spec.track_skew, switch),
            cylinder_skew: skew(spec.cylinder_skew, step),
            dead: spec.dead,
            group,
            spares: spec.spares * unit,
            front: sparing == Sparing::CylinderFront,
            unit,
            slips: spec.slips.clone(),
            remaps: spec.remaps.clone(),
        }
    }

    /// The slot of data sector `at` of this zone.
    #[inline]
    pub fn slot(&self, at: u64) -> Slot {
        let place = self.place_of(at);
        let track = place / self.sectors;
        Slot { cylinder: track / self.heads, head: track % self.heads, sector: place % self.sectors }
    }

    fn place_of(&self, at: u64) -> u64 {
        let at = at + self.dead;
        let room = self.group - self.spares;
        let (group, within) = (at / room, at % room);
        let begin = group * self.group;
        let slips = &self.slips[self.slips.partition_point(|slip| slip * self.unit < begin)..];
        let mut place = begin + within;
        if self.front {
            // Data ends with the group, and makes room for bad slots towards the spares at its begin.
            place += self.spares;
            let own = slips.partition_point(|slip| *slip < begin + self.group);
            slips[..own].iter().rev().for_each(|slip| place -= u64::from(*slip >= place && place > begin));
        } else {
            for slip in slips {
                if slip * self.unit > place {
                    break;
                }
                place += self.unit;
            }
        }
        match self.remaps.binary_search_by_key(&place, |(bad, _)| *bad) {
            Ok(found) => self.remaps[found].1,
            Err(_) => place,
        }
    }

    /// Data sectors that lie before slot `place`: the inverse of [`Zone::slot`], for a sector that is not remapped.
    fn data_before(&self, place: u64) -> u64 {
        let (group, within) = (place / self.group, place % self.group);
        let (room, begin) = (self.group - self.spares, group * self.group);
        let below = |slot: u64| self.slips.partition_point(|slip| slip * self.unit < slot) as u64 * self.unit;
        let within = if self.front {
            let bad = below(begin + self.group) - below(place);
            room.saturating_sub((self.group - within).saturating_sub(bad))
        } else {
            within.saturating_sub(below(place) - below(begin)).min(room)
        };
        (group * room + within).saturating_sub(self.dead).min(self.data)
    }

    /// Ticks from the zone's begin to a slot's begin.
    #[inline]
    pub fn ticks(&self, slot: &Slot) -> u64 {
        let track = slot.cylinder * self.heads + slot.head;
        let switches = slot.head + (self.heads - 1) * slot.cylinder;
        let skews = switches * self.track_skew + slot.cylinder * self.cylinder_skew;
        track * TURN + skews + slot.sector * TURN / self.sectors
    }

    /// The data sectors that the head has passed `ticks` after the zone's begin.
    pub fn passed(&self, ticks: u64) -> u64 {
        let cylinder_ticks = self.heads * TURN + (self.heads - 1) * self.track_skew + self.cylinder_skew;
        let (cylinder, rest) = (ticks / cylinder_ticks, ticks % cylinder_ticks);
        let track_ticks = TURN + self.track_skew;
        let head = (rest / track_ticks).min(self.heads - 1);
        // The division rounds down: a slot counts when its last tick has passed.
        let within = (rest - head * track_ticks).min(TURN);
        let sector = (within * self.sectors + self.sectors - 1) / TURN;
        self.data_before((cylinder * self.heads + head) * self.sectors + sector.min(self.sectors))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn zone(sparing: Sparing, spares: u64, slips: &[u64]) -> Zone {
        let spec = ZoneSpec {
            first: 5,
            last: 14,
            sectors: 20,
            track_skew: 3.0,
            cylinder_skew: 7.0,
            spares,
            slips: slips.to_vec(),
            ..ZoneSpec::default()
        };
        Zone::new(&spec, sparing, 4, 0, [1, 1])
    }

    #[test]
    fn spares_and_slips_move_data_as_their_scheme_says() {
        let slots = |zone: &Zone, at: &[u64]| at.iter().map(|at| zone.place_of(*at)).collect::<Vec<_>>();
        let per_zone = zone(Sparing::Zone(false), 9, &[3, 4, 30]);
        assert_eq!((per_zone.data, slots(&per_zone, &[2, 3, 27, 28])), (791, vec![2, 5, 29, 31]));
        let per_cylinder = zone(Sparing::Cylinders(1), 2, &[3, 81]);
        assert_eq!((per_cylinder.data, slots(&per_cylinder, &[2, 3, 76, 78, 79])), (780, vec![2, 4, 77, 80, 82]));
        let at_front = zone(Sparing::CylinderFront, 2, &[]);
        assert_eq!(slots(&at_front, &[0, 77, 78]), [2, 79, 82]);
        let slipped = zone(Sparing::CylinderFront, 2, &[30]);
        assert_eq!(slots(&slipped, &[0, 27, 28, 29, 77, 78]), [1, 28, 29, 31, 79, 82]);
        let per_track = zone(Sparing::Track, 1, &[22]);
        assert_eq!((per_track.data, slots(&per_track, &[18, 19, 21])), (760, vec![18, 20, 23]));
        let by_track = zone(Sparing::ZoneTracks, 3, &[1, 2]);
        assert_eq!((by_track.data, slots(&by_track, &[19, 20, 40])), (740, vec![19, 60, 80]));
        assert_eq!(zone(Sparing::Zone(true), 9, &[3, 4]).data, 789);
    }

    #[test]
    fn a_skew_that_is_too_small_costs_a_turn() {
        let spec = ZoneSpec { last: 9, sectors: 20, track_skew: 1.0, cylinder_skew: 4.0, ..ZoneSpec::default() };
        let zone = Zone::new(&spec, Sparing::Zone(false), 4, 0, [TURN / 10, TURN / 10]);
        assert_eq!((zone.track_skew, zone.cylinder_skew), (TURN / 20 + TURN, TURN / 5));
    }

    #[test]
    fn remapped_data_is_found_elsewhere() {
        let spec = ZoneSpec { last: 9, sectors: 20, remaps: vec![(7, 795)], spares: 9, ..ZoneSpec::default() };
        let zone = Zone::new(&spec, Sparing::Zone(false), 4, 0, [0, 0]);
        assert_eq!(zone.slot(7), Slot { cylinder: 9, head: 3, sector: 15 });
    }

    proptest! {
        #[test]
        fn what_the_head_has_passed_is_what_lies_before(
            at in 0u64..740,
            scheme in prop::sample::select(vec![
                Sparing::Zone(false), Sparing::Zone(true), Sparing::Cylinders(1), Sparing::Cylinders(2), Sparing::Track,
                Sparing::CylinderFront, Sparing::ZoneTracks,
            ]),
        ) {
            let zone = zone(scheme, 3, &[3, 4, 30]);
            prop_assume!(at < zone.data);
            let slot = zone.slot(at);
            let begin = zone.ticks(&slot);
            prop_assert_eq!(zone.passed(begin), at, "{:?}", slot);
            prop_assert_eq!(zone.passed(begin + TURN.div_ceil(20)), at + 1);
            prop_assert!(at == 0 || zone.ticks(&zone.slot(at - 1)) < begin);
        }
    }
}
