//! Small traces whose order is known. Random calls are compared with the kernel's answers in the crate `it`.

use std::collections::{BTreeMap, BTreeSet};

use esker_base::Errno;
use esker_base::Time;
use esker_trace_calls::action::{Action, Outcome, ProcessId, ThreadId};
use esker_trace_calls::call::{At, Call, Fd, Object, Status};
use esker_trace_calls::name::PathBytes;
use esker_trace_calls::snapshot::{Entry, EntryKind};
use esker_trace_calls::trace::{Platform, Process, Thread, Trace};
use esker_trace_calls::words::{AccessMode, CloneFlags, FileKind, OpenFlags, RenameFlags, ResolveFlags};

use super::compile::Compiler;
use super::resource::{ResourceKind, Role};
use super::*;
use crate::compiled::{Notes, Program, RepairKind, SlotEffect};
use crate::rules::{Order, Rules, schedule};

mod directories;
mod generated;
mod jail;
mod locks;
mod looks;
mod memory;
mod pipes;
mod rings;
mod wakes;

const RW: OpenFlags = OpenFlags::READ.union(OpenFlags::WRITE);
const MAKE: OpenFlags = RW.union(OpenFlags::O_CREAT);

/// A trace that is written down step by step; each call takes 5 ns and comes 5 ns after the one before.
struct Story {
    trace: Trace,
    now: u64,
}

impl Story {
    /// Threads of one process, and files (`name`), directories (`name/`) and links (`name->target`).
    fn new(threads: u32, files: &[&str]) -> Story {
        let mut trace = Trace::new(Platform::Linux, "story");
        trace.processes.push(process(100));
        trace.threads.extend((0..threads).map(|number| thread(100 + number, 0)));
        for file in files {
            let (path, kind) = match (file.split_once("->"), file.strip_suffix('/')) {
                (Some((path, target)), _) => (path, EntryKind::Symlink { target: PathBytes::from(target) }),
                (None, Some(path)) => (path, EntryKind::Directory),
                (None, None) => (*file, EntryKind::File { size: 100 }),
            };
            trace.snapshot.entries.insert(PathBytes::from(path), Entry::plain(kind));
        }
        Story { trace, now: 0 }
    }

    fn act(&mut self, thread: u32, call: Call, outcome: Outcome) -> &mut Story {
        self.now += 10;
        self.during(thread, self.now, self.now + 5, call, outcome)
    }

    fn during(&mut self, thread: u32, enter: u64, leave: u64, call: Call, outcome: Outcome) -> &mut Story {
        let (enter, leave) = (Time(enter), Time(leave));
        self.trace.actions.push(Action { thread: ThreadId(thread), enter, leave, call, outcome });
        self
    }

    fn ok(&mut self, thread: u32, call: Call) -> &mut Story {
        self.act(thread, call, Outcome::Done(0))
    }

    fn fails(&mut self, thread: u32, call: Call, errno: Errno) -> &mut Story {
        self.act(thread, call, Outcome::Failed(errno))
    }

    fn opens(&mut self, thread: u32, path: &str, flags: OpenFlags, fd: i64) -> &mut Story {
        self.act(thread, open(path, flags), Outcome::Done(fd))
    }

    fn writes(&mut self, thread: u32, fd: i32) -> &mut Story {
        self.act(thread, Call::Write { fd: Fd(fd), len: 8, parts: 0 }, Outcome::Done(8))
    }

    fn compiled(&self) -> Program {
        compile(self.trace.clone(), &mut |_| {}).expect("the story is sound")
    }

    /// Edges between threads under rules.
    fn edges(&self, rules: Rules) -> BTreeSet<(u32, u32)> {
        let mut edges = BTreeSet::new();
        schedule::for_each(self.compiled().outline(), Order::Root(rules), |to, candidates| {
            edges.extend(candidates.iter().map(|candidate| (candidate.edge.from, to)));
        });
        edges
    }

    fn usual(&self) -> BTreeSet<(u32, u32)> {
        self.edges(Rules::default())
    }
}

fn process(pid: u32) -> Process {
    Process { pid, parent: None, cwd: PathBytes::from("/"), umask: 0o022 }
}

