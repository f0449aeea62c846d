//! Single calls against the kernel.

use super::*;

fn read(fd: i32, len: u64) -> Call {
    Call::Read { fd: Fd(fd), len, parts: 0 }
}

#[test]
fn reads_and_writes_share_the_offset_of_their_descriptor() {
    let scene = scene(OPTIONS);
    scene.open("/f", RW, 0).unwrap();
    assert_eq!(scene.call(read(0, 4000)), Ok(4000));
    assert_eq!(scene.call(Call::Write { fd: Fd(0), len: 100, parts: 1 }), Ok(100));
    let seek = |offset, whence| scene.call(Call::Seek { fd: Fd(0), offset, whence });
    assert_eq!(seek(0, Whence::Current), Ok(4100));
    assert_eq!(seek(-10, Whence::Set), Err(Traced::EINVAL));
    assert_eq!(seek(0, Whence::End), Ok(10_000));
    assert_eq!(scene.call(read(0, 4000)), Ok(0));
    let none = ReadWriteFlags::empty();
    assert_eq!(scene.call(Call::Pread { fd: Fd(0), offset: 9_000, len: 4000, parts: 2, flags: none }), Ok(1000));
    assert_eq!(scene.call(Call::Pwrite { fd: Fd(0), offset: 20_000, len: 5, parts: 0, flags: none }), Ok(5));
    assert_eq!(fs::metadata(scene.path("f")).unwrap().len(), 20_005);
}

#[test]
fn slots_are_used_closed_and_copied() {
    let scene = scene(OPTIONS);
    assert_eq!(scene.call(read(3, 1)), Err(Traced::EBADF), "nothing is open there");
    assert_eq!(scene.call(read(-1, 1)), Err(Traced::EBADF));
    assert_eq!(scene.call(read(99, 1)), Err(Traced::EBADF));
    scene.open("/f", OpenFlags::READ, 3).unwrap();
    let dup = Call::Dup { fd: Fd(3), min: 0, cloexec: false };
    scene.call_as(dup, Outcome::Done(4), vec![SlotEffect::Made(Fd(4))]).result.unwrap();
    let fork = Call::Clone { flags: CloneFlags::empty(), child: None };
    scene.call_as(fork, Outcome::Done(77), vec![SlotEffect::Copied { from: Fd(4), to: Fd(5) }]).result.unwrap();
    assert_eq!(scene.call(Call::Close { fd: Fd(3) }), Ok(0));
    assert_eq!(scene.call(Call::Close { fd: Fd(3) }), Err(Traced::EBADF));
    assert_eq!((scene.call(read(4, 10)), scene.call(read(5, 20))), (Ok(10), Ok(20)));
    assert_eq!(scene.call(Call::Seek { fd: Fd(4), offset: 0, whence: Whence::Current }), Ok(30), "one open file");
    let exit = Call::Exit { status: 0, group: true };
    scene.call_as(exit, Outcome::Unknown, vec![SlotEffect::Closed(Fd(4)), SlotEffect::Closed(Fd(5))]);
    assert_eq!(scene.call(read(5, 1)), Err(Traced::EBADF));
}

#[test]
fn dup2_takes_the_number_of_what_it_closes() {
    let scene = scene(OPTIONS);
    scene.open("/f", OpenFlags::READ, 0).unwrap();
    scene.open("/d", OpenFlags::READ, 1).unwrap();
    let call = Call::DupTo { fd: Fd(0), to: Fd(1), cloexec: false, strict: false };
    let effects = vec![SlotEffect::Closed(Fd(1)), SlotEffect::Made(Fd(2))];
    scene.call_as(call, Outcome::Done(1), effects).result.unwrap();
    assert_eq!(scene.call(read(2, 5)), Ok(5));
    assert_eq!(scene.call(read(1, 5)), Err(Traced::EBADF));
    let same = |strict| scene.call(Call::DupTo { fd: Fd(0), to: Fd(0), cloexec: false, strict });
    assert_eq!((same(false), same(true)), (Ok(0), Err(Traced::EINVAL)));
}

