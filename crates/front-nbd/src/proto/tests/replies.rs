//! Replies of the transmission phase, byte for byte.

use super::*;
use crate::proto::wire::{CHUNK_LEN, MAX_EXTENTS, state};
use esker_base::ByteRange;

fn structured() -> Terms {
    Terms { form: Form::Structured, contexts: allocation() }
}

fn to(cookie: u64) -> ReplyTo {
    ReplyTo { cookie, offset: 4096 }
}

fn r(start: u64, len: u64) -> ByteRange {
    ByteRange::new(start, len).unwrap()
}

/// Lengths and flags of a status reply.
fn status(asked: ByteRange, one: bool, extents: &[Extent]) -> Vec<(u32, u32)> {
    let bytes = structured().status(to(9), asked, one, &[(Context::Allocation, extents.to_vec())]);
    let mut r = Reader::new(&bytes);
    r.take(CHUNK_LEN - 4).unwrap();
    assert_eq!(r.be_u32().unwrap() as usize, r.left());
    assert_eq!(r.be_u32(), Ok(1));
    (0..r.left() / 8).map(|_| (r.be_u32().unwrap(), r.be_u32().unwrap())).collect()
}

fn data(len: u64) -> Extent {
    Extent::allocation(len, false, false)
}

fn hole(len: u64) -> Extent {
    Extent::allocation(len, true, true)
}

const HOLE: u32 = state::HOLE | state::ZERO;

#[test]
fn heads_have_the_bytes_of_the_protocol() {
    let simple = Terms::default();
    assert_eq!(simple.done(to(1)), [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(simple.failed(to(1), &Failure::new(Errno::Io, "x"))[4..8], [0, 0, 0, 5]);
    let head = structured().data(to(2), r(512, 1024));
    let expected = [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 2, 0];
    assert_eq!(head, expected);
    assert_eq!(structured().done(to(3)), Terms::default().done(to(3)), "as simple as it may be");
}

#[test]
fn failures_carry_their_text_and_place() {
    let failure = Failure { at: Some(4096), ..Failure::new(Errno::Io, "bad sector") };
    let bytes = structured().failed(to(1), &failure);
    assert_eq!(bytes[4..8], [0, 1, 0x80, 2]);
    assert_eq!(bytes[16..26], [0, 0, 0, 24, 0, 0, 0, 5, 0, 10]);
    assert_eq!(bytes[26..36], *b"bad sector");
    assert_eq!(bytes[36..], 4096u64.to_be_bytes());
    let long = structured().failed(to(1), &Failure::new(Errno::Io, "é".repeat(4000)));
    assert_eq!(long.len(), CHUNK_LEN + 6 + 4096, "texts are cut to the protocol's limit");
}

#[test]
fn parts_of_a_read_end_with_the_last_one_only() {
    let parts = [ReadChunk { range: r(0, 512), hole: false }, ReadChunk { range: r(512, 512), hole: true }];
    let heads = structured().parts(to(1), &parts);
    assert_eq!(heads[0][4..8], [0, 0, 0, 1]);
    assert_eq!(heads[1][4..8], [0, 1, 0, 2]);
    assert_eq!(heads[1][20..], [0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0]);
}

#[test]
fn equal_neighbours_are_joined() {
    let list = [data(512), data(512), hole(1024), data(512)];
    assert_eq!(status(r(0, 2560), false, &list), [(1024, 0), (1024, HOLE), (512, 0)]);
    assert_eq!(status(r(0, 4096), false, &[]), [(4096, 0)], "nothing known is data");
}

#[test]
fn one_extent_stays_inside_the_question_and_only_the_last_passes_it() {
    let list = [hole(8192), data(512), hole(512)];
    assert_eq!(status(r(0, 4096), true, &list), [(4096, HOLE)]);
    assert_eq!(status(r(0, 4096), false, &list), [(8192, HOLE)]);
    assert_eq!(status(r(0, 8193), false, &list), [(8192, HOLE), (512, 0)]);
}

#[test]
fn long_extents_are_cut_at_a_block_and_end_the_answer() {
    let list = [hole(1 << 33), data(512)];
    assert_eq!(status(r(0, u64::from(u32::MAX)), false, &list), [(u32::MAX - 65535, HOLE)]);
    let many: Vec<Extent> = (0..MAX_EXTENTS + 10).map(|i| if i % 2 == 0 { data(1) } else { hole(1) }).collect();
    assert_eq!(status(r(0, 1 << 30), false, &many).len(), MAX_EXTENTS);
}

#[test]
fn error_numbers_read_back_and_strangers_are_invalid() {
    for errno in [Errno::Perm, Errno::Io, Errno::NoMem, Errno::NoSpc, Errno::Overflow, Errno::NotSup, Errno::Shutdown] {
        assert_eq!(Errno::from_code(errno.code()), errno);
    }
    assert_eq!(Errno::from_code(3), Errno::Inval);
}
