//! An interval map: which part of what lies where.

use std::collections::BTreeMap;

/// Ranges of addresses, none overlapping. Each is a part of its value, from an offset on: a piece that is left of a
/// range stays at its offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spans<T>(BTreeMap<u64, Span<T>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Span<T> {
    end: u64,
    offset: u64,
    value: T,
}

impl<T> Default for Spans<T> {
    fn default() -> Spans<T> {
        Spans(BTreeMap::new())
    }
}

impl<T: Clone> Spans<T> {
    /// The part of `value` from `offset` on is there, over what was there before, whose values are given back.
    pub fn add(&mut self, start: u64, len: u64, offset: u64, value: T) -> Vec<T> {
        let gone = self.remove(start, len);
        if len > 0 {
            self.0.insert(start, Span { end: start.saturating_add(len), offset, value });
        }
        gone
    }

    /// Nothing is there any more; the values of what was, one for each range that was cut.
    pub fn remove(&mut self, start: u64, len: u64) -> Vec<T> {
        let end = start.saturating_add(len);
        let cut: Vec<u64> = self.overlapping(start, len).map(|(from, _)| from).collect();
        cut.into_iter().filter_map(|from| self.cut(from, start, end)).collect()
    }

    /// Cuts one range; what is left of it on both sides stays.
    fn cut(&mut self, from: u64, start: u64, end: u64) -> Option<T> {
        let span = self.0.remove(&from)?;
        if end < span.end {
            let offset = span.offset.saturating_add(end - from);
            self.0.insert(end, Span { end: span.end, offset, value: span.value.clone() });
        }
        if from < start {
            self.0.insert(from, Span { end: start, offset: span.offset, value: span.value.clone() });
        }
        Some(span.value)
    }

    /// What is at an address, and the address's offset in it.
    pub fn find(&self, address: u64) -> Option<(&T, u64)> {
        let (from, span) = self.0.range(..=address).next_back()?;
        (address < span.end).then(|| (&span.value, span.offset.saturating_add(address - from)))
    }

    /// Whether anything is anywhere there.
    pub fn has(&self, start: u64, len: u64) -> bool {
        self.overlapping(start, len).next().is_some()
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The parts of a range in which something is, in order: start, end, value, and offset of the start in it.
    pub fn within(&self, start: u64, len: u64) -> impl Iterator<Item = (u64, u64, &T, u64)> {
        let end = start.saturating_add(len);
        self.overlapping(start, len).map(move |(from, span)| {
            let first = from.max(start);
            (first, span.end.min(end), &span.value, span.offset.saturating_add(first - from))
        })
    }

    /// All values, by address.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.0.values().map(|span| &span.value)
    }

    /// The same ranges with other values.
    pub fn map<U>(&self, mut other: impl FnMut(&T) -> U) -> Spans<U> {
        let mut changed = |span: &Span<T>| Span { end: span.end, offset: span.offset, value: other(&span.value) };
        Spans(self.0.iter().map(|(from, span)| (*from, changed(span))).collect())
    }

    fn overlapping(&self, start: u64, len: u64) -> impl Iterator<Item = (u64, &Span<T>)> {
        let end = start.saturating_add(len);
        let before = self.0.range(..start).next_back().filter(move |(_, span)| span.end > start);
        before.into_iter().chain(self.0.range(start..end)).map(|(from, span)| (*from, span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_leaves_both_ends_at_their_places_of_the_file() {
        let mut spans = Spans::default();
        assert_eq!(spans.add(0x1000, 0x3000, 0x10_000, 'a'), []);
        assert_eq!(spans.remove(0x2000, 0x1000), ['a']);
        assert_eq!(spans.find(0x1fff), Some((&'a', 0x10_fff)));
        assert_eq!(spans.find(0x3000), Some((&'a', 0x12_000)));
        assert_eq!((spans.find(0x2000), spans.find(0xfff), spans.find(0x4000)), (None, None, None));
        assert!(!spans.has(0x2000, 0x1000) && spans.has(0x1fff, 2));
        let within: Vec<_> = spans.within(0x1800, 0x2000).collect();
        assert_eq!(within, [(0x1800, 0x2000, &'a', 0x10_800), (0x3000, 0x3800, &'a', 0x12_000)]);
        assert_eq!((spans.len(), spans.is_empty()), (2, false));
        assert_eq!(spans.remove(0x2000, 0x1000), [], "nothing was there any more");
    }

    #[test]
    fn what_is_new_replaces_what_it_covers() {
        let mut spans = Spans::default();
        spans.add(0x1000, 0x1000, 0, 'a');
        spans.add(0x3000, 0x1000, 0, 'b');
        assert_eq!(spans.add(0x1800, 0x2000, 0x5000, 'c'), ['a', 'b']);
        assert_eq!(spans.values().collect::<String>(), "acb");
        assert_eq!(spans.find(0x3900), Some((&'b', 0x900)));
        assert_eq!(spans.map(|value| *value as u32).find(0x1800), Some((&99, 0x5000)));
    }

    #[test]
    fn ends_of_the_address_space_are_no_trouble() {
        let mut spans = Spans::default();
        spans.add(u64::MAX - 1, 10, u64::MAX, ());
        assert_eq!(spans.find(u64::MAX - 1), Some((&(), u64::MAX)));
        assert_eq!(spans.add(5, 0, 0, ()), []);
        assert!(!spans.has(5, 1));
    }
}
