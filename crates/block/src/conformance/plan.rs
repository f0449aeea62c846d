//! What is asked: random batches in which no change overlaps another request.

use std::fmt;

use esker_base::{ByteRange, Stream};
use esker_rt::mem::Pool;

use crate::bio::{Bio, OpKind, RangeOp};
use crate::buf::Buf;
use crate::limits::{Limits, Support};

/// How the payload of a write is carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    Unique,
    Shared,
    /// A window of a larger buffer.
    Window,
    /// Several buffers, cut at a block.
    Chain,
}

/// One request, kept while it is in flight so that its answer can be judged.
#[derive(Clone)]
pub(super) enum Ask {
    Read { range: ByteRange },
    ReadDescribed { range: ByteRange },
    Write { range: ByteRange, bytes: Vec<u8>, shape: Shape, fua: bool },
    WriteDescribed { range: ByteRange, seed: u64 },
    Flush,
    Zero { range: ByteRange, no_unmap: bool, fua: bool },
    Discard { range: ByteRange },
    Extents { range: ByteRange },
    Ranges { ops: Vec<RangeOp> },
}

impl Ask {
    /// The request itself. `block` is where chains are cut.
    pub(super) fn bio(&self, pool: &Pool, block: usize) -> Bio {
        match self {
            Ask::Read { range } => Bio::read(range.start(), dirty(pool, range.len() as usize)),
            Ask::ReadDescribed { range } => Bio::read(range.start(), Buf::described(range.len() as usize, 0)),
            Ask::Write { range, bytes, shape, fua } => {
                let bio = Bio::write(range.start(), payload(pool, bytes, *shape, block));
                if *fua { bio.fua() } else { bio }
            }
            Ask::WriteDescribed { range, seed } => {
                Bio::write(range.start(), Buf::described(range.len() as usize, *seed))
            }
            Ask::Flush => Bio::flush(),
            Ask::Zero { range, no_unmap, fua } => {
                let mut bio = Bio::zero(range.start(), range.len());
                bio.flags.no_unmap = *no_unmap;
                bio.flags.fua = *fua;
                bio
            }
            Ask::Discard { range } => Bio::discard(range.start(), range.len()),
            Ask::Extents { range } => Bio::extents(range.start(), range.len()),
            Ask::Ranges { ops } => Bio::ranges(ops.clone()),
        }
    }

    /// The kinds of operation that it counts as.
    pub(super) fn kinds(&self) -> Vec<OpKind> {
        match self {
            Ask::Read { .. } | Ask::ReadDescribed { .. } => vec![OpKind::Read],
            Ask::Write { .. } | Ask::WriteDescribed { .. } => vec![OpKind::Write],
            Ask::Flush => vec![OpKind::Flush],
            Ask::Zero { .. } => vec![OpKind::Zero],
            Ask::Discard { .. } => vec![OpKind::Discard],
            Ask::Extents { .. } => vec![OpKind::Extents],
            Ask::Ranges { ops } => ops.iter().map(RangeOp::kind).collect(),
        }
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ask::Read { range } => write!(f, "read {range}"),
            Ask::ReadDescribed { range } => write!(f, "read {range} (described)"),
            Ask::Write { range, shape, fua, .. } => write!(f, "write {range} ({shape:?}, fua {fua})"),
            Ask::WriteDescribed { range, seed } => write!(f, "write {range} (described by {seed})"),
            Ask::Flush => f.write_str("flush"),
            Ask::Zero { range, no_unmap, fua } => write!(f, "zero {range} (no_unmap {no_unmap}, fua {fua})"),
            Ask::Discard { range } => write!(f, "discard {range}"),
            Ask::Extents { range } => write!(f, "extents {range}"),
            Ask::Ranges { ops } => write!(f, "ranges {ops:?}"),
        }
    }
}

/// Memory for a read that holds neither zeroes nor anything that a device could hold.
fn dirty(pool: &Pool, len: usize) -> Buf {
    let mut buf = Buf::unique(pool, len);
    buf.bytes_mut().expect("just made unique").fill(0xA5);
    buf
}

fn payload(pool: &Pool, bytes: &[u8], shape: Shape, block: usize) -> Buf {
    let mut whole = Buf::from_bytes(pool, bytes);
    match shape {
        Shape::Unique => whole,
        Shape::Shared => whole.share(),
        Shape::Window => {
            let padded = [&vec![0x5A; block], bytes, &vec![0x5A; block]].concat();
            Buf::from_bytes(pool, &padded).slice(block, bytes.len())
        }
        Shape::Chain => {
            let cut = (bytes.len() / 2).next_multiple_of(block).min(bytes.len());
            let parts = [(0, cut), (cut, bytes.len() - cut)].into_iter().filter(|(_, len)| *len > 0);
            Buf::chain(parts.map(|(at, len)| whole.slice(at, len)).collect())
        }
    }
}

/// Draws requests inside the windows of a device.
pub(super) struct Planner {
    rng: Stream,
    limits: Limits,
    windows: Vec<ByteRange>,
    taken: Vec<(ByteRange, bool)>,
}

impl Planner {
    pub(super) fn new(rng: Stream, limits: &Limits, windows: Vec<ByteRange>) -> Planner {
        Planner { rng, limits: limits.clone(), windows, taken: Vec::new() }
    }