fn thread(tid: u32, process: u32) -> Thread {
    Thread { tid, process: ProcessId(process), parent: None, name: Default::default() }
}

fn at(path: &str) -> At {
    At { dir: Fd::CWD, path: PathBytes::from(path) }
}

fn file(path: &str) -> Object {
    Object::Path { at: at(path), follow: true }
}

fn open(path: &str, flags: OpenFlags) -> Call {
    Call::Open { at: at(path), flags, mode: 0o666, resolve: ResolveFlags::empty() }
}

fn mkdir(path: &str) -> Call {
    Call::Mkdir { at: at(path), mode: 0o777 }
}

fn stat(path: &str) -> Call {
    Call::Stat { file: file(path), seen: None }
}

fn close(fd: i32) -> Call {
    Call::Close { fd: Fd(fd) }
}

fn unlink(path: &str) -> Call {
    Call::Unlink { at: at(path) }
}

fn rename(from: &str, to: &str) -> Call {
    Call::Rename { from: at(from), to: at(to), flags: RenameFlags::empty() }
}

fn set(pairs: &[(u32, u32)]) -> BTreeSet<(u32, u32)> {
    pairs.iter().copied().collect()
}

/// The series of every resource by name, without those that only pass through, numbered from 1.
fn series(story: &Story) -> BTreeMap<String, Vec<u32>> {
    let mut compiler = Compiler::begin(&story.trace).expect("the story is sound");
    let actions = &story.trace.actions;
    actions.iter().enumerate().for_each(|(at, action)| compiler.take(action.clone(), &actions[at + 1..]));
    compiler.expire(u64::MAX);
    let mut series: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut start = 0;
    for (id, end) in compiler.touch_ends.iter().enumerate() {
        for word in &compiler.touches[start..*end as usize] {
            let resource = compiler.world.ledger().resources()[(word >> 2) as usize];
            let tree = &compiler.world.tree;
            let name = match resource.kind {
                ResourceKind::Path => format!("path({})@{}", tree.path(resource.key as u32), resource.generation),
                ResourceKind::Descriptor => format!("fd{}@{}", resource.key, resource.generation),
                ResourceKind::File | ResourceKind::Directory => format!("inode{}", resource.key),
                _ => continue,
            };
            if word & 3 != Role::Traverse as u32 {
                series.entry(name).or_default().push(id as u32 + 1);
            }
        }
        start = *end as usize;
    }
    series
}

/// Figure 2.2. A rename of a directory is not in the series of the files below it: their descriptors stay valid. The
/// open of `/a/b` succeeds though the excerpt shows no call that made it again: the model is repaired.
#[test]
fn the_worked_example_gives_its_series() {
    let mut story = Story::new(2, &["/a/", "/x/y/z"]);
    story
        .ok(0, mkdir("/a/b"))
        .opens(0, "/a/b/c", MAKE, 3)
        .writes(0, 3)
        .ok(0, close(3))
        .ok(0, rename("/a/b", "/a/old"))
        .opens(1, "/x/y/z", OpenFlags::READ, 3)
        .opens(1, "/a/b", OpenFlags::READ, 4);
    let series = series(&story);
    let of = |name: &str| series.get(name).map_or(&[][..], |ids| &ids[..]);
    assert_eq!(of("path(/a/b)@1"), [1, 5]);
    assert_eq!(of("path(/a/b)@2"), [7]);
    assert_eq!(of("path(/a/b/c)@1"), [2, 5]);
    assert_eq!(of("path(/a/old)@1"), [5]);
    assert_eq!(of("path(/a/old/c)@1"), [5]);
    assert_eq!(of("path(/x/y/z)@1"), [6]);
    assert_eq!((of("fd3@1"), of("fd3@2"), of("fd4@1")), (&[2, 3, 4][..], &[6][..], &[7][..]));
    // dirA, dirB, dirY, file1, file2, file3.
    let mut inodes: Vec<&[u32]> =
        series.iter().filter(|(name, _)| name.starts_with("inode")).map(|(_, ids)| &ids[..]).collect();
    inodes.sort_unstable();
    assert_eq!(inodes, [&[1, 2, 5][..], &[1, 5, 7], &[2, 3, 4], &[6], &[6], &[7]]);
    let repairs = &story.compiled().about;
    assert_eq!((repairs.repairs.count(RepairKind::EntryAppeared), repairs.repairs.contradictions()), (1, 1));
}

