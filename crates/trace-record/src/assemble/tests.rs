use super::*;

/// What was told, as text.
#[derive(Default)]
struct Told(Vec<String>);

impl Sink for Told {
    fn process(&mut self, id: ProcessId, process: &Process) {
        self.0.push(format!("process {} = {}", id.0, process.pid));
    }
    fn thread(&mut self, id: ThreadId, thread: &Thread) {
        self.0.push(format!("thread {} = {} of {}", id.0, thread.tid, thread.process.0));
    }
    fn action(&mut self, action: &Action) {
        let (call, at) = (&action.call, (action.enter.0, action.leave.0));
        self.0.push(format!("{} {} {at:?} {:?}", action.thread.0, call.name(), action.outcome));
    }
    fn inherited(&mut self, _: &Inherited) {}
    fn touched(&mut self, path: &[u8]) {
        self.0.push(format!("touched {}", path.escape_ascii()));
    }
    fn listed(&mut self, path: &[u8]) {
        self.0.push(format!("listed {}", path.escape_ascii()));
    }
    fn resolved(&mut self, path: &[u8]) -> Vec<u8> {
        path.to_vec()
    }
    fn warning(&mut self, kind: WarningKind, count: u64, _: Time, _: String) {
        self.0.push(format!("warning {kind:?} {count}"));
    }
}

struct Bench {
    assembler: Assembler,
    told: Told,
}

impl Bench {
    /// One process, 100, with its first thread.
    fn new() -> Bench {
        let (mut assembler, mut told) = (Assembler::new(1000, true), Told::default());
        assembler.add_process(100, PathBytes::from("/home"), 0o022, &mut told);
        assembler.add_thread(100, 100, Word::default(), &mut told);
        told.0.clear();
        Bench { assembler, told }
    }

    fn take(&mut self, time: u64, thread: u32, process: u32, what: What<'_>) -> &mut Bench {
        self.assembler.take(&Event { time: 1000 + time, thread, process, what }, &mut self.told);
        self
    }

    fn enter(&mut self, time: u64, thread: u32, number: i64, args: [u64; 6], text: Option<&[u8]>) -> &mut Bench {
        self.take(time, thread, 100, What::Enter { number: number as u32, args, items: [text, None, None] })
    }

    fn exit(&mut self, time: u64, thread: u32, number: i64, result: i64) -> &mut Bench {
        let items = Items::default();
        self.take(time, thread, 100, What::Exit { number: number as u32, result, late: false, items })
    }

    fn check(&mut self, expected: &[&str]) {
        assert_eq!(std::mem::take(&mut self.told.0), expected);
    }
}

const NONE: [u64; 6] = [0; 6];

#[test]
fn a_call_is_told_when_it_has_ended() {
    let mut bench = Bench::new();
    bench.enter(5, 100, libc::SYS_unlink, NONE, Some(b"a\0")).check(&["touched /home/a"]);
    bench.exit(9, 100, libc::SYS_unlink, -2).check(&["0 unlink (5, 9) Failed(ENOENT)"]);
}

#[test]
fn a_text_that_was_read_late_is_as_good() {
    let mut bench = Bench::new();
    bench.enter(5, 100, libc::SYS_rmdir, NONE, None).check(&[]);
    let items = [Some(&b"d\0"[..]), None, None];
    bench.take(9, 100, 100, What::Exit { number: libc::SYS_rmdir as u32, result: 0, late: true, items });
    bench.check(&["0 rmdir (5, 9) Done(0)"]);
}

#[test]
fn an_interrupted_call_goes_on_or_has_failed() {
    let mut bench = Bench::new();
    let wait = |bench: &mut Bench, time| {
        bench.enter(time, 100, libc::SYS_wait4, NONE, None);
    };
    wait(&mut bench, 1);
    bench.exit(2, 100, libc::SYS_wait4, -512).check(&[]);
    wait(&mut bench, 3);
    bench.exit(4, 100, libc::SYS_wait4, 7).check(&["warning Restarted 1", "0 wait (1, 4) Done(7)"]);
    wait(&mut bench, 5);
    bench.exit(6, 100, libc::SYS_wait4, -514);
    bench.enter(7, 100, libc::SYS_sync, NONE, None).check(&["0 wait (5, 6) Failed(EINTR)"]);
}

