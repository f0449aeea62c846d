//! Bytes of one file: pages of 4 KiB in a tree. What is not there is a hole.
//!
//! Invariants: bytes of a page behind the end of the file are zeroes. Pages are shared with other files and forks, and
//! copied before they change.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;
const PAGE_U64: u64 = PAGE as u64;

/// The pages of a file.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct Pages(BTreeMap<u64, Page>);

/// One page.
#[derive(Clone, PartialEq, Debug)]
enum Page {
    /// Room without data: zeroes, and a hole to those that look for holes.
    Reserved,
    Data(Rc<[u8; PAGE]>),
}

/// A part of one page: the number of the page and its bytes there.
type Part = (u64, Range<usize>);

impl Pages {
    /// Room that the pages take.
    pub(super) fn bytes(&self) -> u64 {
        self.0.len() as u64 * PAGE_U64
    }

    /// Pages by number; none for room without data.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Option<&[u8; PAGE]>)> {
        self.0.iter().map(|(number, page)| match page {
            Page::Reserved => (*number, None),
            Page::Data(data) => (*number, Some(&**data)),
        })
    }

    /// Adds a page with these bytes, or room without data. Answers no if it is there.
    pub(super) fn restore(&mut self, number: u64, data: Option<&[u8]>) -> bool {
        let page = match data {
            None => Page::Reserved,
            Some(data) => {
                let mut page = [0; PAGE];
                page[..data.len()].copy_from_slice(data);
                Page::Data(Rc::new(page))
            }
        };
        self.0.insert(number, page).is_none()
    }

    /// Room that a write of these bytes takes more.
    pub(super) fn missing(&self, bytes: Range<u64>) -> u64 {
        let pages = pages(&bytes);
        (pages.end - pages.start - self.0.range(pages).count() as u64) * PAGE_U64
    }

    /// How many of these bytes, from the first on, can be written with this much room more.
    pub(super) fn fitting(&self, bytes: Range<u64>, room: u64) -> u64 {
        let mut left = room / PAGE_U64;
        for page in pages(&bytes) {
            if self.0.contains_key(&page) {
                continue;
            }
            if left == 0 {
                return (page * PAGE_U64).saturating_sub(bytes.start);
            }
            left -= 1;
        }
        bytes.end - bytes.start
    }

    /// Fills `out` with the bytes from `at` on.
    pub(super) fn read(&self, at: u64, mut out: &mut [u8]) {
        for (page, within) in parts(at..at + out.len() as u64) {
            let (part, rest) = out.split_at_mut(within.len());
            match self.0.get(&page) {
                Some(Page::Data(data)) => part.copy_from_slice(&data[within]),
                Some(Page::Reserved) | None => part.fill(0),
            }
            out = rest;
        }
    }

    /// Writes bytes. The caller has asked for room.
    pub(super) fn write(&mut self, at: u64, mut bytes: &[u8]) {
        for (page, within) in parts(at..at + bytes.len() as u64) {
            let (part, rest) = bytes.split_at(within.len());
            self.write_part(page, within, part);
            bytes = rest;
        }
    }

    fn write_part(&mut self, page: u64, within: Range<usize>, part: &[u8]) {
        let page = self.0.entry(page).or_insert(Page::Reserved);
        match page {
            Page::Data(data) => Rc::make_mut(data)[within].copy_from_slice(part),
            Page::Reserved => {
                let mut data = [0; PAGE];
                data[within].copy_from_slice(part);
                *page = Page::Data(Rc::new(data));
            }
        }
    }

    /// Takes away what is behind `size`.
    pub(super) fn cut(&mut self, size: u64) {
        self.0.split_off(&size.div_ceil(PAGE_U64));
        let within = (size % PAGE_U64) as usize;
        if within > 0 {
            self.blank(size / PAGE_U64, within..PAGE);
        }
    }

    /// Makes whole pages holes, and zeroes of parts of pages.
    pub(super) fn punch(&mut self, bytes: Range<u64>) {
        let whole = bytes.start.div_ceil(PAGE_U64)..bytes.end / PAGE_U64;
        if whole.start < whole.end {
            let mut behind = self.0.split_off(&whole.start);
            self.0.append(&mut behind.split_off(&whole.end));
        }
        self.blank_edges(bytes);
    }

    /// Makes zeroes with room.
    pub(super) fn zero(&mut self, bytes: Range<u64>) {
        self.punch(bytes.clone());
        self.reserve(bytes);
    }

    /// Takes room for what has none.
    pub(super) fn reserve(&mut self, bytes: Range<u64>) {
        for page in pages(&bytes) {
            self.0.entry(page).or_insert(Page::Reserved);
        }
    }

    /// Room that [`Pages::put`] takes more.
    pub(super) fn missing_for(&self, from: &Pages, at: u64, (page, within): Part) -> u64 {
        let is_needed = !self.0.contains_key(&page) && from.has_data(at..at + within.len() as u64);
        if is_needed { PAGE_U64 } else { 0 }
    }

    /// Copies the bytes of another file from `at` on to a part of a page. Whole pages are shared, and holes stay holes.
    /// The caller has asked for room.
    pub(super) fn put(&mut self, from: &Pages, at: u64, (page, within): Part) {
        if within.len() == PAGE && at.is_multiple_of(PAGE_U64) {
            match from.0.get(&(at / PAGE_U64)) {
                Some(Page::Data(data)) => self.0.insert(page, Page::Data(data.clone())),
                Some(Page::Reserved) | None => self.0.remove(&page),
            };
        } else if self.0.contains_key(&page) || from.has_data(at..at + within.len() as u64) {
            let mut bytes = [0; PAGE];
            from.read(at, &mut bytes[..within.len()]);
            let part = within.len();
            self.write_part(page, within, &bytes[..part]);
        }
    }

    fn has_data(&self, bytes: Range<u64>) -> bool {
        self.next_data(bytes.start).is_some_and(|at| at < bytes.end)
    }

    /// The first byte from `at` on that has data.
    pub(super) fn next_data(&self, at: u64) -> Option<u64> {
        let mut pages = self.0.range(at / PAGE_U64..);
        let (page, _) = pages.find(|(_, page)| matches!(page, Page::Data(_)))?;
        Some(at.max(page * PAGE_U64))
    }

    /// The first byte from `at` on that has no data.
    pub(super) fn next_hole(&self, at: u64) -> u64 {
        let mut end = at / PAGE_U64;
        for (page, content) in self.0.range(end..) {
            if *page != end || matches!(content, Page::Reserved) {
                break;
            }
            end += 1;
        }
        at.max(end * PAGE_U64)
    }

    /// Zeroes the parts of a range that are not whole pages.
    fn blank_edges(&mut self, bytes: Range<u64>) {
        let last = bytes.end.saturating_sub(1) / PAGE_U64;
        for edge in [bytes.start / PAGE_U64, last] {
            let from = bytes.start.max(edge * PAGE_U64) - edge * PAGE_U64;
            let to = (bytes.end - edge * PAGE_U64).min(PAGE_U64);
            if from < to {
                self.blank(edge, from as usize..to as usize);
            }
        }
    }

    fn blank(&mut self, page: u64, within: Range<usize>) {
        if let Some(Page::Data(data)) = self.0.get_mut(&page)
            && data[within.clone()].iter().any(|byte| *byte != 0)
        {
            Rc::make_mut(data)[within].fill(0);
        }
    }
}

/// The pages that hold these bytes.
fn pages(bytes: &Range<u64>) -> Range<u64> {
    if bytes.is_empty() { 0..0 } else { bytes.start / PAGE_U64..bytes.end.div_ceil(PAGE_U64) }
}

/// The range, cut at pages.
pub(super) fn parts(bytes: Range<u64>) -> impl Iterator<Item = Part> {
    pages(&bytes).map(move |page| {
        let start = page * PAGE_U64;
        let from = bytes.start.max(start) - start;
        let to = bytes.end.min(start.saturating_add(PAGE_U64)) - start;
        (page, from as usize..to as usize)
    })
}