#[test]
fn links_of_both_kinds_lead_to_one_file() {
    for (files, link) in [(&["/f", "/l->f"][..], None), (&["/f"][..], Some("/l"))] {
        let mut story = Story::new(2, files);
        if let Some(name) = link {
            story.ok(0, Call::Link { from: file("/f"), to: at(name) });
        } else {
            story.ok(0, stat("/f"));
        }
        story.opens(0, "/f", RW, 3).writes(0, 3).opens(1, "/l", RW, 4).writes(1, 4);
        let edges = story.edges(Rules::FILE_SEQ);
        assert!(edges.contains(&(2, 3)), "{edges:?}");
    }
}

#[test]
fn two_files_of_one_path_are_two() {
    let mut story = Story::new(2, &[]);
    story.opens(0, "/x", MAKE, 3).ok(0, unlink("/x")).opens(1, "/x", MAKE, 4).writes(1, 4).writes(0, 3);
    assert_eq!(story.edges(Rules::FILE_SEQ), set(&[]));
    assert_eq!(story.edges(Rules::PATH_STAGE | Rules::PATH_NAME), set(&[(1, 2)]));
}

#[test]
fn a_directory_comes_before_what_is_made_in_it() {
    let mut story = Story::new(2, &[]);
    story.ok(0, mkdir("/d")).opens(1, "/d/x", MAKE, 3);
    assert_eq!(story.usual(), set(&[(0, 1)]));
}

#[test]
fn a_directory_made_long_ago_comes_before_what_is_made_far_below() {
    let mut story = Story::new(3, &["/s/y/p/"]);
    story.ok(0, rename("/s", "/x")).opens(1, "/x/y/p/q", MAKE, 3).opens(2, "/x/y/p/r", MAKE, 4);
    assert_eq!(story.usual(), set(&[(0, 1), (0, 2)]));
}

#[test]
fn files_of_one_directory_are_independent() {
    let mut story = Story::new(2, &["/d/"]);
    story.opens(0, "/d/a", MAKE, 3).opens(1, "/d/b", MAKE, 4);
    assert_eq!(story.usual(), set(&[]));
    assert_eq!(story.edges(Rules::default() | Rules::DIR_SEQ), set(&[(0, 1)]));
}

#[test]
fn a_renamed_directory_takes_its_paths_along_and_leaves_descriptors_alone() {
    let mut story = Story::new(2, &["/d/f"]);
    story.opens(0, "/d/f", RW, 3).ok(0, stat("/d/f")).ok(1, rename("/d", "/e")).writes(0, 3).ok(0, stat("/e/f")).fails(
        0,
        stat("/d/f"),
        Errno::ENOENT,
    );
    let edges = story.edges(Rules::default() - Rules::FILE_SEQ);
    assert_eq!(edges, set(&[(1, 2), (2, 4), (2, 5)]));
    let descriptor = story.edges(Rules::FD_STAGE | Rules::FD_SEQ);
    assert_eq!(descriptor, set(&[]));
    assert_eq!(story.compiled().about.repairs.contradictions(), 0);
}

#[test]
fn a_dangling_link_that_a_rename_repairs_depends_on_it() {
    let mut story = Story::new(3, &["/link->/pkg/data/file", "/tmp/data/file"]);
    story.fails(1, stat("/link"), Errno::ENOENT).ok(0, rename("/tmp", "/pkg")).ok(2, stat("/link"));
    let edges = story.usual();
    assert!(edges.contains(&(1, 2)), "the success comes after the rename: {edges:?}");
    assert!(edges.contains(&(0, 1)), "the failure comes before it: {edges:?}");
}

#[test]
fn a_file_without_a_name_stays_open_and_its_name_is_free() {
    let mut story = Story::new(2, &["/f"]);
    story
        .opens(0, "/f", RW, 3)
        .ok(0, unlink("/f"))
        .writes(0, 3)
        .opens(1, "/f", MAKE | OpenFlags::O_EXCL, 4)
        .writes(1, 4);
    assert_eq!(story.compiled().about.repairs.contradictions(), 0);
    assert_eq!(series(&story).get("path(/f)@2"), Some(&vec![4]));
    assert_eq!(story.edges(Rules::FILE_SEQ), set(&[]), "old and new file are two");
    assert_eq!(story.usual(), set(&[(1, 3)]));
}