#[test]
fn threads_and_processes_are_told_apart() {
    let mut bench = Bench::new();
    let fork = |bench: &mut Bench, child, flags| {
        bench.enter(1, 100, libc::SYS_clone, [flags, 0, 0, 0, 0, 0], None);
        bench.take(2, 100, 100, What::Fork { child, flags });
        bench.exit(3, 100, libc::SYS_clone, i64::from(child));
    };
    fork(&mut bench, 101, libc::CLONE_THREAD as u64);
    bench.check(&["thread 1 = 101 of 0", "0 clone (1, 3) Done(101)"]);
    fork(&mut bench, 102, 0);
    bench.check(&["process 1 = 102", "thread 2 = 102 of 1", "0 clone (1, 3) Done(102)"]);
    assert_eq!(bench.assembler.alive, 3);
    bench.exit(4, 102, libc::SYS_clone, 0).check(&[]);
    bench.take(5, 102, 102, What::End).check(&[]);
    bench.take(6, 100, 100, What::Fork { child: 102, flags: 0 });
    bench.check(&["process 2 = 102", "thread 3 = 102 of 2"]);
}

#[test]
fn a_thread_that_executes_takes_the_number_of_its_process() {
    let mut bench = Bench::new();
    bench.take(1, 100, 100, What::Fork { child: 101, flags: libc::CLONE_THREAD as u64 });
    bench.enter(2, 101, libc::SYS_execve, NONE, Some(b"/bin/x\0"));
    bench.told.0.clear();
    bench.take(3, 100, 100, What::Exec { old: 101, new: 100 });
    bench.exit(4, 100, libc::SYS_execve, 0).check(&["1 execve (2, 4) Done(0)"]);
    assert_eq!(bench.assembler.alive, 1);
}

#[test]
fn a_call_that_never_returns_ends_with_its_thread() {
    let mut bench = Bench::new();
    bench.enter(1, 100, libc::SYS_exit_group, [3, 0, 0, 0, 0, 0], None);
    bench.take(8, 100, 100, What::End).check(&["0 exit (1, 8) Unknown"]);
}

#[test]
fn what_was_lost_is_counted() {
    let mut bench = Bench::new();
    bench.exit(1, 100, libc::SYS_sync, 0).check(&[]);
    bench.enter(2, 100, libc::SYS_sync, NONE, None);
    bench.enter(3, 100, libc::SYS_sync, NONE, None).check(&["warning LostEvents 1", "0 sync (2, 3) Unknown"]);
    bench.exit(4, 100, libc::SYS_sync, 0).check(&["0 sync (3, 4) Done(0)"]);
    bench.exit(5, 100, libc::SYS_sync, 0).check(&["warning ResumedWithoutStart 1"]);
    bench.enter(6, 555, libc::SYS_sync, NONE, None).check(&["warning ThreadAppeared 1", "thread 1 = 555 of 0"]);
}

#[test]
fn memory_without_files_is_nobodys_business() {
    let mut bench = Bench::new();
    let map = |bench: &mut Bench, fd: i64, address| {
        let (shared, writable) = (libc::MAP_SHARED as u64, (libc::PROT_READ | libc::PROT_WRITE) as u64);
        bench.enter(1, 100, libc::SYS_mmap, [0, 4096, writable, shared, fd as u64, 0], None);
        bench.exit(2, 100, libc::SYS_mmap, address);
    };
    let unmap = |bench: &mut Bench, address| {
        bench.enter(3, 100, libc::SYS_munmap, [address, 4096, 0, 0, 0, 0], None);
        bench.exit(4, 100, libc::SYS_munmap, 0);
    };
    map(&mut bench, -1, 0x10000);
    unmap(&mut bench, 0x10000);
    bench.check(&[]);
    map(&mut bench, 3, 0x20000);
    bench.check(&["0 mmap (1, 2) Done(131072)"]);
    unmap(&mut bench, 0x20000);
    bench.check(&["0 munmap (3, 4) Done(0)"]);
}

