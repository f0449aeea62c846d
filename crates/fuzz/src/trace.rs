//! Traces of programs: what is read is in order, refers to what is there, and as a recording reads back alike; names
//! given by anonymising hide the old ones and fit together.

use esker_base::Time;
use esker_trace_calls::anonymise::anonymise;
use esker_trace_calls::etrace::{self, Limits};
use esker_trace_calls::generate::{Shape, apple_desktop};
use esker_trace_calls::import::{OnBad, ibench, read_trace, strace};
use esker_trace_calls::words::{MapFlags, OpenFlags, ResolveFlags};
use esker_trace_calls::{
    Action, At, Call, Entry, EntryKind, Fd, Outcome, PathBytes, Platform, Process, ProcessId, Thread, ThreadId, Trace,
    Warnings, Word,
};

use crate::etrace::{sealed, unpacked};

/// What a reader may hold: inputs are small, and so is what they may claim to be.
const LIMITS: Limits = Limits { unpacked_max: 64 << 20 };

const STRACE: &str = r#"10 1699999999.000001 execve("/usr/bin/x", ["x", "-v"], 0x7ffd /* 20 vars */) = 0 <0.000200>
10 1699999999.000300 openat(AT_FDCWD</home/u>, "a\303\244 b", O_RDWR|O_CREAT|O_CLOEXEC, 0644) = 3</home/u/ab> <0.000020>
10 1699999999.000400 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD, stack=0x7f, stack_size=0x7fff80}, 88 <unfinished ...>
11 1699999999.000410 newfstatat(3</home/u/ab>, "", {st_dev=makedev(0x8, 0x1), st_mode=S_IFREG|0644, st_size=894, ...}, AT_EMPTY_PATH) = 0 <0.000003>
10 1699999999.000420 <... clone3 resumed> => {parent_tid=[11]}) = 11 <0.000030>
11 1699999999.000500 read(0</dev/pts/0<char 136:0>>, 0x7f, 10) = ? ERESTARTSYS (To be restarted if SA_RESTART is set) <0.000100>
11 1699999999.000600 --- SIGALRM {si_signo=SIGALRM, si_code=SI_KERNEL} ---
11 1699999999.000700 rt_sigreturn({mask=[]}) = 0 <0.000001>
11 1699999999.000800 read(0</dev/pts/0<char 136:0>>, "k"..., 10) = 1 <0.000100>
10 1699999999.000900 writev(3, [{iov_base="ab", iov_len=2}, {iov_base="", iov_len=0}], 2) = 2 <0.000004>
10 1699999999.001000 fcntl(3, F_SETLKW, {l_type=F_WRLCK, l_whence=SEEK_SET, l_start=0, l_len=1}) = 0 <0.000004>
10 1699999999.001100 io_submit(0x7f11, 1, [{aio_data=0x5, aio_lio_opcode=IOCB_CMD_PREAD, aio_fildes=3, aio_nbytes=4096, aio_offset=512}]) = 1 <0.1>
10 1699999999.001200 utimensat(3, NULL, [{tv_sec=1, tv_nsec=5}, UTIME_OMIT], 0) = -1 EPERM (Operation not permitted) <0.000004>
10 1699999999.001300 pipe2([4<pipe:[7]>, 5<pipe:[7]>], O_CLOEXEC) = 0 <0.000004>
10 1699999999.001400 poll([{fd=4<pipe:[7]>, events=POLLIN}], 1, -1 <unfinished ...>
11 1699999999.001500 renameat2(AT_FDCWD, "a", 5, "b", RENAME_EXCHANGE) = 0 <0.000004>
11 1699999999.001600 exit_group(0) = ?
10 1699999999.001700 +++ exited with 0 +++
"#;

const IBENCH: &str = "# synthetic\n\
1000\t1900\t5\t50\topen\t\"/a \\303\\244\", O_RDWR|O_CREAT, 0644\t3\t0\n\
2000\t2500\t5\t51\tgetattrlist\t\"/a\", 0x1, 0x2, 44, FSOPT_NOFOLLOW\t0\t0\n\
3000\t3500\t5\t50\texchangedata\t\"/a\", \"/b\", 0\t0\t0\n\
3600\t3700\t5\t50\tfcntl_nocancel\t3, F_PREALLOCATE, {fst_flags=F_ALLOCATEALL, fst_offset=0, fst_length=4096}\t0\t0\n\
3800\t3900\t5\t50\tgetxattr\t\"/a\", \"com.apple.FinderInfo\", 0x1, 32, 0, XATTR_NOFOLLOW\t-1\tENOATTR\n\
d 0 \"/a\"\nf 17 \"/a/b c\"\nl 0 \"/l\" \"a/b c\"\n";

pub(crate) fn strace_corpus() -> Vec<Vec<u8>> {
    let lines: Vec<&str> = STRACE.lines().collect();
    let halves = [lines[..9].join("\n"), lines[9..].join("\n")];
    halves.into_iter().chain([STRACE.to_string()]).map(String::into_bytes).collect()
}

pub(crate) fn ibench_corpus() -> Vec<Vec<u8>> {
    vec![IBENCH.as_bytes().to_vec()]
}

pub(crate) fn etrace_corpus() -> Vec<Vec<u8>> {
    let imported = read_trace(&mut strace::Strace::new(STRACE.as_bytes(), OnBad::Skip), OnBad::Skip);
    let made = apple_desktop(Shape { seed: 1, threads: 2, scripts: 3 });
    let traces = [imported.expect("the sample is a trace"), made, mapped()];
    traces.iter().map(written).flat_map(|packed| [unpacked(&packed), packed]).collect()
}

/// Two threads that touch pages of a mapped file.
pub(crate) fn mapped() -> Trace {
    const PAGE: u64 = 4096;
    const AT: u64 = 0x7f00_0000_0000;
    let mut trace = Trace::new(Platform::Linux, "fuzz");
    trace.processes.push(Process { pid: 1, parent: None, cwd: PathBytes::from("/"), umask: 0o22 });
    for tid in 1..3 {
        trace.threads.push(Thread { tid, process: ProcessId(0), parent: None, name: Word::from("") });
    }
    trace.snapshot.entries.insert(PathBytes::from("/f"), Entry::plain(EntryKind::File { size: 16 * PAGE }));
    let flags = OpenFlags::READ;
    let open = Call::Open { at: At::cwd("/f"), flags, mode: 0, resolve: ResolveFlags::empty() };
    let map = |address, pages, offset| {
        let flags = MapFlags::PROT_READ | MapFlags::MAP_SHARED;
        Call::Map { fd: Fd(3), address, len: pages * PAGE, offset, flags }
    };
    let fault = |page| Call::PageFault { address: AT + page * PAGE, len: PAGE };
    let calls = [
        (0, open, 3),
        (0, map(0, 8, 0), AT as i64),
        (1, fault(2), 0),
        (0, Call::Close { fd: Fd(3) }, 0),
        (1, fault(7), 0),
        (0, Call::Unmap { address: AT + 3 * PAGE, len: 2 * PAGE }, 0),
        (0, Call::Remap { address: AT, len: 3 * PAGE, new_len: 2 * PAGE }, AT as i64),
        (1, fault(3), 0),
        (1, fault(1), 0),
    ];
    for (at, (thread, call, result)) in calls.into_iter().enumerate() {
        let (enter, leave) = (Time(at as u64 * 100), Time(at as u64 * 100 + 150));
        let outcome = Outcome::Done(result);
        trace.actions.push(Action { thread: ThreadId(thread), enter, leave, call, outcome });
    }
    trace
}

pub(crate) fn written(trace: &Trace) -> Vec<u8> {
    etrace::write(trace, Vec::new()).expect("memory takes all")
}

/// With lenience a text is read to its end; without, it is refused at the first odd line or reads alike.
pub(crate) fn try_strace(input: &[u8]) -> Result<bool, String> {
    let read = |on_bad| read_trace(&mut strace::Strace::new(input, on_bad), on_bad);
    let lenient = read(OnBad::Skip);
    if let (Ok(strict), Ok(lenient)) = (read(OnBad::Fail), &lenient)
        && strict != *lenient
    {
        return Err("lenience changes what has no bad line".to_string());
    }
    lenient.map_or(Ok(false), |trace| check(trace).map(|()| true))
}

pub(crate) fn try_ibench(input: &[u8]) -> Result<bool, String> {
    let mut warnings = Warnings::default();
    let snapshot = ibench::read_snapshot(input, OnBad::Skip, &mut warnings).map_err(|error| error.to_string())?;
    let trace = read_trace(&mut ibench::Ibench::new(input, OnBad::Skip), OnBad::Skip);
    let Ok(mut trace) = trace else { return Ok(!snapshot.entries.is_empty()) };
    trace.snapshot = snapshot;
    check(trace).map(|()| true)
}

/// As it comes, and with checksums made right.
pub(crate) fn try_etrace(input: &[u8]) -> Result<bool, String> {
    Ok(try_recording(input)? | try_recording(&sealed(input))?)
}

fn try_recording(input: &[u8]) -> Result<bool, String> {
    match etrace::read(input, LIMITS) {
        Ok(trace) => check(trace).map(|()| true),
        Err(error) if error.to_string().is_empty() => Err("refused without a reason".to_string()),
        Err(_) => Ok(false),
    }
}

fn check(mut trace: Trace) -> Result<(), String> {
    let mut last = None;
    for (number, action) in trace.actions.iter().enumerate() {
        if action.leave < action.enter || last.is_some_and(|last| action.enter < last) {
            return Err(format!("action {number} is out of order"));
        }
        last = Some(action.enter);
        if action.thread.0 as usize >= trace.threads.len() {
            return Err(format!("action {number} is of no thread"));
        }
        trace.process_of(action.thread);
        action.call.fds_used();
        action.call.fds_made(action.outcome);
    }
    if etrace::read(&*written(&trace), Limits::GENEROUS).map_err(|error| error.to_string())? != trace {
        return Err("a recording reads back as another one".to_string());
    }
    let (actions, files) = (trace.actions.len(), trace.snapshot.entries.len());
    anonymise(&mut trace, 1);
    if (trace.actions.len(), trace.snapshot.entries.len()) != (actions, files) {
        return Err("other names changed what is there".to_string());
    }
    Ok(())
}
