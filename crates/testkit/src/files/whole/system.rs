//! The calls of a [`Whole`]: those of its tree, and images at the right time.

use esker_base::{ByteRange, Errno};
use esker_block::{Buf, Stat, Step};
use esker_vfs::{
    About, Allocate, Answer, At, Attr, Call, Cookie, Copying, Cred, Entry, FileSystem, Ino, Last, Listing, Name, New,
    Remove, Rename, Seek, SetAttr, Space, Sync, Write, Written, Xattr,
};

use super::{Flaw, Whole, now};

/// Calls that change nothing.
macro_rules! looks {
    ($( fn $name:ident(&self, $( $arg:ident: $type:ty ),*) -> $answer:ty; )*) => {
        $( fn $name(&self, $( $arg: $type ),*) -> $answer {
            self.0.ram.$name($( $arg ),*)
        } )*
    };
}

impl FileSystem for Whole {
    fn about(&self) -> &About {
        &self.0.about
    }

    looks! {
        fn root(&self, ) -> Ino;
        fn lookup(&self, call: Call, dir: Ino, name: Name<'_>) -> Answer<Entry>;
        fn parent(&self, call: Call, dir: Ino) -> Answer<Entry>;
        fn pin(&self, call: Call, ino: Ino) -> Answer<Entry>;
        fn forget(&self, ino: Ino, pins: u64) -> ();
        fn target(&self, call: Call, ino: Ino) -> Answer<Box<[u8]>>;
        fn walk_now(&self, call: Call, cred: &Cred, from: Ino, path: &[u8], last: Last) -> Option<Result<Entry, Errno>>;
        fn attr(&self, call: Call, ino: Ino) -> Answer<Attr>;
        fn read(&self, call: Call, ino: Ino, at: u64, len: usize) -> Answer<Buf>;
        fn read_now(&self, call: Call, ino: Ino, at: u64, out: &mut [u8]) -> Option<Result<usize, Errno>>;
        fn seek(&self, call: Call, ino: Ino, at: u64, what: Seek) -> Answer<u64>;
        fn space(&self, call: Call) -> Answer<Space>;
    }

    fn create(&self, call: Call, dir: Ino, name: Option<Name<'_>>, new: New<'_>) -> Answer<Entry> {
        self.note_write(false);
        self.change(|ram| ram.create(call, dir, name, new))
    }

    fn link(&self, call: Call, ino: Ino, dir: Ino, name: Name<'_>) -> Answer<Entry> {
        self.note_write(false);
        self.change(|ram| ram.link(call, ino, dir, name))
    }

    fn remove(&self, call: Call, dir: Ino, name: Name<'_>, what: Remove) -> Answer<()> {
        self.note_write(false);
        let noted = self.note_removal(call, dir, name);
        let answer = self.change(|ram| ram.remove(call, dir, name, what));
        self.note_removed(call, noted);
        answer
    }

    fn rename(&self, call: Call, from: (Ino, Name<'_>), to: (Ino, Name<'_>), how: Rename) -> Answer<()> {
        self.note_write(false);
        if !self.has(Flaw::TornRename) || how != Rename::Replace {
            return self.change(|ram| ram.rename(call, from, to, how));
        }
        let (from, to, whole) = ((from.0, from.1.to_buf()), (to.0, to.1.to_buf()), self.clone());
        Step::later(async move {
            let (before, after) = ((from.0, from.1.name()), (to.0, to.1.name()));
            if now(whole.0.ram.fork().rename(call, before, after, how)).is_ok() {
                whole.write_half(call, &from, &to).await;
            }
            whole.change(|ram| ram.rename(call, before, after, how)).await
        })
    }

    fn list(&self, call: Call, dir: Ino, from: Cookie, into: Listing) -> Answer<Listing> {
        if self.has(Flaw::UnstableCookie) {
            return self.list_by_name(call, dir, from, into);
        }
        self.0.ram.list(call, dir, from, into)
    }

    fn set_attr(&self, call: Call, ino: Ino, set: SetAttr) -> Answer<Attr> {
        self.note_write(false);
        let Some(size) = set.size else { return self.change(|ram| ram.set_attr(call, ino, set)) };
        if self.has(Flaw::TruncateNotDurable) {
            return self.0.ram.set_attr(call, ino, set);
        }
        self.note_size(call, ino, size);
        let answer = self.change(|ram| ram.set_attr(call, ino, set));
        self.show_tail(call, ino, size);
        answer
    }

    fn xattr(&self, call: Call, ino: Ino, what: Xattr<'_>) -> Answer<Box<[u8]>> {
        match what {
            Xattr::Get(_) | Xattr::List => self.0.ram.xattr(call, ino, what),
            Xattr::Set(..) | Xattr::Remove(_) => {
                self.note_write(false);
                self.change(|ram| ram.xattr(call, ino, what))
            }
        }
    }

    fn write(&self, call: Call, ino: Ino, at: At, data: Buf, how: Write) -> Answer<Written> {
        self.note_write(true);
        let answer = self.change(|ram| ram.write(call, ino, at, data, how));
        if !how.durable {
            return answer;
        }
        let whole = self.clone();
        Step::later(async move {
            let written = answer.await?;
            whole.settle().await.map(|()| written)
        })
    }

    fn allocate(&self, call: Call, ino: Ino, range: ByteRange, how: Allocate) -> Answer<()> {
        self.note_write(false);
        self.change(|ram| ram.allocate(call, ino, range, how))
    }

    fn copy(&self, call: Call, from: (Ino, u64), to: (Ino, u64), len: u64, how: Copying) -> Answer<u64> {
        self.note_write(true);
        self.change(|ram| ram.copy(call, from, to, len, how))
    }

    fn sync(&self, call: Call, what: Sync) -> Answer<()> {
        match now(self.0.ram.sync(call, what)) {
            Ok(()) if !self.skips(what) => {}
            answer => return Step::Now(answer),
        }
        let whole = self.clone();
        Step::later(async move { whole.settle().await })
    }

    fn close(&self) -> Answer<()> {
        if let Err(error) = now(self.0.ram.space(super::own_call())) {
            return Step::Now(Err(error));
        }
        let whole = self.clone();
        Step::later(async move {
            let settled = whole.settle().await;
            now(whole.0.ram.close()).and(settled)
        })
    }

    fn stats(&self) -> Vec<Stat> {
        let written = Stat { name: "generation", value: self.0.generation.get() as f64 };
        [self.0.ram.stats(), vec![written]].concat()
    }
}
