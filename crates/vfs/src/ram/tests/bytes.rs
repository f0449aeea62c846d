//! Bytes of files: reads, writes, holes, copies.

use proptest::prelude::*;

use super::*;
use crate::change::AllocateKind;

fn allocate(
    desk: &mut Desk,
    ino: Ino,
    kind: AllocateKind,
    (at, len): (u64, u64),
    keep_size: bool,
) -> Result<(), Errno> {
    let range = ByteRange::new(at, len).unwrap();
    desk.change(|ram, call| ram.allocate(call, ino, range, Allocate { kind, keep_size }))
}

fn copy(desk: &mut Desk, from: (Ino, u64), to: (Ino, u64), len: u64, how: Copying) -> Result<u64, Errno> {
    desk.change(|ram, call| ram.copy(call, from, to, len, how))
}

fn seek(desk: &mut Desk, ino: Ino, at: u64, what: Seek) -> Result<u64, Errno> {
    desk.change(|ram, call| ram.seek(call, ino, at, what))
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251 + 1) as u8).collect()
}

#[test]
fn reads_end_at_the_end_and_holes_are_zeroes() {
    let mut desk = Desk::large();
    let ino = desk.make("a", FILE);
    assert_eq!(desk.write(ino, 5000, b"abc"), Ok(Written { bytes: 3, end: 5003 }));
    assert_eq!(desk.read(ino, 4998, 100), b"\0\0abc");
    assert_eq!(desk.read(ino, 5003, 1), b"");
    assert_eq!(desk.read(ino, u64::MAX, 1), b"");
    assert_eq!((desk.attr(ino).size, desk.attr(ino).allocated), (5003, 4096));
    let mut out = [7; 5];
    let call = desk.call();
    assert_eq!(desk.ram.read_now(call, ino, 5000, &mut out), Some(Ok(3)));
    assert_eq!(out, *b"abc\x07\x07");
}

#[test]
fn an_append_learns_its_place() {
    let mut desk = Desk::large();
    let ino = desk.make("a", FILE);
    desk.write(ino, 0, &pattern(4095)).unwrap();
    let data = Buf::from_bytes(&Pool::new(0), b"xyz");
    let written = desk.change(|ram, call| ram.write(call, ino, At::End, data, Write::default()));
    assert_eq!(written, Ok(Written { bytes: 3, end: 4098 }));
    assert_eq!(desk.read(ino, 4094, 9), [&pattern(4095)[4094..], b"xyz"].concat());
}

#[test]
fn a_chain_and_described_bytes_are_written_in_order() {
    let (mut desk, pool) = (Desk::large(), Pool::new(0));
    let ino = desk.make("a", FILE);
    let data =
        || Buf::chain(vec![Buf::from_bytes(&pool, b"one"), Buf::described(5000, 9), Buf::from_bytes(&pool, b"two")]);
    let (data, expected) = (data(), data().to_vec());
    let written = desk.change(|ram, call| ram.write(call, ino, At::Offset(10), data, Write::default()));
    assert_eq!(written, Ok(Written { bytes: 5006, end: 5016 }));
    assert_eq!(desk.read(ino, 10, 9000), expected);
}

#[test]
fn what_was_cut_off_does_not_come_back() {
    let mut desk = Desk::large();
    let ino = desk.make("a", FILE);
    desk.write(ino, 0, &pattern(10_000)).unwrap();
    assert_eq!(desk.cut(ino, 5000).unwrap().allocated, 8192);
    desk.cut(ino, 10_000).unwrap();
    let expected = [&pattern(5000)[..], &[0; 5000]].concat();
    assert_eq!(desk.read(ino, 0, 20_000), expected);
}

#[test]
fn files_have_a_largest_size() {
    let mut desk = Desk::new(RamConfig::tiny());
    let (ino, max) = (desk.make("a", FILE), RamConfig::tiny().size_max);
    assert_eq!(desk.write(ino, max - 2, b"abc"), Ok(Written { bytes: 2, end: max }));
    assert_eq!(desk.write(ino, max, b"abc"), Err(Errno::EFBIG));
    assert_eq!(desk.write(ino, u64::MAX, b"abc"), Err(Errno::EFBIG));
    assert_eq!(desk.write(ino, u64::MAX, b""), Ok(Written { bytes: 0, end: u64::MAX }));
    assert_eq!(desk.cut(ino, max + 1), Err(Errno::EFBIG));
    assert_eq!(allocate(&mut desk, ino, AllocateKind::Reserve, (max, 1), true), Err(Errno::EFBIG));
    assert_eq!(copy(&mut desk, (ino, 0), (ino, max), 1, Copying::Any), Err(Errno::EFBIG));
}