#[test]
fn names_are_made_and_removed_inside_the_tree() {
    let scene = scene(OPTIONS);
    let mkdir = |path: &str| scene.call(Call::Mkdir { at: At::cwd(path), mode: 0o755 });
    assert_eq!((mkdir("/d/new"), mkdir("/d/new"), mkdir("/no/new")), (Ok(0), Err(Traced::EEXIST), Err(Traced::ENOENT)));
    let rename = |from: &str, to: &str| {
        scene.call(Call::Rename { from: At::cwd(from), to: At::cwd(to), flags: RenameFlags::empty() })
    };
    assert_eq!((rename("/f", "/d/new/g"), rename("/f", "/h")), (Ok(0), Err(Traced::ENOENT)));
    assert_eq!(scene.call(Call::Symlink { target: PathBytes::from("../g"), at: At::cwd("/d/s") }), Ok(0));
    let link = Call::Link { from: Object::Path { at: At::cwd("/d/new/g"), follow: false }, to: At::cwd("/hard") };
    assert_eq!(scene.call(link), Ok(0));
    assert_eq!(fs::metadata(scene.path("hard")).unwrap().nlink(), 2);
    let rmdir = |path: &str| scene.call(Call::Rmdir { at: At::cwd(path) });
    assert_eq!(rmdir("/d/new"), Err(Traced::ENOTEMPTY));
    let unlink = |path: &str| scene.call(Call::Unlink { at: At::cwd(path) });
    assert_eq!((unlink("/d/new/g"), rmdir("/d/new"), unlink("/d")), (Ok(0), Ok(0), Err(Traced::EISDIR)));
    let fifo = Call::Mknod { at: At::cwd("/fifo"), kind: FileKind::Fifo, mode: 0o600, device: 0 };
    assert_eq!(scene.call(fifo), Ok(0));
}

#[test]
fn a_stat_tells_what_it_saw() {
    let scene = scene(OPTIONS);
    let stat = |file| scene.call_as(Call::Stat { file, seen: None }, Outcome::Done(0), Vec::new());
    assert_eq!(stat(at("/l")).seen, Some((FileKind::Regular, 10_000)));
    assert_eq!(stat(Object::Path { at: At::cwd("/l"), follow: false }).seen, Some((FileKind::Symlink, 2)));
    assert_eq!(stat(at("/nothing")).result, Err(Traced::ENOENT));
    scene.open("/d", OpenFlags::READ, 0).unwrap();
    assert_eq!(stat(Object::Fd(Fd(0))).seen.unwrap().0, FileKind::Directory);
    let relative = Object::Path { at: At { dir: Fd(0), path: PathBytes::from("../f") }, follow: true };
    assert_eq!(stat(relative).seen, Some((FileKind::Regular, 10_000)));
}

#[test]
fn metadata_is_changed_through_names_and_descriptors() {
    let scene = scene(OPTIONS);
    scene.open("/f", RW, 0).unwrap();
    for (file, mode) in [(Object::Fd(Fd(0)), 0o600), (at("/l"), 0o640)] {
        assert_eq!(scene.call(Call::Chmod { file: file.clone(), mode }), Ok(0));
        assert_eq!(fs::metadata(scene.path("f")).unwrap().mode() & 0o777, u32::from(mode));
        let times = Call::SetTimes { file: file.clone(), accessed: None, modified: Some(5_000_000_000) };
        assert_eq!(scene.call(times), Ok(0));
        assert_eq!(fs::metadata(scene.path("f")).unwrap().mtime(), 5);
        assert_eq!(scene.call(Call::Chown { file: file.clone(), uid: u32::MAX, gid: u32::MAX }), Ok(0));
        assert_eq!(scene.call(Call::Truncate { file: file.clone(), len: i64::from(mode) }), Ok(0));
        assert_eq!(fs::metadata(scene.path("f")).unwrap().len(), u64::from(mode));
        assert_eq!(scene.call(Call::Access { file: file.clone(), mode: AccessMode::R_OK }), Ok(0));
        assert_eq!(scene.call(Call::StatFs { file }), Ok(0));
    }
}

