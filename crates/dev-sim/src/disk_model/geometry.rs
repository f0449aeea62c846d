//! Where a byte is: cylinder and angle, and when the head passes there.
//!
//! The tracks are one spiral whose data rate falls linearly from the outer to the inner edge. Head and track switches
//! have no cost of their own: a data sheet's sustained rate contains them, and the layout's skew hides them.

use esker_base::{Nanos, Time};

/// Ticks of a full turn. One nanosecond is `rpm` ticks, so that the angle at any instant is a whole number.
pub const TURN: u64 = 60_000_000_000;

/// Nanoseconds by which a head may be late at an angle without losing a turn: rounding of a plan's end to whole
/// nanoseconds must not cost a rotation.
const SLACK: u64 = 2;

/// Shape of a disk.
#[derive(Clone, PartialEq, Debug)]
pub struct Geometry {
    rpm: u64,
    heads: f64,
    capacity: f64,
    tracks: f64,
    /// Bytes of the outermost track, and by how much a track falls short of it at the innermost one.
    outer: f64,
    fall: f64,
}

/// A position on the medium.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Place {
    /// Tracks from the outer edge, with the fraction of a turn.
    pub track: f64,
    /// Arm position.
    pub cylinder: u32,
    /// Angle in ticks, below [`TURN`].
    pub angle: u64,
}

/// When an angle comes under the heads, in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Approach {
    /// Until then.
    pub wait: u64,
    /// Since then, if it has just passed and is still caught.
    pub late: u64,
}

impl Geometry {
    /// A disk of `capacity` bytes with `heads` tracks per cylinder that turns `rpm` times a minute and moves
    /// `rate_outer` to `rate_inner` bytes per second. All are positive; the inner rate is not above the outer one.
    pub fn new(capacity: u64, rpm: u32, heads: u32, rate_outer: u64, rate_inner: u64) -> Geometry {
        let turn_secs = 60.0 / f64::from(rpm);
        let (outer, inner) = (rate_outer as f64 * turn_secs, rate_inner as f64 * turn_secs);
        let capacity = capacity as f64;
        let tracks = 2.0 * capacity / (outer + inner);
        Geometry { rpm: u64::from(rpm), heads: f64::from(heads), capacity, tracks, outer, fall: outer - inner }
    }

    /// Cylinders, rounded up.
    pub fn cylinders(&self) -> u32 {
        (self.tracks / self.heads).ceil() as u32
    }

    /// Tracks from the outer edge to byte `offset`: the inverse of `outer·x − fall·x² / (2·tracks)`, in the form that
    /// loses no digits near the outer edge.
    #[inline]
    fn track(&self, offset: u64) -> f64 {
        let bytes = (offset as f64).min(self.capacity);
        let square = self.outer * self.outer - 2.0 * self.fall * bytes / self.tracks;
        2.0 * bytes / (self.outer + square.max(0.0).sqrt())
    }

    /// Where byte `offset` is.
    #[inline]
    pub fn place(&self, offset: u64) -> Place {
        let track = self.track(offset);
        let whole = track as u64;
        let angle = ((track - whole as f64) * TURN as f64) as u64;
        Place { track, cylinder: (track / self.heads) as u32, angle: angle.min(TURN - 1) }
    }

    /// Ticks in which the head passes from one place to a later one.
    #[inline]
    pub fn pass(&self, from: &Place, to: &Place) -> u64 {
        ((to.track - from.track) * TURN as f64) as u64
    }

    /// The byte under the head that was at `from` a while ago: the spiral itself.
    pub fn offset_after(&self, from: &Place, span: Nanos) -> u64 {
        let track = from.track + self.ticks(span) as f64 / TURN as f64;
        (self.outer * track - self.fall * track * track / (2.0 * self.tracks)).max(0.0) as u64
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

    const CAPACITY: u64 = 4_000_000_000_000;

    fn disk() -> Geometry {
        Geometry::new(CAPACITY, 7200, 8, 250_000_000, 125_000_000)
    }

    #[test]
    fn the_spiral_ends_where_the_capacity_does() {
        let disk = disk();
        let (end, last) = (disk.place(CAPACITY), disk.place(CAPACITY - 512));
        assert!((end.track - disk.tracks).abs() < 1e-3, "{} of {}", end.track, disk.tracks);
        assert_eq!(last.cylinder, disk.cylinders() - 1);
    }

    #[test]
    fn zones_pass_at_their_rate() {
        let disk = disk();
        let rate = |at: u64| 1e6 / disk.span(disk.pass(&disk.place(at), &disk.place(at + 1_000_000))).as_secs_f64();
        assert!((rate(0) / 250e6 - 1.0).abs() < 1e-4, "{}", rate(0));
        assert!((rate(CAPACITY - 1_000_000) / 125e6 - 1.0).abs() < 1e-4);
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

    proptest! {
        #[test]
        fn later_bytes_lie_further_in(a in 0..CAPACITY, len in 512u64..1 << 20) {
            let disk = disk();
            let (from, to) = (disk.place(a), disk.place(a + len));
            prop_assert!(from.track < to.track && from.cylinder <= to.cylinder);
            prop_assert!(from.angle < TURN && to.angle < TURN);
        }
    }
}
