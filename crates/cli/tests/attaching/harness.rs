//! An attachment as a process of its own, and the programs that use its device.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub const ESKER: &str = env!("CARGO_BIN_EXE_esker");

/// Seconds after which a program that a test runs counts as hanging.
const TIME_MAX: &str = "30";

/// Taken whole while a device is there whose server was killed, and shared by programs of btrfs: they look at the file
/// behind each mounted loop device, and fail where its server has ended.
static DEAD_SERVERS: RwLock<()> = RwLock::new(());

/// No server is killed and not cleaned up yet, until the guard is dropped.
fn all_served() -> RwLockReadGuard<'static, ()> {
    DEAD_SERVERS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Unmounts the loop devices whose server was killed before these tests: programs of btrfs fail while they are mounted.
fn unmount_dead_loops() {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("the kernel lists its mounts");
    for (device, at) in mounts.lines().filter_map(|line| line.split_once(' ')) {
        let Some(name) = device.strip_prefix("/dev/loop") else { continue };
        let at = at.split(' ').next().unwrap_or_default();
        let file = fs::read_to_string(format!("/sys/block/loop{name}/loop/backing_file")).unwrap_or_default();
        if fs::metadata(file.trim()).is_err_and(|error| error.kind() == ErrorKind::NotConnected) {
            check_tool("umount", &["--lazy", at]);
        }
    }
}

/// Whether the test can be run here; says loudly what is missing if not.
pub fn can_run(programs: &[&str]) -> bool {
    static UNMOUNTED: Once = Once::new();
    UNMOUNTED.call_once(unmount_dead_loops);
    let missing = |path: &str| (!Path::new(path).exists()).then(|| format!("there is no {path}"));
    let node = |path: &str| fs::metadata(path).ok().filter(|meta| meta.file_type().is_char_device());
    let root = check_tool("id", &["-u"]).trim() == "0";
    let mut reasons: Vec<String> = ["/dev/fuse", "/dev/loop-control"].into_iter().filter_map(missing).collect();
    reasons.extend((!root).then(|| "it takes root".to_string()));
    reasons.extend(node("/dev/fuse").is_none().then(|| "/dev/fuse is no device".to_string()));
    let started = |program: &&&str| Command::new(program).arg("--version").output().is_err();
    reasons.extend(programs.iter().filter(started).map(|p| format!("{p} is missing: run `cargo xtask peers`")));
    if !reasons.is_empty() {
        esker_testkit::skip(esker_testkit::Ability::Attach, reasons.join("; "));
    }
    reasons.is_empty()
}

/// Runs `esker ARGS`.
pub fn esker(args: &[&str]) -> Output {
    tool(ESKER, args).output().expect("timeout(1) starts")
}

/// A program with arguments that is ended when it hangs.
pub fn tool(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=2", TIME_MAX, program]).args(args).stdin(Stdio::null());
    command
}

/// Runs a program to its end, which must be a good one, and returns what it printed.
pub fn check_tool(program: &str, args: &[&str]) -> String {
    let _served = program.contains("btrfs").then(all_served);
    let output = tool(program, args).output().expect("timeout(1) starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {args:?}: {}\n{out}{err}", output.status);
    out.into_owned()
}

