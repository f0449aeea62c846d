//! Where a byte is: cylinder, surface and angle, and when the head passes there.

use esker_base::units::SECTOR;
use esker_base::{Nanos, Time};

use super::zone::{Slot, Sparing, Zone, ZoneSpec};

/// Ticks of a full turn. One nanosecond is `rpm` ticks, so that the angle at any instant is a whole number.
pub const TURN: u64 = 60_000_000_000;

/// Nanoseconds by which a head may be late at an angle without losing a turn: rounding of a plan's end to whole
/// nanoseconds must not cost a rotation.
const SLACK: u64 = 2;

/// How a disk is laid out, as its source describes it.
#[derive(Clone, PartialEq, Debug)]
pub struct Layout {
    /// Surfaces.
    pub heads: u32,
    /// Zones from the outer edge on.
    pub zones: Vec<ZoneSpec>,
    /// Where spares are.
    pub sparing: Sparing,
    /// Which cylinders go through their surfaces backwards.
    pub backwards: Backwards,
}

/// Cylinders in which the data goes from the last surface to the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backwards {
    /// None.
    Never,
    /// Every other one, from the second of each zone on.
    OddOfZone,
    /// Every other one, from the second of the disk on.
    OddOfDisk,
}

/// Shape of a disk.
#[derive(Clone, PartialEq, Debug)]
pub struct Geometry {
    rpm: u64,
    heads: u64,
    backwards: Backwards,
    zones: Vec<Zone>,
    cylinders: u32,
    capacity: u64,
}

/// A position on the medium.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MediumPosition {
    /// Ticks along the way of a head that reads everything.
    pub at: u64,
    /// Ticks since the begin of its track.
    pub into: u64,
    /// Arm position.
    pub cylinder: u32,
    /// Head.
    pub surface: u32,
}

/// When an angle comes under the heads, in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Approach {
    /// Until then.
    pub wait: u64,
    /// Since then, if it has just passed and is still caught.
    pub late: u64,
}

impl MediumPosition {
    /// Angle in ticks, below [`TURN`].
    pub fn angle(&self) -> u64 {
        self.at % TURN
    }
}

impl Geometry {
    /// A disk that turns `rpm` times a minute, takes `switch` to change heads and `step` to go to the next cylinder.
    /// There is at least one zone, and each has data.
    pub fn new(layout: &Layout, rpm: u32, switch: Nanos, step: Nanos) -> Geometry {
        let rpm = u64::from(rpm);
        let least = [switch.0 * rpm, step.0 * rpm];
        let (mut zones, mut start, mut end): (Vec<Zone>, u64, u64) = (Vec::new(), 0, 0);
        for spec in &layout.zones {
            let mut zone = Zone::new(spec, layout.sparing, layout.heads, start, least);
            let first = (spec.offset.max(0.0) / f64::from(spec.sectors) * TURN as f64) as u64 % TURN;
            zone.base = (end + if end > 0 { least[1] } else { 0 } + TURN - first).div_ceil(TURN) * TURN + first;
            if end == 0 {
                zone.base = first;
            }
            start += zone.data;
            end = zone.base + zone.ticks(&zone.slot(zone.data.saturating_sub(1))) + TURN / zone.sectors;
            zones.push(zone);
        }
        let cylinders = layout.zones.iter().map(|zone| zone.last + 1).max().unwrap_or(1);
        let heads = u64::from(layout.heads);
        Geometry { rpm, heads, backwards: layout.backwards, zones, cylinders, capacity: start * SECTOR }
    }

    /// Cylinders.
    pub fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// Bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Time of a turn.
    pub fn turn(&self) -> Nanos {
        self.span(TURN)
    }

    fn zone_of(&self, sector: u64) -> &Zone {
        &self.zones[self.zones.partition_point(|zone| zone.start <= sector).saturating_sub(1)]
    }

    /// Where the sector that holds byte `offset` begins.
    #[inline]
    pub fn place(&self, offset: u64) -> MediumPosition {
        self.place_of(offset / SECTOR).0
    }

