//! Entries of one directory, by name and by cookie.
//!
//! Invariant: a cookie is given once. A name keeps its cookie as long as it is there, whatever inode it leads to. A
//! name that becomes another one in the same directory hands its cookie on, so that a program that renames all that
//! it lists comes to an end.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::word::{Cookie, Ino, Name};

/// Entries of a directory.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Dir {
    pub parent: Ino,
    names: BTreeMap<Rc<[u8]>, Dirent>,
    order: BTreeMap<Cookie, Rc<[u8]>>,
    last: Cookie,
    bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Dirent {
    ino: Ino,
    cookie: Cookie,
}

impl Dir {
    /// An empty directory.
    pub(super) fn new(parent: Ino) -> Dir {
        Dir { parent, names: BTreeMap::new(), order: BTreeMap::new(), last: Cookie::RESERVED, bytes: 0 }
    }

    /// An empty directory that has given out cookies up to `last`.
    pub(super) fn restored(parent: Ino, last: Cookie) -> Dir {
        Dir { last, ..Dir::new(parent) }
    }

    /// Adds an entry with a cookie that was given out. Answers no if name or cookie are there or out of range.
    pub(super) fn restore(&mut self, name: Name<'_>, cookie: Cookie, ino: Ino) -> bool {
        let is_new = !self.names.contains_key(name.bytes()) && !self.order.contains_key(&cookie);
        let may_be = is_new && cookie > Cookie::RESERVED && cookie <= self.last;
        if may_be {
            self.put(name, Dirent { ino, cookie });
        }
        may_be
    }

    /// The last cookie that was given out.
    pub(super) fn last(&self) -> Cookie {
        self.last
    }

    /// Bytes of its entries.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The inode of a name.
    pub(super) fn find(&self, name: Name<'_>) -> Option<Ino> {
        self.names.get(name.bytes()).map(|dirent| dirent.ino)
    }

    /// Whether it has no entry.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Names behind a cookie, in order.
    pub(super) fn behind(&self, from: Cookie) -> impl Iterator<Item = (Cookie, Name<'_>, Ino)> {
        let first = Cookie(from.0.saturating_add(1));
        self.order.range(first..).map(|(cookie, name)| {
            let dirent = self.names.get(name).expect("both trees hold the same names");
            (*cookie, Name::new(name).expect("it was one when it was added"), dirent.ino)
        })
    }

    /// Adds a name that is not there.
    pub(super) fn insert(&mut self, name: Name<'_>, ino: Ino) {
        self.last = Cookie(self.last.0 + 1);
        self.put(name, Dirent { ino, cookie: self.last });
    }

    /// Leads a name that is there to another inode.
    pub(super) fn replace(&mut self, name: Name<'_>, ino: Ino) {
        self.names.get_mut(name.bytes()).expect("the caller has found it").ino = ino;
    }

    /// Removes a name that is there.
    pub(super) fn remove(&mut self, name: Name<'_>) {
        self.take(name);
    }

    /// Makes a name that is there another one that is not.
    pub(super) fn rename(&mut self, from: Name<'_>, to: Name<'_>) {
        let dirent = self.take(from);
        self.put(to, dirent);
    }

    fn put(&mut self, name: Name<'_>, dirent: Dirent) {
        let shared: Rc<[u8]> = name.bytes().into();
        self.order.insert(dirent.cookie, shared.clone());
        let former = self.names.insert(shared, dirent);
        debug_assert!(former.is_none(), "a name is added once");
        self.bytes += cost(name);
    }

    fn take(&mut self, name: Name<'_>) -> Dirent {
        let dirent = self.names.remove(name.bytes()).expect("the caller has found it");
        self.order.remove(&dirent.cookie);
        self.bytes -= cost(name);
        dirent
    }
}

/// Bytes of an entry: number, cookie, kind and length, and the name, in words.
pub(super) fn cost(name: Name<'_>) -> u64 {
    24 + (name.bytes().len() as u64).next_multiple_of(8)
}
