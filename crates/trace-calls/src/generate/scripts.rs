//! The patterns. Descriptors are slots of the script, negative numbers that the desk replaces.

use esker_base::Stream;

use crate::action::Outcome;
use crate::call::{At, Call, Fd, Object, Status};
use crate::name::{PathBytes, Word};
use crate::snapshot::{Entry, EntryKind, Xattr};
use crate::words::*;
use esker_base::Errno;

/// A descriptor of a script, by a number that no kernel gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot(pub i32);

impl Slot {
    /// The slot of that number.
    const fn new(number: i32) -> Slot {
        Slot(-1000 - number)
    }

    fn fd(self) -> Fd {
        Fd(self.0)
    }
}

/// One call of a script.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// Which thread issues it.
    pub thread: u32,
    /// The call.
    pub call: Call,
    /// How it ends; descriptors are filled in.
    pub outcome: Outcome,
    /// The slot whose descriptor it makes.
    pub slot: Option<Slot>,
    /// Whether it waits for a device.
    pub slow: bool,
}

/// A pattern with its files and threads.
pub(super) struct Script {
    /// Files that must be there before, by absolute path.
    pub files: Vec<(String, Entry)>,
    /// Its calls, each after the one before has returned.
    pub steps: Vec<Step>,
    /// Its folder.
    folder: String,
    /// The thread that issues the next call.
    thread: u32,
    cast: [u32; 3],
}

/// All patterns.
pub(super) const ALL: &[fn(&mut Script, &mut Stream)] = &[
    save_by_rename,
    package_renamed_under_threads,
    farm_of_links,
    hard_links,
    attributes,
    exchange,
    database,
    temporary_names,
    browse,
    shared_memory,
];

const FIRST: Slot = Slot::new(1);
const SECOND: Slot = Slot::new(2);

fn new_file() -> OpenFlags {
    OpenFlags::READ | OpenFlags::WRITE | OpenFlags::O_CREAT | OpenFlags::O_EXCL
}

impl Script {
    /// A script in a folder of its own, with three of the threads in some order (with two, one plays twice).
    pub(super) fn new(number: u32, threads: u32, choice: &mut Stream) -> Script {
        let first = choice.below(threads.into()) as u32;
        let hop = 1 + choice.below(u64::from(threads) - 1) as u32;
        let cast = [first, (first + hop) % threads, (first + 1) % threads];
        let folder = format!("/Users/desk/Documents/{number:04}");
        let files = vec![(folder.clone(), Entry::plain(EntryKind::Directory))];
        Script { files, steps: Vec::new(), folder, thread: first, cast }
    }

    fn by(&mut self, who: usize) -> &mut Script {
        self.thread = self.cast[who];
        self
    }

