//! Entries of directories. "." and ".." come first, with cookies 1 and 2.

use std::rc::Rc;

use esker_block::Step;
use esker_rt::mem::{Parts, Slice};
use esker_vfs::{Answer, Call, Cookie, FileType, Ino, Listing};

use super::Session;
use super::attributes::{entry_of, kind_bits};
use crate::proto::Request;
use crate::proto::abi::EntryOut;
use crate::proto::reply::{self, ENTRY_ALIGN, ENTRY_BYTES, ENTRY_PLUS_BYTES};

/// An answer is no larger than this, whatever a kernel asks for, in bytes.
const LIST_MAX: u32 = 1 << 20;

/// What is asked of one directory.
#[derive(Clone, Copy)]
struct Asked {
    unique: u64,
    dir: Ino,
    from: u64,
    size: usize,
    plus: bool,
}

impl Asked {
    fn row_bytes(&self) -> usize {
        if self.plus { ENTRY_PLUS_BYTES } else { ENTRY_BYTES }
    }

    /// Adds "." or "..", if it fits. Its node is not given out.
    fn push_dots(&self, to: &mut Vec<u8>, ino: Ino, offset: u64, name: &[u8]) -> bool {
        if to.len() + (self.row_bytes() + name.len()).next_multiple_of(ENTRY_ALIGN) > self.size {
            return false;
        }
        self.push(to, &EntryOut::zero(), (ino, offset, name, FileType::Directory));
        true
    }

    fn push(&self, to: &mut Vec<u8>, node: &EntryOut, (ino, offset, name, kind): (Ino, u64, &[u8], FileType)) {
        // The file type's bits of the mode are its number in directories.
        let kind = kind_bits(kind) >> 12;
        match self.plus {
            true => reply::push_entry_plus(to, node, ino.0, offset, name, kind),
            false => reply::push_entry(to, ino.0, offset, name, kind),
        }
    }
}

impl Session {
    pub(super) fn list(self: &Rc<Self>, request: &Request<'_>, from: u64, size: u32, plus: bool) -> Answer<Parts> {
        let size = size.min(LIST_MAX).min(self.config.transfer_max) as usize;
        let asked = Asked { unique: request.unique, dir: self.ino(request), from, size, plus };
        let call = self.call(request);
        if from > 1 {
            return self.list_behind_dots(call, asked, None);
        }
        let session = self.clone();
        match self.fs.parent(call, asked.dir) {
            Step::Now(Ok(parent)) => {
                self.fs.forget(parent.ino, 1);
                self.list_behind_dots(call, asked, Some(parent.ino))
            }
            // A removed directory has no directory above it, and still is one.
            Step::Now(Err(_)) => self.list_behind_dots(call, asked, Some(asked.dir)),
            later => Step::later(async move {
                let parent = match later.await {
                    Ok(parent) => {
                        session.fs.forget(parent.ino, 1);
                        parent.ino
                    }
                    Err(_) => asked.dir,
                };
                session.list_behind_dots(call, asked, Some(parent)).await
            }),
        }
    }

    /// The dots, if the directory above is given, and entries as far as they fit.
    fn list_behind_dots(self: &Rc<Self>, call: Call, asked: Asked, parent: Option<Ino>) -> Answer<Parts> {
        let mut bytes = Vec::new();
        if let Some(parent) = parent {
            let has_first = asked.from > 0 || asked.push_dots(&mut bytes, asked.dir, 1, b".");
            if !has_first || !asked.push_dots(&mut bytes, parent, 2, b"..") {
                return Step::Now(Ok(self.listed(asked, bytes, None)));
            }
        }
        let cookie = if asked.from <= Cookie::RESERVED.0 { Cookie::BEGINNING } else { Cookie(asked.from) };
        let rows = Listing::new(asked.size - bytes.len(), asked.row_bytes(), ENTRY_ALIGN);
        let rows = if asked.plus { rows.with_entries() } else { rows };
        let session = self.clone();
        self.fs.list(call, asked.dir, cookie, rows).map(move |answer| Ok(session.listed(asked, bytes, Some(&answer?))))
    }

    fn listed(&self, asked: Asked, mut bytes: Vec<u8>, rows: Option<&Listing>) -> Parts {
        let block = self.fs.about().block;
        for row in rows.into_iter().flat_map(Listing::rows) {
            let node = row.entry.as_ref().map_or_else(EntryOut::zero, |entry| {
                self.pins.give(entry.ino);
                entry_of(self.numbers, entry, block)
            });
            asked.push(&mut bytes, &node, (row.ino, row.next.0, row.name.bytes(), row.kind));
        }
        let head = Slice::heap(reply::head(asked.unique, bytes.len()));
        if bytes.is_empty() { head.into() } else { [head, Slice::heap(bytes)].into_iter().collect() }
    }
}