    /// Where the bytes before `offset` end: behind their last sector, not at the begin of the next.
    #[inline]
    pub fn end(&self, offset: u64) -> MediumPosition {
        let (place, width) = self.place_of(offset.div_ceil(SECTOR).saturating_sub(1));
        MediumPosition { at: place.at + width, into: place.into + width, ..place }
    }

    fn place_of(&self, sector: u64) -> (MediumPosition, u64) {
        let zone = self.zone_of(sector);
        let slot = zone.slot((sector - zone.start).min(zone.data.saturating_sub(1)));
        let cylinder = zone.first + slot.cylinder as u32;
        let backwards = match self.backwards {
            Backwards::Never => false,
            Backwards::OddOfZone => !slot.cylinder.is_multiple_of(2),
            Backwards::OddOfDisk => !cylinder.is_multiple_of(2),
        };
        let surface = if backwards { self.heads - 1 - slot.head } else { slot.head } as u32;
        let into = slot.sector * TURN / zone.sectors;
        let width = (slot.sector + 1) * TURN / zone.sectors - into;
        (MediumPosition { at: zone.base + zone.ticks(&slot), into, cylinder, surface }, width)
    }

    /// Ticks in which the head passes from one place to a later one.
    #[inline]
    pub fn pass(&self, from: &MediumPosition, to: &MediumPosition) -> u64 {
        to.at.saturating_sub(from.at)
    }

    /// The byte that follows what a head has read that was at `from` a while ago.
    pub fn offset_after(&self, from: &MediumPosition, span: Nanos) -> u64 {
        self.offset_at(from.at + self.ticks(span))
    }

    /// The byte under a head that waits `wait` ticks for `place`, if it is on that track by then, or the track's first.
    pub fn offset_before(&self, place: &MediumPosition, wait: u64) -> u64 {
        // A sector that has begun to pass is lost: the next one is the first that is read whole.
        let zone = &self.zones[self.zones.partition_point(|zone| zone.base <= place.at).saturating_sub(1)];
        let width = TURN / zone.sectors;
        self.offset_at(place.at - wait.min(place.into) / width * width + width / 2)
    }

    /// Where the data of the track that holds the byte before `offset` begins and ends.
    pub fn track(&self, offset: u64) -> (u64, u64) {
        let place = self.place(offset.saturating_sub(1));
        let begin = place.at - place.into;
        (self.offset_at(begin), self.offset_at(begin + TURN))
    }

    /// Where the data of the cylinder that holds the byte before `offset` ends.
    pub fn cylinder_end(&self, offset: u64) -> u64 {
        let sector = offset.div_ceil(SECTOR).saturating_sub(1);
        let zone = self.zone_of(sector);
        let slot = zone.slot((sector - zone.start).min(zone.data.saturating_sub(1)));
        let last = Slot { head: self.heads - 1, sector: 0, ..slot };
        self.offset_at(zone.base + zone.ticks(&last) + TURN)
    }

    fn offset_at(&self, ticks: u64) -> u64 {
        let zone = &self.zones[self.zones.partition_point(|zone| zone.base <= ticks).saturating_sub(1)];
        (zone.start + zone.passed(ticks.saturating_sub(zone.base))) * SECTOR
    }

    /// The angle under the heads at `now`, in ticks. Exact: a minute holds a whole number of turns.
    #[inline]
    pub fn angle(&self, now: Time) -> u64 {
        (now.0 % TURN) * self.rpm % TURN
    }

    /// Where `target` is `after` the heads were at `angle`.
    #[inline]
    pub fn approach(&self, angle: u64, after: Nanos, target: u64) -> Approach {
        let at = (angle + after.0 * self.rpm) % TURN;
        let wait = if target >= at { target - at } else { target + TURN - at };
        if wait < TURN - SLACK * self.rpm {
            Approach { wait, late: 0 }
        } else {
            Approach { wait: 0, late: TURN - wait }
        }
    }