#[test]
fn only_files_have_bytes() {
    let mut desk = Desk::large();
    let (dir, pipe) = (desk.make("d", DIR), desk.make("p", NewKind::Node(FileType::Fifo, 0)));
    let file = desk.make("f", FILE);
    for (ino, errno, of_allocate, of_seek) in
        [(dir, Errno::EISDIR, Errno::EISDIR, Errno::EINVAL), (pipe, Errno::EINVAL, Errno::ENODEV, Errno::EINVAL)]
    {
        assert_eq!(desk.write(ino, 0, b"a"), Err(errno));
        assert_eq!(desk.change(|ram, call| ram.read(call, ino, 0, 1)).err(), Some(errno));
        assert_eq!(desk.cut(ino, 0), Err(errno));
        assert_eq!(copy(&mut desk, (file, 0), (ino, 0), 1, Copying::Any), Err(errno));
        assert_eq!(allocate(&mut desk, ino, AllocateKind::Reserve, (0, 1), false), Err(of_allocate));
        assert_eq!(seek(&mut desk, ino, 0, Seek::Data), Err(of_seek));
    }
}

#[test]
fn reserved_room_is_a_hole_that_writes_do_not_pay_for() {
    let mut desk = Desk::new(RamConfig { bytes: 5 * 4096, ..RamConfig::tiny() });
    let ino = desk.make("a", FILE);
    allocate(&mut desk, ino, AllocateKind::Reserve, (4000, 8192), true).unwrap();
    assert_eq!((desk.attr(ino).size, desk.attr(ino).allocated), (0, 3 * 4096));
    assert_eq!(allocate(&mut desk, ino, AllocateKind::Reserve, (0, 5 * 4096), false), Err(Errno::ENOSPC));
    let other = desk.make("b", FILE);
    desk.write(other, 0, b"full").unwrap();
    assert_eq!(desk.space().bytes_free, 0);
    desk.write(ino, 8000, &[1; 1000]).unwrap();
    assert_eq!((seek(&mut desk, ino, 0, Seek::Data), seek(&mut desk, ino, 4096, Seek::Hole)), (Ok(4096), Ok(9000)));
    allocate(&mut desk, ino, AllocateKind::Reserve, (9000, 1000), false).unwrap();
    assert_eq!(desk.attr(ino).size, 10_000);
}

#[test]
fn data_and_holes_are_told_apart() {
    let mut desk = Desk::large();
    let ino = desk.make("a", FILE);
    desk.write(ino, 2 * 4096, &pattern(4096)).unwrap();
    desk.write(ino, 3 * 4096, &pattern(10)).unwrap();
    desk.cut(ino, 6 * 4096).unwrap();
    let mut found = |at, what| seek(&mut desk, ino, at, what);
    assert_eq!((found(0, Seek::Data), found(0, Seek::Hole)), (Ok(8192), Ok(0)));
    assert_eq!((found(9000, Seek::Data), found(9000, Seek::Hole)), (Ok(9000), Ok(16384)));
    assert_eq!((found(16384, Seek::Data), found(16385, Seek::Hole)), (Err(Errno::ENXIO), Ok(16385)));
    assert_eq!((found(6 * 4096, Seek::Data), found(6 * 4096, Seek::Hole)), (Err(Errno::ENXIO), Err(Errno::ENXIO)));
    desk.cut(ino, 3 * 4096 + 5).unwrap();
    assert_eq!(seek(&mut desk, ino, 8192, Seek::Hole), Ok(3 * 4096 + 5), "the end is a hole");
}

#[test]
fn a_punched_range_gives_its_pages_back_and_a_zeroed_one_keeps_them() {
    let mut desk = Desk::large();
    let ino = desk.make("a", FILE);
    desk.write(ino, 0, &pattern(5 * 4096)).unwrap();
    allocate(&mut desk, ino, AllocateKind::Punch, (4000, 8300), false).unwrap();
    let mut expected = pattern(5 * 4096);
    expected[4000..12_300].fill(0);
    assert_eq!((desk.read(ino, 0, 99_999), desk.attr(ino).allocated), (expected.clone(), 3 * 4096));
    allocate(&mut desk, ino, AllocateKind::Zero, (13_000, 10_000), true).unwrap();
    expected[13_000..].fill(0);
    assert_eq!((desk.read(ino, 0, 99_999), desk.attr(ino).allocated), (expected.clone(), 4 * 4096));
    allocate(&mut desk, ino, AllocateKind::Zero, (13_000, 10_000), false).unwrap();
    expected.resize(23_000, 0);
    assert_eq!(desk.read(ino, 0, 99_999), expected);
    assert_eq!(allocate(&mut desk, ino, AllocateKind::Punch, (0, 0), false), Err(Errno::EINVAL));
}

#[test]
fn shared_pages_part_when_one_of_both_changes() {
    let mut desk = Desk::large();
    let (a, b) = (desk.make("a", FILE), desk.make("b", FILE));
    desk.write(a, 0, &pattern(10_000)).unwrap();
    assert_eq!(copy(&mut desk, (a, 0), (b, 0), u64::MAX, Copying::Share), Ok(10_000));
    desk.write(a, 5000, b"new").unwrap();
    desk.cut(b, 9000).unwrap();
    assert_eq!(desk.read(b, 0, 99_999), pattern(10_000)[..9000]);
    assert_eq!(desk.read(a, 9000, 1000), pattern(10_000)[9000..]);
    for (from, to, len) in [(1, 0, 4096), (0, 1, 4096), (0, 0, 4097)] {
        assert_eq!(copy(&mut desk, (a, from), (b, to), len, Copying::Share), Err(Errno::EINVAL));
    }
}

