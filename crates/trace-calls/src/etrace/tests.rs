use esker_base::Time;
use proptest::prelude::*;

use super::*;
use crate::*;

/// A trace with one of everything that a recording holds.
pub(crate) fn sample() -> Trace {
    let mut trace = Trace::new(Platform::Linux, "esker record");
    let process = |pid, parent| Process { pid, parent, cwd: PathBytes::from("/home"), umask: 0o027 };
    trace.processes = vec![process(10, None), process(12, Some(ThreadId(1)))];
    let thread = |tid, process, parent| Thread { tid, process: ProcessId(process), parent, name: Word::from("worker") };
    trace.threads = vec![thread(10, 0, None), thread(11, 0, Some(ThreadId(0))), thread(12, 1, Some(ThreadId(1)))];
    trace.inherited = vec![Inherited {
        process: ProcessId(0),
        fd: Fd(1),
        kind: words::FileKind::CharDevice,
        path: Some(PathBytes::from("/dev/pts/0")),
        flags: words::OpenFlags::WRITE,
        offset: 7,
        group: 1,
    }];
    let link = EntryKind::Symlink { target: PathBytes::from(b"../b\xff") };
    let mut file = Entry::plain(EntryKind::File { size: 5000 });
    file.xattrs = vec![Xattr { name: Word::from("user.colour"), len: 3 }];
    trace.snapshot.entries.insert(PathBytes::from("/home/a"), file);
    trace.snapshot.entries.insert(PathBytes::from("/home/l"), Entry::plain(link));
    trace
        .snapshot
        .entries
        .insert(PathBytes::from("/dev/sda"), Entry::plain(EntryKind::Device { block: true, major: 8, minor: 0 }));
    let action = |thread, at, call, outcome| Action {
        thread: ThreadId(thread),
        enter: Time(at),
        leave: Time(at + 5),
        call,
        outcome,
    };
    let open =
        Call::Open { at: At::cwd("a"), flags: words::OpenFlags::READ, mode: 0, resolve: words::ResolveFlags::empty() };
    trace.actions = vec![
        action(0, 0, open, Outcome::Done(3)),
        action(1, 2, Call::SyncAll {}, Outcome::Done(0)),
        action(0, 9, Call::Close { fd: Fd(4) }, Outcome::Failed(Errno::EBADF)),
        action(2, 30, Call::Exit { status: 1, group: true }, Outcome::Unknown),
    ];
    trace.warnings.add(WarningKind::LostEvents, 77, "ring full");
    trace
}

fn written(trace: &Trace) -> Vec<u8> {
    write(trace, Vec::new()).expect("memory takes all")
}

fn reread(bytes: &[u8]) -> Trace {
    read(bytes, Limits::GENEROUS).expect("a recording")
}

#[test]
fn what_was_written_is_read() {
    let trace = sample();
    assert_eq!(reread(&written(&trace)), trace);
}

#[test]
fn header_and_block_head_keep_their_layout() {
    let bytes = written(&Trace::new(Platform::Mac, "ibench"));
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(&bytes[..28]), "894554520d0a1a0a04002000010000000200000000000000000000".to_owned() + "00");
    // One name of six bytes, and one item, the number of that name.
    assert_eq!(hex(&bytes[HEADER..HEADER + 24]), "894554420d0a1a0a0100000001000000090000000900".to_owned() + "0000");
    assert_eq!(hex(&bytes[HEADER + BLOCK_HEAD..HEADER + BLOCK_HEAD + 9]), "010669".to_owned() + "62656e636800");
    // The end: no names, one item, no actions.
    assert_eq!(hex(&bytes[bytes.len() - 2..]), "0000");
}

#[test]
fn the_recording_of_version_1_stays_readable() {
    let golden = include_bytes!("../../fixtures/golden-v1.etrace");
    assert_eq!(reread(golden), sample());
}

#[test]
fn the_recording_of_version_2_stays_readable() {
    let golden = include_bytes!("../../fixtures/golden-v2.etrace");
    assert_eq!(reread(golden), with_faults());
}

/// The sample, and what came with version 2.
fn with_faults() -> Trace {
    let mut trace = sample();
    let (thread, enter, leave) = (ThreadId(0), Time(12), Time(90));
    let call = Call::PageFault { address: 0x7f00_0000_1000, len: 4096 };
    trace.actions.insert(3, Action { thread, enter, leave, call, outcome: Outcome::Done(0) });
    trace.warnings.add(WarningKind::MappedReads, 9, "descriptor 3");
    trace
}

#[test]
fn the_recording_of_version_3_stays_readable() {
    let golden = include_bytes!("../../fixtures/golden-v3.etrace");
    assert_eq!(reread(golden), with_final_tree());
}

#[test]
fn the_recording_of_version_4_stays_readable() {
    let golden = include_bytes!("../../fixtures/golden-v4.etrace");
    assert_eq!(reread(golden), with_wakes());
}

/// The same, and what came with version 4.
fn with_wakes() -> Trace {
    let mut trace = with_final_tree();
    let address = 0x7f00_0000_2004;
    let wait = Call::FutexWait { address, shared: true, value: 11 };
    let calls = [(1, 12, 95, wait, 0), (0, 91, 93, Call::FutexWake { address, shared: true }, 1)];
    for (at, (thread, enter, leave, call, result)) in [3, 6].into_iter().zip(calls) {
        let (thread, enter, leave) = (ThreadId(thread), Time(enter), Time(leave));
        trace.actions.insert(at, Action { thread, enter, leave, call, outcome: Outcome::Done(result) });
    }
    trace
}