    /// Ticks in a span.
    #[inline]
    pub fn ticks(&self, span: Nanos) -> u64 {
        span.0 * self.rpm
    }

    /// The span of `ticks`, rounded up.
    #[inline]
    pub fn span(&self, ticks: u64) -> Nanos {
        Nanos(ticks.div_ceil(self.rpm))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn disk() -> Geometry {
        let zone = |first, last, sectors| ZoneSpec {
            first,
            last,
            sectors,
            track_skew: 6.0,
            cylinder_skew: 11.0,
            ..ZoneSpec::default()
        };
        let zones = vec![zone(0, 99, 60), zone(100, 299, 50)];
        let layout = Layout { heads: 3, zones, sparing: Sparing::Zone(false), backwards: Backwards::OddOfZone };
        Geometry::new(&layout, 7200, Nanos::micros(500), Nanos::millis(1))
    }

    const CAPACITY: u64 = (100 * 3 * 60 + 200 * 3 * 50) * SECTOR;

    #[test]
    fn places_follow_tracks_heads_and_zones() {
        let disk = disk();
        assert_eq!((disk.capacity(), disk.cylinders()), (CAPACITY, 300));
        let at = |sector: u64| {
            let place = disk.place(sector * SECTOR);
            (place.cylinder, place.surface, place.angle() * 60 / TURN)
        };
        assert_eq!([at(0), at(59), at(60), at(120)], [(0, 0, 0), (0, 0, 59), (0, 1, 6), (0, 2, 12)]);
        assert_eq!(at(180), (1, 2, 23), "the next cylinder stays on its surface");
        assert_eq!(at(240), (1, 1, 29));
        assert_eq!(disk.place(100 * 180 * SECTOR).cylinder, 100, "the second zone");
        assert_eq!(disk.place(CAPACITY - SECTOR).cylinder, 299);
    }

    #[test]
    fn a_minute_brings_the_angle_back() {
        let disk = disk();
        assert_eq!(disk.angle(Time(123)), disk.angle(Time(123 + 7 * TURN)));
        assert_eq!(disk.angle(Time(1_000_000)), 1_000_000 * 7200);
    }

    #[test]
    fn a_rounded_end_does_not_cost_a_turn() {
        let disk = disk();
        let one_late = disk.approach(7200, Nanos::ZERO, 0);
        assert_eq!(one_late, Approach { wait: 0, late: 7200 });
        let ten_late = disk.approach(7200 * 10, Nanos::ZERO, 0);
        assert_eq!(ten_late, Approach { wait: TURN - 72_000, late: 0 });
    }

    #[test]
    fn waiting_passes_the_sectors_before_the_target_on_its_track() {
        let disk = disk();
        let target = disk.place(70 * SECTOR);
        let before = |sectors: u64| disk.offset_before(&target, sectors * TURN / 60 + TURN / 200) / SECTOR;
        assert_eq!([before(0), before(1), before(10), before(11), before(50)], [70, 69, 60, 60, 60]);
    }

    #[test]
    fn tracks_and_cylinders_end_where_the_next_begin() {
        let disk = disk();
        let sectors = |(begin, end): (u64, u64)| (begin / SECTOR, end / SECTOR);
        assert_eq!(
            [1, 60, 61, 180].map(|sector| sectors(disk.track(sector * SECTOR))),
            [(0, 60), (0, 60), (60, 120), (120, 180)]
        );
        assert_eq!([1, 180, 181].map(|sector| disk.cylinder_end(sector * SECTOR) / SECTOR), [180, 180, 360]);
    }

    proptest! {
        #[test]
        fn later_bytes_are_passed_later(a in 0..CAPACITY / SECTOR - 200, len in 1u64..200) {
            let disk = disk();
            let (from, to) = (disk.place(a * SECTOR), disk.end((a + len) * SECTOR));
            prop_assert!(from.at < to.at && from.cylinder <= to.cylinder);
            let span = disk.span(disk.pass(&from, &to));
            prop_assert_eq!(disk.offset_after(&from, span) / SECTOR, a + len);
        }
    }
}
