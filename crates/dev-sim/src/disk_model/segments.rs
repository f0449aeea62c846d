//! The track buffer's segments: runs of bytes that were read, one of which may still be growing.

use std::collections::VecDeque;

use esker_base::Time;

use super::geometry::MediumPosition;
use super::parts::BufferSpec;
use crate::access::Access;

/// A run of buffered bytes `[from, next)`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Segment {
    /// First byte.
    pub from: u64,
    /// Byte after the last one read at `at`.
    pub next: u64,
    /// Where the head was then.
    pub place: MediumPosition,
    /// When.
    pub at: Time,
    /// Where reading on stops.
    pub limit: u64,
    /// Whether a write left it.
    pub written: bool,
    /// Whether the head still reads into it.
    pub reading: bool,
}

/// Segments by use, the latest first.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Segments(VecDeque<Segment>);

impl Segments {
    /// The segment into which the head reads.
    #[inline]
    pub fn stream(&self) -> Option<&Segment> {
        self.0.iter().find(|segment| segment.reading)
    }

    /// Where in the order of use the segment is that holds the access's bytes, or will without moving the arm.
    #[inline]
    pub fn serving(&self, access: &Access) -> Option<usize> {
        let range = access.range;
        let serves = |segment: &Segment| {
            let reaches = range.end() <= segment.next || (segment.reading && range.start() <= segment.limit);
            segment.from <= range.start() && reaches
        };
        if access.write { None } else { self.0.iter().position(serves) }
    }

    /// Whether a segment holds bytes that were read from `from` to `to`.
    pub fn touches(&self, from: u64, to: u64) -> bool {
        self.0.iter().any(|segment| !segment.written && segment.from < to && segment.next > from)
    }

    /// A segment, by its place in the order of use.
    pub fn get(&self, at: usize) -> Segment {
        self.0[at]
    }

    /// Marks a segment as just used, with what it holds now.
    pub fn used(&mut self, at: usize, segment: Segment) {
        self.0.remove(at);
        self.0.push_front(segment);
    }

    /// The head leaves the segment into which it reads, when it has read up to `reached`.
    pub fn leave(&mut self, reached: u64) {
        if let Some(stream) = self.0.iter_mut().find(|segment| segment.reading) {
            stream.next = reached.clamp(stream.next, stream.limit.max(stream.next));
            stream.limit = stream.next;
            stream.reading = false;
        }
    }

    /// Takes in a new segment in place of the one not used for longest.
    pub fn insert(&mut self, segment: Segment, spec: &BufferSpec) {
        if segment.written && self.0.iter().filter(|old| old.written).count() >= spec.write_segments {
            let oldest = self.0.iter().rposition(|old| old.written);
            oldest.map(|at| self.0.remove(at));
        }
        self.0.push_front(segment);
        self.0.truncate(spec.segments);
    }
}
