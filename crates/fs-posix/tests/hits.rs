//! Calls that find everything in memory allocate nothing.

#![forbid(unsafe_code)]

use std::rc::Rc;

use esker_fs_posix::script::at_once;
use esker_fs_posix::{Follow, OpenFlags, Process, Settings, World};
use esker_rt::counting::CountingAllocator;
use esker_rt::mem::Pool;
use esker_vfs::{Cred, Ram, RamConfig, Stamp};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

const FILE: &str = "/a/b/file";
const CALLS: u32 = 1000;

fn process() -> Process {
    let ram = Ram::new(RamConfig::sized(1 << 20), Pool::default());
    let process = World::new(Rc::new(ram), Settings::usual(), || Stamp(7)).process(Cred::user(5, 5, vec![6]));
    process.set_cred(Cred::root());
    at_once(async {
        process.mkdir("/a", 0o755).await.unwrap();
        process.mkdir("/a/b", 0o755).await.unwrap();
        let fd = process.open(FILE, OpenFlags::RDWR | OpenFlags::CREAT, 0o644).await.unwrap();
        process.write(fd, &[1; 16 << 10]).await.unwrap();
        process.close(fd).await.unwrap();
    });
    process
}

/// Checks that a call which was made before allocates nothing. Other threads of the test program may allocate
/// meanwhile, so one round without an allocation is enough: a call that allocates does so in every round.
#[track_caller]
fn assert_none(what: &str, mut call: impl FnMut()) {
    call();
    let mut round = || {
        let before = ALLOCATOR.count();
        (0..CALLS).for_each(|_| call());
        ALLOCATOR.count() - before
    };
    let least = (0..20).map(|_| round()).min();
    assert_eq!(least, Some(0), "{what}: allocations of {CALLS} calls");
}

#[test]
fn stat_open_close_and_a_read_of_4_kib_allocate_nothing() {
    let process = process();
    assert_none("stat", || assert_eq!(at_once(process.stat(FILE, Follow::Links)).unwrap().attr.size, 16 << 10));
    assert_none("open and close", || {
        let fd = at_once(process.open(FILE, OpenFlags::RDONLY, 0)).unwrap();
        at_once(process.close(fd)).unwrap();
    });
    let fd = at_once(process.open(FILE, OpenFlags::RDWR, 0)).unwrap();
    let mut page = [0; 4096];
    assert_none("fstat", || assert_eq!(at_once(process.stat(fd, Follow::Links)).unwrap().attr.size, 16 << 10));
    assert_none("pread", || assert_eq!(at_once(process.pread(fd, &mut page, 4096)).unwrap(), 4096));
    assert_none("pwrite", || assert_eq!(at_once(process.pwrite(fd, &page, 4096)).unwrap(), 4096));
    assert_none("access", || at_once(process.access(FILE, esker_fs_posix::Access::READ, Follow::Links)).unwrap());
}

#[test]
fn a_world_keeps_no_file_alive_by_the_memory_of_closed_ones() {
    let ram = Ram::new(RamConfig::sized(1 << 20), Pool::default());
    let files: Rc<dyn esker_vfs::FileSystem> = Rc::new(ram);
    let process = World::new(files.clone(), Settings::usual(), || Stamp(7)).process(Cred::root());
    let fd = at_once(process.open("/f", OpenFlags::RDWR | OpenFlags::CREAT, 0o644)).unwrap();
    at_once(process.unlink("/f")).unwrap();
    let inodes = || at_once(process.statfs()).unwrap().1.inodes_free;
    let held = inodes();
    at_once(process.close(fd)).unwrap();
    assert_eq!(inodes(), held + 1, "a closed file that has no name is gone");
    drop(process);
    assert_eq!(Rc::strong_count(&files), 1, "nothing of the world is left");
}