#[test]
fn a_failed_look_up_comes_before_what_makes_the_name_if_that_rule_is_on() {
    let mut story = Story::new(2, &[]);
    story.fails(0, stat("/x"), Errno::ENOENT).opens(1, "/x", MAKE, 3).ok(0, unlink("/x")).fails(
        1,
        stat("/x"),
        Errno::ENOENT,
    );
    let with = story.usual();
    let without = story.edges(Rules::default() - Rules::PATH_NEGATIVE);
    assert!(with.contains(&(0, 1)) && with.contains(&(2, 3)), "{with:?}");
    assert_eq!(without, set(&[(1, 2)]));
}

#[test]
fn a_directory_that_is_entered_decides_where_paths_lead() {
    let mut story = Story::new(2, &["/d/e/f", "/d/l->../d/e"]);
    let fd = Fd(3);
    story
        .opens(0, "/d", OpenFlags::READ, 3)
        .ok(0, Call::Chdir { file: file("/d/l") })
        .ok(
            0,
            Call::Stat {
                file: Object::Path { at: At { dir: fd, path: PathBytes::from("e/f") }, follow: true },
                seen: None,
            },
        )
        .ok(0, stat("f"))
        .ok(0, Call::Chdir { file: Object::Fd(fd) })
        .ok(0, stat("../../../d/e/../e/./f"));
    let program = story.compiled();
    assert_eq!(program.about.repairs.contradictions(), 0);
    let path = |id| match &program.step(id).call {
        Call::Stat { file: Object::Path { at, .. }, .. } => (at.dir, at.path.to_string()),
        other => panic!("{other:?}"),
    };
    assert_eq!(path(2), (Fd(0), "e/f".to_string()));
    assert_eq!(path(3), (Fd::CWD, "/d/e/f".to_string()));
    assert_eq!(path(5).1, "/d/e/../e/./f");
}

#[test]
fn overlapping_calls_take_the_order_that_their_results_need() {
    let mut story = Story::new(2, &[]);
    story.during(0, 10, 100, open("/d/x", MAKE), Outcome::Done(3)).during(1, 20, 30, mkdir("/d"), Outcome::Done(0));
    let program = story.compiled();
    assert_eq!(program.about.repairs.count(RepairKind::OrderChanged), 1);
    assert_eq!(program.about.repairs.contradictions(), 0);
    assert_eq!(story.usual(), set(&[(0, 1)]));
    assert!(matches!(program.step(0).call, Call::Mkdir { .. }));
    assert!(program.step(1).notes.contains(Notes::DEFERRED));
}

#[test]
fn a_name_comes_or_goes_behind_overlapping_calls_that_met_it_otherwise() {
    let check = |files: &[&str], change: Call, outcome: i64, met: Call, result: Outcome| {
        let mut story = Story::new(3, files);
        story.during(0, 10, 100, change, Outcome::Done(outcome)).during(2, 15, 18, stat("/d"), Outcome::Done(0));
        story.during(1, 20, 30, met.clone(), result).during(1, 40, 50, stat("/d"), Outcome::Done(0));
        let repairs = story.compiled().about.repairs;
        assert_eq!((repairs.contradictions(), repairs.count(RepairKind::OrderChanged)), (0, 1), "{met:?}");
        // Numbered as they took effect: the look-up of another thread, the call, the change.
        assert_eq!(story.usual(), set(&[(1, 2)]), "{met:?}");
    };
    let absent = Outcome::Failed(Errno::ENOENT);
    check(&["/d/"], open("/d/x", MAKE), 3, stat("/d/x"), absent);
    check(&["/d/"], mkdir("/d/x"), 0, open("/d/x", OpenFlags::READ), absent);
    check(&["/d/", "/y"], rename("/y", "/d/x"), 0, unlink("/d/x"), absent);
    check(&["/d/", "/y/z"], rename("/y", "/d/x"), 0, stat("/d/x/z"), absent);
    check(&["/d/x"], unlink("/d/x"), 0, stat("/d/x"), Outcome::Done(0));
    check(&["/d/x"], unlink("/d/x"), 0, mkdir("/d/x"), Outcome::Failed(Errno::EEXIST));
    check(&["/d/x"], rename("/d/x", "/d/y"), 0, stat("/d/x"), Outcome::Done(0));
}

