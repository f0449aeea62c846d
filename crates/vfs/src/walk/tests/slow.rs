//! A file system whose lookups wait once.

use std::future::poll_fn;

use esker_base::ByteRange;
use esker_block::Buf;

use super::*;
use crate::about::{About, Space};
use crate::attr::{Attr, SetAttr};
use crate::change::{Allocate, At, Copying, Remove, Rename, Seek, Sync, Write, Written};
use crate::listing::Listing;
use crate::system::Answer;
use crate::word::Cookie;

pub(super) struct Slow(pub Ram);

/// The answer to a call that is made behind one wait.
fn later<T: 'static>(ram: &Ram, call: impl FnOnce(&Ram) -> Answer<T> + 'static) -> Answer<T> {
    let ram = ram.clone();
    Step::later(async move {
        let mut is_first = true;
        poll_fn(|_| if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }).await;
        match call(&ram) {
            Step::Now(answer) => answer,
            Step::After(..) | Step::Ticket(_) | Step::Later(_) => panic!("a call waits"),
        }
    })
}

impl FileSystem for Slow {
    fn lookup(&self, call: Call, dir: Ino, name: Name<'_>) -> Answer<Entry> {
        let name = name.to_buf();
        later(&self.0, move |ram| ram.lookup(call, dir, name.name()))
    }

    fn parent(&self, call: Call, dir: Ino) -> Answer<Entry> {
        later(&self.0, move |ram| ram.parent(call, dir))
    }

    fn pin(&self, call: Call, ino: Ino) -> Answer<Entry> {
        later(&self.0, move |ram| ram.pin(call, ino))
    }

    fn target(&self, call: Call, ino: Ino) -> Answer<Box<[u8]>> {
        later(&self.0, move |ram| ram.target(call, ino))
    }

    fn about(&self) -> &About {
        self.0.about()
    }

    fn root(&self) -> Ino {
        self.0.root()
    }

    fn forget(&self, ino: Ino, pins: u64) {
        self.0.forget(ino, pins);
    }

    fn create(&self, call: Call, dir: Ino, name: Option<Name<'_>>, new: New<'_>) -> Answer<Entry> {
        self.0.create(call, dir, name, new)
    }

    fn link(&self, call: Call, ino: Ino, dir: Ino, name: Name<'_>) -> Answer<Entry> {
        self.0.link(call, ino, dir, name)
    }

    fn remove(&self, call: Call, dir: Ino, name: Name<'_>, what: Remove) -> Answer<()> {
        self.0.remove(call, dir, name, what)
    }

    fn rename(&self, call: Call, from: (Ino, Name<'_>), to: (Ino, Name<'_>), how: Rename) -> Answer<()> {
        self.0.rename(call, from, to, how)
    }

    fn list(&self, call: Call, dir: Ino, from: Cookie, into: Listing) -> Answer<Listing> {
        self.0.list(call, dir, from, into)
    }

    fn attr(&self, call: Call, ino: Ino) -> Answer<Attr> {
        self.0.attr(call, ino)
    }

    fn set_attr(&self, call: Call, ino: Ino, set: SetAttr) -> Answer<Attr> {
        self.0.set_attr(call, ino, set)
    }

    fn read(&self, call: Call, ino: Ino, at: u64, len: usize) -> Answer<Buf> {
        self.0.read(call, ino, at, len)
    }

    fn write(&self, call: Call, ino: Ino, at: At, data: Buf, how: Write) -> Answer<Written> {
        self.0.write(call, ino, at, data, how)
    }

    fn allocate(&self, call: Call, ino: Ino, range: ByteRange, how: Allocate) -> Answer<()> {
        self.0.allocate(call, ino, range, how)
    }

    fn copy(&self, call: Call, from: (Ino, u64), to: (Ino, u64), len: u64, how: Copying) -> Answer<u64> {
        self.0.copy(call, from, to, len, how)
    }

    fn seek(&self, call: Call, ino: Ino, at: u64, what: Seek) -> Answer<u64> {
        self.0.seek(call, ino, at, what)
    }

    fn sync(&self, call: Call, what: Sync) -> Answer<()> {
        self.0.sync(call, what)
    }

    fn space(&self, call: Call) -> Answer<Space> {
        self.0.space(call)
    }

    fn close(&self) -> Answer<()> {
        self.0.close()
    }
}
