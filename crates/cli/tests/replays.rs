//! From a made trace to the comparison of two replays.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run the program and look at its files")]

use std::path::Path;
use std::process::Command;

/// Runs it in `dir`, checks the exit status, and returns standard output.
fn esker(dir: &Path, line: &str, status: i32) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
    let output = command.current_dir(dir).args(line.split(' ')).output().expect("the program starts");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{line}: {told}");
    String::from_utf8(output.stdout).expect("results are text")
}

#[test]
fn a_trace_is_replayed_and_two_replays_are_compared() {
    let dir = tempfile::tempdir().expect("a scratch folder");
    let esker = |line: &str, status| esker(dir.path(), line, status);
    esker("trace generate desk.etrace --seed 3 --threads 4 --scripts 20", 0);
    let made = esker("trace prepare desk.etrace --dir run", 0);
    assert!(made.contains("entries made, 0 changed, 0 removed"), "{made}");
    let again = esker("trace prepare desk.etrace --dir run --mode delta", 0);
    assert!(again.starts_with("0 of "), "{again}");
    let told = esker("trace replay desk.etrace --dir run --init delta --json root.json --report root.html", 0);
    assert!(told.contains("\nmismatches   0 of "), "{told}");
    esker("trace replay desk.etrace --dir run --init delta --mode temporal --repeat 2 --json temporal.json", 0);
    let compared = esker("trace compare root.json temporal.json --html if.html", 0);
    assert!(compared.contains("root.json") && compared.contains("temporal.json"), "{compared}");
    for page in ["root.html", "if.html"] {
        assert!(std::fs::read_to_string(dir.path().join(page)).expect("it was written").contains("<svg"), "{page}");
    }
    esker("trace replay desk.etrace --dir . --init full", 1);
    assert!(dir.path().join("desk.etrace").exists(), "the folder of others is left alone");
    let json = esker("trace replay desk.etrace --dir run --mode unconstrained --json - --max-failures 100", 0);
    assert!(json.contains("\"mode\": \"unconstrained\""), "{json}");
}

#[test]
fn a_replay_on_a_file_system_of_ours_is_simulated_and_one_seed_gives_one_report() {
    let dir = tempfile::tempdir().expect("a scratch folder");
    let esker = |line: &str| esker(dir.path(), line, 0);
    let report = |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("it was written");
    esker("trace generate desk.etrace --seed 3 --threads 4 --scripts 20");
    let told = esker("trace replay desk.etrace --on ram --json one.json --report one.html");
    assert!(told.contains("\nmismatches   0 of ") && told.contains("\nsimulated    in virtual time, 2 CPUs"), "{told}");
    esker("trace replay desk.etrace --on ram --json two.json");
    assert_eq!(report("one.json"), report("two.json"));
    esker("trace replay desk.etrace --on ram --seed 2 --json other.json");
    assert_ne!(report("one.json"), report("other.json"), "other bytes are written");
    esker("trace replay desk.etrace --dir run --json kernel.json");
    let compared = esker("trace compare one.json kernel.json");
    assert!(compared.contains("ram") && compared.contains("kernel.json"), "{compared}");
}

/// Makes a file in `fd 3` with mode 06777, as another user's trace would.
const SET_ID: &str = r#"100 1700000000.000001 openat(AT_FDCWD, "/x", O_RDWR|O_CREAT|O_TRUNC, 0666) = 3 <0.000010>
100 1700000000.000100 ftruncate(3, 65536) = 0 <0.000010>
100 1700000000.000200 fchmod(3, 06777) = 0 <0.000010>
100 1700000000.000300 close(3) = 0 <0.000010>
100 1700000000.003900 exit_group(0) = ?
100 1700000000.004000 +++ exited with 0 +++
"#;

