//! Both ways of recording see what strace sees.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run programs and look at their files")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::Duration;

use esker_skip::{Ability, skip};
use esker_trace_calls::etrace::{Limits, read};
use esker_trace_calls::import::{OnBad, read_trace, strace::Strace};
use esker_trace_calls::wire::Field;
use esker_trace_calls::{Call, Fd, Outcome, PathBytes, ThreadId, Trace, WarningKind};
use esker_trace_order::compiled::{LeftOut, SlotEffect};
use esker_trace_order::model::compile;
use esker_trace_order::rules::{Order, Rules};
use esker_trace_record::{Gate, Method, RecordError, Settings, Target, calls, record};

/// Works in a folder: names of all kinds, descriptors, pipes, processes.
const SHELL: &str = "mkdir -p d/e; echo one > d/f; ln -s f d/s; ln d/f d/h; cat d/s >> d/g; mv d/g d/e/g; \
                     (cd d && ls -l . > ../list; rm h); cat list | sort | head -2 > sorted; test -e nothing; \
                     touch -m -d 2020-01-01 d/f; chmod 600 d/f; rm -r d; exit 5";

/// Four threads with a file each.
const THREADS: &str = "
import os, threading
def work(n):
    name = 'file%d' % n
    for i in range(50):
        fd = os.open(name, os.O_RDWR | os.O_CREAT)
        os.pwrite(fd, b'x' * 100, i * 100)
        os.fsync(fd)
        os.lseek(fd, 0, os.SEEK_SET)
        os.readv(fd, [bytearray(10), bytearray(20)])
        os.ftruncate(fd, 10)
        os.close(fd)
        os.rename(name, './' * 150 + name + '+')
        os.rename('./' * 150 + name + '+', name)
        try: os.stat('absent%d' % n)
        except OSError: pass
    os.unlink(name)
ts = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in ts]
[t.join() for t in ts]
";

fn settings(method: Method) -> Settings {
    Settings {
        method,
        roots: Vec::new(),
        anonymise: None,
        ring_bytes: 16 << 20,
        gate: Gate::Shell,
        stop: Default::default(),
        ready: Default::default(),
    }
}