#[test]
fn exclusive_is_left_out_only_where_the_compiler_said_so() {
    let scene = scene(OPTIONS);
    let flags = RW | OpenFlags::O_CREAT | OpenFlags::O_EXCL;
    assert_eq!(scene.open("/f", flags, 0), Err(Traced::EEXIST));
    let call = Call::Open { at: At::cwd("/f"), flags, mode: 0o644, resolve: ResolveFlags::empty() };
    let slots = vec![SlotEffect::Made(Fd(0))];
    let step = Step { call, outcome: Outcome::Done(3), notes: Notes::EXCLUSIVE_DROPPED, slots };
    assert_eq!(made(&scene.kernel, &step).result, Ok(0));
    let told = scene.kernel.tally.list();
    assert!(told.len() == 1 && told[0].count == 1 && told[0].what.contains("O_EXCL"), "{told:?}");
}

#[test]
fn a_pipe_gives_what_was_traced_however_it_was_filled() {
    let scene = scene(OPTIONS);
    let pipe = Call::Pipe { seen_read: Fd(0), seen_write: Fd(1), flags: OpenFlags::empty() };
    scene.call_as(pipe, Outcome::Done(0), vec![SlotEffect::Made(Fd(0)), SlotEffect::Made(Fd(1))]).result.unwrap();
    let write = |len: i64| {
        scene.call_as(Call::Write { fd: Fd(1), len: len as u64, parts: 0 }, Outcome::Done(len), Vec::new()).result
    };
    let size = Call::Fcntl { fd: Fd(1), cmd: FcntlCmd::GetPipeSize, arg: 0 };
    assert_eq!(scene.call(size), Ok(2 << 16), "a writer never waits where it did not");
    let empty = scene.call_as(read(0, 40), Outcome::Failed(Traced::EAGAIN), Vec::new());
    assert_eq!((empty.result, empty.skipped), (Err(Traced::EAGAIN), Some(Skip::Circumstance)));
    assert_eq!((write(30), write(50)), (Ok(30), Ok(50)));
    assert_eq!(scene.call_as(read(0, 4096), Outcome::Done(60), Vec::new()).result, Ok(60));
    assert_eq!(scene.call_as(read(0, 4096), Outcome::Done(20), Vec::new()).result, Ok(20));
    scene.call(Call::Close { fd: Fd(1) }).unwrap();
    assert_eq!(scene.call_as(read(0, 4096), Outcome::Done(0), Vec::new()).result, Ok(0));
}

#[test]
fn what_is_outside_keeps_its_traced_result() {
    let scene = scene(OPTIONS);
    let socket = Call::MakeFd { source: FdSource::Socket, from: Fd(-1), name: Word::from("tcp"), cloexec: false };
    let made = scene.call_as(socket, Outcome::Done(9), vec![SlotEffect::Made(Fd(0))]);
    assert_eq!((made.result, made.skipped), (Ok(9), Some(Skip::Outside)));
    let got = scene.call_as(read(0, 4096), Outcome::Done(17), Vec::new());
    assert_eq!((got.result, got.skipped), (Ok(17), Some(Skip::Outside)));
    assert_eq!(scene.call(Call::Close { fd: Fd(0) }), Ok(0));
    let interrupted = scene.call_as(read(0, 1), Outcome::Failed(Traced::EINTR), Vec::new());
    assert_eq!((interrupted.result, interrupted.skipped), (Err(Traced::EINTR), Some(Skip::Circumstance)));
}

#[test]
fn sent_files_are_read_even_if_they_go_outside() {
    let scene = scene(OPTIONS);
    scene.open("/f", OpenFlags::READ, 1).unwrap();
    scene.open("/copy", RW | OpenFlags::O_CREAT, 2).unwrap();
    let pair = Call::SocketPair { seen_first: Fd(3), seen_second: Fd(4), cloexec: false };
    scene.call_as(pair, Outcome::Done(0), vec![SlotEffect::Made(Fd(3)), SlotEffect::Made(Fd(4))]);
    let send = |to, offset| scene.call(Call::SendFile { to: Fd(to), from: Fd(1), offset, len: 6000 });
    assert_eq!((send(3, Some(5000)), send(2, None), send(3, None)), (Ok(5000), Ok(6000), Ok(4000)));
    let copy = Call::CopyRange { from: Fd(1), from_offset: Some(0), to: Fd(2), to_offset: Some(6000), len: 3000 };
    assert_eq!(scene.call(copy), Ok(3000));
    assert_eq!(fs::metadata(scene.path("copy")).unwrap().len(), 9000);
}

