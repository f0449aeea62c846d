mod bytes;
mod cookies;
mod image;
mod model;
mod names;
mod room;
mod times;
mod xattrs;

use crate::attr::{FileType, NewKind};
use crate::word::NameBuf;

use super::*;

/// A file system with the state of callers: all calls at once, with a clock that goes on at each call.
pub(super) struct Desk {
    pub ram: Ram,
    now: i64,
}

pub(super) const FILE: NewKind<'_> = NewKind::File;
pub(super) const DIR: NewKind<'_> = NewKind::Directory;

pub(super) fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).unwrap()
}

pub(super) fn now<T>(step: Step<T>) -> T {
    match step {
        Step::Now(value) => value,
        Step::After(..) | Step::Ticket(_) | Step::Later(_) => panic!("each call is answered at once"),
    }
}

impl Desk {
    pub(super) fn new(config: RamConfig) -> Desk {
        Desk { ram: Ram::new(config, Pool::new(0)), now: 1_000 }
    }

    pub(super) fn large() -> Desk {
        Desk::new(RamConfig::sized(64 << 20))
    }

    pub(super) fn call(&mut self) -> Call {
        self.now += 1;
        Call::at(Stamp(self.now))
    }

    /// The time of the last call.
    pub(super) fn time(&self) -> Stamp {
        Stamp(self.now)
    }

    /// A change. If it fails, it has changed nothing.
    pub(super) fn change<T>(&mut self, change: impl FnOnce(&Ram, Call) -> Answer<T>) -> Result<T, Errno> {
        let before = self.ram.fork();
        let call = self.call();
        let answer = now(change(&self.ram, call));
        let state = self.ram.state.borrow();
        state.check();
        if answer.is_err() {
            assert!(*state == *before.state.borrow(), "a call that fails changes nothing");
        }
        answer
    }

    pub(super) fn create(&mut self, dir: Ino, text: &str, what: NewKind<'_>) -> Result<Entry, Errno> {
        let new = New { what, mode: 0o755, uid: 3, gid: 4 };
        self.change(|ram, call| ram.create(call, dir, Some(name(text)), new))
    }

    /// A new inode in the root, pinned.
    pub(super) fn make(&mut self, text: &str, what: NewKind<'_>) -> Ino {
        self.create(ROOT, text, what).unwrap().ino
    }

    pub(super) fn link(&mut self, ino: Ino, dir: Ino, text: &str) -> Result<(), Errno> {
        let entry = self.change(|ram, call| ram.link(call, ino, dir, name(text)))?;
        self.ram.forget(entry.ino, 1);
        Ok(())
    }

    pub(super) fn remove(&mut self, dir: Ino, text: &str, what: Remove) -> Result<(), Errno> {
        self.change(|ram, call| ram.remove(call, dir, name(text), what))
    }

    pub(super) fn rename(&mut self, from: (Ino, &str), to: (Ino, &str), how: Rename) -> Result<(), Errno> {
        self.change(|ram, call| ram.rename(call, (from.0, name(from.1)), (to.0, name(to.1)), how))
    }

    /// The inode of a name; not pinned by it.
    pub(super) fn find(&mut self, dir: Ino, text: &str) -> Result<Ino, Errno> {
        let entry = self.change(|ram, call| ram.lookup(call, dir, name(text)))?;
        self.ram.forget(entry.ino, 1);
        Ok(entry.ino)
    }

    pub(super) fn write(&mut self, ino: Ino, at: u64, bytes: &[u8]) -> Result<Written, Errno> {
        let how = Write::default();
        self.change(|ram, call| Step::Now(ram.write_now(call, ino, At::Offset(at), bytes, how).unwrap()))
    }

    /// A write that is whole.
    pub(super) fn put(&mut self, ino: Ino, at: u64, bytes: &[u8]) {
        assert_eq!(self.write(ino, at, bytes).map(|written| written.bytes), Ok(bytes.len() as u64));
    }

    pub(super) fn read(&mut self, ino: Ino, at: u64, len: usize) -> Vec<u8> {
        let call = self.call();
        now(self.ram.read(call, ino, at, len)).unwrap().to_vec()
    }

    pub(super) fn set(&mut self, ino: Ino, set: SetAttr) -> Result<Attr, Errno> {
        self.change(|ram, call| ram.set_attr(call, ino, set))
    }

    /// Attributes that can be set.
    pub(super) fn alter(&mut self, ino: Ino, set: SetAttr) {
        assert!(self.set(ino, set).is_ok());
    }

    pub(super) fn cut(&mut self, ino: Ino, size: u64) -> Result<Attr, Errno> {
        self.set(ino, SetAttr { size: Some(size), ..SetAttr::default() })
    }

    pub(super) fn attr(&mut self, ino: Ino) -> Attr {
        let call = self.call();
        now(self.ram.attr(call, ino)).unwrap()
    }

    pub(super) fn space(&mut self) -> Space {
        let call = self.call();
        now(self.ram.space(call)).unwrap()
    }