#[test]
fn overlapping_calls_keep_the_order_of_their_entries_where_their_results_allow_it() {
    let check = |files: &[&str], change: Call, outcome: i64, others: &[(Call, Outcome)]| {
        let mut story = Story::new(2, files);
        story.during(0, 10, 100, change, Outcome::Done(outcome));
        for (call, result) in others {
            let at = story.trace.actions.last().expect("the change").enter.0 + 10;
            story.during(1, at, at + 5, call.clone(), *result);
        }
        let repairs = story.compiled().about.repairs;
        let told = (repairs.contradictions(), repairs.count(RepairKind::OrderChanged));
        assert_eq!(told, (0, 0), "{others:?}");
    };
    let absent = Outcome::Failed(Errno::ENOENT);
    // A call that found the name before it was removed again tells that it had come.
    let gone = [(unlink("/d/x"), Outcome::Done(0)), (stat("/d/x"), absent)];
    check(&["/d/"], open("/d/x", MAKE), 3, &gone);
    check(&["/d/"], mkdir("/d/x"), 0, &[(stat("/d/x/y"), absent)]);
    check(&["/d/x"], unlink("/d/x"), 0, &[(open("/d/x", MAKE), Outcome::Done(3))]);
    check(&["/d/x", "/y"], rename("/y", "/d/x"), 0, &[(stat("/d/x"), Outcome::Done(0))]);
}

#[test]
fn nobody_waits_for_a_call_that_waits_for_others() {
    // A replay waits for data also where the program had been told to come again.
    for flags in [OpenFlags::empty(), OpenFlags::O_NONBLOCK] {
        let mut story = Story::new(2, &[]);
        story
            .ok(0, Call::Pipe { seen_read: Fd(3), seen_write: Fd(4), flags })
            .during(0, 20, 100, Call::Read { fd: Fd(3), len: 1, parts: 0 }, Outcome::Done(1))
            .during(1, 50, 60, Call::Write { fd: Fd(4), len: 1, parts: 0 }, Outcome::Done(1))
            .during(1, 70, 80, close(3), Outcome::Done(0));
        let edges = story.usual();
        assert!(!edges.iter().any(|(from, _)| *from == 1), "{flags:?}: {edges:?}");
        assert!(edges.contains(&(0, 2)));
    }
}

#[test]
fn an_exclusive_open_that_cannot_be_loses_its_exclusiveness() {
    let mut story = Story::new(1, &["/f", "/g"]);
    let exclusive = MAKE | OpenFlags::O_EXCL;
    story.opens(0, "/f", exclusive, 3).fails(0, open("/g", exclusive), Errno::EEXIST).opens(0, "/h", exclusive, 4);
    let program = story.compiled();
    assert_eq!(program.about.repairs.count(RepairKind::ExclusiveDropped), 1);
    let flags = |id| match &program.step(id).call {
        Call::Open { flags, .. } => flags.contains(OpenFlags::O_EXCL),
        other => panic!("{other:?}"),
    };
    assert_eq!([flags(0), flags(1), flags(2)], [false, true, true]);
}

#[test]
fn what_nobody_listed_is_told_by_its_use() {
    let mut story = Story::new(2, &[]);
    story
        .opens(0, "/usr/lib/x.so", OpenFlags::READ, 3)
        .act(0, Call::Read { fd: Fd(3), len: 832, parts: 0 }, Outcome::Done(832))
        .act(1, Call::Write { fd: Fd(1), len: 5, parts: 0 }, Outcome::Done(5))
        .act(0, Call::ReadLink { at: at("/bin"), len: 99, seen_target: Some("usr/bin".into()) }, Outcome::Done(7))
        .opens(1, "/dev/null", RW, 4)
        .fails(0, stat("/etc/absent"), Errno::ENOENT)
        .ok(0, stat("/etc/passwd"));
    let program = story.compiled();
    let kind = |path: &str| program.snapshot().entries.get(&PathBytes::from(path)).map(|entry| entry.kind.clone());
    assert_eq!(kind("/usr/lib"), Some(EntryKind::Directory));
    assert_eq!(kind("/usr/lib/x.so"), Some(EntryKind::File { size: 832 }));
    assert_eq!(kind("/bin"), Some(EntryKind::Symlink { target: "usr/bin".into() }));
    assert_eq!(kind("/dev/null"), Some(EntryKind::Device { block: false, major: 1, minor: 3 }));
    assert_eq!(program.opened().len(), 1);
    assert!(program.opened()[0].inferred);
    assert_eq!(program.about.repairs.count(RepairKind::DescriptorInferred), 1);
    assert_eq!(program.about.repairs.contradictions(), 0);
}

