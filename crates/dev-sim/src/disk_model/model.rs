//! The disk as a function: where the head is and what the buffer holds, what is asked and when, to when it is done.

use esker_base::units::SECTOR;
use esker_base::{Nanos, Time};

use super::geometry::{Approach, Geometry, MediumPosition, TURN};
use super::parts::{DiskParts, ReadsOn};
use super::segments::{Segment, Segments};
use crate::access::Access;

/// A disk without state.
#[derive(Clone, Debug)]
pub struct DiskModel {
    parts: DiskParts,
}

/// An access with the places of its first byte and behind its last.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// What is accessed.
    pub access: Access,
    begin: MediumPosition,
    end: MediumPosition,
}

/// What moves: the arm, and the buffer that reading fills.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct ArmState {
    cylinder: u32,
    surface: u32,
    segments: Segments,
    /// The last command wrote.
    wrote: bool,
}

/// How one access will be served.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AccessPlan {
    /// Time of the seek or head switch; zero for hits.
    pub seek: Nanos,
    /// Rotational latency; zero for hits.
    pub wait: Nanos,
    /// Cylinders over which the arm goes to the first byte.
    pub travel: u32,
    /// When the arm is free for the next access.
    pub free: Time,
    /// When the host has its answer.
    pub finish: Time,
    /// Whether the buffer served it.
    pub hit: bool,
}

impl ArmState {
    /// Notes whether the host's last command wrote, on which overheads depend.
    #[inline]
    pub fn note(&mut self, wrote: bool) {
        self.wrote = wrote;
    }
}

impl DiskModel {
    /// The model of a disk.
    pub fn new(parts: DiskParts) -> DiskModel {
        DiskModel { parts }
    }

    /// What it is made of.
    pub fn parts(&self) -> &DiskParts {
        &self.parts
    }

    /// Its shape.
    pub fn geometry(&self) -> &Geometry {
        &self.parts.geometry
    }

    /// Time of `bytes` on the host interface.
    #[inline]
    pub fn host(&self, bytes: u64) -> Nanos {
        Nanos::transfer(bytes, self.parts.interface.rate)
    }

    /// The places of an access.
    #[inline]
    pub fn locate(&self, access: Access) -> Placed {
        let (range, geometry) = (access.range, &self.parts.geometry);
        Placed { access, begin: geometry.place(range.start()), end: geometry.end(range.end()) }
    }

    /// Overhead of a write that the cache takes.
    #[inline]
    pub fn cached_write(&self, head: &ArmState) -> Nanos {
        self.parts.interface.write_hit[usize::from(head.wrote)] + self.parts.interface.completion[1]
    }

    /// Overhead of a read that the write cache serves, or of a command that moves no data.
    #[inline]
    pub fn cached_read(&self, head: &ArmState) -> Nanos {
        self.parts.interface.read_hit[usize::from(head.wrote)] + self.parts.interface.completion[0]
    }

    /// When the command that arrived at `arrived` may begin to move the arm.
    #[inline]
    fn ready(&self, head: &ArmState, access: &Access, arrived: Time) -> Time {
        let interface = &self.parts.interface;
        let overhead = if access.write { interface.write_miss } else { interface.read_miss };
        arrived + overhead[usize::from(head.wrote)]
    }

    /// Ticks from `now`, when the heads are at `angle`, until `placed` could be transferred, if the command came at
    /// `arrived`: what the scheduler compares.
    #[inline]
    pub fn positioning(&self, head: &ArmState, placed: &Placed, arrived: Time, now: Time, angle: u64) -> u64 {
        let geometry = &self.parts.geometry;
        let lag = self.ready(head, &placed.access, arrived).since(now);
        if head.segments.serving(&placed.access).is_some() {
            return geometry.ticks(lag);
        }
        let moved = lag + self.seek_to(head, placed);
        geometry.ticks(moved) + geometry.approach(angle, moved, placed.begin.angle()).wait
    }

