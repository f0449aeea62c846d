//! What a disk is made of, whether a data sheet or measured files said so.

use esker_base::Nanos;

use super::geometry::Geometry;
use super::seek::SeekCurve;
use crate::meter::{Bill, Rest};

/// Everything that the model of a disk needs.
#[derive(Clone, PartialEq, Debug)]
pub struct DiskParts {
    /// Bytes of the medium that hold data.
    pub capacity: u64,
    /// Zones and rotation.
    pub geometry: Geometry,
    /// Arm.
    pub seek: SeekCurve,
    /// Time to change heads without moving the arm.
    pub head_switch: Nanos,
    /// What positioning takes longer before a write.
    pub write_settle: Nanos,
    /// Controller and interface.
    pub interface: Interface,
    /// Buffer.
    pub buffer: BufferSpec,
    /// Power and price.
    pub bill: Bill,
    /// Standby, if the disk spins down by itself.
    pub rest: Option<Rest>,
}

/// Times of the controller and the way to the host.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interface {
    /// Bytes per second to and from the host; 0 is unlimited.
    pub rate: u64,
    /// Command overheads by `[after a read, after a write]`.
    pub read_hit: [Nanos; 2],
    /// Reads that need the medium.
    pub read_miss: [Nanos; 2],
    /// Writes into the cache.
    pub write_hit: [Nanos; 2],
    /// Writes that wait for the medium.
    pub write_miss: [Nanos; 2],
    /// After the last byte, by `[read, write]`.
    pub completion: [Nanos; 2],
    /// Part of a read that is buffered before its transfer begins, and of a write before its seek may end.
    pub watermark: [f64; 2],
}

/// How far a disk reads on after a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadsOn {
    /// To the end of the track.
    Track,
    /// To the end of the track, and of the next one for a read that follows another from track to track.
    NextTrack,
    /// To the end of the cylinder.
    Cylinder,
    /// As far as the window goes.
    Window,
}

/// The buffer that reads share with writes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BufferSpec {
    /// Segments for reads; 0 for none.
    pub segments: usize,
    /// How many of them may hold written data that can be read again.
    pub write_segments: usize,
    /// Bytes of a segment.
    pub segment: u64,
    /// How far the disk reads on after a read.
    pub reads_on: ReadsOn,
    /// Most bytes of it.
    pub read_ahead: u64,
    /// Whether what is read on may take the place of the bytes that were asked for, when the segment is full.
    pub replaces: bool,
    /// Whether a hit in a full segment starts reading on again.
    pub read_on_hit: bool,
    /// Whether sectors that pass while the head waits are kept.
    pub read_free: bool,
    /// Whether sectors are read as they pass, in any order: no more than a turn for a track.
    pub any_order: bool,
    /// Bytes of written data that may wait for the medium; 0 if writes wait for it.
    pub write: u64,
}

impl BufferSpec {
    /// No buffer at all.
    pub const NONE: BufferSpec = BufferSpec {
        segments: 0,
        write_segments: 0,
        segment: 0,
        reads_on: ReadsOn::Window,
        read_ahead: 0,
        replaces: false,
        read_on_hit: false,
        read_free: false,
        any_order: false,
        write: 0,
    };
}

impl Interface {
    /// The same overhead for all commands, overlapped transfers, and nothing afterwards.
    pub fn plain(rate: u64, overhead: Nanos) -> Interface {
        let both = [overhead; 2];
        Interface {
            rate,
            read_hit: both,
            read_miss: both,
            write_hit: both,
            write_miss: both,
            completion: [Nanos::ZERO; 2],
            watermark: [0.0; 2],
        }
    }
}