#[test]
fn a_file_of_proc_is_as_large_as_what_was_read_of_it() {
    let (maps, read) = ("/proc/1/maps", |len| Call::Read { fd: Fd(3), len, parts: 0 });
    let mut story = Story::new(1, &["/f"]);
    let empty = Entry::plain(EntryKind::File { size: 0 });
    story.trace.snapshot.entries.insert(PathBytes::from(maps), empty);
    let seen = Status { kind: FileKind::Regular, mode: 0o444, size: 0, links: 1, device: 0, inode: 0 };
    let look = |seen: &Status| Call::Stat { file: Object::Fd(Fd(3)), seen: Some(Box::new(seen.clone())) };
    story.opens(0, maps, OpenFlags::READ, 3).ok(0, look(&seen));
    story.act(0, read(4096), Outcome::Done(2000)).act(0, read(4096), Outcome::Done(0)).ok(0, close(3));
    story.opens(0, maps, OpenFlags::READ, 3).act(0, read(4096), Outcome::Done(2500)).ok(0, close(3));
    story.opens(0, "/f", OpenFlags::READ, 3).act(0, read(4096), Outcome::Done(300));
    let program = story.compiled();
    let size = |path: &str| program.snapshot().entries[&PathBytes::from(path)].kind.clone();
    assert_eq!(size(maps), EntryKind::File { size: 2500 });
    assert_eq!(size("/f"), EntryKind::File { size: 100 }, "another file is believed to be as it was listed");
    assert_eq!(program.about.repairs.count(RepairKind::SizeGrown), 1, "which is told");
    let calls: Vec<&Call> = program.steps()[..10].iter().map(|step| &step.call).collect();
    assert!(matches!(calls[1], Call::Stat { seen: None, .. }), "its size tells nothing");
    let asked = calls.iter().filter_map(|call| if let Call::Read { len, .. } = call { Some(*len) } else { None });
    assert_eq!(asked.collect::<Vec<_>>(), [2000, 0, 2500, 4096], "a read asks for what it got");
}

#[test]
fn what_a_program_runs_or_may_run_can_be_run_from_the_start() {
    let mut story = Story::new(2, &["/f"]);
    let asks = |path, mode| Call::Access { file: file(path), mode };
    story.ok(0, asks("/may", AccessMode::X_OK)).ok(0, asks("/is", AccessMode::empty()));
    story.fails(0, asks("/f", AccessMode::X_OK), Errno::EACCES).ok(1, Call::Exec { file: file("/runs") });
    let program = story.compiled();
    let mode = |path: &str| program.snapshot().entries[&PathBytes::from(path)].mode;
    assert_eq!(["/may", "/is", "/f", "/runs"].map(mode), [0o755, 0o644, 0o644, 0o755]);
}

#[test]
fn a_number_is_given_anew_only_when_it_is_free() {
    let mut story = Story::new(2, &["/f", "/g"]);
    story.opens(0, "/f", OpenFlags::READ, 3);
    story.during(1, 20, 40, open("/g", OpenFlags::READ), Outcome::Done(3));
    story.during(0, 25, 30, close(3), Outcome::Done(0));
    let program = story.compiled();
    assert!(matches!(program.step(1).call, Call::Close { fd: Fd(0) }));
    assert_eq!(program.step(2).slots, [SlotEffect::Made(Fd(1))]);
    assert_eq!(program.about.repairs.count(RepairKind::OrderChanged), 1);
}

