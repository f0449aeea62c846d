//! Lines, and what is wrong with some.

use esker_base::{Nanos, Stream};
use esker_fs_posix::script::at_once;
use proptest::prelude::*;

use super::{BEGIN, Scene, orphan};
use crate::generate::{NfsGenerator, NfsShape};
use crate::moment::Moment;
use crate::packet::{Direction, Packet, PacketFlaw, handle};
use crate::request::NfsRequest;

const SAMPLE: &str = "999316802.796958 31.03f2 30.0801 U C3 fcdc4183 6 read fh \
                      61890100000000000000000000000000000000000000000000000000000100 off 59e000 count 2000";

#[test]
fn the_sample_line_is_read() {
    let packet = Packet::read(SAMPLE.as_bytes()).expect("it is sound");
    assert_eq!((packet.time, packet.xid), (Nanos(999_316_802_796_958_000), 0xfcdc_4183));
    assert_eq!((packet.direction, packet.operation), (Direction::Call, &b"read"[..]));
    // The last of its four pieces has fourteen digits.
    assert_eq!(packet.attributes.handle, Some(0x6189_0100_0000_0000 + 0x100));
    assert_eq!((packet.attributes.offset, packet.attributes.count), (Some(0x59_e000), Some(0x2000)));
    assert_eq!(NfsRequest::of(&packet), Ok(NfsRequest::Other), "reads are not replayed");
}

#[test]
fn quotes_equality_signs_and_unknown_names_are_read() {
    let line = b"1.5 a b T R2 ff 4 lookup OK odd fh = 2 fn \"a b\" con = 82 ftype 2 size 10 size 20 LONGPKT mode 1ff";
    let packet = Packet::read(line).expect("it is sound");
    let told = packet.attributes;
    assert_eq!(packet.direction, Direction::Reply { is_ok: true });
    assert_eq!((told.handle, told.name, told.kind), (Some(2), Some(&b"a b"[..]), Some(2)));
    assert_eq!((told.size, told.mode, told.is_cut), (Some(16), Some(0o777), true), "the first size counts");
    assert_eq!(packet.time, Nanos(1_500_000_000));
}

#[test]
fn damaged_lines_are_told_apart() {
    for (line, flaw) in [
        ("", PacketFlaw::Foreign),
        ("# a comment", PacketFlaw::Foreign),
        ("1.0 a b U C3 1 1", PacketFlaw::Short),
        ("1.0 a b U R3 1 1 read", PacketFlaw::Short),
        ("1x a b U C3 1 1 read", PacketFlaw::Time),
        ("99999999999999999999999.0 a b U C3 1 1 read", PacketFlaw::Time),
        ("1.0 a b U C4 1 1 read", PacketFlaw::Direction),
        ("1.0 a b U C3 xyz 1 read", PacketFlaw::Xid),
        ("1.0 a b U C3 11112222333344445 1 read", PacketFlaw::Xid),
    ] {
        assert_eq!(Packet::read(line.as_bytes()).map(|_| ()), Err(flaw), "{line}");
    }
    assert_eq!((handle(b""), handle(b"0"), handle(b"zz"), handle(&[b'0'; 129])), (None, Some(1), None, None));
}

#[test]
fn calls_without_what_they_need_are_malformed() {
    let mut scene = Scene::new();
    for (operation, call) in [
        ("lookup", "name \"a\""),
        ("create", "fh 1"),
        ("rename", "fh 1 name a fh2 2"),
        ("link", "fh 1 name a"),
        ("symlink", "fh 1 name a"),
        ("write", "fh 1 off 0"),
        ("write", "fh 1 off 0 count 123456789abc"),
        ("write", "fh 1 off 123456789abcdef0 count 1"),
        ("write", "fh 1 off ffffffffffffffff count ffffffffffffffff"),
        ("create", "fh 1 name \"../up\""),
        ("create", "fh 1 name \"..\""),
        ("remove", "fh 1 name \"a/b\""),
        ("setattr", "mode 1ff"),
    ] {
        scene.pair(operation, call, "OK fh 2 ftype 1");
    }
    let report = scene.report();
    assert_eq!((report.malformed, report.orphans, report.pairs(), report.calls), (13, 13, 0, 0));
    assert_eq!(scene.tree(), Vec::<String>::new());
}

#[test]
fn absurd_sizes_of_attributes_change_nothing() {
    let mut scene = Scene::new();
    scene.write(0x77, 10);
    // 20 TB.
    scene.pair("setattr", "fh 77 size 123456789abc", "OK");
    assert_eq!(scene.tree(), [format!("{} 10", orphan(0x77))]);
}

#[test]
fn dates_and_days_bound_a_replay() {
    assert_eq!("2001-09-01".parse(), Ok(Moment::Date(Nanos::secs(BEGIN - 4 * 3600))));
    assert_eq!("3".parse(), Ok(Moment::Days(3)));
    for text in ["", "2001-02-29", "2001-13-01", "2001-00-01", "-1", "2001-09", "99999999"] {
        assert!(text.parse::<Moment>().is_err(), "{text}");
    }
    let mut options = super::options();
    (options.begin, options.end) = (Some(Moment::Days(1)), Some(Moment::Date(Nanos::secs(BEGIN + 3 * 86_400))));
    let mut scene = Scene::with(super::ROOM, options);
    for day in 0..3 {
        scene.seconds = BEGIN + day * 86_400 + 5;
        scene.write(day + 1, 1);
    }
    let report = scene.report();
    assert_eq!((report.early, report.write), (2, 2));
    scene.seconds += 86_400;
    let late = format!("{}.0 a b U C3 1 7 write fh 9 off 0 count 1", scene.seconds);
    assert!(!scene.line(&late), "the end is reached");
    assert_eq!(scene.tree(), [format!("{} 1", orphan(2)), format!("{} 1", orphan(3))]);
}

/// A generated trace with damage: bytes changed, lines cut, swapped, doubled and mixed with noise.
fn damaged(seed: u64) -> Vec<u8> {
    let mut shape = NfsShape::tiny(seed);
    shape.operations = Some(300);
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut NfsGenerator::new(shape), &mut text).expect("it is made in memory");
    let mut draws = Stream::named(seed, "damage");
    for _ in 0..200 {
        let at = draws.below(text.len() as u64) as usize;
        match draws.below(4) {
            0 => text[at] = draws.below(256) as u8,
            1 => text.truncate(text.len() - (draws.below(20) as usize)),
            2 => text.insert(at, b"\n \"/.0f"[draws.below(7) as usize]),
            _ => {
                let end = (at + draws.below(300) as usize).min(text.len());
                let again = text[at..end].to_vec();
                text.extend(again);
            }
        }
    }
    text
}

#[test]
fn damaged_traces_end_in_a_consistent_tree() {
    for seed in 0..30 {
        let mut scene = Scene::new();
        for line in damaged(seed).split(|byte| *byte == b'\n') {
            at_once(scene.run.line(line, false));
        }
        scene.run.player().tree().check();
        let report = scene.report();
        assert!(report.malformed > 0 && report.pairs() > 0, "seed {seed}: {report:?}");
    }
}

proptest! {
    #[test]
    fn no_line_brings_the_reader_down(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut scene = Scene::new();
        prop_assert!(at_once(scene.run.line(&line, false)));
        let with_head = [b"1.0 a b U C3 1 1 write ", &line[..]].concat();
        prop_assert!(at_once(scene.run.line(&with_head, false)));
    }
}