#[test]
fn ranges_of_one_file_are_copied_unless_they_overlap() {
    let mut desk = Desk::large();
    let ino = desk.make("a", FILE);
    desk.write(ino, 0, &pattern(8192)).unwrap();
    assert_eq!(copy(&mut desk, (ino, 0), (ino, 4096), 4097, Copying::Any), Err(Errno::EINVAL));
    assert_eq!(copy(&mut desk, (ino, 0), (ino, 4096), 4096, Copying::Any), Ok(4096));
    assert_eq!(desk.read(ino, 0, 9000), [&pattern(8192)[..4096], &pattern(8192)[..4096]].concat());
    assert_eq!(copy(&mut desk, (ino, 9000), (ino, 0), 1, Copying::Any), Ok(0));
}

/// Beside a vector of bytes.
#[derive(Clone, Debug)]
enum Act {
    Write(u64, usize),
    Cut(u64),
    Allocate(u8, u64, u64, bool),
    /// From one file to another, or within one.
    Copy(bool, u64, u64, u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let at = || 0u64..30_000;
    let act = prop_oneof![
        3 => (at(), 0usize..9000).prop_map(|(at, len)| Act::Write(at, len)),
        1 => at().prop_map(Act::Cut),
        2 => (0u8..3, at(), 1u64..12_000, any::<bool>()).prop_map(|(kind, at, len, keep)| Act::Allocate(kind, at, len, keep)),
        1 => (0u8..3, 0u64..8, 1u64..4, any::<bool>())
            .prop_map(|(kind, at, len, keep)| Act::Allocate(kind, at * 4096, len * 4096, keep)),
        2 => (any::<bool>(), at(), at(), 1u64..12_000).prop_map(|(other, from, to, len)| Act::Copy(other, from, to, len)),
        1 => (any::<bool>(), 0u64..8, 0u64..8, 1u64..4)
            .prop_map(|(other, from, to, len)| Act::Copy(other, from * 4096, to * 4096, len * 4096)),
    ];
    prop::collection::vec(act, 1..25)
}

fn put(model: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let (at, end) = (at as usize, at as usize + bytes.len());
    if !bytes.is_empty() {
        model.resize(model.len().max(end), 0);
        model[at..end].copy_from_slice(bytes);
    }
}

fn play(desk: &mut Desk, files: [Ino; 2], models: &mut [Vec<u8>; 2], act: Act, mark: u8) {
    match act {
        Act::Write(at, len) => {
            desk.write(files[0], at, &vec![mark; len]).unwrap();
            put(&mut models[0], at, &vec![mark; len]);
        }
        Act::Cut(size) => {
            desk.cut(files[0], size).unwrap();
            models[0].resize(size as usize, 0);
        }
        Act::Allocate(kind, at, len, keep) => {
            let kind = [AllocateKind::Reserve, AllocateKind::Punch, AllocateKind::Zero][usize::from(kind)];
            allocate(desk, files[0], kind, (at, len), keep).unwrap();
            let (size, end) = (models[0].len(), (at + len) as usize);
            if kind != AllocateKind::Reserve && (at as usize) < size {
                models[0][at as usize..end.min(size)].fill(0);
            }
            if kind != AllocateKind::Punch && !keep {
                models[0].resize(size.max(end), 0);
            }
        }
        Act::Copy(other, from, to, len) => {
            let source = models[0].get(from as usize..).unwrap_or_default();
            let bytes = source[..source.len().min(len as usize)].to_vec();
            let target = usize::from(other);
            match copy(desk, (files[0], from), (files[target], to), len, Copying::Any) {
                Ok(copied) => {
                    assert_eq!(copied, bytes.len() as u64);
                    put(&mut models[target], to, &bytes);
                }
                Err(errno) => assert!(errno == Errno::EINVAL && !other && from.abs_diff(to) < bytes.len() as u64),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn bytes_are_those_of_a_vector(acts in acts()) {
        let mut desk = Desk::large();
        let files = [desk.make("a", FILE), desk.make("b", FILE)];
        let mut models = [Vec::new(), Vec::new()];
        for (mark, act) in acts.into_iter().enumerate() {
            play(&mut desk, files, &mut models, act, mark as u8 + 1);
            for (ino, model) in files.into_iter().zip(&models) {
                prop_assert!(desk.read(ino, 0, 99_999) == *model);
                let mut at = 0;
                while let Ok(hole) = seek(&mut desk, ino, at, Seek::Hole) {
                    at = seek(&mut desk, ino, hole, Seek::Data).unwrap_or(model.len() as u64);
                    prop_assert!(model[hole as usize..at as usize].iter().all(|byte| *byte == 0));
                }
            }
        }
    }
}