#[test]
fn directories_are_read_to_their_end() {
    let scene = scene(OPTIONS);
    scene.open("/", OpenFlags::READ | OpenFlags::O_DIRECTORY, 0).unwrap();
    let list = || scene.call(Call::ReadDir { fd: Fd(0), len: 32768 });
    assert_eq!(list(), Ok(5), "the two dots and three names");
    assert_eq!(list(), Ok(0));
}

#[test]
fn attributes_are_set_read_and_removed() {
    let scene = scene(OPTIONS);
    let name = Word::from("user.note");
    let set = Call::SetXattr { file: at("/f"), name: name.clone(), len: 20, flags: XattrFlags::empty() };
    match scene.call(set) {
        Err(Traced::EOPNOTSUPP) => {
            return esker_skip::skip(esker_skip::Ability::Attributes, "the file system has no attributes");
        }
        other => assert_eq!(other, Ok(0)),
    }
    let get = |len| scene.call(Call::GetXattr { file: at("/l"), name: name.clone(), len });
    assert_eq!((get(100), get(0), get(5)), (Ok(20), Ok(20), Err(Traced::ERANGE)));
    assert!(scene.call(Call::ListXattr { file: at("/f"), len: 1000 }).unwrap() >= 10);
    assert_eq!(scene.call(Call::RemoveXattr { file: at("/f"), name: name.clone() }), Ok(0));
    assert_eq!(get(100), Err(Traced::ENODATA));
}

#[test]
fn maps_are_written_back_by_their_address() {
    let scene = scene(OPTIONS);
    scene.open("/f", RW, 0).unwrap();
    let flags = MapFlags::PROT_WRITE | MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
    let map = Call::Map { fd: Fd(0), address: 0, len: 8192, offset: 0, flags };
    assert_eq!(scene.call_as(map, Outcome::Done(0x7000), Vec::new()).result, Ok(0));
    scene.call(Call::Close { fd: Fd(0) }).unwrap();
    let sync = |address| {
        let call = Call::MapSync { address, len: 4096, flags: MapSyncFlags::MS_SYNC };
        scene.call_as(call, Outcome::Done(0), Vec::new()).skipped
    };
    assert_eq!((sync(0x8000), sync(0x9000)), (None, Some(Skip::NotFiles)));
    let elsewhere = Call::MapSync { address: 0x6000, len: 4096, flags: MapSyncFlags::MS_SYNC };
    let step = Step { call: elsewhere, outcome: Outcome::Done(0), notes: Notes::empty(), slots: Vec::new() };
    let answer = CallExecutor::new(&scene.kernel, 0).perform(&Turn { process: 1, step: &step });
    assert_eq!(answer.skipped, Some(Skip::NotFiles), "another process has its own addresses");
    scene.call(Call::Unmap { address: 0x7000, len: 8192 }).unwrap();
    assert_eq!(sync(0x8000), Some(Skip::NotFiles));
}