/// The command that runs `words` in a folder. Its standard streams are not ours: those may be files whose ends and
/// positions others move.
fn program<'a>(folder: &'a Path, words: &[&'a str]) -> Vec<&'a str> {
    let folder = folder.to_str().expect("a plain name");
    let quiet = "exec \"$@\" </dev/null >/dev/null 2>&1";
    let mut all = vec!["env", "-u", "PWD", "-C", folder, "sh", "-c", quiet, "sh"];
    all.extend(words);
    all
}

/// What was recorded in an empty folder, with the exit status; `None`, loudly, where this machine does not let us.
fn recorded(method: Method, words: &[&str]) -> Option<(Trace, esker_trace_record::Recorded)> {
    let folder = tempfile::tempdir().expect("scratch");
    let path = folder.path().join("t.etrace");
    let target = Target::Program(program(folder.path(), words).into_iter().map(Into::into).collect());
    let recorded = match record(&target, &settings(method), File::create(&path).expect("scratch")) {
        Err(error @ (RecordError::Kernel(_) | RecordError::NameSpace | RecordError::Ptrace(..))) => {
            let lacks = if matches!(error, RecordError::Ptrace(..)) { Ability::Ptrace } else { Ability::Bpf };
            skip(lacks, error);
            return None;
        }
        recorded => recorded.expect("the program is recorded"),
    };
    let trace = read(File::open(&path).expect("it is there"), Limits::GENEROUS).expect("it is whole");
    Some((trace, recorded))
}

/// What strace sees; `None`, loudly, without it.
fn straced(words: &[&str]) -> Option<Trace> {
    let folder = tempfile::tempdir().expect("scratch");
    let path = folder.path().join("trace");
    let names: Vec<String> = calls::all().map(|spec| format!("?{}", spec.name())).collect();
    let mut command = Command::new("strace");
    command.args([
        "-f",
        "-y",
        "-v",
        "-s",
        "4096",
        "--absolute-timestamps=format:unix,precision:ns",
        "--syscall-times=ns",
    ]);
    command.args(["-e", "abbrev=execve,execveat", "-e", &format!("trace={}", names.join(",")), "-o"]).arg(&path);
    let run = command.args(program(folder.path(), words)).status();
    if let Err(error) = run {
        skip(Ability::Program, format_args!("strace: {error}; apt-get install strace"));
        return None;
    }
    let mut source = Strace::new(BufReader::new(File::open(&path).expect("strace has run")), OnBad::Fail);
    Some(read_trace(&mut source, OnBad::Fail).expect("strace's lines are understood"))
}

/// Each thread's calls as texts, in an order that does not depend on the numbers of threads: what differs between two
/// runs is left out.
fn plain(trace: &Trace, racing: bool) -> Vec<Vec<String>> {
    let mut threads: BTreeMap<ThreadId, Vec<String>> = BTreeMap::new();
    for action in &trace.actions {
        if let Some(text) = plain_call(&action.call, action.outcome, racing) {
            threads.entry(action.thread).or_default().push(text);
        }
    }
    let mut all: Vec<Vec<String>> = threads.into_values().collect();
    all.sort();
    all
}

fn plain_call(call: &Call, outcome: Outcome, racing: bool) -> Option<String> {
    let mut call = call.clone();
    let mut names_result = false;
    match &mut call {
        // Memory is where the kernel puts it, and which of it holds no files strace does not know.
        Call::Map { fd: Fd(-1), .. } | Call::Unmap { .. } | Call::Remap { .. } | Call::MapAdvise { .. } => return None,
        // strace sees no faults.
        Call::PageFault { .. } => return None,
        // Python waits for what a thread computes, not for its end: its process may end before.
        Call::Exit { group: false, .. } if racing => return None,
        // Whether it is interrupted is chance.
        Call::Wait { .. } => return None,
        // Whether threads meet at a lock is chance.
        Call::FutexWait { .. } | Call::FutexWake { .. } => return None,
        Call::Other { name } if name.as_bytes() == b"futex" => return None,
        Call::Map { address, .. } => (*address, names_result) = (0, true),
        Call::Clone { child, .. } => (*child, names_result) = (None, true),
        Call::Stat { seen: Some(seen), .. } => (seen.inode, seen.device, seen.size, seen.links) = (0, 0, 0, 0),
        // strace tells what a request means where it knows it, and the kernel has one number for several.
        Call::Ioctl { request, .. } => *request = esker_trace_calls::Word::from("any"),
        _ => {}
    }
    if racing {
        call.change_fds(&mut |fd| *fd = if *fd == Fd::CWD { Fd::CWD } else { Fd(0) });
        names_result |= matches!(call, Call::Open { .. } | Call::Dup { .. } | Call::MakeFd { .. });
    }
    let mut text = String::new();
    call.render(&mut text);
    let outcome = match outcome {
        Outcome::Done(_) if names_result => "ok".to_string(),
        other => format!("{other:?}"),
    };
    Some(format!("{text} = {outcome}").replace(char::is_control, ""))
}

/// Folders have names of their own in each run.
fn without_folders(threads: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let clean = |text: String| match text.find("/.tmp") {
        Some(at) => format!("{}/F{}", &text[..at], &text[at + "/.tmp123456".len()..]),
        None => text,
    };
    let mut all: Vec<Vec<String>> = threads.into_iter().map(|calls| calls.into_iter().map(clean).collect()).collect();
    all.sort();
    all
}

/// If threads are `racing`, which of them gets which descriptor is chance.
fn check_same(words: &[&str], status: i32, racing: bool) {
    let Some(expected) = straced(words) else { return };
    let expected = without_folders(plain(&expected, racing));
    for method in [Method::Kernel, Method::Ptrace] {
        let Some((trace, recorded)) = recorded(method, words) else { continue };
        assert_eq!(recorded.status, Some(esker_trace_record::ptrace::Status::Exited(status)), "{method:?}");
        assert_eq!(recorded.lost, esker_trace_record::Lost::default());
        let seen = without_folders(plain(&trace, racing));
        assert_eq!(seen.len(), expected.len(), "{method:?}: threads");
        for (ours, theirs) in seen.iter().zip(&expected) {
            let differ = ours.iter().zip(theirs).position(|(one, other)| one != other);
            if let Some(at) = differ.or((ours.len() != theirs.len()).then(|| ours.len().min(theirs.len()))) {
                panic!("{method:?}: call {at}: {:?}, strace saw {:?}", ours.get(at), theirs.get(at));
            }
        }
    }
}

#[test]
fn a_shell_with_its_children_is_seen_as_strace_sees_it() {
    check_same(&["sh", "-c", SHELL], 5, false);
}

#[test]
fn threads_are_seen_as_strace_sees_them() {
    if !Path::new("/usr/bin/python3").is_file() {
        return skip(Ability::Program, "/usr/bin/python3 is missing: apt-get install python3");
    }
    check_same(&["/usr/bin/python3", "-ISB", "-c", THREADS], 0, true);
}

/// A thread waits by a lock for another one, which sleeps and works.
const WAITING: &str = "
import os, threading, time
made = threading.Lock()
made.acquire()
def work():
    time.sleep(0.3)
    os.mkdir('d')
    made.release()
threading.Thread(target=work).start()
made.acquire()
os.rmdir('d')
";

#[test]
fn a_thread_that_waits_for_another_one_is_seen_to_wait_for_it() {
    if !Path::new("/usr/bin/python3").is_file() {
        return skip(Ability::Program, "/usr/bin/python3 is missing: apt-get install python3");
    }
    for method in [Method::Kernel, Method::Ptrace] {
        let Some((trace, _)) = recorded(method, &["/usr/bin/python3", "-ISB", "-c", WAITING]) else { continue };
        let told = trace.actions.iter().filter(|action| match action.call {
            Call::FutexWait { .. } => action.outcome != Outcome::Done(0),
            Call::FutexWake { .. } => action.outcome.value().is_none_or(|woken| woken == 0),
            Call::Other { ref name } => name.as_bytes() == b"futex",
            _ => false,
        });
        assert_eq!(told.count(), 0, "{method:?}: what woke nothing is not told");
        let program = compile(trace, &mut |_| {}).expect("it is sound");
        let schedule = program.schedule(Order::Root(Rules::default()));
        let made = program.steps().iter().position(|step| matches!(step.call, Call::Mkdir { .. })).expect("it is made");
        let worker = program.instant(made as u32).thread;
        let waits = (0..program.len() as u32).filter(|at| {
            let is_wait = matches!(program.step(*at).call, Call::FutexWait { .. });
            is_wait
                && schedule.waits(*at).iter().any(|wait| wait.thread == worker)
                && schedule.held(*at).0 > 200_000_000
        });
        assert_eq!(waits.count(), 1, "{method:?}");
    }
}

#[test]
fn files_are_taken_as_they_were_before() {
    let folder = tempfile::tempdir().expect("scratch");
    let at = |name: &str| folder.path().join(name).to_str().expect("a plain name").to_string();
    fs::create_dir(at("d")).expect("scratch");
    fs::write(at("d/old"), vec![1; 70000]).expect("scratch");
    std::os::unix::fs::symlink("old", at("d/link")).expect("scratch");
    let script = format!("cat {0}/link > {0}/new; rm {0}/new; cat {0}/absent; true", at("d"));
    for method in [Method::Kernel, Method::Ptrace] {
        let Some((trace, _)) = recorded(method, &["sh", "-c", &script]) else { continue };
        let entry = |name: &str| trace.snapshot.entries.get(at(name).as_bytes()).map(|entry| entry.kind.clone());
        assert_eq!(entry("d"), Some(esker_trace_calls::EntryKind::Directory), "{method:?}");
        assert_eq!(entry("d/old"), Some(esker_trace_calls::EntryKind::File { size: 70000 }), "{method:?}");
        assert!(matches!(entry("d/link"), Some(esker_trace_calls::EntryKind::Symlink { .. })), "{method:?}");
        assert_eq!((entry("d/new"), entry("d/absent")), (None, None), "{method:?}");
        assert!(trace.inherited.iter().any(|inherited| inherited.fd == Fd(1)), "{method:?}");
    }
}

/// Reads three bytes of a mapped file, past its descriptor, and one more through a write.
const MAPPED: &str = "
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
memory = mmap.mmap(file, 0, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED)
os.close(file)
for page in 1024, 0, 1536:
    memory[4096 * page + 5]
out = os.open('/dev/null', os.O_WRONLY)
pipe = os.pipe()
os.write(pipe[1], memoryview(memory)[4096 * 512:4096 * 512 + 9])
";

#[test]
fn pages_that_are_read_through_maps_are_seen_or_it_is_said_that_they_are_not() {
    let folder = tempfile::tempdir().expect("scratch");
    let path = folder.path().join("mapped").to_str().expect("a plain name").to_string();
    let file = File::create(&path).expect("scratch");
    (&file).write_all(&vec![7; 8 << 20]).expect("scratch");
    file.sync_all().expect("scratch");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("a regular file");
    let words = ["/usr/bin/python3", "-ISB", "-c", MAPPED, &path];
    if let Some((trace, _)) = recorded(Method::Kernel, &words) {
        assert_eq!(trace.warnings.count(WarningKind::MappedReads), 0);
        let (program, mapped) = (compile(trace, &mut |_| {}).expect("it is sound"), PathBytes::from(path.as_bytes()));
        let steps = program.steps();
        let open = |call: &Call| matches!(call, Call::Open { at, .. } if at.path == mapped);
        let begin = steps.iter().position(|step| open(&step.call)).expect("it is opened");
        let slot =
            steps[begin..].iter().find(|step| matches!(step.call, Call::Map { .. })).expect("it is mapped").slots[0];
        let touches = steps.iter().zip(0..).filter_map(|(step, at)| match step.call {
            Call::MapTouch { fd, offset, .. } if SlotEffect::Made(fd) == slot => Some((offset >> 12, at)),
            _ => None,
        });
        let touches: Vec<(u64, u32)> = touches.collect();
        assert_eq!(touches.iter().map(|(page, _)| *page).collect::<Vec<_>>(), [1024, 0, 1536, 512]);
        let took = |at| program.instant(at).leave - program.instant(at).enter;
        assert!(took(touches[0].1) > 2_000, "it was read from the medium in {} ns", took(touches[0].1));
        assert_eq!(took(touches[3].1), 0, "the write took that time");
        assert!(matches!(steps[touches[3].1 as usize + 1].call, Call::Write { .. }));
    }
    if let Some((trace, _)) = recorded(Method::Ptrace, &words) {
        assert!(trace.warnings.count(WarningKind::MappedReads) > 0);
        assert!(!trace.actions.iter().any(|action| matches!(action.call, Call::PageFault { .. })));
    }
}

/// Writes to pages of a mapped file, to one of them again at once and again once it is on the medium. Calls make other
/// pages dirty, and one before the map does. No two of
/// them are in one folio, which becomes dirty as a whole.
const WRITTEN: &str = "
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
memory = mmap.mmap(file, 0, prot=mmap.PROT_READ | mmap.PROT_WRITE, flags=mmap.MAP_SHARED)
other = mmap.mmap(-1, 1 << 20)
for page in 1024, 3, 1024:
    other[4096 * page % (1 << 20)] = 1
    memory[4096 * page + 5] = 1
memory.flush()
os.write(file, b'x' * 9)
os.pwrite(file, b'x' * 9, 4096 * 700)
memory[4096 * 700] = 1
os.pwrite(file, b'x' * 9, 4096 * 1600)
memory[4096 * 1024 + 6] = 1
out = os.open('/dev/zero', os.O_RDONLY)
os.readv(out, [memoryview(memory)[4096 * 2560:4096 * 2560 + 9]])
";

#[test]
fn pages_that_are_written_through_maps_are_seen_or_it_is_said_that_they_are_not() {
    let folder = tempfile::tempdir().expect("scratch");
    let path = folder.path().join("written").to_str().expect("a plain name").to_string();
    let file = File::create(&path).expect("scratch");
    (&file).write_all(&vec![7; 16 << 20]).expect("scratch");
    file.sync_all().expect("scratch");
    let words = ["/usr/bin/python3", "-ISB", "-c", WRITTEN, &path];
    if let Some((trace, _)) = recorded(Method::Kernel, &words) {
        assert_eq!(trace.warnings.count(WarningKind::MappedWrites), 0);
        let program = compile(trace, &mut |_| {}).expect("it is sound");
        assert_eq!(LeftOut::of(&program).mapped_writes, 0);
        let written = program.steps().iter().filter_map(|step| match step.call {
            Call::MapTouch { offset, write: true, .. } => Some(offset >> 12),
            _ => None,
        });
        assert_eq!(written.collect::<Vec<_>>(), [1024, 3, 1024, 2560]);
    }
    if let Some((trace, _)) = recorded(Method::Ptrace, &words) {
        assert!(trace.warnings.count(WarningKind::MappedWrites) > 0);
        let program = compile(trace, &mut |_| {}).expect("it is sound");
        assert!(LeftOut::of(&program).mapped_writes > 0);
    }
}

#[test]
fn a_program_that_is_not_there_is_an_error() {
    let target = Target::Program(vec!["no-such-program-anywhere".into()]);
    let error = record(&target, &settings(Method::Ptrace), Vec::new()).expect_err("nothing to record");
    assert!(error.to_string().contains("no-such-program-anywhere"), "{error}");
}

/// A process that makes calls all the time; ended with this.
struct Busy(Child);

impl Busy {
    fn start() -> Busy {
        let mut shell = Command::new("sh");
        Busy(shell.args(["-c", "while :; do test -e /absent; done"]).spawn().expect("there is a shell"))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.kill().expect("it is ours");
        self.0.wait().expect("it is ours");
    }
}

#[test]
fn a_process_that_runs_is_recorded_until_told_to_stop() {
    for method in [Method::Kernel, Method::Ptrace] {
        let mut busy = Busy::start();
        let settings = settings(method);
        let stop = settings.stop.clone();
        let target = Target::Process(busy.0.id());
        let recorder = std::thread::spawn(move || record(&target, &settings, Vec::new()));
        sleep(Duration::from_millis(700));
        stop.store(true, Relaxed);
        let recorded = recorder.join().expect("it does not panic");
        assert_eq!(busy.0.try_wait().expect("it is ours"), None, "{method:?}: the process goes on");
        match recorded {
            Ok(recorded) => assert!(recorded.actions > 20, "{method:?}: {} calls", recorded.actions),
            Err(error) => skip(Ability::Bpf, error),
        }
    }
}

/// A file that takes nothing while it is held.
struct Held(File, Arc<AtomicBool>);

impl Write for Held {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        while self.1.load(Relaxed) {
            sleep(Duration::from_millis(1));
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Waits for a line, makes calls, says so, and waits.
const CALLS: &str = "read go; i=0; while [ $i -lt 60000 ]; do test -e /absent; i=$((i + 1)); done
                     test -e /absent-at-last; echo done; read end";

#[test]
fn calls_made_before_the_stop_are_recorded() {
    let folder = tempfile::tempdir().expect("scratch");
    let path = folder.path().join("t.etrace");
    let mut shell = Command::new("sh");
    shell.args(["-c", CALLS]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = shell.spawn().expect("there is a shell");
    let settings = Settings { ring_bytes: 64 << 20, ..settings(Method::Kernel) };
    let (stop, ready, target) = (settings.stop.clone(), settings.ready.clone(), Target::Process(child.id()));
    let is_held = Arc::new(AtomicBool::new(false));
    let file = Held(File::create(&path).expect("scratch"), is_held.clone());
    let recorder = std::thread::spawn(move || record(&target, &settings, file));
    while !ready.load(Relaxed) && !recorder.is_finished() {
        sleep(Duration::from_millis(1));
    }
    is_held.store(true, Relaxed);
    let mut orders = child.stdin.take().expect("it is piped");
    orders.write_all(b"go\n").expect("it listens");
    let mut told = BufReader::new(child.stdout.take().expect("it is piped"));
    told.read_line(&mut String::new()).expect("it speaks");
    stop.store(true, Relaxed);
    is_held.store(false, Relaxed);
    let recorded = recorder.join().expect("it does not panic");
    drop(orders);
    child.wait().expect("it is ours");
    if let Err(error) = recorded {
        return skip(Ability::Bpf, error);
    }
    let trace = read(File::open(&path).expect("it is there"), Limits::GENEROUS).expect("it is whole");
    assert!(format!("{:?}", trace.actions).contains("/absent-at-last"), "of {} calls the last", trace.actions.len());
}
