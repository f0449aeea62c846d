//! The file: what is written is what is read, and damage is refused by its name.

use esker_trace_calls::call::At;
use esker_trace_calls::generate::{Shape, apple_desktop};
use esker_trace_calls::wire::{Field, Part};
use esker_trace_calls::{Entry, EntryKind, Trace};

use super::*;
use crate::compiled::inspect::{dot, modes, timeline};
use crate::model::compile;
use crate::rules::Rules;

fn program() -> Program {
    let trace = Trace { after: Some(after()), ..apple_desktop(Shape::tiny(3)) };
    compile(trace, &mut |_| {}).expect("made traces are sound")
}

#[test]
fn a_program_comes_back_whole() {
    let program = program();
    let again = Program::decode(&program.encode()).expect("it was just written");
    assert_eq!(again.about, program.about);
    assert_eq!(again.players, program.players);
    assert_eq!(again.snapshot, program.snapshot);
    assert_eq!(again.after, program.after);
    assert_eq!((&again.slots, &again.opened), (&program.slots, &program.opened));
    assert!(again.outline == program.outline);
    assert_eq!(again.actions, program.actions);
    for id in 0..program.len() as u32 {
        assert_eq!(again.step(id), program.step(id));
    }
    assert_eq!(again.encode(), program.encode());
}

#[test]
fn one_file_serves_every_mode() {
    let program = Program::decode(&program().encode()).expect("it was just written");
    let waits = |order| program.schedule(order).cost().waits;
    assert_eq!((waits(Order::Single), waits(Order::Unconstrained)), (0, 0));
    let (root, temporal) = (waits(Order::Root(Rules::default())), waits(Order::Temporal));
    assert!(0 < root && root < temporal, "{root} waits of root, {temporal} of temporal");
    assert!(waits(Order::Root(Rules::THREAD_SEQ)) == 0);
}

/// The state while replaying: four bytes for each action, and eight for each wait.
#[test]
fn dependency_state_is_small() {
    let program = compile(apple_desktop(Shape { seed: 1, threads: 12, scripts: 400 }), &mut |_| {}).expect("sound");
    for mode in modes(&program, Rules::default()) {
        let most = if mode.total.name == "temporal" { 20.0 } else { 16.0 };
        assert!(mode.bytes_per_action <= most, "{mode:?}");
    }
}

/// A program holds all of its steps: a million take 120 MB and what their lists need, and equal names take none.
#[test]
fn steps_are_small_and_share_their_names() {
    assert_eq!(size_of::<Step>(), 120);
    let program = program();
    for program in [Program::decode(&program.encode()).expect("it was just written"), program] {
        for step in program.steps() {
            step.call.parts(&mut |part| {
                if let Part::At(At { path, .. }) | Part::Path(path) = part {
                    assert!(program.names.iter().any(|name| name.is_same(path)), "{path}");
                }
            });
        }
    }
}

#[test]
fn every_damaged_byte_is_noticed() {
    let bytes = program().encode();
    for at in (0..bytes.len()).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(Program::decode(&damaged).is_err(), "byte {at}");
    }
}

#[test]
fn every_cut_is_noticed() {
    let bytes = program().encode();
    for len in (0..bytes.len()).step_by(11) {
        assert!(Program::decode(&bytes[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn damage_is_refused_by_its_name() {
    let bytes = program().encode();
    let refused = |bytes: &[u8]| Program::decode(bytes).expect_err("damaged").to_string();
    let changed = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        refused(&bytes)
    };
    assert_eq!(refused(&bytes[..5]), "5 bytes are too few for a compiled trace");
    assert!(changed(0, b'X').starts_with("not a compiled trace: it begins with \"XSKERCTR\""));
    assert!(changed(8, 9).starts_with("a compiled trace of version 9; this program reads versions 1 to 5:"));
    assert!(changed(20, 0xff).starts_with("the header is damaged (its checksum)"));
    let last = bytes.len() - 1;
    assert!(changed(last, !bytes[last]).starts_with("section after is damaged: its CRC-32 is "));
    let cut = refused(&bytes[..last]);
    assert!(cut.starts_with(&format!("truncated: section after ends at byte {}, the file has {last}", last + 1)));
}

/// The rows of the format's page.
#[test]
fn the_layout_is_the_documented_one() {
    let bytes = program().encode();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    assert_eq!(&bytes[..8], b"ESKERCTR");
    assert_eq!((bytes[8], bytes[9], bytes[10], bytes[11]), (5, 0, 0, 0));
    assert_eq!(number(12), 11);
    let ids: Vec<u32> = (0..11).map(|row| number(16 + 24 * row)).collect();
    assert_eq!(ids, (1..=11).collect::<Vec<u32>>());
    // The first section begins behind the table's checksum.
    assert_eq!(number(16 + 8), 16 + 264 + 4);
    let names: Vec<&str> = layout::Section::ALL.iter().map(|section| section.name()).collect();
    let documented = "names about players snapshot slots opened resources actions steps touches after";
    assert_eq!(names.join(" "), documented);
}

/// A file that a former version wrote: the same trace gives the same bytes, and they are read.
#[test]
fn the_golden_image_is_read_and_written() {
    let golden = include_bytes!("../../fixtures/golden-v5.ectr");
    let trace = Trace { after: Some(after()), ..apple_desktop(Shape { seed: 1, threads: 2, scripts: 1 }) };
    let program = compile(trace, &mut |_| {}).expect("made traces are sound");
    assert!(program.encode() == golden, "what is written has changed: raise the version, and make a new image");
    let first = include_bytes!("../../fixtures/golden-v1.ectr");
    let second = include_bytes!("../../fixtures/golden-v2.ectr");
    let third = include_bytes!("../../fixtures/golden-v3.ectr");
    let fourth = include_bytes!("../../fixtures/golden-v4.ectr");
    let looking = |program: &Program| program.outline.instants().iter().filter(|one| !one.looks.is_empty()).count();
    for image in [&first[..], second, third, fourth, golden] {
        let decoded = Program::decode(image).expect("it is sound");
        assert_eq!(decoded.len(), program.len());
        // Of former versions it is unknown which actions only looked: each may have changed something.
        let has_after = image == golden || image == fourth;
        assert_eq!(looking(&decoded) > 0, has_after || image == third);
        assert_eq!(decoded.after().cloned(), has_after.then(after));
    }
}

/// Files after a trace.
fn after() -> FinalTree {
    let path = |path: &str| PathBytes::from(path);
    let entries = [(path("/home"), EntryKind::Directory), (path("/home/new"), EntryKind::File { size: 5 })];
    let tree = Snapshot { entries: entries.map(|(path, kind)| (path, Entry::plain(kind))).into() };
    FinalTree { roots: vec![path("/home")], without: vec![path("/home/mnt")], tree }
}

#[test]
fn a_window_is_drawn_with_three_kinds_of_edges() {
    let program = program();
    let graph = dot(&program, Rules::default(), 0..200);
    for class in ["style=bold", "style=solid", "style=dashed"] {
        assert!(graph.contains(class), "{class}");
    }
    assert!(graph.starts_with("digraph trace {") && graph.ends_with("}\n"));
    let figure = timeline(&program, Rules::default(), 0..200);
    use esker_report::Drawn as _;
    let styles = [esker_report::Style::Line, esker_report::Style::Guide, esker_report::Style::Dashed];
    for style in styles {
        assert!(figure.series.iter().any(|series| series.style == style), "{style:?}");
    }
    assert!(figure.svg().expect("it can be drawn").into_string().starts_with("<svg"));
}
