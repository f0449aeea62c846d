//! Small numbers for volumes and extensions, and sets of them as bits.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{BitAnd, BitOr, BitOrAssign, Sub};

/// Volumes that a setting can have: the bits of a set.
pub const VOLUMES_MAX: usize = 64;
/// Extensions that a setting can have: deeper stacks are refused.
pub const EXTENSIONS_MAX: usize = 32;

/// What sets are made of.
pub trait Member: Copy {
    /// The bit that stands for it.
    fn index(self) -> usize;
    /// The member that a bit stands for.
    fn of(index: usize) -> Self;
}

/// A volume's place in the list of volumes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct VolId(u8);

/// An extension's place in the list of extensions; what its place in a stack is, an order says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ExtId(u8);

impl Member for VolId {
    fn index(self) -> usize {
        usize::from(self.0)
    }

    fn of(index: usize) -> VolId {
        assert!(index < VOLUMES_MAX, "volume {index} has no bit");
        VolId(index as u8)
    }
}

impl Member for ExtId {
    fn index(self) -> usize {
        usize::from(self.0)
    }

    fn of(index: usize) -> ExtId {
        assert!(index < VOLUMES_MAX, "extension {index} has no bit");
        ExtId(index as u8)
    }
}

/// A set of volumes or extensions.
pub struct Set<T> {
    bits: u64,
    of: PhantomData<T>,
}

/// A set of volumes.
pub type VolSet = Set<VolId>;
/// A set of extensions.
pub type ExtSet = Set<ExtId>;

impl<T: Member> Set<T> {
    /// The empty set.
    pub const EMPTY: Set<T> = Set { bits: 0, of: PhantomData };

    /// The set of one.
    pub fn one(member: T) -> Set<T> {
        Set { bits: 1 << member.index(), of: PhantomData }
    }

    /// Whether `member` is in it.
    pub fn has(self, member: T) -> bool {
        self.bits >> member.index() & 1 == 1
    }

    /// Whether it is empty.
    pub fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// How many are in it.
    pub fn len(self) -> usize {
        self.bits.count_ones() as usize
    }

    /// Whether all its members are in `other`.
    pub fn within(self, other: Set<T>) -> bool {
        (self - other).is_empty()
    }

    /// Whether some member is in both.
    pub fn meets(self, other: Set<T>) -> bool {
        !(self & other).is_empty()
    }

    /// Its member, if it has exactly one.
    pub fn only(self) -> Option<T> {
        (self.len() == 1).then(|| T::of(self.bits.trailing_zeros() as usize))
    }

    /// Its members, in their order.
    pub fn iter(self) -> impl Iterator<Item = T> {
        let mut bits = self.bits;
        std::iter::from_fn(move || {
            let at = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
            bits &= bits - 1;
            Some(T::of(at))
        })
    }
}

impl<T> Clone for Set<T> {
    fn clone(&self) -> Set<T> {
        *self
    }
}

impl<T> Copy for Set<T> {}

impl<T> PartialEq for Set<T> {
    fn eq(&self, other: &Set<T>) -> bool {
        self.bits == other.bits
    }
}

impl<T> Eq for Set<T> {}

impl<T> PartialOrd for Set<T> {
    fn partial_cmp(&self, other: &Set<T>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Set<T> {
    fn cmp(&self, other: &Set<T>) -> std::cmp::Ordering {
        self.bits.cmp(&other.bits)
    }
}

impl<T: Member> Default for Set<T> {
    fn default() -> Set<T> {
        Set::EMPTY
    }
}

impl<T: Member + fmt::Debug> fmt::Debug for Set<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<T: Member> FromIterator<T> for Set<T> {
    fn from_iter<I: IntoIterator<Item = T>>(members: I) -> Set<T> {
        members.into_iter().fold(Set::EMPTY, |set, member| set | Set::one(member))
    }
}

impl<T> BitOr for Set<T> {
    type Output = Set<T>;

    fn bitor(self, other: Set<T>) -> Set<T> {
        Set { bits: self.bits | other.bits, of: PhantomData }
    }
}

impl<T> BitOrAssign for Set<T> {
    fn bitor_assign(&mut self, other: Set<T>) {
        self.bits |= other.bits;
    }
}

impl<T> BitAnd for Set<T> {
    type Output = Set<T>;

    fn bitand(self, other: Set<T>) -> Set<T> {
        Set { bits: self.bits & other.bits, of: PhantomData }
    }
}

impl<T> Sub for Set<T> {
    type Output = Set<T>;

    fn sub(self, other: Set<T>) -> Set<T> {
        Set { bits: self.bits & !other.bits, of: PhantomData }
    }
}