#[test]
fn a_touched_page_of_a_map_comes_into_the_page_cache_and_its_descriptor_is_not_needed() {
    let scene = scene(OPTIONS);
    let file = fs::File::create(scene.path("big")).unwrap();
    // More than any device's kernel reads ahead.
    let bytes = 256 << 20;
    file.set_len(bytes).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    scene.open("/big", OpenFlags::READ, 0).unwrap();
    let flags = MapFlags::PROT_READ | MapFlags::MAP_SHARED;
    let map = Call::Map { fd: Fd(0), address: 0, len: bytes, offset: 0, flags };
    assert_eq!(scene.call_as(map, Outcome::Done(0x7000), vec![SlotEffect::Made(Fd(1))]).result, Ok(0));
    scene.call(Call::Close { fd: Fd(0) }).unwrap();
    let touch = |offset| scene.call(Call::MapTouch { fd: Fd(1), offset, len: 4096, write: false });
    // Reading without waiting would not do: the kernel begins to read what is not there, and a fast disk has it in
    // time.
    let cached = || {
        let told =
            std::process::Command::new("fincore").args(["-b", "-n", "-o", "RES"]).arg(scene.path("big")).output();
        String::from_utf8(told.unwrap().stdout).unwrap().trim().parse::<u64>().unwrap()
    };
    let before = cached();
    assert_eq!(touch(4 << 20), Ok(0));
    let after = cached();
    assert!(before < after && after < bytes, "{before} bytes, then {after}");
    assert_eq!(touch(bytes), Ok(0), "a map that has grown: a read behind the end gives nothing");
    let unmap = Call::Unmap { address: 0x7000, len: bytes };
    scene.call_as(unmap, Outcome::Done(0), vec![SlotEffect::Closed(Fd(1))]);
    assert_eq!(touch(0), Err(Traced::EBADF));
}

#[test]
fn asynchronous_requests_end_before_they_are_taken() {
    let scene = scene(OPTIONS);
    scene.open("/f", RW, 0).unwrap();
    let op = |key, kind| AsyncOp { key, kind, fd: Fd(0), offset: 4096 * key, len: 4096 };
    let ops: Vec<AsyncOp> = (3..40).map(|key| op(key, AsyncKind::Write)).collect();
    let queue = AsyncQueue::Kernel(1);
    let submit =
        |ops, outcome| scene.call_as(Call::AsyncSubmit { queue, ops, wait: false }, outcome, Vec::new()).result;
    assert_eq!(submit(ops, Outcome::Done(37)), Ok(37));
    let reap = Call::AsyncReap { queue, min: 37, max: 64, seen_keys: (3..40).collect() };
    assert_eq!(scene.call(reap), Ok(37));
    assert_eq!(fs::metadata(scene.path("f")).unwrap().len(), 40 * 4096);
    assert_eq!(submit(vec![op(1, AsyncKind::Read)], Outcome::Done(0)), Ok(0));
    assert_eq!(scene.call(Call::AsyncSuspend { keys: vec![1] }), Ok(0));
    assert_eq!(scene.call(Call::AsyncError { key: 1 }), Ok(0));
    assert_eq!(scene.call(Call::AsyncReturn { key: 1 }), Ok(4096));
    assert_eq!(scene.call(Call::AsyncReturn { key: 1 }), Err(Traced::EINVAL), "taken already");
}

#[test]
fn locks_and_flags_are_asked_for() {
    let scene = scene(OPTIONS);
    scene.open("/f", RW, 0).unwrap();
    scene.open("/f", RW, 1).unwrap();
    let flock = |fd, kind| scene.call(Call::Flock { fd: Fd(fd), kind, wait: false });
    assert_eq!((flock(0, LockKind::Exclusive), flock(1, LockKind::Shared)), (Ok(0), Err(Traced::EAGAIN)));
    assert_eq!((flock(0, LockKind::Unlock), flock(1, LockKind::Shared)), (Ok(0), Ok(0)));
    let range = |cmd| {
        scene.call(Call::RangeLock { fd: Fd(0), cmd, kind: LockKind::Exclusive, whence: Whence::Set, start: 0, len: 9 })
    };
    assert_eq!((range(RecordLock::Get), range(RecordLock::SetWait)), (Ok(0), Ok(0)));
    assert_eq!(scene.call(Call::SetFlags { fd: Fd(0), flags: OpenFlags::O_APPEND }), Ok(0));
    assert_eq!(scene.call(Call::Fcntl { fd: Fd(0), cmd: FcntlCmd::GetFl, arg: 0 }), Ok(0));
    assert_eq!(
        scene.call(Call::Allocate { fd: Fd(0), flags: FallocFlags::FALLOC_FL_KEEP_SIZE, offset: 0, len: 1 << 16 }),
        Ok(0)
    );
}

