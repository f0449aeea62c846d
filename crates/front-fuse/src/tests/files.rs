//! A file system in memory behind a played kernel: what answers hold, and what no kernel sends.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use esker_base::{Nanos, Stream};
use esker_block::{Class, Tag};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_vfs::{Call, Change, Cookie, FileSystem, Hint, Ino, Lifetime, Listing, Name, Ram, RamConfig, Remove, Stamp};

use super::late::Late;
use super::*;

fn config(cache: CacheMode) -> ServeConfig {
    ServeConfig { cache, transfer_max: transfer_limit(None), issuer: 0, ring: None }
}

async fn serve_ram(rt: Rt, fd: OwnedFd, cache: CacheMode) {
    let pool = Pool::default();
    let ram = Ram::new(RamConfig::sized(16 << 20), pool.clone());
    let channel = Channel::new(&rt, fd).unwrap();
    Rc::new(Session::new(&rt, &pool, channel, Rc::new(ram.clone()), config(cache))).serve().await;
    // Pins of the kernel went with its mount: an unlinked file is gone.
    ram.digest().unwrap();
    assert_eq!(used_inodes(&ram), named(&ram), "what has no name is gone");
}

const CALL: Call =
    Call { now: Stamp(0), tag: Tag::of(Class::Foreground), hint: Hint { storage: 0, lifetime: Lifetime::Unknown } };

fn used_inodes(ram: &Ram) -> u64 {
    match ram.space(CALL) {
        Step::Now(Ok(space)) => space.inodes - space.inodes_free,
        _ => panic!("room is told at once"),
    }
}

/// Inodes with names, and the root.
fn named(ram: &Ram) -> u64 {
    let rows = Listing::new(1 << 16, 24, 8);
    match ram.list(CALL, ram.root(), Cookie::BEGINNING, rows) {
        Step::Now(Ok(rows)) => rows.rows().len() as u64 + 1,
        _ => panic!("entries are told at once"),
    }
}

fn made(kernel: &mut Kernel, name: &[u8]) -> EntryOut {
    let body = MknodIn { mode: kind::FILE | 0o644, ..MknodIn::zero() };
    let (error, answer) = kernel.ask(opcode::MKNOD, ROOT, &[body.as_bytes(), name, b"\0"].concat(), &[]);
    assert_eq!(error, 0);
    EntryOut::read_from_bytes(&answer).unwrap()
}

/// What this kernel and the session agree on.
fn greeted(kernel: &mut Kernel) -> u64 {
    let hello = InitIn { major: 7, minor: 45, flags: u32::MAX, max_readahead: 1 << 17 };
    let rest = [&u32::MAX.to_ne_bytes()[..], &[0; 44]].concat();
    let (error, answer) = kernel.ask(opcode::INIT, 0, &[hello.as_bytes(), &rest].concat(), &[]);
    assert_eq!(error, 0);
    let told = InitOut::read_from_bytes(&answer).unwrap();
    u64::from(told.flags) | u64::from(told.flags2) << 32
}

/// Names and cookies of entries.
fn entries(mut bytes: &[u8]) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (entry, rest) = Dirent::read_from_prefix(bytes).unwrap();
        let name = &rest[..entry.namelen as usize];
        found.push((String::from_utf8(name.to_vec()).unwrap(), entry.offset));
        bytes = &bytes[(size_of::<Dirent>() + name.len()).next_multiple_of(8)..];
    }
    found
}

fn list(kernel: &mut Kernel, from: u64, size: u32) -> Vec<(String, u64)> {
    let body = ReadIn { offset: from, size, ..ReadIn::zero() };
    let (error, answer) = kernel.ask(opcode::READDIR, ROOT, body.as_bytes(), &[]);
    assert_eq!(error, 0);
    entries(&answer)
}

#[test]
fn a_directory_begins_with_dots_and_goes_on_anywhere() {
    play(
        |kernel| {
            for name in [&b"a"[..], b"b", b"c"] {
                made(kernel, name);
            }
            let all = list(kernel, 0, 4096);
            let names: Vec<&str> = all.iter().map(|(name, _)| &**name).collect();
            assert_eq!(names, [".", "..", "a", "b", "c"]);
            assert_eq!((all[0].1, all[1].1), (1, 2));
            let mut piecewise = Vec::new();
            let mut from = 0;
            // One entry at a time.
            while let [(name, next)] = &list(kernel, from, 40)[..] {
                piecewise.push((name.clone(), *next));
                from = *next;
            }
            assert_eq!(piecewise, all);
            assert!(list(kernel, 0, 16).is_empty(), "not even one fits");
        },
        async |rt, fd| serve_ram(rt, fd, CacheMode::Through).await,
    );
}

