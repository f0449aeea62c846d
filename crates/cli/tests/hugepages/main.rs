//! The manager of huge pages as a program. Skipped, and said so, where it may not change settings.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the program itself is started, and settings of the machine are looked at"
)]

mod installed;
mod lives;
mod rights;
mod settings;

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use esker_hugepage_linux::Status;
use esker_testkit::{Ability, skip};

/// The program.
const ESKER: &str = env!("CARGO_BIN_EXE_esker");

/// Settings are the machine's: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether it comes true within what it may take.
fn comes(mut is_so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// A manager with what it needs in a folder, killed when dropped.
struct Manager<'a> {
    child: Child,
    program: &'a OsStr,
    folder: &'a Path,
}

impl<'a> Manager<'a> {
    /// Starts a program with a configuration of which `state` is added. None, with the reason on the screen, if it may
    /// not manage here.
    fn start(program: &'a OsStr, folder: &'a Path, config: &str) -> Option<Manager<'a>> {
        Manager::start_in(program, folder, config, &[])
    }

    /// The same, with more in its environment.
    fn start_in(
        program: &'a OsStr,
        folder: &'a Path,
        config: &str,
        environment: &[(&str, &OsStr)],
    ) -> Option<Manager<'a>> {
        let text = format!("state = {:?}\n{config}", folder.join("state.json"));
        std::fs::write(folder.join("config.toml"), text).unwrap();
        // The parent of the tests may have SIGHUP ignored, as nohup(1) does; the manager keeps to that.
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP").arg(program).args(["hugepage", "run", "--config"]);
        command.arg(folder.join("config.toml")).arg("--control").arg(folder.join("control"));
        let child =
            command.envs(environment.iter().copied()).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let mut manager = Manager { child, program, folder };
        let mut has_ended = false;
        let has_begun = comes(|| {
            has_ended = manager.child.try_wait().unwrap().is_some();
            has_ended || folder.join("control").exists()
        });
        assert!(has_begun, "it neither begins nor ends");
        if has_ended {
            skip(Ability::HugePages, "it may not manage huge pages here");
        }
        (!has_ended).then_some(manager)
    }

    /// What it tells.
    fn status(&self) -> Status {
        let mut command = Command::new(self.program);
        command.args(["hugepage", "status", "--json", "--control"]).arg(self.folder.join("control"));
        let told = command.output().unwrap();
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        serde_json::from_slice(&told.stdout).unwrap()
    }

    fn signal(&self, name: &str) {
        let told = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(told.success());
    }

    /// Whether it ends well, within what it may take.
    fn ends_well(&mut self) -> bool {
        self.end() == Some(0)
    }

    /// Its exit status, if it ends within what it may take and not by a signal.
    fn end(&mut self) -> Option<i32> {
        let mut status = None;
        comes(|| {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }

    /// Bytes of its own memory.
    fn resident(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }
}

impl Drop for Manager<'_> {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
