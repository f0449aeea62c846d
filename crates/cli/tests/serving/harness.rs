//! A server as a process of its own, and the programs that use it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

pub const ESKER: &str = env!("CARGO_BIN_EXE_esker");

/// A server; killed when dropped.
pub struct Server {
    child: Child,
    log: PathBuf,
    /// Where its exports are, in the order of the text.
    pub uris: Vec<String>,
    pub control: String,
    /// Where its metrics are.
    pub metrics: Option<String>,
}

/// Runs `esker ARGS`.
/// A server that should have refused to start is ended: its status is then 124.
pub fn esker(args: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--foreground", "--kill-after=2", "60", ESKER]).args(args).output().expect("timeout(1) starts")
}

/// Runs it, checks the exit status, and returns standard error.
pub fn check_esker(args: &[&str], status: i32) -> String {
    let output = esker(args);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{args:?}: {err}");
    err
}

/// Runs a foreign program to its end, which must be a good one, and returns what it printed.
pub fn check_tool(program: &str, args: &[&str]) -> String {
    let output = tool(program, args).output().unwrap_or_else(|error| panic!("{}", missing(program, &error)));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {args:?}: {}\n{out}{err}", output.status);
    out.into_owned()
}

pub fn tool(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    command
}

pub fn missing(program: &str, error: &std::io::Error) -> String {
    format!("{program} cannot be run ({error}); install it with `cargo xtask peers`")
}

impl Server {
    /// Serves `stack`, in which DIR stands for `dir`, and waits until clients may connect.
    pub fn start(dir: &Path, stack: &str, args: &[&str]) -> Server {
        Server::try_start(dir, stack, args).unwrap_or_else(|log| panic!("the server ended at once: {log}"))
    }

    /// The same; if the server ends at once, the log of its folder.
    pub fn try_start(dir: &Path, stack: &str, args: &[&str]) -> Result<Server, String> {
        Server::spawn(dir, stack, args, &[])
    }

    /// As [`Server::start`], with variables in the environment.
    pub fn start_with(dir: &Path, stack: &str, args: &[&str], variables: &[(&str, &str)]) -> Server {
        let started = Server::spawn(dir, stack, args, variables);
        started.unwrap_or_else(|log| panic!("the server ended at once: {log}"))
    }

    /// Starts one and kills it after this time, which may be while it opens its stack.
    pub fn kill_soon(dir: &Path, stack: &str, after: Duration) {
        let stack = stack.replace("DIR", &dir.display().to_string());
        let control = dir.join("esker.ctl");
        let mut command = Command::new(ESKER);
        command.args(["serve", &stack, "--control"]).arg(control).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program starts");
        sleep(after);
        child.kill().expect("it is a child");
        child.wait().expect("it can be waited for");
    }

    fn spawn(dir: &Path, stack: &str, args: &[&str], variables: &[(&str, &str)]) -> Result<Server, String> {
        let stack = stack.replace("DIR", &dir.display().to_string());
        let log = dir.join("server.log");
        let control = dir.join("esker.ctl").display().to_string();
        let mut child = Command::new(ESKER)
            .args(["serve", &stack, "--json", "--control", &control])
            .args(args)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(fs::File::options().create(true).append(true).open(&log).expect("the log can be made"))
            .spawn()
            .expect("the program starts");
        let (mut uris, mut metrics) = (Vec::new(), None);
        for line in BufReader::new(child.stdout.take().expect("it is piped")).lines() {
            let ready: serde_json::Value =
                serde_json::from_str(&line.expect("lines are text")).expect("lines are JSON");
            match ready["uri"].as_str() {
                Some(uri) => uris.push(uri.to_string()),
                None if ready["vhost_user"].is_string() => {}
                None if ready["metrics"].is_string() => metrics = ready["metrics"].as_str().map(String::from),
                None => return Ok(Server { child, log, uris, control, metrics }),
            }
        }
        child.wait().expect("it can be waited for");
        Err(fs::read_to_string(&log).unwrap_or_default())
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("the log is there")
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        check_tool("kill", &[&format!("-{name}"), &self.child.id().to_string()]);
    }

    /// Kills it at once.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("it can be asked").is_none()
    }

    /// Waits for its end and returns the exit status; none if a signal ended it.
    pub fn wait(mut self) -> Option<i32> {
        self.child.wait().expect("it can be waited for").code()
    }

    /// Stops it as an operator does; it must end well.
    pub fn stop(self) {
        self.signal("TERM");
        let log = self.log.clone();
        assert_eq!(self.wait(), Some(0), "{}", fs::read_to_string(log).unwrap_or_default());
    }

    /// Its status, which must be a healthy one.
    pub fn check_status(&self) -> serde_json::Value {
        let output = esker(&["status", "--json", "--control", &self.control]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("the status is JSON")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ended already is fine.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// `bytes` bytes that differ everywhere, with every other 64 KiB left out.
pub fn write_image(path: &Path, bytes: usize) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut image = vec![0u8; bytes];
    for (at, word) in image.chunks_exact_mut(8).enumerate() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if at * 8 / 65_536 % 2 == 0 {
            word.copy_from_slice(&state.to_le_bytes());
        }
    }
    fs::write(path, image).expect("the image can be written");
}

/// Arguments of a verifying fio load on `uri`.
pub fn fio_verify(uri: &str, seconds: u32) -> Vec<String> {
    let time = format!("--runtime={seconds}");
    let uri = format!("--uri={uri}");
    let fixed = [
        "--name=verify",
        "--ioengine=nbd",
        "--rw=randrw",
        "--bsrange=4k-64k",
        "--size=32m",
        "--iodepth=16",
        // Without it fio reads back blocks that its next pass is overwriting at that moment, and calls the mix corrupt.
        "--serialize_overlap=1",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--verify_backlog=64",
        "--verify_state_save=0",
        "--time_based",
        "--randseed=7",
        "--fsync=97",
        "--output-format=terse",
    ];
    fixed.iter().map(ToString::to_string).chain([time, uri]).collect()
}