#[test]
fn shared_memory_has_names_of_its_own() {
    let scene = scene(OPTIONS);
    let open = |name: &str, slot| {
        let call = Call::ShmOpen { name: PathBytes::from(name), flags: RW | OpenFlags::O_CREAT, mode: 0o600 };
        scene.call_as(call, Outcome::Done(5), vec![SlotEffect::Made(Fd(slot))]).result
    };
    assert_eq!(open("/segment", 0), Ok(0));
    assert_eq!(scene.call(Call::Truncate { file: Object::Fd(Fd(0)), len: 4096 }), Ok(0));
    for bad in ["/a/b", "/..", ".", ""] {
        assert_eq!(open(bad, 1), Err(Traced::EINVAL), "{bad:?}");
    }
    assert!(!scene.path("segment").exists());
    assert_eq!(scene.call(Call::ShmUnlink { name: PathBytes::from("/segment") }), Ok(0));
}

#[test]
fn only_harmless_devices_are_opened() {
    let device = |block, major, minor| {
        esker_trace_calls::Entry::plain(esker_trace_calls::EntryKind::Device { block, major, minor })
    };
    let entries =
        [("/dev/random", device(false, 1, 8)), ("/dev/sda", device(true, 8, 0)), ("/dev/mem", device(false, 1, 1))];
    let entries = entries.map(|(path, entry)| (PathBytes::from(path), entry)).into_iter().collect();
    let specials = crate::special::Specials::of(&Snapshot { entries });
    assert_eq!(specials.find(b"/dev/random"), Some(c"/dev/urandom"));
    assert_eq!((specials.find(b"/dev/sda"), specials.find(b"/dev/mem")), (Some(c"/dev/null"), Some(c"/dev/null")));
    assert_eq!(specials.find(b"/dev/null"), None);
}

#[test]
fn what_a_thread_keeps_does_not_outlive_a_rename() {
    let scene = scene(OPTIONS);
    let mut hand = CallExecutor::new(&scene.kernel, 0);
    let mut call = |call| {
        let step = Step { call, outcome: Outcome::Done(0), notes: Notes::empty(), slots: Vec::new() };
        hand.perform(&Turn { process: 0, step: &step }).result
    };
    let stat = || Call::Stat { file: at("/d/e/g"), seen: None };
    let rename =
        |from: &str, to: &str| Call::Rename { from: At::cwd(from), to: At::cwd(to), flags: RenameFlags::empty() };
    assert_eq!(call(Call::Mkdir { at: At::cwd("/d/e"), mode: 0o755 }), Ok(0));
    assert_eq!((call(rename("/f", "/d/e/g")), call(stat())), (Ok(0), Ok(0)));
    assert_eq!((call(rename("/d/e", "/d/h")), call(stat())), (Ok(0), Err(Traced::ENOENT)));
    assert_eq!((call(rename("/d/h", "/d/e")), call(stat())), (Ok(0), Ok(0)));
    assert_eq!(call(Call::Symlink { target: PathBytes::from("/d/e"), at: At::cwd("/s") }), Ok(0));
    let through = || Call::Stat { file: at("/s/g"), seen: None };
    assert_eq!((call(through()), call(Call::Unlink { at: At::cwd("/s") })), (Ok(0), Ok(0)));
    assert_eq!(call(through()), Err(Traced::ENOENT));
}

#[test]
fn what_only_the_source_forbade_is_not_tried() {
    let scene = scene(OPTIONS);
    let mkdir = Call::Mkdir { at: At::cwd("/forbidden"), mode: 0o755 };
    let step = |notes| Step { call: mkdir.clone(), outcome: Outcome::Failed(Traced::EACCES), notes, slots: Vec::new() };
    let perform = |step: Step| made(&scene.kernel, &step);
    let foreign = perform(step(Notes::FAILURE_UNEXPLAINED));
    assert_eq!((foreign.result, foreign.skipped), (Err(Traced::EACCES), Some(Skip::Circumstance)));
    assert!(!scene.path("forbidden").exists());
    assert_eq!(perform(step(Notes::empty())).result, Ok(0), "what the files explain is tried");
}