/// The same, and what came with version 3.
fn with_final_tree() -> Trace {
    let mut trace = with_faults();
    let paths = |paths: &[&str]| paths.iter().map(|path| PathBytes::from(*path)).collect();
    let mut after = FinalTree { roots: paths(&["/home"]), without: paths(&["/home/mnt"]), ..FinalTree::default() };
    let file = Entry { group: 1, ..Entry::plain(EntryKind::File { size: 6000 }) };
    for (path, entry) in [("/home", Entry::plain(EntryKind::Directory)), ("/home/a", file.clone()), ("/home/b", file)] {
        after.tree.entries.insert(PathBytes::from(path), entry);
    }
    trace.after = Some(after);
    trace
}

#[test]
fn files_after_the_trace_are_read_whole_or_not_at_all() {
    let trace = with_final_tree();
    let bytes = written(&trace);
    assert_eq!(reread(&bytes), trace);
    let without = written(&Trace { after: None, ..trace.clone() }).len();
    assert!(bytes.len() > without);
    for cut in HEADER..bytes.len() {
        assert_eq!(reread_cut(&bytes[..cut]), None, "cut at {cut}");
    }
    // The head of the block of entries.
    let head = bytes.windows(9).rposition(|head| head[..8] == MARK && head[8] == BlockKind::After.code());
    let mut damaged = bytes.clone();
    damaged[head.expect("a block of entries") + 20] ^= 1;
    assert_eq!(reread_cut(&damaged), None);
}

fn reread_cut(bytes: &[u8]) -> Option<FinalTree> {
    read(bytes, Limits::GENEROUS).ok().and_then(|trace| trace.after)
}

#[test]
fn actions_are_sorted_by_their_beginning() {
    let mut trace = sample();
    trace.actions.reverse();
    let bytes = written(&trace);
    trace.actions.reverse();
    assert_eq!(reread(&bytes), trace);
}

#[test]
fn every_cut_is_recovered_or_refused_by_name() {
    let bytes = written(&sample());
    let mut recovered_max = 0;
    for cut in 0..bytes.len() {
        match read(&bytes[..cut], Limits::GENEROUS) {
            Ok(trace) => {
                assert_eq!(trace.warnings.count(WarningKind::CutTail), 1, "cut at {cut}");
                recovered_max = recovered_max.max(trace.actions.len());
            }
            Err(EtraceError::Foreign) => assert!(cut < 8, "cut at {cut}"),
            Err(error) => assert!(cut < HEADER, "cut at {cut}: {error}"),
        }
    }
    assert_eq!(recovered_max, sample().actions.len());
}

#[test]
fn a_flushed_prefix_outlives_its_writer() {
    let trace = sample();
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, trace.platform, &trace.source).expect("written");
    writer.process(ProcessId(0), &trace.processes[0]).expect("written");
    writer.thread(ThreadId(0), &trace.threads[0]).expect("written");
    writer.action(&trace.actions[0]).expect("written");
    writer.flush().expect("written");
    writer.action(&trace.actions[2]).expect("written");
    drop(writer);
    let read = reread(&file);
    assert_eq!(read.actions, trace.actions[..1]);
    assert_eq!(read.warnings.count(WarningKind::CutTail), 1);
}

#[test]
fn a_damaged_block_is_left_out_and_counted() {
    let trace = sample();
    let bytes = written(&trace);
    let whole = reread(&bytes);
    let snapshot = bytes.windows(10).position(|window| window == [&layout::MARK[..], &[5, 1]].concat());
    let snapshot = snapshot.or_else(|| bytes.windows(10).position(|w| w == [&layout::MARK[..], &[5, 0]].concat()));
    let at = snapshot.expect("a block of the snapshot") + BLOCK_HEAD + 3;
    let mut damaged = bytes.clone();
    damaged[at] ^= 1;
    let read = reread(&damaged);
    assert_eq!(read.warnings.count(WarningKind::Damaged), 1);
    assert!(read.snapshot.entries.is_empty() && read.actions == whole.actions);
    // A damaged head costs its block, and no more.
    damaged = bytes;
    damaged[at - 3 - 6] ^= 1;
    let read = reread(&damaged);
    assert_eq!(read.warnings.count(WarningKind::Damaged), 1);
    assert!(read.snapshot.entries.is_empty() && read.actions == whole.actions);
}

#[test]
fn lost_threads_are_refused() {
    let mut trace = sample();
    trace.threads.pop();
    let error = read(&*written(&trace), Limits::GENEROUS).expect_err("thread 2 acts");
    assert!(matches!(error, EtraceError::PeopleLost { what: "threads", found: 2, needed: 3 }), "{error}");
}

#[test]
fn a_newer_version_is_refused() {
    let mut bytes = written(&sample());
    bytes[8] = 5;
    let sum = crc32fast::hash(&bytes[..28]).to_le_bytes();
    bytes[28..32].copy_from_slice(&sum);
    let error = read(&*bytes, Limits::GENEROUS).expect_err("version 5");
    assert!(matches!(error, EtraceError::Newer { version: 5, .. }), "{error}");
}

#[test]
fn limits_hold() {
    let error = read(&*written(&sample()), Limits { unpacked_max: 64 }).expect_err("more than 64 bytes");
    assert!(matches!(error, EtraceError::TooLarge { max: 64, .. }), "{error}");
}

proptest! {
    #[test]
    fn any_byte_may_differ(at in 0usize..4096, bit in 0u8..8) {
        let mut bytes = written(&sample());
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        if let Ok(trace) = read(&*bytes, Limits::GENEROUS) {
            let told = trace.warnings.count(WarningKind::Damaged) + trace.warnings.count(WarningKind::CutTail);
            prop_assert!(told > 0, "bit {bit} of byte {at} was taken for truth");
        }
    }
}