#[test]
fn a_set_id_file_of_a_foreign_trace_is_masked_and_told() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().expect("a scratch folder");
    std::fs::write(dir.path().join("s.strace"), SET_ID).expect("it can be written");
    let mode = |path: &str| std::fs::metadata(dir.path().join(path)).expect("it was made").mode() & 0o7777;
    let told = esker(dir.path(), "trace replay s.strace --dir run", 0);
    assert!(told.contains("adapted: set-user-id and set-group-id bits were left out"), "{told}");
    assert_eq!((mode("run/tree/x"), mode("run")), (0o777, 0o700));
    let told = esker(dir.path(), "trace replay s.strace --dir own --keep-modes", 0);
    assert!(!told.contains("set-user-id"), "{told}");
    assert_eq!((mode("own/tree/x"), mode("own")), (0o6777, 0o700));
}

/// What `tar`, `mv` and programs that publish files without a name do.
const COPIES: &str = r##"100 1700000000.000001 mkdir("/o", 0700) = 0 <0.000010>
100 1700000000.000100 openat(AT_FDCWD, "/o", O_RDONLY|O_NOFOLLOW|O_CLOEXEC|O_PATH|O_DIRECTORY) = 3</o> <0.000010>
100 1700000000.000200 chmod("/proc/self/fd/3", 0755) = 0 <0.000010>
100 1700000000.000300 close(3</o>) = 0 <0.000010>
100 1700000000.000400 openat(AT_FDCWD, "/o", O_RDWR|O_TMPFILE, 0600) = 3</o/#5>(deleted) <0.000010>
100 1700000000.000500 write(3</o/#5>(deleted), ""..., 79) = 79 <0.000010>
100 1700000000.000600 linkat(AT_FDCWD, "/proc/self/fd/3", AT_FDCWD, "/o/new", AT_SYMLINK_FOLLOW) = 0 <0.000010>
100 1700000000.000700 close(3</o/new>) = 0 <0.000010>
100 1700000000.000800 rename("/o/new", "/o/x") = -1 EXDEV (Invalid cross-device link) <0.000010>
100 1700000000.003900 exit_group(0) = ?
100 1700000000.004000 +++ exited with 0 +++
"##;

#[test]
fn names_of_descriptors_and_other_file_systems_have_their_effect() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().expect("a scratch folder");
    std::fs::write(dir.path().join("c.strace"), COPIES).expect("it can be written");
    let told = esker(dir.path(), "trace replay c.strace --dir run", 0);
    assert!(told.contains("\nmismatches   0 of "), "{told}");
    assert!(told.contains("adapted: clones, links, renames and maps that failed"), "{told}");
    let seen = |path: &str| std::fs::metadata(dir.path().join("run/tree").join(path)).expect("it was made");
    assert_eq!((seen("o").mode() & 0o7777, seen("o/new").len()), (0o755, 79));
    assert!(!dir.path().join("run/tree/o/x").exists() && !dir.path().join("run/tree/proc").exists());
}

#[test]
fn bytes_of_a_trace_are_bounded_on_request() {
    let dir = tempfile::tempdir().expect("a scratch folder");
    let text = SET_ID.replace("ftruncate(3, 65536) = 0", r#"write(3, ""..., 2147479552) = 2147479552"#);
    std::fs::write(dir.path().join("w.strace"), text).expect("it can be written");
    esker(dir.path(), "trace replay w.strace --dir run --max-bytes 1GiB", 1);
    assert!(!dir.path().join("run").exists(), "nothing was made");
}

#[test]
fn a_recording_that_lost_all_of_its_actions_is_no_success() {
    let dir = tempfile::tempdir().expect("a scratch folder");
    std::fs::write(dir.path().join("s.strace"), SET_ID).expect("it can be written");
    esker(dir.path(), "trace import s.strace -o whole.etrace", 0);
    let whole = std::fs::read(dir.path().join("whole.etrace")).expect("it was written");
    let (mut lost, mut partial) = (0, 0);
    for at in (0..whole.len()).step_by(5) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        std::fs::write(dir.path().join("damaged.etrace"), damaged).expect("it can be written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
        let line = "trace compile damaged.etrace -o out.ectr --force";
        let output = command.current_dir(dir.path()).args(line.split(' ')).output().expect("the program starts");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!(output.status.success() && told.contains(": 0 actions")), "byte {at}: {told}");
        if told.contains("parts of the recording are lost") {
            assert_eq!(output.status.code(), Some(1), "byte {at}: {told}");
            esker(dir.path(), "trace compile damaged.etrace -o out.ectr --force --partial", 0);
            let json = esker(dir.path(), "trace replay out.ectr --dir part --json - --max-failures 100", 0);
            assert!(json.contains("of the recording w"), "byte {at}: {json}");
            partial += 1;
        }
        if told.contains("all actions are lost") {
            assert_eq!(output.status.code(), Some(1), "byte {at}: {told}");
            esker(dir.path(), "trace replay damaged.etrace --dir run", 1);
            lost += 1;
        }
    }
    assert!(lost > 0, "no damage lost all actions");
    assert!(partial > 0, "no damage lost a part");
}