    #[inline]
    fn seek_to(&self, head: &ArmState, placed: &Placed) -> Nanos {
        let arm = self.parts.seek.time(head.cylinder.abs_diff(placed.begin.cylinder));
        let switch = if head.surface == placed.begin.surface { Nanos::ZERO } else { self.parts.head_switch };
        let moved = arm.max(switch);
        let settle = if placed.access.write && moved > Nanos::ZERO { self.parts.write_settle } else { Nanos::ZERO };
        moved + settle
    }

    /// Serves `placed`, a command that arrived at `arrived`, from `now` on, and moves the head.
    pub fn serve(&self, head: &mut ArmState, placed: &Placed, arrived: Time, now: Time) -> AccessPlan {
        let serving = head.segments.serving(&placed.access);
        match serving.filter(|at| self.reaches(&head.segments.get(*at), placed, now)) {
            Some(at) => self.serve_hit(head, at, placed, arrived, now),
            None => self.serve_mechanical(head, placed, now.max(self.ready(head, &placed.access, arrived))),
        }
    }

    /// Whether a segment has some of an access's bytes, or the head is still on its way to them.
    fn reaches(&self, segment: &Segment, placed: &Placed, now: Time) -> bool {
        let begins_in = placed.access.range.start() < segment.limit;
        begins_in || segment.at + self.span_to(segment, &self.parts.geometry.end(segment.limit)) > now
    }

    /// Positions the arm, waits for the sector and transfers.
    fn serve_mechanical(&self, head: &mut ArmState, placed: &Placed, start: Time) -> AccessPlan {
        let (range, geometry, interface) = (placed.access.range, &self.parts.geometry, &self.parts.interface);
        if let Some(stream) = head.segments.stream() {
            let reached = geometry.offset_after(&stream.place, start.since(stream.at));
            head.segments.leave(reached);
        }
        let write = usize::from(placed.access.write);
        let early = Nanos((interface.watermark[write] * self.host(range.len()).0 as f64) as u64);
        let (seek, travel) = (self.seek_to(head, placed), head.cylinder.abs_diff(placed.begin.cylinder));
        let moved = if placed.access.write { seek.max(early) } else { seek };
        let arrival = start + moved;
        let approach = geometry.approach(geometry.angle(start), moved, placed.begin.angle());
        let pass = geometry.pass(&placed.begin, &placed.end);
        let turning = match self.any_order(placed, &approach, pass) {
            Some(turn) => turn,
            None => approach.wait + pass.saturating_sub(approach.late),
        };
        let media = arrival + geometry.span(turning);
        let finish = if placed.access.write {
            media.max(start + self.host(range.len()))
        } else {
            self.sent(range.len(), arrival + geometry.span(approach.wait), media).max(start + self.host(range.len()))
        };
        self.fill(head, placed, approach.wait, media);
        (head.cylinder, head.surface) = (placed.end.cylinder, placed.end.surface);
        let wait = geometry.span(approach.wait);
        AccessPlan { seek: moved, wait, travel, free: media, finish: finish + interface.completion[write], hit: false }
    }

    /// Ticks in which sectors are read as they pass, if that is the disk's way and the head arrives among them.
    fn any_order(&self, placed: &Placed, approach: &Approach, pass: u64) -> Option<u64> {
        let among = approach.wait > 0 && pass <= TURN && TURN - approach.wait < pass;
        (self.parts.buffer.any_order && !placed.access.write && among).then_some(TURN)
    }

    /// When the host has the bytes of a read whose first sector begins to pass at `first` and whose last has passed at
    /// `media`: The transfer begins when enough is buffered, and no sector goes before it is read.
    fn sent(&self, len: u64, first: Time, media: Time) -> Time {
        let share = self.parts.interface.watermark[0].max(SECTOR as f64 / len.max(SECTOR) as f64);
        let begin = first + Nanos((media.since(first).0 as f64 * share) as u64);
        (begin + self.host(len)).max(media + self.host(len.min(SECTOR)))
    }

