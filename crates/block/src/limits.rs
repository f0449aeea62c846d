//! What a device can do, stated once at build and never tried out.

use esker_base::units::MIB;

use crate::bio::OpKind;

/// How well an operation is supported.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Support {
    /// Refused.
    No,
    /// Done by copying or by sub-block read-modify-write in some layer below.
    Emulated,
    /// Done by the device itself.
    #[default]
    Native,
}

/// A set of operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpSet(u16);

impl OpSet {
    /// No operation.
    pub const NONE: OpSet = OpSet(0);
    /// Every operation.
    pub const ALL: OpSet = OpSet((1 << OpKind::ALL.len()) - 1);
    /// Every operation but range vectors.
    pub const WITHOUT_REMAP: OpSet =
        OpSet::of(&[OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Zero, OpKind::Discard, OpKind::Extents]);

    /// These operations.
    pub const fn of(kinds: &[OpKind]) -> OpSet {
        let (mut bits, mut i) = (0, 0);
        while i < kinds.len() {
            bits |= 1 << kinds[i] as u16;
            i += 1;
        }
        OpSet(bits)
    }

    /// Whether `kind` is in the set.
    #[inline]
    pub fn has(self, kind: OpKind) -> bool {
        self.0 & (1 << kind as u16) != 0
    }
}

/// What requests to a volume must keep to. Fixed at build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Size in bytes when it was built; a multiple of `block`. [`crate::Device::size`] tells what it is now.
    pub size: u64,
    /// Logical block in bytes, a power of two: offsets and lengths are multiples of it.
    pub block: u32,
    /// Largest write in bytes that a power cut leaves whole or undone; at least `block`.
    pub atomic: u32,
    /// Request size in bytes that works best.
    pub preferred: u32,
    /// Largest read or write in bytes.
    pub transfer_max: u32,
    /// Whether completed writes can be lost until a flush.
    pub volatile_cache: bool,
    /// Granularity in bytes at which discards have an effect.
    pub discard: u32,
    /// Largest number of elements of a range vector.
    pub ranges_max: u32,
    /// Granularity in bytes of clones, moves and deletes, a multiple of `block`: their offsets and lengths are
    /// multiples of it.
    pub remap: u32,
    /// Whether a payload may be described instead of carried (simulated devices that store no bytes).
    pub described: bool,
    /// Support of each operation, by [`OpKind`].
    pub ops: [Support; 9],
}

impl Limits {
    /// A device of `size` bytes in blocks of `block` bytes that reads, writes, flushes, zeroes, takes discards and
    /// answers extent queries, but does not remap ranges.
    pub fn plain(size: u64, block: u32) -> Limits {
        use Support::{Native, No};
        Limits {
            size,
            block,
            atomic: block,
            preferred: block.max(4096),
            transfer_max: (32 * MIB) as u32,
            volatile_cache: false,
            discard: block,
            ranges_max: 0,
            remap: block,
            described: false,
            ops: [Native, Native, Native, Native, Native, No, No, No, Native],
        }
    }

    /// Support of `kind`.
    #[inline]
    pub fn support(&self, kind: OpKind) -> Support {
        self.ops[kind as usize]
    }

    /// Sets the support of `kind`.
    pub fn with(mut self, kind: OpKind, support: Support) -> Limits {
        self.ops[kind as usize] = support;
        self
    }

    /// Without the operations that are not in `ops`.
    pub fn only(self, ops: OpSet) -> Limits {
        let lost = OpKind::ALL.into_iter().filter(|kind| !ops.has(*kind));
        let limits = lost.fold(self, |limits, kind| limits.with(kind, Support::No));
        let has_ranges = [OpKind::Clone, OpKind::Move, OpKind::Delete].into_iter().any(|kind| ops.has(kind));
        Limits { ranges_max: if has_ranges { limits.ranges_max } else { 0 }, ..limits }
    }

    /// What holds for a request that may go to either device: the stricter of both. Size is the caller's business
    /// and is kept from `self`. Monotone: neither argument's limits are exceeded by the result, except that the atomic
    /// unit is never below the block: a caller refuses devices that tear inside the other's block.
    pub fn strictest(&self, other: &Limits) -> Limits {
        Limits {
            size: self.size,
            block: self.block.max(other.block),
            atomic: self.atomic.min(other.atomic).max(self.block.max(other.block)),
            preferred: self.preferred.max(other.preferred),
            transfer_max: self.transfer_max.min(other.transfer_max),
            volatile_cache: self.volatile_cache || other.volatile_cache,
            discard: self.discard.max(other.discard),
            ranges_max: self.ranges_max.min(other.ranges_max),
            remap: self.remap.max(other.remap),
            described: self.described && other.described,
            ops: std::array::from_fn(|i| self.ops[i].min(other.ops[i])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn merging_never_promises_more_than_either_side(a in 9u32..16, b in 9u32..16, v: bool, w: bool) {
            let mut left = Limits::plain(1 << 30, 1 << a);
            let mut right = Limits::plain(1 << 20, 1 << b).with(OpKind::Discard, Support::No);
            (left.volatile_cache, right.volatile_cache) = (v, w);
            right.remap = 4 * right.block;
            let both = left.strictest(&right);
            for side in [&left, &right] {
                assert!(both.block >= side.block && both.remap >= side.remap && both.transfer_max <= side.transfer_max);
                assert!(both.volatile_cache >= side.volatile_cache);
                assert!(both.atomic >= both.block);
                assert!(OpKind::ALL.iter().all(|k| both.support(*k) <= side.support(*k)));
            }
        }
    }

    #[test]
    fn sets_hold_what_they_were_made_of() {
        let set = OpSet::of(&[OpKind::Read, OpKind::Extents]);
        let held: Vec<_> = OpKind::ALL.into_iter().filter(|k| set.has(*k)).collect();
        assert_eq!(held, [OpKind::Read, OpKind::Extents]);
        assert!(OpKind::ALL.iter().all(|k| OpSet::ALL.has(*k) && !OpSet::NONE.has(*k)));
    }
}
