//! Which log a block goes to: blocks that will die at about the same time share segments.
//!
//! After SepBIT (Q. Wang et al., *Separating data via block invalidation time inference for write amplification
//! reduction in log-structured storage*, FAST 2022). A new block probably lives as long as the version that it
//! replaces; a moved block that has lived long will probably live long. The yardstick is the mean lifespan of segments
//! of the shortest-lived class.
//!
//! Departure: a block that no live map refers to any more, only a snapshot, goes to a class of its own. It dies when
//! its snapshot does, together with others, and neither its age nor its history says when.

/// Where blocks of one inferred lifetime are written. Each class has an open segment of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class(u8);

impl Class {
    /// Number of classes, so of open segments.
    pub const COUNT: usize = 7;
    /// New blocks whose former version died young.
    pub const NEW_SHORT: Class = Class(0);
    /// Other new blocks.
    pub const NEW_LONG: Class = Class(1);
    /// The classes of new blocks.
    pub const NEW: [Class; 2] = [Class::NEW_SHORT, Class::NEW_LONG];
    /// Blocks that outlived a segment of [`Class::NEW_SHORT`].
    pub const MOVED_ONCE: Class = Class(2);
    /// Moved blocks younger than four lifespans.
    pub const YOUNG: Class = Class(3);
    /// Moved blocks younger than sixteen.
    pub const MIDDLE: Class = Class(4);
    /// All older ones.
    pub const OLD: Class = Class(5);
    /// Blocks that only snapshots hold.
    pub const HELD: Class = Class(6);

    /// The class of a number, if there is one.
    pub fn numbered(number: u8) -> Option<Class> {
        (usize::from(number) < Class::COUNT).then_some(Class(number))
    }

    /// Whether it is one of [`Class::NEW`].
    pub fn is_new(self) -> bool {
        Class::NEW.contains(&self)
    }

    /// 0 to [`Class::COUNT`] - 1; the classes of new blocks come first.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// Segments over which the lifespan is averaged.
const SEGMENTS: u64 = 16;

/// Infers lifetimes. A few words of memory: what is known of single blocks comes from the store, from records or,
/// coarser, from the clock of the segment in which the former version lies.
#[derive(Debug, Clone, Default)]
pub struct Separator {
    /// Mean lifespan of short-lived segments; none is known in the beginning, and then all count as longer.
    lifespan: Option<u64>,
    sum: u64,
    count: u64,
}

impl Separator {
    /// Knows nothing yet.
    pub fn new() -> Separator {
        Separator::default()
    }

    /// Mean lifespan of the last short-lived segments, on the log's clock.
    pub fn lifespan(&self) -> Option<u64> {
        self.lifespan
    }

    /// The class of a new block that replaces a version of that age; `None` if it replaces none.
    pub fn place_new(&self, lifetime: Option<u64>) -> Class {
        match lifetime {
            Some(lifetime) if lifetime < self.lifespan.unwrap_or(u64::MAX) => Class::NEW_SHORT,
            _ => Class::NEW_LONG,
        }
    }

    /// The class of a block that the cleaner moves out of a segment of class `from`; `age` is the time since its data
    /// were new, `is_held` whether only snapshots refer to it.
    pub fn place_moved(&self, from: Class, age: u64, is_held: bool) -> Class {
        if is_held {
            return Class::HELD;
        }
        if from == Class::NEW_SHORT {
            return Class::MOVED_ONCE;
        }
        match age / self.lifespan.unwrap_or(u64::MAX).max(1) {
            0..4 => Class::YOUNG,
            4..16 => Class::MIDDLE,
            _ => Class::OLD,
        }
    }

    /// A segment of class `from` was cleaned, `lifespan` after its first block was written.
    pub fn reclaimed(&mut self, from: Class, lifespan: u64) {
        if from != Class::NEW_SHORT {
            return;
        }
        self.sum = self.sum.saturating_add(lifespan);
        self.count += 1;
        if self.count == SEGMENTS {
            self.lifespan = Some(self.sum / SEGMENTS);
            (self.sum, self.count) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taught(lifespan: u64) -> Separator {
        let mut separator = Separator::new();
        (0..SEGMENTS).for_each(|at| separator.reclaimed(Class::NEW_SHORT, lifespan - 8 + at));
        separator
    }

    #[test]
    fn nothing_is_long_before_a_lifespan_is_known() {
        let separator = Separator::new();
        assert_eq!(separator.place_new(Some(1 << 40)), Class::NEW_SHORT);
        assert_eq!(separator.place_new(None), Class::NEW_LONG);
        assert_eq!(separator.place_moved(Class::NEW_LONG, 1 << 40, false), Class::YOUNG);
    }

    #[test]
    fn new_blocks_go_where_their_former_versions_lifetime_says() {
        let separator = taught(1_000);
        assert_eq!(separator.lifespan(), Some(999), "the mean of 992 to 1007, rounded down");
        assert_eq!(separator.place_new(Some(998)), Class::NEW_SHORT);
        assert_eq!(separator.place_new(Some(999)), Class::NEW_LONG);
    }

    #[test]
    fn moved_blocks_go_by_origin_then_age() {
        let separator = taught(1_000);
        let place = |from, age| separator.place_moved(from, age, false);
        assert_eq!(place(Class::NEW_SHORT, 1 << 40), Class::MOVED_ONCE);
        assert_eq!(place(Class::NEW_LONG, 4 * 999 - 1), Class::YOUNG);
        assert_eq!(place(Class::MOVED_ONCE, 4 * 999), Class::MIDDLE);
        assert_eq!(place(Class::OLD, 16 * 999), Class::OLD);
        assert_eq!(separator.place_moved(Class::NEW_SHORT, 1, true), Class::HELD);
    }

    #[test]
    fn only_short_lived_segments_teach_and_only_sixteen_at_a_time() {
        let mut separator = taught(1_000);
        (0..100).for_each(|_| separator.reclaimed(Class::OLD, 5));
        (1..SEGMENTS).for_each(|_| separator.reclaimed(Class::NEW_SHORT, 5));
        assert_eq!(separator.lifespan(), Some(999));
        separator.reclaimed(Class::NEW_SHORT, 5);
        assert_eq!(separator.lifespan(), Some(5));
    }
}