#[test]
fn a_process_that_was_killed_leaves_nothing_open() {
    let mut story = Story::new(1, &["/f"]);
    story.trace.processes.push(Process { parent: Some(ThreadId(0)), ..process(200) });
    story.trace.threads.push(Thread { parent: Some(ThreadId(0)), ..thread(200, 1) });
    story
        .act(0, Call::Pipe { seen_read: Fd(3), seen_write: Fd(4), flags: OpenFlags::empty() }, Outcome::Done(0))
        .act(0, Call::Clone { flags: CloneFlags::empty(), child: Some(ThreadId(1)) }, Outcome::Done(200))
        .ok(0, close(4))
        .writes(1, 4)
        .fails(1, Call::Write { fd: Fd(4), len: 10, parts: 0 }, Errno::EPIPE)
        .act(0, Call::Read { fd: Fd(3), len: 100, parts: 0 }, Outcome::Done(0));
    let closed = |story: &Story| {
        let program = story.compiled();
        let slots = |id| &program.step(id).slots[..];
        let copies = slots(1);
        let [SlotEffect::Copied { to, .. }] = copies[..] else { panic!("{copies:?}") };
        slots(4) == [SlotEffect::Closed(to)]
    };
    assert!(!closed(&story), "its end is not known");
    story.act(0, Call::Wait { pid: 200 }, Outcome::Done(200));
    assert!(closed(&story));
}

#[test]
fn a_child_has_copies_of_what_it_uses() {
    let mut story = Story::new(1, &["/f", "/g", "/bin/cat"]);
    story.trace.processes.push(Process { parent: Some(ThreadId(0)), ..process(200) });
    story.trace.threads.push(Thread { parent: Some(ThreadId(0)), ..thread(200, 1) });
    story
        .opens(0, "/f", RW, 3)
        .opens(0, "/g", RW | OpenFlags::O_CLOEXEC, 4)
        .act(0, Call::Clone { flags: CloneFlags::empty(), child: Some(ThreadId(1)) }, Outcome::Done(200))
        .ok(0, close(3))
        .ok(1, Call::Exec { file: file("/bin/cat") })
        .writes(1, 3)
        .fails(1, Call::Read { fd: Fd(4), len: 1, parts: 0 }, Errno::EBADF)
        .act(1, Call::Exit { status: 0, group: true }, Outcome::Unknown)
        .writes(0, 4);
    let program = story.compiled();
    assert_eq!(program.about.repairs.contradictions(), 0);
    let slots = |id| &program.step(id).slots[..];
    let copy = slots(2);
    let [SlotEffect::Copied { from: Fd(0), to }] = copy[..] else { panic!("{copy:?}") };
    assert_eq!(slots(3), [SlotEffect::Closed(Fd(0))]);
    assert_eq!(slots(4), [], "the copy that exec closes was never used");
    assert_eq!(slots(7), [SlotEffect::Closed(to)]);
    assert!(matches!(program.step(5).call, Call::Write { fd, .. } if fd == to));
    assert!(story.usual().contains(&(2, 5)), "the copy comes before its use");
}

#[test]
fn equal_numbers_at_different_times_are_different_slots() {
    let mut story = Story::new(2, &["/f", "/g"]);
    story.opens(0, "/f", RW, 3).ok(0, close(3)).opens(1, "/g", RW, 3).writes(1, 3);
    let program = story.compiled();
    assert_eq!(program.slots().len(), 2);
    assert_eq!((program.slots()[1].number, program.slots()[1].generation), (3, 2));
    assert_eq!(story.usual(), set(&[]), "numbers carry no order");
}

#[test]
fn a_trace_that_names_what_it_does_not_list_is_refused() {
    let mut story = Story::new(1, &[]);
    story.ok(7, stat("/"));
    let refused = compile(story.trace.clone(), &mut |_| {}).expect_err("there is no thread 7");
    assert_eq!(refused, CompileError::NoThread { action: 0, thread: 7, threads: 1 });
    let mut story = Story::new(1, &[]);
    story.during(0, 50, 60, stat("/"), Outcome::Done(0)).during(0, 10, 20, stat("/"), Outcome::Done(0));
    let refused = compile(story.trace.clone(), &mut |_| {}).expect_err("time runs backwards");
    assert_eq!(refused, CompileError::Unsorted { action: 1 });
}
