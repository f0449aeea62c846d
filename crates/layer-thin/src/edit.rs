//! Changes of the catalogue by one order. They are made in place, so that an order costs what it changes and not what
//! there is, and are undone unless they are kept.

use std::cell::RefCell;

use super::catalogue::{Catalogue, CatalogueError, Entry};

/// The changes so far.
pub(super) struct Edit<'a> {
    catalogue: &'a RefCell<Catalogue>,
    /// Places that were changed, and what was there before.
    before: Vec<(u64, Option<Entry>)>,
}

impl Edit<'_> {
    pub(crate) fn of(catalogue: &RefCell<Catalogue>) -> Edit<'_> {
        Edit { catalogue, before: Vec::new() }
    }

    /// As [`Catalogue::put`].
    ///
    /// # Errors
    /// Those of [`Catalogue::put`].
    pub(crate) fn put(&mut self, place: u64, entry: Entry) -> Result<(), CatalogueError> {
        let before = self.catalogue.borrow_mut().put(place, entry)?;
        self.before.push((place, before));
        Ok(())
    }

    /// As [`Catalogue::take`].
    pub(crate) fn take(&mut self, place: u64) {
        let before = self.catalogue.borrow_mut().take(place);
        self.before.push((place, before));
    }

    /// How many changes there are.
    pub(crate) fn len(&self) -> usize {
        self.before.len()
    }

    /// The places that were changed, and what is there now.
    pub(crate) fn changes(&self) -> Vec<(u64, Option<Entry>)> {
        let catalogue = self.catalogue.borrow();
        self.before.iter().map(|(place, _)| (*place, catalogue.at(*place).cloned())).collect()
    }

    /// They last.
    pub(crate) fn keep(mut self) {
        self.before.clear();
    }
}

impl Drop for Edit<'_> {
    fn drop(&mut self) {
        let mut catalogue = self.catalogue.borrow_mut();
        for (place, before) in self.before.drain(..).rev() {
            catalogue.take(place);
            if let Some(entry) = before {
                catalogue.put(place, entry).expect("it stood there, and later changes are undone");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, start: u64) -> Entry {
        Entry::volume(name, start + 1, start, (2048, 1 << 31))
    }

    fn catalogue() -> RefCell<Catalogue> {
        let mut catalogue = Catalogue::default();
        catalogue.put(1, entry("a", 0)).unwrap();
        catalogue.put(2, entry("b", 1 << 31)).unwrap();
        RefCell::new(catalogue)
    }

    #[test]
    fn changes_that_are_not_kept_leave_no_trace() {
        let (catalogue, was) = (catalogue(), catalogue());
        let mut edit = Edit::of(&catalogue);
        edit.take(1);
        edit.put(2, entry("a", 1 << 32)).unwrap();
        edit.put(1, entry("b", 1 << 31)).unwrap();
        edit.put(2, entry("c", 0)).unwrap();
        assert!(edit.put(3, entry("c", 1 << 40)).is_err() && edit.len() == 4);
        let now: Vec<_> = edit.changes().into_iter().map(|(place, entry)| (place, entry.unwrap().name)).collect();
        assert_eq!(now, [1, 2, 1, 2].map(|place| (place, ["b", "c"][place as usize - 1].to_string())));
        drop(edit);
        assert_eq!(catalogue, was);
    }

    #[test]
    fn changes_that_are_kept_last() {
        let catalogue = catalogue();
        let mut edit = Edit::of(&catalogue);
        edit.take(1);
        edit.keep();
        assert!(catalogue.borrow().get("a").is_none() && catalogue.borrow().len() == 1);
    }
}