#[test]
fn opens_are_refused_once_where_they_need_no_answer() {
    play(
        |kernel| {
            let file = made(kernel, b"f").node;
            for (number, node) in [(opcode::OPEN, file), (opcode::OPENDIR, ROOT), (opcode::FLUSH, file)] {
                assert_eq!(kernel.ask(number, node, &[0; 24], &[]).0, -38, "opcode {number}");
            }
            let create = CreateIn { mode: 0o644, flags: 2, ..CreateIn::zero() };
            let create = [create.as_bytes(), b"g\0"].concat();
            assert_eq!(kernel.ask(opcode::CREATE, ROOT, &create, &[]).0, -38);
        },
        async |rt, fd| serve_ram(rt, fd, CacheMode::Through).await,
    );
    play(
        |kernel| {
            let file = made(kernel, b"f").node;
            let open: OpenOut = kernel.ask_for(opcode::OPEN, file, &OpenIn { flags: 2, open_flags: 0 });
            assert_eq!(open.open_flags, FOPEN_DIRECT_IO);
            let create = CreateIn { mode: 0o644, flags: 2, ..CreateIn::zero() };
            let (error, answer) = kernel.ask(opcode::CREATE, ROOT, &[create.as_bytes(), b"g\0"].concat(), &[]);
            let (entry, open) = EntryOut::read_from_prefix(&answer).unwrap();
            assert_eq!((error, entry.attr.mode), (0, kind::FILE | 0o644));
            assert_eq!(OpenOut::read_from_bytes(open).unwrap().open_flags, FOPEN_DIRECT_IO);
        },
        async |rt, fd| serve_ram(rt, fd, CacheMode::None).await,
    );
}

#[test]
fn each_mode_agrees_on_what_it_needs() {
    play(
        |kernel| {
            let flags = greeted(kernel);
            assert_eq!(flags & init::WRITEBACK_CACHE, 0);
            assert_eq!(flags & init::HANDLE_KILLPRIV_V2, init::HANDLE_KILLPRIV_V2);
            assert_eq!(flags & init::DIRECT_IO_ALLOW_MMAP, 0);
        },
        async |rt, fd| serve_ram(rt, fd, CacheMode::Through).await,
    );
    play(
        |kernel| assert_ne!(greeted(kernel) & init::WRITEBACK_CACHE, 0),
        async |rt, fd| serve_ram(rt, fd, CacheMode::WriteBack).await,
    );
    play(
        |kernel| assert_ne!(greeted(kernel) & init::DIRECT_IO_ALLOW_MMAP, 0),
        async |rt, fd| serve_ram(rt, fd, CacheMode::None).await,
    );
}

#[test]
fn what_the_kernel_pinned_is_gone_with_it() {
    play(
        |kernel| {
            let file = made(kernel, b"f").node;
            assert_eq!(kernel.ask(opcode::UNLINK, ROOT, b"f\0", &[]).0, 0);
            let attr: AttrOut = kernel.ask_for(opcode::GETATTR, file, &GetAttrIn::zero());
            assert_eq!(attr.attr.nlink, 0, "it is pinned");
            let nothing: EntryOut = kernel.ask_for(opcode::LOOKUP, ROOT, b"f\0");
            assert_eq!((nothing.node, nothing.attr_valid), (0, 0));
            assert!(nothing.entry_valid > 0, "the kernel remembers that it is not there");
            // More than it has: as if it gave all back. Then there is nothing of that number.
            kernel.tell(opcode::FORGET, file, ForgetIn { nlookup: u64::MAX }.as_bytes());
            kernel.tell(opcode::FORGET, file, ForgetIn { nlookup: 1 }.as_bytes());
            assert_eq!(kernel.ask(opcode::GETATTR, file, &[0; 16], &[]).0, -2);
            made(kernel, b"left");
            assert_eq!(kernel.ask(opcode::UNLINK, ROOT, b"left\0", &[]).0, 0);
        },
        async |rt, fd| serve_ram(rt, fd, CacheMode::Through).await,
    );
}

