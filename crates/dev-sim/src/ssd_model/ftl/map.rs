//! Logical to physical, in chunks that exist only where something was written.

/// A physical unit: the block's number shifted, and the unit inside it.
pub type PhysicalUnit = u32;

/// What the map knows of a logical unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnitState {
    /// Not written since the world began.
    Never,
    /// Written and then trimmed.
    Trimmed,
    /// On flash, or in the write buffer on its way there.
    At(PhysicalUnit),
}

/// A chunk is a page of memory, for 4 MiB of the drive: a write somewhere on a large, empty drive makes one.
const CHUNK_BITS: u32 = 10;
const CHUNK: u32 = 1 << CHUNK_BITS;

/// Entries are stored so that fresh memory says [`UnitState::Never`].
const TRIMMED: u32 = 1;
const FIRST_PLACE: u32 = 2;

/// Largest place that an entry can hold.
pub(super) const PLACE_MAX: u32 = u32::MAX - FIRST_PLACE;

/// One entry for each logical unit.
pub(super) struct Map {
    chunks: Vec<Box<[u32]>>,
}

impl UnitState {
    #[inline]
    fn of(entry: u32) -> UnitState {
        match entry {
            0 => UnitState::Never,
            TRIMMED => UnitState::Trimmed,
            _ => UnitState::At(entry - FIRST_PLACE),
        }
    }
}

impl Map {
    /// An empty map of `units` entries.
    pub(super) fn new(units: u32) -> Map {
        Map { chunks: (0..units.div_ceil(CHUNK)).map(|_| Box::default()).collect() }
    }

    /// What is known of `unit`.
    #[inline]
    pub(super) fn get(&self, unit: u32) -> UnitState {
        let chunk = &self.chunks[(unit >> CHUNK_BITS) as usize];
        UnitState::of(chunk.get((unit % CHUNK) as usize).copied().unwrap_or(0))
    }

    /// Puts `unit` to `place`. It does not look at what was known before: that would wait for memory.
    #[inline]
    pub(super) fn put(&mut self, unit: u32, place: PhysicalUnit) {
        let chunk = &mut self.chunks[(unit >> CHUNK_BITS) as usize];
        if chunk.is_empty() {
            *chunk = vec![0; CHUNK as usize].into_boxed_slice();
        }
        chunk[(unit % CHUNK) as usize] = place + FIRST_PLACE;
    }

    /// Trims the units from `first` to before `end`, and tells where those were that had been written.
    pub(super) fn trim(&mut self, first: u32, end: u32, mut was_at: impl FnMut(PhysicalUnit)) {
        let mut unit = first;
        while unit < end {
            let chunk = &mut self.chunks[(unit >> CHUNK_BITS) as usize];
            let stop = (unit - unit % CHUNK).saturating_add(CHUNK).min(end);
            let inside = (unit % CHUNK) as usize..(unit % CHUNK + (stop - unit)) as usize;
            for entry in chunk.get_mut(inside).unwrap_or_default() {
                if let UnitState::At(place) = UnitState::of(*entry) {
                    was_at(place);
                    *entry = TRIMMED;
                }
            }
            unit = stop;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_what_was_last_put_or_trimmed() {
        let mut map = Map::new(3 * CHUNK);
        assert_eq!(map.get(CHUNK + 1), UnitState::Never);
        map.put(CHUNK + 1, 7);
        map.put(CHUNK + 1, PLACE_MAX);
        map.put(CHUNK - 1, 3);
        let mut were = Vec::new();
        map.trim(CHUNK - 1, 3 * CHUNK, |place| were.push(place));
        assert_eq!(were, [3, PLACE_MAX]);
        assert_eq!(
            (map.get(CHUNK + 1), map.get(CHUNK + 2), map.get(0)),
            (UnitState::Trimmed, UnitState::Never, UnitState::Never)
        );
    }

    #[test]
    fn a_write_far_from_others_takes_a_page_of_memory() {
        let mut map = Map::new(u32::MAX);
        (0..1000).for_each(|nth| map.put(nth * 4_000_000, nth));
        let bytes: usize = map.chunks.iter().map(|chunk| size_of_val::<[u32]>(chunk)).sum();
        assert_eq!(bytes, 1000 * 4096);
    }

    #[test]
    fn trimming_what_was_never_written_takes_no_memory() {
        let mut map = Map::new(u32::MAX);
        map.trim(0, u32::MAX, |place| panic!("nothing is at {place}"));
        assert!(map.chunks.iter().all(|chunk| chunk.is_empty()));
    }
}