/// Descriptors, sizes, depths, times and ends that no program has.
const EXTREMES: &str = r#"100 1700000000.000001 openat(AT_FDCWD, "/x", O_RDWR|O_CREAT, 0666) = 3 <0.000010>
100 1700000000.000002 dup2(3, 2147483647) = 2147483647 <0.000010>
100 1700000000.000003 mmap(NULL, 140737488355328, PROT_READ, MAP_SHARED, 3, 0) = 0x7f0000000000 <0.000010>
100 1700000000.000004 lseek(3, 9223372036854775807, SEEK_SET) = 9223372036854775807 <0.000010>
100 1700000000.000005 mknodat(AT_FDCWD, "/pipe", S_IFIFO|0666) = 0 <0.000010>
100 1700000000.000006 openat(AT_FDCWD, "/pipe", O_RDONLY) = 4 <0.000010>
100 1700000000.000007 mkdir("/DEEP", 0777) = 0 <0.000010>
100 1700000000.000008 read(3, ""..., 16) = 0 <99999999999.0>
"#;

#[test]
fn a_trace_of_extremes_ends_in_its_time_with_nothing_outside() {
    let dir = tempfile::tempdir().expect("a scratch folder");
    std::fs::create_dir(dir.path().join("outside")).expect("it can be made");
    std::fs::write(dir.path().join("outside/kept"), "kept").expect("it can be written");
    let mut text = EXTREMES.replace("DEEP", &vec!["d"; 1500].join("/"));
    for thread in 0..3000 {
        text += &format!("{} 1700000000.{:06} getcwd(\"/\", 4096) = 2 <0.000001>\n", 1000 + thread, 100 + thread);
    }
    std::fs::write(dir.path().join("e.strace"), text).expect("it can be written");
    let esker = env!("CARGO_BIN_EXE_esker");
    let words = ["120", esker, "trace", "replay", "e.strace", "--dir", "run", "--mode", "unconstrained"];
    let output = Command::new("timeout").current_dir(dir.path()).args(words).output().expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "the peer of its pipe never comes: {error}");
    assert!(error.contains("was stopped") && !error.contains("panicked"), "{error}");
    let outside: Vec<_> = std::fs::read_dir(dir.path().join("outside")).expect("it is there").flatten().collect();
    assert_eq!(outside.len(), 1);
    assert_eq!(std::fs::read(dir.path().join("outside/kept")).expect("it is there"), b"kept");
}

#[test]
fn a_packed_line_without_end_is_refused_before_it_is_unpacked() {
    let dir = tempfile::tempdir().expect("a scratch folder");
    let pack =
        "import gzip, sys; m = gzip.compress(bytes([97]) * (1 << 20), 6); open(sys.argv[1], 'wb').write(m * 1500)";
    for (name, verb) in [("b.csv.gz", "stat"), ("b.strace.gz", "import")] {
        let packed = Command::new("python3").current_dir(dir.path()).args(["-c", pack, name]).status();
        assert!(packed.expect("python is installed").success());
        let line = match verb {
            "stat" => format!("blktrace stat {name} --from msr"),
            _ => format!("trace import {name} -o out.etrace"),
        };
        let limited = format!("ulimit -v 2000000; exec timeout 20 {} {line}", env!("CARGO_BIN_EXE_esker"));
        let output = Command::new("bash").current_dir(dir.path()).args(["-c", &limited]).output().expect("it starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {error}");
        assert!(!error.is_empty(), "{line} says why");
    }
    assert!(!dir.path().join("out.etrace").exists());
}
