//! Mounts of one test, each served by a process of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

pub const ESKER: &str = env!("CARGO_BIN_EXE_esker");

/// Seconds after which a program that a test runs counts as hanging.
const TIME_MAX: &str = "30";

/// An ordinary user that every machine has.
pub const USER: &str = "nobody";

/// Whether the test can be run here; says loudly what is missing if not.
pub fn can_run(programs: &[&str]) -> bool {
    let missing = |program: &&&str| Command::new(program).arg("--version").output().is_err();
    let mut reasons: Vec<String> = programs.iter().filter(missing).map(|name| format!("there is no {name}")).collect();
    reasons.extend((!Path::new("/dev/fuse").exists()).then(|| "there is no /dev/fuse".to_string()));
    reasons.extend((!rustix::process::geteuid().is_root()).then(|| "it takes root".to_string()));
    if !reasons.is_empty() {
        esker_testkit::skip(esker_testkit::Ability::Attach, reasons.join("; "));
    }
    reasons.is_empty()
}

/// Transports that can be had here.
pub fn transports() -> &'static [&'static str] {
    if esker_testkit::has_fuse_ring() { &["device", "uring"] } else { &["device"] }
}

/// Whether an ordinary user can mount here, likewise.
pub fn can_run_as_user() -> bool {
    if !can_run(&["fusermount3", "runuser"]) {
        return false;
    }
    let mode = fs::metadata("/dev/fuse").map_or(0, |meta| meta.permissions().mode());
    if mode & 0o006 != 0o006 {
        let why = "users may not read and write /dev/fuse, which has mode 666 where fuse3 is set up";
        esker_testkit::skip(esker_testkit::Ability::Attach, why);
    }
    mode & 0o006 == 0o006
}

/// A program with arguments that is ended when it hangs.
pub fn tool(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=2", TIME_MAX, program]).args(args).stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

/// Runs a program to its end, which must be a good one, and returns what it printed.
pub fn check_tool(program: &str, args: &[&str]) -> String {
    let output = tool(program, args).output().expect("timeout(1) starts");
    assert!(output.status.success(), "{program} {args:?}: {}\n{}", output.status, said(&output));
    said(&output)
}

/// What a program that fails says.
pub fn refused(program: &str, args: &[&str]) -> String {
    let output = tool(program, args).output().expect("timeout(1) starts");
    assert!(!output.status.success(), "{program} {args:?} succeeded");
    assert_ne!(output.status.code(), Some(124), "{program} {args:?} hangs");
    said(&output)
}

/// A directory of one test, which an ordinary user may enter. What is still mounted in it goes when it is dropped.
pub struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Place {
        let dir = tempfile::tempdir().expect("a directory can be made");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("it is our own");
        Place { dir }
    }

    /// An empty directory of this name.
    pub fn directory(&self, name: &str) -> PathBuf {
        let at = self.dir.path().join(name);
        fs::create_dir(&at).expect("it is not there");
        fs::canonicalize(at).expect("it is there")
    }

    /// The same, owned by the ordinary user.
    pub fn users_directory(&self) -> PathBuf {
        let at = self.directory("mnt");
        let uid = check_tool("id", &["-u", USER]).trim().parse().expect("a number");
        std::os::unix::fs::chown(&at, Some(uid), None).expect("it takes root");
        at
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs `esker mount ram AT ARGS` and waits until it is mounted.
    pub fn mount(&self, at: &Path, args: &[&str]) -> Server {
        self.mount_kind("ram", at, args)
    }

    /// The same for a kind.
    pub fn mount_kind(&self, kind: &str, at: &Path, args: &[&str]) -> Server {
        let mut command = Command::new(ESKER);
        command.args(["mount", kind, text(at)]).args(args);
        self.start(kind, command)
    }

    /// The same by an ordinary user.
    pub fn mount_as_user(&self, at: &Path, args: &[&str]) -> Server {
        let mut command = Command::new("runuser");
        command.args(["-u", USER, "--", ESKER, "mount", "ram", text(at)]).args(args);
        self.start("ram", command)
    }

    /// Runs `esker serve STACK ARGS` with its control socket here, and gives its lines once all are there.
    pub fn serve(&self, stack: &str, args: &[&str]) -> (Server, Vec<String>) {
        let mut command = Command::new(ESKER);
        command.args(["serve", stack, "--control", text(&self.path("esker.ctl"))]).args(args);
        self.started(command, |line| line.contains("control"))
    }

    fn start(&self, kind: &str, command: Command) -> Server {
        let (server, lines) = self.started(command, |_| true);
        assert!(lines[0].starts_with(&format!("{kind} is mounted at ")), "{lines:?}");
        server
    }

    /// Starts a program and waits for its last line.
    fn started(&self, mut command: Command, is_last: impl Fn(&str) -> bool) -> (Server, Vec<String>) {
        let log = self.dir.path().join("mount.log");
        let file = fs::File::options().create(true).append(true).open(&log).expect("the log can be made");
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file).spawn().expect("the program starts");
        let out = child.stdout.take().expect("it is piped");
        let (server, mut lines) = (Server(child), Vec::new());
        for line in BufReader::new(out).lines() {
            lines.push(line.expect("text"));
            if lines.last().is_some_and(|line| is_last(line)) {
                return (server, lines);
            }
        }
        panic!("not mounted: {}", fs::read_to_string(&log).unwrap_or_default());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for entry in fs::read_dir(self.dir.path()).into_iter().flatten().flatten() {
            if std::thread::panicking() {
                // Not mounted is fine.
                let _unmounted = tool("umount", &["--lazy", text(&entry.path())]).output();
            }
        }
    }
}

/// A process that serves a mount; killed when dropped.
pub struct Server(Child);

impl Server {
    pub fn kill(&mut self) {
        self.0.kill().expect("it lives");
        self.0.wait().expect("it can be waited for");
    }

    pub fn signal(&self, name: &str) {
        check_tool("kill", &[&format!("-{name}"), &self.0.id().to_string()]);
    }

    /// Whether it has ended, and well.
    pub fn ended(&mut self) -> bool {
        let status = self.0.try_wait().expect("it can be asked");
        assert!(status.is_none_or(|status| status.success()), "{status:?}");
        status.is_some()
    }

    /// Waits for its end, whatever it is.
    pub fn wait(&mut self) {
        self.0.wait().expect("it can be waited for");
    }

    /// Waits for its end, which must be a good one.
    pub fn end(&mut self) {
        let status = self.0.wait().expect("it can be waited for");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _killed = self.0.kill().and_then(|()| self.0.wait());
    }
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("the path is text")
}

/// The process that serves a mount of the ordinary user: not `runuser`, which starts it.
pub fn users_server(at: &Path) -> String {
    let line = format!("mount ram {}$", text(at));
    check_tool("pgrep", &["--oldest", "-u", USER, "-f", &line]).trim().to_string()
}

/// Whether the kernel has a mount there.
pub fn is_mounted(at: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("the kernel lists its mounts");
    mounts.lines().any(|line| line.split(' ').nth(1) == Some(text(at)))
}