    /// Names and cookies behind `from`, at most `rows`.
    pub(super) fn list(&mut self, dir: Ino, from: Cookie, rows: usize) -> Vec<(NameBuf, Cookie)> {
        let into = Listing::new(rows * 512, 512 - 255, 512);
        let listing = self.change(|ram, call| ram.list(call, dir, from, into)).unwrap();
        listing.rows().map(|row| (row.name.to_buf(), row.next)).collect()
    }

    pub(super) fn names(&mut self, dir: Ino) -> Vec<String> {
        let rows = self.list(dir, Cookie::BEGINNING, 1000);
        rows.into_iter().map(|(name, _)| String::from_utf8_lossy(name.name().bytes()).into_owned()).collect()
    }
}

#[test]
fn a_fork_goes_its_own_way() {
    let mut desk = Desk::large();
    let ino = desk.make("a", FILE);
    desk.write(ino, 0, b"before").unwrap();
    let (fork, digest) = (desk.ram.fork(), desk.ram.digest().unwrap());
    desk.write(ino, 0, b"behind").unwrap();
    desk.make("b", DIR);
    assert_eq!(fork.digest().unwrap(), digest);
    assert_ne!(desk.ram.digest().unwrap(), digest);
    let call = desk.call();
    assert_eq!(now(fork.read(call, ino, 0, 9)).unwrap().to_vec(), b"before");
}

/// A change and what it changes.
type Deed<'a> = (&'a str, &'a dyn Fn(&mut Desk));

#[test]
fn a_digest_tells_each_attribute_and_leaves_the_state_as_it_is() {
    let mut desk = Desk::large();
    let (ino, dir) = (desk.make("a", FILE), desk.make("d", DIR));
    desk.make("s", NewKind::Symlink(b"to"));
    desk.make("n", NewKind::Node(FileType::CharDevice, 7));
    let keep = SetAttr::default();
    let changes: [Deed<'_>; 11] = [
        ("mode", &|desk| desk.alter(ino, SetAttr { mode: Some(0o600), ..keep })),
        ("owner", &|desk| desk.alter(ino, SetAttr { uid: Some(8), ..keep })),
        ("group", &|desk| desk.alter(ino, SetAttr { gid: Some(8), ..keep })),
        ("size", &|desk| desk.alter(ino, SetAttr { size: Some(9000), ..keep })),
        ("bytes", &|desk| desk.put(ino, 8191, b"x")),
        ("place of bytes", &|desk| [(8191, b"\0"), (0, b"x")].iter().for_each(|(at, byte)| desk.put(ino, *at, *byte))),
        ("xattr", &|desk| set_xattr(desk, ino, b"user.a")),
        ("links", &|desk| desk.link(ino, dir, "a").unwrap()),
        ("names", &|desk| desk.rename((dir, "a"), (dir, "b"), Rename::Replace).unwrap()),
        ("places of names", &|desk| desk.rename((dir, "b"), (ROOT, "b"), Rename::Replace).unwrap()),
        ("inodes of names", &|desk| desk.rename((ROOT, "b"), (ROOT, "s"), Rename::Exchange).unwrap()),
    ];
    let mut seen = vec![desk.ram.digest().unwrap()];
    for (what, change) in changes {
        change(&mut desk);
        let before = desk.ram.fork();
        let digest = desk.ram.digest().unwrap();
        assert!(*before.state.borrow() == *desk.ram.state.borrow());
        assert!(!seen.contains(&digest), "{what}");
        seen.push(digest);
    }
}

fn set_xattr(desk: &mut Desk, ino: Ino, text: &[u8]) {
    desk.change(|ram, call| ram.xattr(call, ino, Xattr::Set(text, b"1", crate::change::XattrSet::Any))).unwrap();
}

#[test]
fn a_digest_does_not_tell_holes_from_zeroes_nor_orders_of_creation() {
    let (mut one, mut other) = (Desk::large(), Desk::large());
    let (a, b) = (one.make("a", FILE), one.make("b", FILE));
    let (b2, a2) = (other.make("b", FILE), other.make("a", FILE));
    one.write(a, 0, &[0; 9000]).unwrap();
    other.cut(a2, 9000).unwrap();
    for (desk, ino) in [(&mut one, b), (&mut other, b2)] {
        desk.write(ino, 5000, b"end").unwrap();
    }
    assert_eq!(one.ram.digest(), other.ram.digest());
}

#[test]
fn a_closed_file_system_answers_nothing() {
    let mut desk = Desk::large();
    let ino = desk.make("a", FILE);
    desk.change(|ram, _| ram.close()).unwrap();
    assert_eq!(desk.write(ino, 0, b"a"), Err(Errno::EIO));
    assert_eq!(desk.find(ROOT, "a"), Err(Errno::EIO));
    assert_eq!(desk.change(|ram, _| ram.close()), Err(Errno::EIO));
    desk.ram.forget(ino, 1);
}