#[test]
fn flags_are_read_and_set_but_not_those_that_the_kernel_would_have_to_guard() {
    play(
        |kernel| {
            let file = made(kernel, b"f").node;
            let get = IoctlIn { command: 0x8008_6601, out_size: 4, ..IoctlIn::zero() };
            let mut set = |flags: u32| {
                let set = IoctlIn { command: 0x4008_6602, in_size: 4, ..IoctlIn::zero() };
                kernel.ask(opcode::IOCTL, file, &[set.as_bytes(), &flags.to_ne_bytes()].concat(), &[]).0
            };
            assert_eq!([set(0x40), set(0x10), set(0x20)], [0, -95, -95]);
            let (error, answer) = kernel.ask(opcode::IOCTL, file, get.as_bytes(), &[]);
            assert_eq!((error, &answer[16..]), (0, &0x40u32.to_ne_bytes()[..]));
            let other = IoctlIn { command: 0x5401, ..IoctlIn::zero() };
            assert_eq!(kernel.ask(opcode::IOCTL, file, other.as_bytes(), &[]).0, -25);
        },
        async |rt, fd| serve_ram(rt, fd, CacheMode::Through).await,
    );
}

/// Numbers of operations, more of them those that exist.
const NUMBERS: u64 = 60;

#[test]
fn no_kernel_ends_the_session_with_what_it_sends() {
    const SEED: u64 = 30;
    println!("seed {SEED}");
    play(
        |kernel| {
            let mut random = Stream::named(SEED, "hostile");
            for _ in 0..8 {
                let name = [b'a' + random.below(4) as u8];
                kernel.tell_and_drop(opcode::MKNOD, ROOT, &[MknodIn::zero().as_bytes(), &name, b"\0"].concat());
            }
            for _ in 0..20_000 {
                let body = hostile(&mut random);
                let number = random.below(NUMBERS) as u32;
                // A greeting is refused or agreed, and interrupts are for requests that wait.
                let node = random.below(8);
                kernel.tell_and_drop(number, node, &body);
            }
            kernel.drain();
            let attr: AttrOut = kernel.ask_for(opcode::GETATTR, ROOT, &GetAttrIn::zero());
            assert_eq!(attr.attr.mode & kind::MASK, kind::DIRECTORY, "it still answers");
        },
        async |rt, fd| {
            let pool = Pool::default();
            let ram = Ram::new(RamConfig::sized(16 << 20), pool.clone());
            let channel = Channel::new(&rt, fd).unwrap();
            let session = Session::new(&rt, &pool, channel, Rc::new(ram), config(CacheMode::None));
            Rc::new(session).serve().await;
        },
    );
}

/// Arguments: small numbers that mean something, large ones, text, and noise.
fn hostile(random: &mut Stream) -> Vec<u8> {
    let mut body = Vec::new();
    for _ in 0..random.below(12) {
        match random.below(5) {
            0 => body.extend(random.below(9).to_ne_bytes()),
            1 => body.extend(random.next_u64().to_ne_bytes()),
            2 => body.extend((u64::MAX - random.below(4096)).to_ne_bytes()),
            3 => body.extend([b'a' + random.below(4) as u8, 0]),
            _ => body.extend((random.below(64) as u32).to_ne_bytes()),
        }
    }
    body
}

#[test]
fn a_caller_that_is_interrupted_waits_no_longer() {
    play(
        |kernel| {
            let file = made(kernel, b"shut").node;
            INTERRUPTED.await_shut();
            let read = ReadIn { size: 10, ..ReadIn::zero() };
            let asked = kernel.tell(opcode::READ, file, read.as_bytes());
            kernel.tell(opcode::INTERRUPT, 0, InterruptIn { unique: asked }.as_bytes());
            let (head, _) = kernel.next();
            assert_eq!((head.unique, head.error), (asked, -4));
            // Again, and for what is not there: no answer, and none for the read when it is done.
            kernel.tell(opcode::INTERRUPT, 0, InterruptIn { unique: asked }.as_bytes());
            kernel.tell(opcode::INTERRUPT, 0, InterruptIn { unique: 999 }.as_bytes());
            // An interrupt that is seen before its request, as when they come by two ways.
            let next = kernel.unique + 2;
            kernel.tell(opcode::INTERRUPT, 0, InterruptIn { unique: next }.as_bytes());
            assert_eq!(kernel.tell(opcode::READ, file, read.as_bytes()), next);
            let (head, _) = kernel.next();
            assert_eq!((head.unique, head.error), (next, -4));
            let write = kernel.tell(opcode::UNLINK, ROOT, b"shut\0");
            kernel.tell(opcode::INTERRUPT, 0, InterruptIn { unique: write }.as_bytes());
            INTERRUPTED.open_soon();
            let (head, _) = kernel.next();
            assert_eq!((head.unique, head.error), (write, 0), "a change is not given up");
        },
        async |rt, fd| {
            let pool = Pool::default();
            let late = Late::new(&rt, Ram::new(RamConfig::sized(1 << 20), pool.clone()));
            let channel = Channel::new(&rt, fd).unwrap();
            let session = Rc::new(Session::new(&rt, &pool, channel, Rc::new(late.clone()), config(CacheMode::None)));
            shut(&rt, &late, &INTERRUPTED);
            session.serve().await;
        },
    );
}

