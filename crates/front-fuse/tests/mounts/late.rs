//! A file system that answers no call at once, and none at all while its gate is shut.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::{Buf, Step};
use esker_rt::Rt;
use esker_vfs::system::Hearer;
use esker_vfs::{
    About, Allocate, Answer, At, Attr, Call, Cookie, Copying, Entry, FileSystem, Ino, Listing, Name, New, Ram, Remove,
    Rename, Seek, SetAttr, Space, Sync, Write, Written, Xattr,
};

/// See the module.
#[derive(Clone)]
pub struct Late {
    pub ram: Ram,
    pub rt: Rt,
    pub is_shut: Rc<Cell<bool>>,
    /// What hears of changes by others.
    pub hearer: Rc<RefCell<Option<Hearer>>>,
}

impl Late {
    pub fn new(rt: &Rt, ram: Ram) -> Late {
        Late { ram, rt: rt.clone(), is_shut: Rc::default(), hearer: Rc::default() }
    }

    fn later<T: Unpin + 'static>(&self, answer: Answer<T>) -> Answer<T> {
        let (rt, is_shut) = (self.rt.clone(), self.is_shut.clone());
        Step::later(async move {
            rt.yield_now().await;
            while is_shut.get() {
                rt.sleep(Nanos::millis(1)).await;
            }
            answer.await
        })
    }
}

impl FileSystem for Late {
    fn about(&self) -> &About {
        self.ram.about()
    }

    fn root(&self) -> Ino {
        self.ram.root()
    }

    fn lookup(&self, call: Call, dir: Ino, name: Name<'_>) -> Answer<Entry> {
        self.later(self.ram.lookup(call, dir, name))
    }

    fn parent(&self, call: Call, dir: Ino) -> Answer<Entry> {
        self.later(self.ram.parent(call, dir))
    }

    fn pin(&self, call: Call, ino: Ino) -> Answer<Entry> {
        self.later(self.ram.pin(call, ino))
    }

    fn forget(&self, ino: Ino, pins: u64) {
        self.ram.forget(ino, pins);
    }

    fn create(&self, call: Call, dir: Ino, name: Option<Name<'_>>, new: New<'_>) -> Answer<Entry> {
        self.later(self.ram.create(call, dir, name, new))
    }

    fn link(&self, call: Call, ino: Ino, dir: Ino, name: Name<'_>) -> Answer<Entry> {
        self.later(self.ram.link(call, ino, dir, name))
    }

    fn remove(&self, call: Call, dir: Ino, name: Name<'_>, what: Remove) -> Answer<()> {
        self.later(self.ram.remove(call, dir, name, what))
    }

    fn rename(&self, call: Call, from: (Ino, Name<'_>), to: (Ino, Name<'_>), how: Rename) -> Answer<()> {
        self.later(self.ram.rename(call, from, to, how))
    }

    fn target(&self, call: Call, ino: Ino) -> Answer<Box<[u8]>> {
        self.later(self.ram.target(call, ino))
    }

    fn list(&self, call: Call, dir: Ino, from: Cookie, into: Listing) -> Answer<Listing> {
        self.later(self.ram.list(call, dir, from, into))
    }

    fn attr(&self, call: Call, ino: Ino) -> Answer<Attr> {
        self.later(self.ram.attr(call, ino))
    }

    fn set_attr(&self, call: Call, ino: Ino, set: SetAttr) -> Answer<Attr> {
        self.later(self.ram.set_attr(call, ino, set))
    }

    fn xattr(&self, call: Call, ino: Ino, what: Xattr<'_>) -> Answer<Box<[u8]>> {
        self.later(self.ram.xattr(call, ino, what))
    }

    fn read(&self, call: Call, ino: Ino, at: u64, len: usize) -> Answer<Buf> {
        self.later(self.ram.read(call, ino, at, len))
    }

    fn write(&self, call: Call, ino: Ino, at: At, data: Buf, how: Write) -> Answer<Written> {
        self.later(self.ram.write(call, ino, at, data, how))
    }

    fn allocate(&self, call: Call, ino: Ino, range: ByteRange, how: Allocate) -> Answer<()> {
        self.later(self.ram.allocate(call, ino, range, how))
    }

    fn copy(&self, call: Call, from: (Ino, u64), to: (Ino, u64), len: u64, how: Copying) -> Answer<u64> {
        self.later(self.ram.copy(call, from, to, len, how))
    }

    fn seek(&self, call: Call, ino: Ino, at: u64, what: Seek) -> Answer<u64> {
        self.later(self.ram.seek(call, ino, at, what))
    }

    fn sync(&self, call: Call, what: Sync) -> Answer<()> {
        self.later(self.ram.sync(call, what))
    }

    fn space(&self, call: Call) -> Answer<Space> {
        self.later(self.ram.space(call))
    }

    fn on_change(&self, hearer: Hearer) {
        *self.hearer.borrow_mut() = Some(hearer);
    }

    fn close(&self) -> Answer<()> {
        self.later(self.ram.close())
    }
}
