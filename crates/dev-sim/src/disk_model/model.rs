//! The disk as a pure function: where the head is, what is asked and when, to when it is done and where the head is
//! then.

use esker_base::{Nanos, Time};
use esker_block::KindError;

use super::geometry::{Geometry, Place};
use super::seek::SeekCurve;
use super::spec::DiskSpec;
use crate::access::Access;

/// A disk without state.
#[derive(Clone, Debug)]
pub struct DiskModel {
    spec: DiskSpec,
    geometry: Geometry,
    seek: SeekCurve,
}

/// An access with the places of its first byte and of the byte after its last.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// What is accessed.
    pub access: Access,
    begin: Place,
    end: Place,
}

/// What moves: the arm, and the buffer that reading on after a read fills.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Head {
    cylinder: u32,
    stream: Option<Stream>,
}

/// The track buffer: it holds `[from, next)`, read until `at`.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Stream {
    from: u64,
    next: u64,
    next_place: Place,
    at: Time,
    /// Where reading on stops; equal to `next` once the head has left.
    limit: u64,
}

/// How one access will be served.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Plan {
    /// Time of the seek; zero without arm movement and for hits.
    pub seek: Nanos,
    /// Rotational latency; zero for hits.
    pub wait: Nanos,
    /// When the last byte is transferred.
    pub finish: Time,
    /// Whether the track buffer served it.
    pub hit: bool,
    /// The head afterwards.
    pub head: Head,
}

impl DiskModel {
    /// The model of a disk.
    ///
    /// # Errors
    /// Numbers that are zero, or do not fit together, by name.
    pub fn new(spec: DiskSpec) -> Result<DiskModel, KindError> {
        let unfit = |text: String| Err(KindError::Unfit(format!("disk-model: {text}")));
        let positive = [
            ("capacity", spec.capacity),
            ("rpm", u64::from(spec.rpm)),
            ("heads", u64::from(spec.heads)),
            ("rate_inner", spec.rate_inner),
            ("host_rate", spec.host_rate),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return unfit(format!("{name} must be above 0"));
        }
        if spec.rate_inner > spec.rate_outer {
            return unfit("rate_inner must not be above rate_outer; swap them".into());
        }
        if spec.rpm > 100_000 {
            return unfit(format!("rpm = {} is above 100000; give revolutions per minute", spec.rpm));
        }
        let geometry = Geometry::new(spec.capacity, spec.rpm, spec.heads, spec.rate_outer, spec.rate_inner);
        match SeekCurve::three_points(spec.seek_single, spec.seek_average, spec.seek_full, geometry.cylinders()) {
            Ok(seek) => Ok(DiskModel { spec, geometry, seek }),
            Err(error) => unfit(error.to_string()),
        }
    }

    /// Its numbers.
    pub fn spec(&self) -> &DiskSpec {
        &self.spec
    }

    /// Its shape.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Its seek curve.
    pub fn seek(&self) -> &SeekCurve {
        &self.seek
    }

    /// Time of `bytes` on the host interface.
    #[inline]
    pub fn host(&self, bytes: u64) -> Nanos {
        Nanos::transfer(bytes, self.spec.host_rate)
    }

    /// The places of an access.
    #[inline]
    pub fn locate(&self, access: Access) -> Placed {
        let range = access.range;
        Placed { access, begin: self.geometry.place(range.start()), end: self.geometry.place(range.end()) }
    }

    /// Ticks from `now`, when the heads are at `angle`, until `placed` could be transferred, if the command is ready
    /// at `ready`: what the scheduler compares.
    #[inline]
    pub fn positioning(&self, head: &Head, placed: &Placed, ready: Time, now: Time, angle: u64) -> u64 {
        let lag = ready.since(now);
        if head.stream.is_some_and(|s| s.serves(&placed.access)) {
            return self.geometry.ticks(lag);
        }
        let moved = lag + self.seek_to(head, placed);
        self.geometry.ticks(moved) + self.geometry.approach(angle, moved, placed.begin.angle).wait
    }

    #[inline]
    fn seek_to(&self, head: &Head, placed: &Placed) -> Nanos {
        let distance = head.cylinder.abs_diff(placed.begin.cylinder);
        let settle = if placed.access.write && distance > 0 { self.spec.write_settle } else { Nanos::ZERO };
        self.seek.time(distance) + settle
    }