/// What a program that fails says on standard error.
pub fn refused(program: &str, args: &[&str]) -> String {
    let output = tool(program, args).output().expect("timeout(1) starts");
    assert!(!output.status.success(), "{program} {args:?} succeeded");
    assert_ne!(output.status.code(), Some(124), "{program} {args:?} hangs");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Attachments of one test, in a directory of their own. Whatever is left of them goes when it is dropped.
pub struct Place {
    pub dir: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place { dir: tempfile::tempdir().expect("a directory can be made") }
    }

    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    pub fn run_dir(&self) -> String {
        self.path("run")
    }

    /// Attaches `stack`, in which DIR stands for the directory, and waits until its devices are there.
    pub fn attach(&self, stack: &str, args: &[&str]) -> Attachment {
        let stack = stack.replace("DIR", &self.dir.path().display().to_string());
        let log = self.dir.path().join("attach.log");
        let mut child = Command::new(ESKER)
            .args(["attach", &stack, "--json", "--run-dir", &self.run_dir()])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::options().create(true).append(true).open(&log).expect("the log can be made"))
            .spawn()
            .expect("the program starts");
        let mut devices = Vec::new();
        for line in BufReader::new(child.stdout.take().expect("it is piped")).lines() {
            let ready: serde_json::Value = serde_json::from_str(&line.expect("text")).expect("lines are JSON");
            match (ready["device"].as_str(), ready["control"].as_str()) {
                (Some(device), _) => devices.push(device.to_string()),
                (_, control) => {
                    let control = control.expect("the last line is about the control socket").to_string();
                    return Attachment { child, log, devices, control };
                }
            }
        }
        panic!("not attached: {}", fs::read_to_string(&log).unwrap_or_default());
    }

    pub fn list(&self) -> String {
        let output = esker(&["attach", "--list", "--run-dir", &self.run_dir()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Detaches, which must succeed.
    pub fn detach(&self, what: &str) {
        check_tool(ESKER, &["detach", what, "--run-dir", &self.run_dir()]);
    }

    /// An empty directory to mount on.
    pub fn mount_point(&self) -> Mount {
        let at = self.dir.path().join("mnt");
        match fs::create_dir(&at) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => panic!("{error}"),
            _ => Mount(at),
        }
    }

    /// Devices that the kernel still has over files of this test.
    pub fn loops(&self) -> Vec<String> {
        let text = check_tool("losetup", &["--list", "--noheadings", "--output", "NAME,BACK-FILE"]);
        let dir = self.dir.path().display().to_string();
        text.lines().filter(|line| line.contains(&dir)).map(str::to_string).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let run_dir = self.run_dir();
        for entry in fs::read_dir(&run_dir).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            // Nothing is left where the test has passed.
            let _cleaned = esker(&["detach", &name, "--run-dir", &run_dir]);
        }
    }
}

/// A directory on which something may be mounted; unmounted when dropped.
pub struct Mount(pub PathBuf);

impl Mount {
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn text(&self) -> &str {
        self.0.to_str().expect("the path is text")
    }

    pub fn mount(&self, device: &str) {
        check_tool("mount", &["-o", "noatime", device, self.text()]);
    }

    pub fn unmount(&self) {
        check_tool("umount", &[self.text()]);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Not mounted is fine.
            let _unmounted = tool("umount", &["--lazy", self.text()]).output();
        }
    }
}

/// A process that serves devices; killed when dropped.
pub struct Attachment {
    child: Child,
    log: PathBuf,
    pub devices: Vec<String>,
    pub control: String,
}

impl Attachment {
    pub fn device(&self) -> &str {
        &self.devices[0]
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Kills it. The guard is for as long as its devices are there.
    pub fn kill(&mut self) -> RwLockWriteGuard<'static, ()> {
        let dead = DEAD_SERVERS.write().unwrap_or_else(PoisonError::into_inner);
        self.child.kill().expect("it lives");
        self.child.wait().expect("it can be waited for");
        dead
    }

    pub fn signal(&self, name: &str) {
        check_tool("kill", &[&format!("-{name}"), &self.child.id().to_string()]);
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("it can be asked").is_none()
    }

    /// Waits for its end, which must be a good one.
    pub fn ended(mut self) {
        let status = self.child.wait().expect("it can be waited for");
        assert!(status.success(), "{status}: {}", self.log());
    }

    /// A number that a part of its stack tells.
    pub fn stat(&self, part: &str, stat: &str) -> f64 {
        let text = check_tool(ESKER, &["status", "--json", "--control", &self.control]);
        let status: serde_json::Value = serde_json::from_str(&text).expect("the status is JSON");
        let parts = status["parts"].as_array().expect("parts are a list");
        let part = parts.iter().find(|found| found["name"] == part).expect("the part is there");
        part["stats"][stat].as_f64().unwrap_or(0.0)
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // Ended already is fine.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Bytes that differ from file to file and from place to place.
pub fn content(file: u64, bytes: usize) -> Vec<u8> {
    let mut state = file.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..bytes.div_ceil(8)).flat_map(|_| next().to_le_bytes()).take(bytes).collect()
}