    /// Up to `most` requests that may be in flight together.
    pub(super) fn batch(&mut self, most: u32) -> Vec<Ask> {
        self.taken.clear();
        let count = 1 + self.rng.below(u64::from(most.max(1)));
        (0..count).filter_map(|_| self.ask()).collect()
    }

    /// A write of fresh bytes.
    pub(super) fn write(&mut self, range: ByteRange) -> Ask {
        let mut bytes = vec![0; range.len() as usize];
        // Never zero, so that a lost write never looks like a hole.
        self.rng.fill(&mut bytes);
        bytes.iter_mut().for_each(|b| *b |= 1);
        let shape = [Shape::Unique, Shape::Shared, Shape::Window, Shape::Chain][self.rng.below(4) as usize];
        Ask::Write { range, bytes, shape, fua: self.rng.chance(0.2) }
    }

    fn ask(&mut self) -> Option<Ask> {
        let kind = self.kind()?;
        let described = self.limits.described && self.rng.chance(0.5);
        let ask = match kind {
            OpKind::Read if described => Ask::ReadDescribed { range: self.free(false)? },
            OpKind::Read => Ask::Read { range: self.free(false)? },
            OpKind::Write if described => Ask::WriteDescribed { range: self.free(true)?, seed: self.rng.next_u64() },
            OpKind::Write => {
                let range = self.free(true)?;
                self.write(range)
            }
            OpKind::Flush => Ask::Flush,
            OpKind::Zero => {
                Ask::Zero { range: self.free(true)?, no_unmap: self.rng.chance(0.3), fua: self.rng.chance(0.2) }
            }
            OpKind::Discard => Ask::Discard { range: self.free(true)? },
            OpKind::Extents => Ask::Extents { range: self.free(false)? },
            OpKind::Clone | OpKind::Move | OpKind::Delete => Ask::Ranges { ops: self.remappings(kind)? },
        };
        Some(ask)
    }

    fn kind(&mut self) -> Option<OpKind> {
        use OpKind::{Clone, Delete, Discard, Extents, Flush, Move, Read, Write, Zero};
        let weighted = [
            Read, Read, Read, Read, Write, Write, Write, Write, Write, Flush, Zero, Discard, Extents, Clone, Move,
            Delete,
        ];
        let kind = weighted[self.rng.below(weighted.len() as u64) as usize];
        (self.limits.support(kind) != Support::No).then_some(kind)
    }

    /// A vector that begins with `kind` and goes on with whatever else is supported.
    fn remappings(&mut self, kind: OpKind) -> Option<Vec<RangeOp>> {
        let most = u64::from(self.limits.ranges_max.clamp(1, 4));
        let mut ops = vec![self.remapping(kind)?];
        for _ in 0..self.rng.below(most) {
            let kind = [OpKind::Clone, OpKind::Move, OpKind::Delete][self.rng.below(3) as usize];
            if self.limits.support(kind) != Support::No {
                ops.extend(self.remapping(kind));
            }
        }
        Some(ops)
    }

    fn remapping(&mut self, kind: OpKind) -> Option<RangeOp> {
        let unit = u64::from(self.limits.remap);
        let src = self.free_of(unit, true)?;
        if kind == OpKind::Delete {
            return Some(RangeOp::Delete { at: src });
        }
        let dst = (0..8).find_map(|_| {
            let window = self.window();
            let room = window.len().checked_sub(src.len())?;
            let at = window.start() + self.below(room / unit + 1) * unit;
            let range = ByteRange::new(at, src.len())?;
            self.is_free(range, true).then_some(range)
        })?;
        self.taken.push((dst, true));
        let dst = dst.start();
        Some(if kind == OpKind::Clone { RangeOp::Clone { src, dst } } else { RangeOp::Move { src, dst } })
    }

    /// A range that may be in flight beside those already drawn, and takes it.
    fn free(&mut self, changes: bool) -> Option<ByteRange> {
        self.free_of(self.block(), changes)
    }

    /// The same in whole `unit`s.
    fn free_of(&mut self, unit: u64, changes: bool) -> Option<ByteRange> {
        let range = (0..8).find_map(|_| {
            let range = self.range(unit)?;
            self.is_free(range, changes).then_some(range)
        })?;
        self.taken.push((range, changes));
        Some(range)
    }

    fn is_free(&self, range: ByteRange, changes: bool) -> bool {
        !self.taken.iter().any(|(other, other_changes)| range.overlaps(*other) && (changes || *other_changes))
    }

    /// Mostly short ranges, sometimes whole windows, often at the ends: in whole `unit`s, which some transfers have no
    /// room for.
    fn range(&mut self, unit: u64) -> Option<ByteRange> {
        let window = self.window();
        let units = window.len().min(u64::from(self.limits.transfer_max)) / unit;
        if units == 0 {
            return None;
        }
        let most = [1, 1, 4, 16, 64, units][self.rng.below(6) as usize].min(units);
        let len = unit + self.below(most) * unit;
        let room = window.len() - len;
        let start = match self.rng.below(6) {
            0 => 0,
            1 => room / unit * unit,
            _ => self.below(room / unit + 1) * unit,
        };
        ByteRange::new(window.start() + start, len)
    }

    fn window(&mut self) -> ByteRange {
        self.windows[self.rng.below(self.windows.len() as u64) as usize]
    }

    fn block(&self) -> u64 {
        u64::from(self.limits.block)
    }

    fn below(&mut self, count: u64) -> u64 {
        self.rng.below(count.max(1))
    }
}
