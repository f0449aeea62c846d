//! Each element of strace's text, one line each; the text is written back from what was read.

use std::io::BufReader;

use crate::action::Outcome;
use crate::import::{OnBad, ParseError, read_trace, strace::Strace};
use crate::trace::Trace;
use crate::warning::WarningKind;
use crate::wire::Field;
use esker_base::Errno;

fn parse(text: &str, on_bad: OnBad) -> Result<Trace, ParseError> {
    read_trace(&mut Strace::new(BufReader::with_capacity(16, text.as_bytes()), on_bad), on_bad)
}

fn strict(text: &str) -> Trace {
    parse(text, OnBad::Fail).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The calls of a trace as text, each with its outcome.
fn told(trace: &Trace) -> Vec<String> {
    let tell = |action: &crate::Action| {
        let mut text = String::new();
        action.call.render(&mut text);
        text.push_str(" = ");
        action.outcome.render(&mut text);
        text
    };
    trace.actions.iter().map(tell).collect()
}

/// Parses one call, which begins at 100 s.
fn check(line: &str, expected: &str) {
    let (duration, took) = if line.ends_with("= ?") { ("", 0) } else { (" <0.000010>", 10_000) };
    let trace = strict(&format!("7 100.000000 {line}{duration}\n"));
    assert_eq!(told(&trace), [expected], "{line}");
    assert_eq!(trace.actions[0].leave.0 - trace.actions[0].enter.0, took, "{line}");
    let recorded = crate::etrace::write(&trace, Vec::new()).expect("memory takes all");
    let again = crate::etrace::read(&*recorded, crate::etrace::Limits::GENEROUS);
    assert_eq!(again.expect("a recording"), trace, "{line}");
    let odd: Vec<_> = trace.warnings.tallies().map(|(kind, _)| kind).collect();
    let usual = [WarningKind::FdInherited, WarningKind::MappedReads];
    assert!(odd.iter().all(|kind| usual.contains(kind)), "{line}: {odd:?}");
    assert_eq!(odd.contains(&WarningKind::MappedReads), line.starts_with("mmap("), "{line}");
}

#[test]
fn calls_that_open_make_and_remove() {
    let cases = [
        (r#"open("a b", O_RDONLY) = 3"#, r#"open(at="a b", flags=READ, mode=0, resolve=0) = 3"#),
        (
            r#"openat(AT_FDCWD, "f", O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC, 0644) = 4"#,
            r#"open(at="f", flags=WRITE | O_CREAT | O_EXCL | O_CLOEXEC, mode=420, resolve=0) = 4"#,
        ),
        (
            r#"openat(5</d>, "f", O_RDWR|O_TMPFILE, 0600) = 4</d/#1 (deleted)>"#,
            r#"open(at=5:"f", flags=READ | WRITE | O_TMPFILE, mode=384, resolve=0) = 4"#,
        ),
        (
            r#"openat2(AT_FDCWD, "f", {flags=O_RDONLY|O_PATH, resolve=RESOLVE_BENEATH|RESOLVE_NO_SYMLINKS}, 24) = 3"#,
            r#"open(at="f", flags=O_PATH, mode=0, resolve=RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH) = 3"#,
        ),
        (r#"creat("f", 0666) = 3"#, r#"open(at="f", flags=WRITE | O_CREAT | O_TRUNC, mode=438, resolve=0) = 3"#),
        (r#"mkdir("d", 0777)               = 0"#, r#"mkdir(at="d", mode=511) = 0"#),
        (
            r#"mknodat(AT_FDCWD, "n", S_IFCHR|0600, makedev(0x1, 0x3)) = 0"#,
            r#"mknod(at="n", kind=S_IFCHR, mode=384, device=4294967299) = 0"#,
        ),
        (r#"symlinkat("../t", AT_FDCWD, "l") = 0"#, r#"symlink(target="../t", at="l") = 0"#),
        (r#"linkat(3, "", AT_FDCWD, "new", AT_EMPTY_PATH) = 0"#, r#"link(from=3, to="new") = 0"#),
        (r#"linkat(AT_FDCWD, "old", AT_FDCWD, "new", 0) = 0"#, r#"link(from="old" (not followed), to="new") = 0"#),
        (
            r#"unlinkat(AT_FDCWD, "d", AT_REMOVEDIR) = -1 ENOTEMPTY (Directory not empty)"#,
            r#"rmdir(at="d") = ENOTEMPTY"#,
        ),
        (
            r#"renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE) = 0"#,
            r#"rename(from="a", to="b", flags=RENAME_EXCHANGE) = 0"#,
        ),
        (r#"fchdir(3</d>) = 0"#, "chdir(file=3) = 0"),
        (
            r#"readlink("/proc/self/exe", "/bin/x", 4096) = 6"#,
            r#"readlink(at="/proc/self/exe", len=4096, seen_target="/bin/x") = 6"#,
        ),
    ];
    cases.into_iter().for_each(|(line, expected)| check(line, expected));
}

#[test]
fn calls_that_move_data() {
    let cases = [
        (r#"read(3</f>, "\177ELF\2\1\1\0"..., 832) = 832"#, "read(fd=3, len=832, parts=0) = 832"),
        (r#"write(1, "a\n\"b\\c", 6) = 6"#, "write(fd=1, len=6, parts=0) = 6"),
        (r#"pread64(3, ""..., 4096, 8192) = 4096"#, "pread(fd=3, offset=8192, len=4096, parts=0, flags=0) = 4096"),
        (
            r#"writev(1, [{iov_base="ab", iov_len=2}, {iov_base="c"..., iov_len=10}], 2) = 12"#,
            "write(fd=1, len=12, parts=2) = 12",
        ),
        (
            r#"preadv2(3, [{iov_base="", iov_len=16}], 1, -1, RWF_NOWAIT) = 0"#,
            "pread(fd=3, offset=-1, len=16, parts=1, flags=RWF_NOWAIT) = 0",
        ),
        ("vmsplice(4, [{iov_base=0x5581, iov_len=60}], 1, 0) = 60", "write(fd=4, len=60, parts=1) = 60"),
        // Files without a name, as `-y` notes them.
        (r#"write(3</tmp/u>(deleted), "x"..., 4096) = 4096"#, "write(fd=3, len=4096, parts=0) = 4096"),
        (r#"dup(3</tmp/u>(deleted)) = 4</tmp/u>(deleted)"#, "dup(fd=3, min=0, cloexec=no) = 4"),
        ("fsync(3</tmp/#12 (deleted)>(deleted)) = 0", "fsync(fd=3, kind=fsync) = 0"),
        ("lseek(3, -10, SEEK_END) = 90", "lseek(fd=3, offset=-10, whence=SEEK_END) = 90"),
        (
            "fallocate(3, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 0, 4096) = 0",
            "fallocate(fd=3, flags=FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, offset=0, len=4096) = 0",
        ),
        (
            "fadvise64(3, 0, 0, POSIX_FADV_SEQUENTIAL) = 0",
            "fadvise(fd=3, offset=0, len=0, advice=POSIX_FADV_SEQUENTIAL) = 0",
        ),
        (
            "copy_file_range(3, NULL, 4, [128] => [1152], 1024, 0) = 1024",
            "copy_file_range(from=3, from_offset=-, to=4, to_offset=128, len=1024) = 1024",
        ),
        ("sendfile(4, 3, [0] => [10], 10) = 10", "sendfile(to=4, from=3, offset=0, len=10) = 10"),
        ("ioctl(4, BTRFS_IOC_CLONE or FICLONE, 3) = 0", "ficlone(from=3, to=4, from_offset=0, to_offset=0, len=0) = 0"),
        ("ioctl(1, TCGETS, {B38400 opost isig icanon echo ...}) = 0", "ioctl(fd=1, request=TCGETS) = 0"),
        ("fcntl(3, F_DUPFD_CLOEXEC, 10) = 10", "dup(fd=3, min=10, cloexec=yes) = 10"),
        ("fcntl(3, F_GETFL) = 0x8002 (flags O_RDWR|O_LARGEFILE)", "fcntl(fd=3, cmd=F_GETFL, arg=0) = 32770"),
        (
            "fcntl(3, F_SETLKW, {l_type=F_WRLCK, l_whence=SEEK_SET, l_start=0, l_len=1}) = 0",
            "fcntl_lock(fd=3, cmd=F_SETLKW, kind=LOCK_EX, whence=SEEK_SET, start=0, len=1) = 0",
        ),
        (
            "flock(3, LOCK_EX|LOCK_NB) = -1 EAGAIN (Resource temporarily unavailable)",
            "flock(fd=3, kind=LOCK_EX, wait=no) = EAGAIN",
        ),
    ];
    cases.into_iter().for_each(|(line, expected)| check(line, expected));
}

#[test]
fn calls_about_metadata() {
    let cases = [
        (
            r#"newfstatat(AT_FDCWD, "/x", {st_dev=makedev(0x8, 0x1), st_ino=9, st_mode=S_IFREG|0644, st_nlink=2, st_size=894, ...}, AT_SYMLINK_NOFOLLOW) = 0"#,
            r#"stat(file="/x" (not followed), seen={kind=S_IFREG mode=420 size=894 links=2 device=34359738369 inode=9}) = 0"#,
        ),
        (
            r#"newfstatat(AT_FDCWD, "/x", 0x7ffc2, 0) = -1 ENOENT (No such file or directory)"#,
            r#"stat(file="/x", seen=-) = ENOENT"#,
        ),
        (
            r#"newfstatat(3</d>, "", {st_mode=S_IFDIR|0755, st_size=4096, ...}, AT_EMPTY_PATH) = 0"#,
            "stat(file=3, seen={kind=S_IFDIR mode=493 size=4096 links=0 device=0 inode=0}) = 0",
        ),
        (
            r#"statx(AT_FDCWD, "/x", AT_STATX_SYNC_AS_STAT, STATX_ALL, {stx_mask=STATX_BASIC_STATS, stx_mode=S_IFREG|0600, stx_size=7, stx_nlink=1, stx_dev_major=8, stx_dev_minor=1, ...}) = 0"#,
            r#"stat(file="/x", seen={kind=S_IFREG mode=384 size=7 links=1 device=34359738369 inode=0}) = 0"#,
        ),
        (r#"faccessat2(AT_FDCWD, "x", R_OK|X_OK, AT_EACCESS) = 0"#, r#"access(file="x", mode=R_OK | X_OK) = 0"#),
        (
            r#"utimensat(3, NULL, [{tv_sec=1, tv_nsec=5}, UTIME_OMIT], 0) = 0"#,
            "utimensat(file=3, accessed=1000000005, modified=-) = 0",
        ),
        (
            r#"setxattr("x", "user.a", "v"..., 1, XATTR_CREATE) = 0"#,
            r#"setxattr(file="x", name=user.a, len=1, flags=XATTR_CREATE) = 0"#,
        ),
        (
            r#"getxattr("x", "user.\303\244", 0x7f01, 256) = -1 ENODATA (No data available)"#,
            r#"getxattr(file="x", name=user.\xc3\xa4, len=256) = ENODATA"#,
        ),
        (r#"chmod("x", 01755) = 0"#, r#"chmod(file="x", mode=1005) = 0"#),
        (r#"getdents64(3, 0x55d8 /* 7 entries */, 32768) = 208"#, "getdents(fd=3, len=32768) = 208"),
    ];
    cases.into_iter().for_each(|(line, expected)| check(line, expected));
}

#[test]
fn calls_about_memory_processes_and_queues() {
    let cases = [
        (
            "mmap(NULL, 8192, PROT_READ, MAP_PRIVATE|MAP_FIXED|MAP_DENYWRITE, 3</lib>, 0x2000) = 0x7f0000001000",
            "mmap(fd=3, address=0, len=8192, offset=8192, flags=PROT_READ | MAP_PRIVATE | MAP_FIXED) = 139637976731648",
        ),
        ("pipe2([3, 4], O_CLOEXEC) = 0", "pipe(seen_read=3, seen_write=4, flags=O_CLOEXEC) = 0"),
        (r#"execve("/bin/x", ["x", "-y"], 0x7ffd /* 20 vars */) = 0"#, r#"execve(file="/bin/x") = 0"#),
        (
            "io_submit(0x7f11, 1, [{aio_data=0x5, aio_lio_opcode=IOCB_CMD_PREAD, aio_fildes=3, aio_buf=0x1, aio_nbytes=4096, aio_offset=512}]) = 1",
            "io_submit(queue=aio:0x7f11, ops=[{key=5 kind=read fd=3 offset=512 len=4096}], wait=no) = 1",
        ),
        (
            "io_getevents(0x7f11, 1, 8, [{data=0x5, obj=0x55, res=4096, res2=0}], NULL) = 1",
            "io_getevents(queue=aio:0x7f11, min=1, max=8, seen_keys=[5]) = 1",
        ),
        (
            "poll([{fd=3<pipe:[5]>, events=POLLIN}], 1, -1) = 1 ([{fd=3, revents=POLLIN}])",
            "poll(fds=[3], timeout_ms=-1) = 1",
        ),
        ("memfd_create(\"m\", MFD_CLOEXEC) = 5", "make_fd(source=memfd_create, from=-1, name=m, cloexec=yes) = 5"),
        (
            r#"recvmsg(3, {msg_name=NULL, msg_control=[{cmsg_len=20, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[7, 8]}], msg_flags=0}, 0) = 1"#,
            "recvmsg(fd=3, len=1, seen_fds=[7, 8]) = 1",
        ),
        ("futex(0x7f, FUTEX_WAIT_PRIVATE, 2, NULL) = 0", "futex_wait(address=127, shared=no, value=2) = 0"),
        (
            "futex(0x7f, FUTEX_WAIT_BITSET|FUTEX_CLOCK_REALTIME, 71, NULL, FUTEX_BITSET_MATCH_ANY) = 0",
            "futex_wait(address=127, shared=yes, value=71) = 0",
        ),
        ("futex(0x7f, FUTEX_WAKE_PRIVATE, 2147483647) = 3", "futex_wake(address=127, shared=no) = 3"),
        ("futex(0x7f, FUTEX_WAKE, 1) = 1", "futex_wake(address=127, shared=yes) = 1"),
        ("futex(0x7f, FUTEX_UNLOCK_PI_PRIVATE) = 0", "other(name=futex) = 0"),
        ("exit_group(3) = ?", "exit(status=3, group=yes) = ?"),
    ];
    cases.into_iter().for_each(|(line, expected)| check(line, expected));
}

#[test]
fn names_are_bytes() {
    let trace = strict("1 1.000000 unlink(\"f0_ \\303\\244\\\"\\377\\0z\\t\") = 0 <0.000001>\n");
    let crate::Call::Unlink { at } = &trace.actions[0].call else { panic!("no unlink") };
    assert_eq!(at.path.as_bytes(), b"f0_ \xc3\xa4\"\xff\0z\t");
}

#[test]
fn split_calls_are_joined_by_their_thread() {
    let text = "\
10 5.000000 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD, stack=0x7f}, 88 <unfinished ...>
11 5.000100 read(3,  <unfinished ...>
10 5.000200 <... clone3 resumed> => {parent_tid=[11]}) = 11 <0.000200>
10 5.000300 openat(AT_FDCWD, \"a\", O_RDONLY <unfinished ...>
11 5.000400 <... read resumed>\"x\", 1) = 1 <0.000290>
10 5.000500 <... openat resumed>) = 4 <0.000200>
";
    let trace = strict(text);
    let expected = [
        "clone(flags=CLONE_THREAD | CLONE_FILES | CLONE_FS | CLONE_VM, child=T1) = 11",
        "read(fd=3, len=1, parts=0) = 1",
        "open(at=\"a\", flags=READ, mode=0, resolve=0) = 4",
    ];
    assert_eq!(told(&trace), expected);
    assert_eq!((trace.threads.len(), trace.processes.len()), (2, 1));
    let times: Vec<_> = trace.actions.iter().map(|action| (action.enter.0, action.leave.0)).collect();
    assert_eq!(times, [(0, 200_000), (100_000, 400_000), (300_000, 500_000)]);
}

#[test]
fn signals_exits_and_restarts() {
    let text = "\
10 1.000000 nanosleep({tv_sec=1, tv_nsec=0}, 0x7f) = ? ERESTART_RESTARTBLOCK (Interrupted by signal) <0.500000>
10 1.500000 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=11} ---
10 1.500100 restart_syscall(<... resuming interrupted nanosleep ...>) = 0 <0.400000>
10 2.000000 read(0, 0x7f, 10) = ? ERESTARTSYS (To be restarted if SA_RESTART is set) <0.100000>
10 2.100000 --- SIGALRM {si_signo=SIGALRM} ---
10 2.100100 rt_sigreturn({mask=[]}) = 0 <0.000010>
10 2.100200 read(0, \"k\", 10) = 1 <0.200000>
10 3.000000 read(0, 0x7f, 10) = ? ERESTARTSYS (To be restarted if SA_RESTART is set) <0.100000>
10 3.100000 --- SIGALRM {si_signo=SIGALRM} ---
10 3.100100 rt_sigreturn({mask=[]}) = -1 EINTR (Interrupted system call) <0.000010>
10 3.200000 close(0) = 0 <0.000010>
10 3.300000 +++ killed by SIGKILL +++
";
    let trace = strict(text);
    assert_eq!(trace.warnings.count(WarningKind::Restarted), 2);
    let reads: Vec<_> = trace.actions.iter().filter(|action| action.call.name() == "read").collect();
    let outcomes: Vec<_> = reads.iter().map(|action| action.outcome).collect();
    assert_eq!(outcomes, [Outcome::Done(1), Outcome::Failed(Errno::EINTR)]);
    assert_eq!((reads[0].enter.0, reads[0].leave.0), (1_000_000_000, 1_300_200_000));
    assert_eq!((trace.actions[0].enter.0, trace.actions[0].leave.0), (0, 900_100_000));
}

#[test]
fn heads_of_all_forms() {
    let close = "close(3) = 0 <0.000001>";
    let starts = [
        "1699999999.123456",
        "12  1699999999.123456789",
        "[pid    12] 1699999999.123456",
        "12 12:34:56.123456",
        "12:34:56",
    ];
    for start in starts {
        let trace = strict(&format!("{start} {close}\n"));
        assert_eq!(
            trace.threads[0].tid,
            if start.contains("12 ") || start.contains("12]") { 12 } else { 1 },
            "{start}"
        );
    }
    let trace = strict(&format!("9 23:59:59.5 {close}\n9 00:00:00.5 {close}\n"));
    assert_eq!(trace.actions[1].enter.0, 1_000_000_000, "midnight passed");
    let error = parse(&format!("{close}\n"), OnBad::Fail).expect_err("no time");
    assert!(matches!(error, ParseError::NoTime { line: 1, .. }), "{error}");
}

/// Item 18: what is odd is counted, or refused by name.
#[test]
fn odd_lines_have_their_warning() {
    let good = "1 1.000000 dup(0) = 3 <0.000001>\n";
    let counted = [
        ("1 2.000000 close(3) = ", WarningKind::CutLine),
        ("1 2.000000 read(3,  <unfinished ...>\n", WarningKind::Unfinished),
        ("1 2.000000 <... read resumed>\"\", 3) = 0 <0.1>\n", WarningKind::ResumedWithoutStart),
        ("1 2.000000 frobnicate(3) = 0 <0.000001>\n", WarningKind::UnknownCall),
        ("1 2.000000 lseek(3, 0, SEEK_SIDEWAYS) = 0 <0.000001>\n", WarningKind::BadArguments),
        ("1 2.000000 open(\"a\", O_RDONLY|O_MAGIC) = 4 <0.000001>\n", WarningKind::UnknownFlag),
        ("1 0.500000 close(3) = 0 <0.000001>\n", WarningKind::TimeBackwards),
        ("1 2.000000 open(\"a\", O_RDONLY) = 3 <0.000001>\n1 3.0 sync() = 0 <0.1>\n", WarningKind::FdReopened),
        ("1 2.000000 fsync(9) = 0 <0.000001>\n", WarningKind::FdInherited),
        ("2 2.000000 sync() = 0 <0.000001>\n", WarningKind::ThreadAppeared),
        ("1 2.000000 sync() = 0\n", WarningKind::NoDuration),
        ("1 2.000000 sync() = 0 (DELAYED) <0.000001>\n", WarningKind::DelayInjected),
    ];
    let before = strict(good).warnings;
    for (odd, kind) in counted {
        let trace = strict(&format!("{good}{odd}"));
        assert_eq!(trace.warnings.count(kind), before.count(kind) + 1, "{odd}");
    }
}

#[test]
fn lines_that_nobody_understands_are_refused_or_counted() {
    let good = "1 1.000000 sync() = 0 <0.000001>\n";
    let cut = "1 2.000000 unlink(\"abc\"...) = 0 <0.000001>\n";
    let error = parse(&format!("{good}{cut}"), OnBad::Fail).expect_err("a cut path");
    assert!(matches!(&error, ParseError::CutPath { line: 2, text } if text == "abc"), "{error}");
    let trace = parse(&format!("{good}{cut}"), OnBad::Skip).expect("counted");
    assert_eq!(trace.warnings.count(WarningKind::CutPath), 1);
    assert_eq!(told(&trace)[1], "other(name=unlink) = 0");

    let bad = [
        "1 2.0 hello world\n",
        "1 2.0 close(3\n",
        "1 2.0 close(3) 0\n",
        "1 2.0 close(\"3) = 0\n",
        "1 2.0 +++ so +++\n",
    ];
    for line in bad {
        let error = parse(&format!("{good}{line}"), OnBad::Fail).expect_err(line);
        assert!(matches!(error, ParseError::BadLine { line: 2, .. }), "{line}: {error}");
        let trace = parse(&format!("{good}{line}{good}"), OnBad::Skip).expect("counted");
        assert_eq!((trace.warnings.count(WarningKind::BadLine), trace.actions.len()), (1, 2), "{line}");
    }
    let error = parse("\n", OnBad::Skip).expect_err("nothing");
    assert!(matches!(error, ParseError::NoCalls { lines: 1 }), "{error}");
}

#[test]
fn descriptors_of_before_are_inferred_with_what_was_noted() {
    let text = "\
1 1.000000 write(1</dev/pts/0<char 136:0>>, \"a\", 1) = 1 <0.000001>
1 1.100000 openat(AT_FDCWD</home/me>, \"x\", O_RDONLY) = 3</home/me/x> <0.000001>
1 1.200000 openat(8</data>, \"y\", O_RDONLY) = 4 <0.000001>
1 1.300000 read(5<pipe:[77]>, \"\", 1) = 0 <0.000001>
1 1.400000 close(9) = -1 EBADF (Bad file descriptor) <0.000001>
";
    let trace = strict(text);
    let told: Vec<_> =
        trace.inherited.iter().map(|one| (one.fd.0, one.kind.name(), one.path.clone().unwrap_or_default())).collect();
    let path = |text: &str| crate::PathBytes::from(text);
    assert_eq!(told, [(1, "S_IFCHR", path("/dev/pts/0")), (8, "S_IFDIR", path("/data")), (5, "S_IFIFO", path(""))]);
    assert_eq!(trace.processes[0].cwd, path("/home/me"));
}

#[test]
fn tables_of_descriptors_follow_forks_and_exec() {
    let text = "\
1 1.000000 open(\"a\", O_RDONLY|O_CLOEXEC) = 3 <0.000001>
1 1.010000 open(\"b\", O_RDONLY) = 4 <0.000001>
1 1.100000 fork() = 2 <0.000100>
2 1.110000 close(4) = 0 <0.000001>
1 1.120000 read(4, \"\", 1) = 0 <0.000001>
2 1.200000 execve(\"/b\", [\"b\"], 0x7 /* 1 var */) = 0 <0.000100>
2 1.300000 read(3, \"\", 1) = 0 <0.000001>
1 1.400000 read(3, \"\", 1) = 0 <0.000001>
2 1.500000 +++ exited with 0 +++
1 1.600000 fork() = 2 <0.000100>
2 1.700000 read(4, \"\", 1) = 0 <0.000001>
";
    let trace = strict(text);
    assert_eq!(trace.inherited.len(), 1, "only 3 in the child that executed: {:?}", trace.inherited);
    assert_eq!((trace.inherited[0].process.0, trace.inherited[0].fd.0), (0, 3), "of the process that was there first");
    assert_eq!((trace.threads.len(), trace.processes.len()), (3, 3), "number 2 was two children");
}

/// Made when the call returns, ended when it begins: else the number would seem to be taken twice.
#[test]
fn a_number_that_one_thread_closes_while_another_opens_is_not_lost() {
    let text = "\
1 1.000000 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_THREAD|CLONE_FILES) = 2 <0.0001>
1 1.100000 open(\"a\", O_RDONLY) = 3 <0.0001>
1 1.200000 open(\"b\", O_RDONLY <unfinished ...>
2 1.300000 close(3) = 0 <0.0001>
1 1.400000 <... open resumed>) = 3 <0.2>
2 1.500000 read(3, \"\", 1) = 0 <0.0001>
";
    let trace = strict(text);
    assert_eq!(trace.warnings.count(WarningKind::FdReopened), 0);
    assert!(trace.inherited.is_empty(), "{:?}", trace.inherited);
}

#[test]
fn an_exec_of_another_thread_ends_the_leader() {
    let text = "\
1 1.000000 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_THREAD|CLONE_FILES) = 2 <0.0001>
1 1.100000 read(0,  <unfinished ...>
2 1.200000 execve(\"/b\", [\"b\"], 0x7 /* 1 var */ <unfinished ...>
1 1.300000 +++ superseded by execve in pid 2 +++
1 1.300000 <... execve resumed>) = 0 <0.1>
1 1.400000 sync() = 0 <0.0001>
";
    let trace = strict(text);
    assert_eq!(told(&trace)[1..], ["execve(file=\"/b\") = 0", "sync() = 0"]);
    assert_eq!(trace.warnings.count(WarningKind::Unfinished), 1);
    assert_eq!(trace.actions[1].thread.0, 1);
}

#[test]
fn a_ring_that_the_kernel_polls_is_known_by_its_flags() {
    let setup = |flags: &str, ret: &str| {
        let params =
            format!("{{flags={flags}, sq_thread_cpu=0, sq_thread_idle=0, sq_entries=4, sq_off={{head=0, tail=4}}}}");
        strict(&format!("7 100.000000 io_uring_setup(4, {params}) = {ret} <0.000010>\n"))
    };
    let polled =
        |trace: &Trace| (trace.actions[0].call.is_polled_ring(), trace.warnings.count(WarningKind::UringPolled));
    assert_eq!(polled(&setup("IORING_SETUP_SQPOLL|IORING_SETUP_CQSIZE", "3<anon_inode:[io_uring]>")), (true, 1));
    assert_eq!(polled(&setup("0", "3<anon_inode:[io_uring]>")), (false, 0));
    assert_eq!(polled(&setup("IORING_SETUP_SQPOLL", "-1 EPERM (Operation not permitted)")), (true, 0), "none was made");
}