    fn at(&self, name: &str) -> At {
        At::cwd(PathBytes::from(&self.path(name)))
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    fn object(&self, name: &str) -> Object {
        Object::Path { at: self.at(name), follow: true }
    }

    fn file(&mut self, name: &str, size: u64) {
        let path = self.path(name);
        self.files.push((path, Entry::plain(EntryKind::File { size })));
    }

    fn directory(&mut self, name: &str) {
        let path = self.path(name);
        self.files.push((path, Entry::plain(EntryKind::Directory)));
    }

    fn link(&mut self, name: &str, target: &str) {
        let (path, target) = (self.path(name), PathBytes::from(target));
        self.files.push((path, Entry::plain(EntryKind::Symlink { target })));
    }

    fn step(&mut self, call: Call, outcome: Outcome, slow: bool) {
        self.steps.push(Step { thread: self.thread, call, outcome, slot: None, slow });
    }

    fn done(&mut self, call: Call) {
        self.step(call, Outcome::Done(0), false);
    }

    fn fails(&mut self, call: Call, errno: Errno) {
        self.step(call, Outcome::Failed(errno), false);
    }

    fn open(&mut self, slot: Slot, name: &str, flags: OpenFlags) {
        let call = self.open_call(name, flags);
        self.makes(slot, call);
    }

    /// A call whose result is a descriptor.
    fn makes(&mut self, slot: Slot, call: Call) {
        self.steps.push(Step { thread: self.thread, call, outcome: Outcome::Done(0), slot: Some(slot), slow: false });
    }

    fn open_call(&self, name: &str, flags: OpenFlags) -> Call {
        Call::Open { at: self.at(name), flags, mode: 0o644, resolve: ResolveFlags::empty() }
    }

    fn close(&mut self, slot: Slot) {
        self.done(Call::Close { fd: slot.fd() });
    }

    /// Reads `len` bytes, of which `got` come.
    fn read(&mut self, slot: Slot, len: u64, got: u64) {
        self.step(Call::Read { fd: slot.fd(), len, parts: 0 }, Outcome::Done(got as i64), true);
    }

    fn write(&mut self, slot: Slot, len: u64) {
        self.step(Call::Write { fd: slot.fd(), len, parts: 0 }, Outcome::Done(len as i64), false);
    }

    fn pread(&mut self, slot: Slot, offset: u64, len: u64) {
        let (fd, offset, flags) = (slot.fd(), offset as i64, ReadWriteFlags::empty());
        self.step(Call::Pread { fd, offset, len, parts: 0, flags }, Outcome::Done(len as i64), true);
    }

    fn pwrite(&mut self, slot: Slot, offset: u64, len: u64) {
        let (fd, offset, flags) = (slot.fd(), offset as i64, ReadWriteFlags::empty());
        self.step(Call::Pwrite { fd, offset, len, parts: 0, flags }, Outcome::Done(len as i64), false);
    }

    fn sync(&mut self, slot: Slot, kind: SyncKind) {
        self.step(Call::Sync { fd: slot.fd(), kind }, Outcome::Done(0), true);
    }

    fn stat_file(&mut self, name: &str, size: u64, links: u32) {
        let status = Status { kind: FileKind::Regular, mode: 0o644, size, links, device: 0, inode: 0 };
        self.done(Call::Stat { file: self.object(name), seen: Some(Box::new(status)) });
    }

    fn stat_missing(&mut self, name: &str) {
        self.fails(Call::Stat { file: self.object(name), seen: None }, Errno::ENOENT);
    }

    fn rename(&mut self, from: &str, to: &str) {
        self.done(Call::Rename { from: self.at(from), to: self.at(to), flags: RenameFlags::empty() });
    }
}

/// A document is written beside the old one, made durable and renamed over it; another thread shows it.
fn save_by_rename(script: &mut Script, choice: &mut Stream) {
    let old = 1000 + choice.below(100_000);
    script.file("report.pages", old);
    let pieces = 1 + choice.below(6);
    script.by(0).stat_file("report.pages", old, 1);
    script.open(FIRST, ".report.tmp", new_file());
    for _ in 0..pieces {
        script.write(FIRST, 4096);
    }
    let kind = if choice.below(2) == 0 { SyncKind::Full } else { SyncKind::Device };
    script.sync(FIRST, kind);
    let set = Call::SetAttrList { file: Object::Fd(FIRST.fd()), len: 32 };
    script.done(set);
    script.close(FIRST);
    script.rename(".report.tmp", "report.pages");
    script.by(1).stat_file("report.pages", pieces * 4096, 1);
    script.open(SECOND, "report.pages", OpenFlags::READ);
    for _ in 0..pieces {
        script.read(SECOND, 4096, 4096);
    }
    script.read(SECOND, 4096, 0);
    script.close(SECOND);
    script.by(2).stat_missing(".report.tmp");
}

/// A package, which is a folder, gets its name only when it is whole; a thread goes on writing through what it had
/// open.
fn package_renamed_under_threads(script: &mut Script, choice: &mut Stream) {
    let parts = 2 + choice.below(4);
    let mkdir = Call::Mkdir { at: script.at("album.tmp"), mode: 0o755 };
    script.by(0).done(mkdir);
    for part in 0..parts {
        script.by(part as usize % 2).open(FIRST, &format!("album.tmp/{part}.jpg"), new_file());
        script.write(FIRST, 8192);
        script.close(FIRST);
    }
    script.by(1).open(SECOND, "album.tmp/index.plist", new_file());
    script.write(SECOND, 512);
    script.by(0).rename("album.tmp", "album.photos");
    script.by(1).write(SECOND, 512);
    script.sync(SECOND, SyncKind::Full);
    script.close(SECOND);
    script.by(2).stat_missing("album.tmp/index.plist");
    script.stat_file("album.photos/index.plist", 1024, 1);
    for part in 0..parts {
        script.by(2).open(FIRST, &format!("album.photos/{part}.jpg"), OpenFlags::READ);
        script.read(FIRST, 16384, 8192);
        script.close(FIRST);
    }
}

/// Links to fonts; one leads nowhere until a folder gets the name that it means.
fn farm_of_links(script: &mut Script, choice: &mut Stream) {
    let fonts = 2 + choice.below(5);
    for font in 0..fonts {
        script.file(&format!("store/{font}.ttf"), 3000);
        script.link(&format!("fonts/{font}.ttf"), &format!("../store/{font}.ttf"));
    }
    script.directory("next");
    script.file("next/new.ttf", 2000);
    script.link("fonts/new.ttf", "../current/new.ttf");
    for font in 0..fonts {
        script.by(font as usize % 3).open(FIRST, &format!("fonts/{font}.ttf"), OpenFlags::READ);
        script.read(FIRST, 4096, 3000);
        script.close(FIRST);
    }
    let target = PathBytes::from("../current/new.ttf");
    let look = Call::ReadLink { at: script.at("fonts/new.ttf"), len: 1024, seen_target: Some(target.clone()) };
    script.by(1).step(look, Outcome::Done(target.len() as i64), false);
    let early = script.open_call("fonts/new.ttf", OpenFlags::READ);
    script.fails(early, Errno::ENOENT);
    script.by(0).rename("next", "current");
    script.by(1).open(SECOND, "fonts/new.ttf", OpenFlags::READ);
    script.read(SECOND, 4096, 2000);
    script.close(SECOND);
}

/// A second name, under which another thread goes on when the first one goes.
fn hard_links(script: &mut Script, choice: &mut Stream) {
    let size = 100 + choice.below(50_000);
    script.file("movie.mov", size);
    let link = Call::Link { from: script.object("movie.mov"), to: script.at("movie (backup).mov") };
    script.by(0).done(link);
    script.by(1).stat_file("movie (backup).mov", size, 2);
    script.open(FIRST, "movie (backup).mov", OpenFlags::READ | OpenFlags::WRITE);
    script.pread(FIRST, 0, size.min(4096));
    let unlink = Call::Unlink { at: script.at("movie.mov") };
    script.by(0).done(unlink);
    script.by(1).pwrite(FIRST, size, 4096);
    script.sync(FIRST, SyncKind::Full);
    script.close(FIRST);
    script.by(2).stat_missing("movie.mov");
    script.stat_file("movie (backup).mov", size + 4096, 1);
}

/// Labels and colours of files.
fn attributes(script: &mut Script, choice: &mut Stream) {
    let len = 1 + choice.below(60) as u32;
    let mut entry = Entry::plain(EntryKind::File { size: 10 });
    entry.xattrs.push(Xattr { name: Word::from("com.apple.metadata"), len });
    let path = script.path("photo.jpg");
    script.files.push((path, entry));
    let file = script.object("photo.jpg");
    let (kept, label) = (Word::from("com.apple.metadata"), Word::from("com.apple.FinderInfo"));
    let get = Call::GetXattrAt { file: file.clone(), name: kept, len: 256, position: 0 };
    script.by(0).step(get, Outcome::Done(len.into()), false);
    let missing = Call::GetXattrAt { file: file.clone(), name: label.clone(), len: 32, position: 0 };
    script.by(1).fails(missing.clone(), Errno::ENODATA);
    let flags = XattrFlags::XATTR_CREATE;
    script.by(0).done(Call::SetXattrAt { file: file.clone(), name: label.clone(), len: 32, position: 0, flags });
    script.by(1).step(missing, Outcome::Done(32), false);
    script.by(2).done(Call::GetAttrList { file: file.clone(), len: 44 });
    script.done(Call::RemoveXattr { file: file.clone(), name: label.clone() });
    script.by(1).fails(Call::RemoveXattr { file, name: label }, Errno::ENODATA);
}

/// The new version of a document swaps places with the old one.
fn exchange(script: &mut Script, choice: &mut Stream) {
    let (old, new) = (1 + choice.below(9000), 10_000 + choice.below(9000));
    script.file("deck.key", old);
    script.by(0).open(FIRST, "deck.new", new_file());
    script.write(FIRST, new);
    script.sync(FIRST, SyncKind::Device);
    script.close(FIRST);
    let (first, second) = (script.object("deck.key"), script.object("deck.new"));
    script.done(Call::ExchangeData { first, second });
    script.by(1).stat_file("deck.key", new, 1);
    script.stat_file("deck.new", old, 1);
    let unlink = Call::Unlink { at: script.at("deck.new") };
    script.by(0).done(unlink);
    script.by(1).open(SECOND, "deck.key", OpenFlags::READ);
    script.read(SECOND, 65536, new);
    script.close(SECOND);
}

/// A library's database: a journal for each change, and an `fsync` for each of both.
fn database(script: &mut Script, choice: &mut Stream) {
    let pages = 4 + choice.below(60);
    script.file("library.db", pages * 4096);
    script.by(0).open(FIRST, "library.db", OpenFlags::READ | OpenFlags::WRITE);
    for _ in 0..1 + choice.below(4) {
        let lock = |kind| Call::RangeLock {
            fd: FIRST.fd(),
            cmd: RecordLock::Set,
            kind,
            whence: Whence::Set,
            start: 0,
            len: 1,
        };
        let page = choice.below(pages) * 4096;
        script.by(0).done(lock(LockKind::Exclusive));
        script.pread(FIRST, page, 4096);
        script.open(SECOND, "library.db-journal", new_file());
        script.write(SECOND, 4096 + 24);
        script.sync(SECOND, SyncKind::Full);
        script.pwrite(FIRST, page, 4096);
        script.sync(FIRST, SyncKind::Full);
        script.close(SECOND);
        let unlink = Call::Unlink { at: script.at("library.db-journal") };
        script.done(unlink);
        script.done(lock(LockKind::Unlock));
        script.by(1).stat_missing("library.db-journal");
        script.pread(FIRST, page, 4096);
        // Nothing is dirty: it returns at once.
        script.by(2).step(Call::Sync { fd: FIRST.fd(), kind: SyncKind::Full }, Outcome::Done(0), false);
    }
    script.by(0).close(FIRST);
}

/// One temporary name after the other, used again by other threads.
fn temporary_names(script: &mut Script, choice: &mut Stream) {
    for round in 0..2 + choice.below(4) {
        let name = format!("tmp.{}", round % 2);
        script.by(round as usize % 3).open(FIRST, &name, new_file());
        let again = script.open_call(&name, new_file());
        script.by((round as usize + 1) % 3).fails(again, Errno::EEXIST);
        script.by(round as usize % 3).write(FIRST, 100 + round);
        script.close(FIRST);
        let unlink = Call::Unlink { at: script.at(&name) };
        script.by((round as usize + 2) % 3).done(unlink);
    }
}

/// A folder of pictures is listed, looked at and read with hints.
fn browse(script: &mut Script, choice: &mut Stream) {
    let pictures = 2 + choice.below(5);
    (0..pictures).for_each(|picture| script.file(&format!("roll/{picture}.jpg"), 70_000));
    script.by(0).open(FIRST, "roll", OpenFlags::READ | OpenFlags::O_DIRECTORY);
    script.step(Call::GetDirEntriesAttr { fd: FIRST.fd(), len: 8192 }, Outcome::Done(1), false);
    script.close(FIRST);
    let volume = script.object("roll");
    script.done(Call::FsControl { file: volume.clone(), request: Word::from("HFS_GETPATH") });
    script.done(Call::StatFs { file: volume });
    for picture in 0..pictures {
        let name = format!("roll/{picture}.jpg");
        let file = script.object(&name);
        script.by(1).done(Call::Undocumented { file: file.clone(), kind: Obscure::StatExtended });
        script.done(Call::Access { file, mode: AccessMode::R_OK });
        script.by(picture as usize % 3).open(SECOND, &name, OpenFlags::READ);
        let fd = SECOND.fd();
        script.done(Call::Hinted { fd, hint: Hint::NoCache, offset: 0, len: 1 });
        script.done(Call::Hinted { fd, hint: Hint::ReadAdvise, offset: 0, len: 65536 });
        script.read(SECOND, 65536, 65536);
        script.read(SECOND, 65536, 70_000 - 65536);
        script.close(SECOND);
    }
    let flags = FallocFlags::F_ALLOCATECONTIG;
    script.by(2).open(FIRST, "thumbs.db", new_file());
    script.done(Call::Preallocate { fd: FIRST.fd(), flags, offset: 0, len: 1 << 20 });
    script.write(FIRST, 30_000);
    script.close(FIRST);
}

/// Shared memory between threads. On a Mac its close reports an error, although it works.
fn shared_memory(script: &mut Script, choice: &mut Stream) {
    let name = PathBytes::from(&format!("/desk.{}", script.folder.len() as u64 * 1000 + choice.below(1 << 40)));
    let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::O_CREAT;
    let call = Call::ShmOpen { name: name.clone(), flags, mode: 0o600 };
    script.by(0).makes(FIRST, call);
    script.done(Call::Truncate { file: Object::Fd(FIRST.fd()), len: 4096 });
    script.by(1).fails(Call::Close { fd: FIRST.fd() }, Errno::EINVAL);
    script.by(0).done(Call::ShmUnlink { name });
}
