//! Which calls change nothing, and so have no order among each other.

use esker_trace_calls::words::{FcntlCmd, MapFlags, ReadWriteFlags, Whence};

use super::*;
use crate::rules::Looks;

fn pread(fd: i32) -> Call {
    Call::Pread { fd: Fd(fd), offset: 10, len: 5, parts: 0, flags: ReadWriteFlags::empty() }
}

fn read(fd: i32) -> Call {
    Call::Read { fd: Fd(fd), len: 5, parts: 0 }
}

/// What each action of a story looks at.
fn looks(story: &Story) -> Vec<Looks> {
    story.compiled().outline().instants().iter().map(|instant| instant.looks).collect()
}

const SHARED: Rules = Rules::FILE_RW.union(Rules::FD_RW);

#[test]
fn reads_at_a_place_have_no_order_and_writes_have_one() {
    let mut story = Story::new(3, &["/f"]);
    story
        .opens(0, "/f", RW, 3)
        .act(0, pread(3), Outcome::Done(5))
        .act(1, pread(3), Outcome::Done(5))
        .writes(2, 3)
        .act(0, pread(3), Outcome::Done(5))
        .act(1, pread(3), Outcome::Done(5));
    // Opening it makes the descriptor; the write comes behind both reads, and those behind it after it.
    assert_eq!(story.edges(SHARED), set(&[(0, 2), (0, 3), (1, 3), (2, 3), (3, 4), (3, 5)]));
    let sequential = story.edges(Rules::FILE_SEQ | Rules::FD_SEQ);
    assert_eq!(sequential, set(&[(1, 2), (2, 3), (3, 4), (4, 5)]));
}

#[test]
fn reads_by_an_offset_are_changes_of_whatever_shares_it() {
    let mut story = Story::new(2, &["/f"]);
    story
        .opens(0, "/f", OpenFlags::READ, 3)
        .opens(1, "/f", OpenFlags::READ, 4)
        .act(0, read(3), Outcome::Done(5))
        .act(1, read(4), Outcome::Done(5))
        .act(0, Call::Dup { fd: Fd(3), min: 0, cloexec: false }, Outcome::Done(5))
        .act(0, read(3), Outcome::Done(5))
        .act(1, read(5), Outcome::Done(5));
    let all = looks(&story);
    assert_eq!((all[2], all[3]), (Looks::FILES, Looks::FILES), "each has an offset of its own");
    assert_eq!((all[5], all[6]), (Looks::empty(), Looks::empty()), "both have one offset");
    let edges = story.edges(SHARED);
    assert!(edges.contains(&(5, 6)) && !edges.contains(&(2, 3)), "{edges:?}");
}

#[test]
fn what_only_looks_is_known_call_by_call() {
    let mut story = Story::new(1, &["/f", "/d/"]);
    let map = |flags| Call::Map { fd: Fd(3), address: 0, len: 100, offset: 0, flags };
    let private = MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_PRIVATE;
    let seek = Call::Seek { fd: Fd(3), offset: 1, whence: Whence::Set };
    story
        .opens(0, "/f", RW, 3)
        .ok(0, stat("/f"))
        .act(0, map(MapFlags::PROT_READ | MapFlags::MAP_SHARED), Outcome::Done(4096))
        .act(0, map(private), Outcome::Done(8192))
        .act(0, map(MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_SHARED), Outcome::Done(16384))
        .act(0, seek, Outcome::Done(1))
        .ok(0, Call::Truncate { file: Object::Fd(Fd(3)), len: 5 })
        .ok(0, Call::Fcntl { fd: Fd(3), cmd: FcntlCmd::SetFd, arg: 1 })
        .ok(0, close(3))
        .opens(0, "/f", RW | OpenFlags::O_TRUNC, 3)
        .ok(0, unlink("/f"));
    let (none, files, all) = (Looks::empty(), Looks::FILES, Looks::all());
    let told = looks(&story);
    assert_eq!(told, [files, all, all, all, Looks::DESCRIPTORS, files, none, none, files, none, none]);
}

#[test]
fn what_comes_out_of_a_pipe_is_gone_for_others() {
    let mut story = Story::new(2, &[]);
    let pipe = Call::Pipe { seen_read: Fd(3), seen_write: Fd(4), flags: OpenFlags::empty() };
    story.ok(0, pipe).writes(0, 4).act(0, read(3), Outcome::Done(4)).act(1, read(3), Outcome::Done(4)).ok(0, close(4));
    assert!(looks(&story).iter().all(|looks| looks.is_empty()));
    assert!(story.edges(SHARED).contains(&(2, 3)));
}