#[test]
fn writable_shared_maps_of_files_are_told_and_those_of_devices_and_shared_memory_are_not() {
    let mut bench = Bench::new();
    let (shared, writable) = (libc::MAP_SHARED as u64, libc::PROT_WRITE as u64);
    for (path, warned) in [(&b"/home/f\0"[..], true), (b"/dev/shm/f\0", false)] {
        bench.enter(1, 100, libc::SYS_open, [0, libc::O_RDWR as u64, 0, 0, 0, 0], Some(path));
        bench.exit(2, 100, libc::SYS_open, 5);
        bench.told.0.clear();
        bench.enter(3, 100, libc::SYS_mmap, [0, 4096, writable, shared, 5, 0], None);
        bench.exit(4, 100, libc::SYS_mmap, 0x20000);
        let told = ["warning MappedWrites 1", "0 mmap (3, 4) Done(131072)"];
        bench.check(if warned { &told } else { &told[1..] });
        bench.enter(5, 100, libc::SYS_close, [5, 0, 0, 0, 0, 0], None).exit(6, 100, libc::SYS_close, 0);
        bench.told.0.clear();
    }
}

#[test]
fn a_ring_that_the_kernel_polls_is_told_when_it_is_made() {
    let params = |flags: u32| [[0; 8].as_slice(), &flags.to_le_bytes()].concat();
    let setup = |bench: &mut Bench, flags, result| {
        bench.enter(1, 100, libc::SYS_io_uring_setup, [4, 0x1000, 0, 0, 0, 0], Some(&params(flags)));
        bench.exit(2, 100, libc::SYS_io_uring_setup, result);
    };
    let mut bench = Bench::new();
    setup(&mut bench, 0x2, 7);
    bench.check(&["warning UringPolled 1", "0 make_fd (1, 2) Done(7)"]);
    setup(&mut bench, 0x2, -i64::from(libc::EPERM));
    bench.check(&["0 make_fd (1, 2) Failed(EPERM)"]);
    setup(&mut bench, 0x1, 8);
    bench.check(&["0 make_fd (1, 2) Done(8)"]);
    // Two requests on an ordinary one.
    bench.enter(3, 100, libc::SYS_io_uring_enter, [8, 2, 0, 0, 0, 0], None).exit(4, 100, libc::SYS_io_uring_enter, 2);
    bench.check(&["warning UringUnseen 2", "0 io_uring_enter (3, 4) Done(2)"]);
}

#[test]
fn faults_are_told_where_a_file_is_mapped_by_a_call() {
    let mut bench = Bench::new();
    let map = [0, 0x4000, libc::PROT_READ as u64, libc::MAP_PRIVATE as u64, 3, 0x8000];
    bench.enter(1, 100, libc::SYS_mmap, map, None).exit(2, 100, libc::SYS_mmap, 0x20000);
    bench.check(&["0 mmap (1, 2) Done(131072)"]);
    let fault = |bench: &mut Bench, [time, done]: [u64; 2], address, pages, in_call| {
        bench.take(time, 100, 100, What::Fault { done: 1000 + done, address, pages, in_call, is_write: false });
    };
    fault(&mut bench, [5, 5], 0x21010, [9, 9], false);
    fault(&mut bench, [5, 90], 0x21010, [8, 15], false);
    bench.check(&[]);
    fault(&mut bench, [91, 91], 0x10000, [0, 0], false);
    fault(&mut bench, [92, 92], 0x22000, [9, 9], false);
    fault(&mut bench, [93, 93], 0x23fff, [8, 11], true);
    bench.check(&["0 page_fault (5, 90) Done(0)"]);
    bench.enter(92, 100, libc::SYS_sync, NONE, None).check(&["0 page_fault (92, 92) Done(0)"]);
    fault(&mut bench, [94, 95], 0x20000, [8, 8], true);
    bench.exit(99, 100, libc::SYS_sync, 0).check(&["0 page_fault (92, 92) Done(0)", "0 sync (92, 99) Done(0)"]);
    fault(&mut bench, [100, 101], 0x20000, [8, 8], false);
    bench.take(102, 100, 100, What::End).check(&["0 page_fault (100, 101) Done(0)"]);
}

#[test]
fn who_sees_no_faults_says_so_of_each_map() {
    let mut bench = Bench::new();
    bench.assembler = Assembler::new(1000, false);
    bench.assembler.add_process(100, PathBytes::from("/home"), 0o022, &mut bench.told);
    bench.assembler.add_thread(100, 100, Word::default(), &mut bench.told);
    bench.told.0.clear();
    let map = [0, 0x4000, libc::PROT_READ as u64, libc::MAP_PRIVATE as u64, 3, 0];
    bench.enter(1, 100, libc::SYS_mmap, map, None).exit(2, 100, libc::SYS_mmap, 0x20000);
    bench.check(&["warning MappedReads 1", "0 mmap (1, 2) Done(131072)"]);
}

mod rings;