    /// What the buffer holds after an access to the medium.
    fn fill(&self, head: &mut ArmState, placed: &Placed, waited: u64, media: Time) {
        let (spec, range) = (&self.parts.buffer, placed.access.range);
        if spec.segments == 0 || (placed.access.write && spec.write_segments == 0) {
            return;
        }
        let (mut from, mut limit) = (range.start(), range.end());
        if !placed.access.write {
            if spec.read_free {
                let room = spec.segment.saturating_sub(range.len());
                from = self.parts.geometry.offset_before(&placed.begin, waited).max(from.saturating_sub(room));
            }
            limit = self.reads_on_to(&head.segments, range.end());
            if !spec.replaces {
                limit = limit.min((range.start() + spec.segment).max(range.end()));
            }
        }
        let from = from.max(limit.saturating_sub(spec.segment));
        let written = placed.access.write;
        let (next, place, reading) = (range.end(), placed.end, !written);
        head.segments.insert(Segment { from, next, place, at: media, limit, written, reading }, spec);
    }

    /// Serves from the buffer, waiting for bytes that the head has yet to pass.
    fn serve_hit(&self, head: &mut ArmState, at: usize, placed: &Placed, arrived: Time, now: Time) -> AccessPlan {
        let (range, interface) = (placed.access.range, &self.parts.interface);
        let start = now.max(arrived + interface.read_hit[usize::from(head.wrote)]);
        let mut finish = start + self.host(range.len());
        let mut segment = head.segments.get(at);
        if segment.reading {
            segment = self.read_on(&head.segments, segment, start, range.end());
            if range.end() > segment.next {
                let passed = segment.at + self.span_to(&segment, &placed.end);
                segment = Segment { next: range.end(), place: placed.end, at: passed, ..segment };
                finish = finish.max(passed + self.host(range.len().min(SECTOR)));
                (head.cylinder, head.surface) = (placed.end.cylinder, placed.end.surface);
            }
        }
        head.segments.used(at, segment);
        let done = finish + interface.completion[0];
        AccessPlan { seek: Nanos::ZERO, wait: Nanos::ZERO, travel: 0, free: finish, finish: done, hit: true }
    }

    fn span_to(&self, segment: &Segment, to: &MediumPosition) -> Nanos {
        self.parts.geometry.span(self.parts.geometry.pass(&segment.place, to))
    }

    /// The stream when at `start` a hit asks for bytes up to `end`. If its window had filled by then, reading starts
    /// again where it stopped, when the disk has turned there.
    fn read_on(&self, segments: &Segments, stream: Segment, start: Time, end: u64) -> Segment {
        let (geometry, spec) = (&self.parts.geometry, &self.parts.buffer);
        let stop = geometry.end(stream.limit);
        let filled = stream.at + self.span_to(&stream, &stop);
        let stopped = filled <= start;
        let mut stream =
            if stopped { Segment { next: stream.limit, place: stop, at: filled, ..stream } } else { stream };
        let limit = self.reads_on_to(segments, end).max(end);
        if limit <= stream.limit || !(spec.read_on_hit || end > stream.limit) {
            return stream;
        }
        if stopped {
            stream.at = start + geometry.span(geometry.approach(geometry.angle(start), Nanos::ZERO, stop.angle()).wait);
        }
        Segment { from: stream.from.max(limit.saturating_sub(spec.segment)).min(end), limit, ..stream }
    }

    /// Where reading on after a read up to `end` stops.
    fn reads_on_to(&self, segments: &Segments, end: u64) -> u64 {
        let (geometry, spec) = (&self.parts.geometry, &self.parts.buffer);
        let window = end.saturating_add(spec.read_ahead).min(self.parts.capacity);
        match spec.reads_on {
            ReadsOn::Window => window,
            ReadsOn::Track => window.min(geometry.track(end).1),
            ReadsOn::Cylinder => window.min(geometry.cylinder_end(end)),
            ReadsOn::NextTrack => {
                let (begin, stop) = geometry.track(end);
                let follows = begin > 0 && segments.touches(geometry.track(begin).0, begin);
                window.min(if follows { geometry.track(stop + 1).1 } else { stop })
            }
        }
    }
}