/// What a scenario and the gate of its file system tell each other.
struct Gate {
    is_shut: AtomicBool,
    may_open: AtomicBool,
}

static INTERRUPTED: Gate = Gate { is_shut: AtomicBool::new(false), may_open: AtomicBool::new(false) };
static GONE: Gate = Gate { is_shut: AtomicBool::new(false), may_open: AtomicBool::new(false) };

impl Gate {
    fn await_shut(&self) {
        while !self.is_shut.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Opens the gate after a time in which the server sees what was asked before.
    fn open_soon(&'static self) {
        thread::spawn(|| {
            thread::sleep(Duration::from_millis(100));
            self.may_open.store(true, Ordering::SeqCst);
        });
    }
}

/// Shuts the gate once a file is there, until the scenario lets it open.
fn shut(rt: &Rt, late: &Late, gate: &'static Gate) {
    let (own, late) = (rt.clone(), late.clone());
    rt.spawn_detached("gate", async move {
        while used_inodes(&late.ram) == 1 {
            own.sleep(Nanos::millis(1)).await;
        }
        late.is_shut.set(true);
        gate.is_shut.store(true, Ordering::SeqCst);
        while !gate.may_open.swap(false, Ordering::SeqCst) {
            own.sleep(Nanos::millis(1)).await;
        }
        gate.is_shut.store(false, Ordering::SeqCst);
        late.is_shut.set(false);
    });
}

#[test]
fn what_waits_when_the_mount_goes_leaves_no_pin() {
    play(
        |kernel| {
            made(kernel, b"shut");
            GONE.await_shut();
            kernel.tell(opcode::LOOKUP, ROOT, b"shut\0");
            GONE.open_soon();
        },
        async |rt, fd| {
            let pool = Pool::default();
            let late = Late::new(&rt, Ram::new(RamConfig::sized(1 << 20), pool.clone()));
            let channel = Channel::new(&rt, fd).unwrap();
            let session = Session::new(&rt, &pool, channel, Rc::new(late.clone()), config(CacheMode::Through));
            shut(&rt, &late, &GONE);
            Rc::new(session).serve().await;
            assert!(!late.is_shut.get(), "the lookup was waited for");
            let name = Name::new(b"shut").unwrap();
            assert!(matches!(late.ram.remove(CALL, late.ram.root(), name, Remove::File), Step::Now(Ok(()))));
            assert_eq!(used_inodes(&late.ram), 1);
        },
    );
}

#[test]
fn changes_by_others_reach_the_kernel_as_notices() {
    play(
        |kernel| {
            let (head, body) = kernel.next();
            assert_eq!((head.unique, head.error), (0, NOTIFY_INVAL_INODE));
            let told = InvalInodeOut::read_from_bytes(&body).unwrap();
            assert_eq!((told.node, told.offset, told.len), (7, 4096, 8192));
            let (head, body) = kernel.next();
            assert_eq!((head.unique, head.error), (0, NOTIFY_INVAL_ENTRY));
            assert_eq!(&body[size_of::<InvalEntryOut>()..], b"name\0");
        },
        async |rt, fd| {
            let pool = Pool::default();
            let late = Late::new(&rt, Ram::new(RamConfig::sized(1 << 20), pool.clone()));
            let channel = Channel::new(&rt, fd).unwrap();
            let config = config(CacheMode::Through);
            let session = Rc::new(Session::new(&rt, &pool, channel, Rc::new(late.clone()), config));
            let own = rt.clone();
            rt.spawn_detached("others", async move {
                let hearer = loop {
                    if let Some(hearer) = late.hearer.borrow().clone() {
                        break hearer;
                    }
                    own.sleep(Nanos::millis(1)).await;
                };
                let range = esker_base::ByteRange::new(4096, 8192).unwrap();
                hearer(Change::Range(Ino(7), range)).await;
                hearer(Change::Name(Ino(1), Name::new(b"name").unwrap().to_buf())).await;
            });
            session.serve().await;
        },
    );
}