    /// Serves `placed` from `now` on, or from `ready` on if that is later.
    pub fn plan(&self, head: &Head, placed: &Placed, ready: Time, now: Time) -> Plan {
        let start = now.max(ready);
        match head.stream {
            Some(stream) if stream.serves(&placed.access) => self.plan_hit(head, stream, placed, start),
            _ => self.plan_mechanical(head, placed, start),
        }
    }

    /// Positions the arm, waits for the sector and transfers.
    fn plan_mechanical(&self, head: &Head, placed: &Placed, start: Time) -> Plan {
        let (range, geometry) = (placed.access.range, &self.geometry);
        let seek = self.seek_to(head, placed);
        let approach = geometry.approach(geometry.angle(start), seek, placed.begin.angle);
        let wait = geometry.span(approach.wait);
        let turning = approach.wait + geometry.pass(&placed.begin, &placed.end).saturating_sub(approach.late);
        let media = start + seek + geometry.span(turning);
        let finish = media.max(start + self.host(range.len()));
        let stream = if placed.access.write {
            head.stream.map(|s| s.left_at(self.reached(&s, start)))
        } else {
            let limit = self.reads_on_to(range.end());
            Some(Stream { from: range.start(), next: range.end(), next_place: placed.end, at: finish, limit })
        };
        Plan { seek, wait, finish, hit: false, head: Head { cylinder: placed.end.cylinder, stream } }
    }

    /// Serves from the track buffer, waiting for bytes that the head has yet to pass.
    fn plan_hit(&self, head: &Head, mut stream: Stream, placed: &Placed, start: Time) -> Plan {
        let end = placed.access.range.end();
        let mut finish = start + self.host(placed.access.range.len());
        let mut cylinder = head.cylinder;
        if stream.limit > stream.next {
            stream = self.extended(self.resumed(stream, start), end);
        }
        if end > stream.next {
            let passed = stream.at + self.geometry.span(self.geometry.pass(&stream.next_place, &placed.end));
            stream = Stream { next: end, next_place: placed.end, at: passed, ..stream };
            finish = finish.max(passed);
            cylinder = placed.end.cylinder;
        }
        let head = Head { cylinder, stream: Some(stream) };
        Plan { seek: Nanos::ZERO, wait: Nanos::ZERO, finish, hit: true, head }
    }

    /// The stream with reading on until a full window after `end`.
    fn extended(&self, stream: Stream, end: u64) -> Stream {
        let from = stream.from.max(end.saturating_sub(self.spec.read_ahead));
        Stream { from, limit: stream.limit.max(self.reads_on_to(end)), ..stream }
    }

    /// The stream at `start`: if its window had filled by then, reading starts again where it stopped, when the disk
    /// has turned there.
    fn resumed(&self, stream: Stream, start: Time) -> Stream {
        let stop = self.geometry.place(stream.limit);
        let filled = stream.at + self.geometry.span(self.geometry.pass(&stream.next_place, &stop));
        if filled >= start {
            return stream;
        }
        let wait = self.geometry.approach(self.geometry.angle(start), Nanos::ZERO, stop.angle).wait;
        Stream { next: stream.limit, next_place: stop, at: start + self.geometry.span(wait), ..stream }
    }

    fn reads_on_to(&self, end: u64) -> u64 {
        end.saturating_add(self.spec.read_ahead).min(self.spec.capacity)
    }

    /// Up to which byte the stream has been read at `now`.
    fn reached(&self, stream: &Stream, now: Time) -> u64 {
        let passed = self.geometry.offset_after(&stream.next_place, now.since(stream.at));
        passed.clamp(stream.next, stream.limit)
    }
}

impl Stream {
    /// Whether the buffer holds the access's bytes, or will without moving the arm.
    #[inline]
    fn serves(&self, access: &Access) -> bool {
        let range = access.range;
        let reading = self.limit > self.next && range.start() <= self.limit;
        !access.write && range.start() >= self.from && (reading || range.end() <= self.next)
    }

    /// The buffer after the head left when it had read up to `next`.
    fn left_at(self, next: u64) -> Stream {
        Stream { next, limit: next, ..self }
    }
}
