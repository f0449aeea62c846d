//! Signals that are sent to the recorder and meant for the program.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fs, io, thread};

use rustix::process::{Pid, Signal, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

const PASSED_ON: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// The recorded process. A handler cannot be given back, so it stays, and without one a signal does what it does by
/// itself.
static RECORDED: Mutex<Recorded> = Mutex::new(Recorded { caught: false, next: 0, all: BTreeMap::new() });

struct Recorded {
    /// Whether signals are caught already.
    caught: bool,
    next: u64,
    all: BTreeMap<u64, Target>,
}

struct Target {
    pid: u32,
    is_ours: bool,
    stop: Arc<AtomicBool>,
}

/// Signals are passed on until this is dropped.
pub(crate) struct Forwarding(u64);

impl Forwarding {
    /// Passes signals on to a process of ours; of another's, the first one sets `stop`.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn start(pid: u32, is_ours: bool, stop: Arc<AtomicBool>) -> io::Result<Forwarding> {
        let mut recorded = recorded();
        if !recorded.caught {
            catch()?;
            recorded.caught = true;
        }
        let number = recorded.next;
        recorded.next += 1;
        recorded.all.insert(number, Target { pid, is_ours, stop });
        Ok(Forwarding(number))
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        recorded().all.remove(&self.0);
    }
}

fn recorded() -> MutexGuard<'static, Recorded> {
    RECORDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A parent that had a signal ignored wants this process to go on.
fn catch() -> io::Result<()> {
    let ignored = ignored(&fs::read_to_string("/proc/self/status")?);
    let mut signals = Signals::new(PASSED_ON.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0))?;
    thread::spawn(move || signals.forever().for_each(came));
    Ok(())
}

/// The set of ignored signals in what the kernel tells of a process.
fn ignored(status: &str) -> u64 {
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
}

fn came(signal: i32) {
    let recorded = recorded();
    for target in recorded.all.values() {
        if !target.is_ours {
            target.stop.store(true, Ordering::Relaxed);
        } else if !comes_by_itself(signal) {
            pass_on(target.pid, signal);
        }
    }
    if recorded.all.is_empty() {
        // None of them is one whose default is unknown.
        let _ = emulate_default_handler(signal);
    }
}

/// A terminal sends these to all of its foreground, the program included.
fn comes_by_itself(signal: i32) -> bool {
    let in_foreground = tcgetpgrp(rustix::stdio::stdin()).is_ok_and(|group| group == getpgrp());
    in_foreground && (signal == SIGINT || signal == SIGQUIT)
}

fn pass_on(pid: u32, signal: i32) {
    if let (Some(pid), Some(signal)) = (Pid::from_raw(pid as i32), Signal::from_named_raw(signal)) {
        // A process that is gone needs no signal.
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;

    const CHILD: &str = "ESKER_TEST_HAS_RECORDED";

    #[test]
    fn who_has_recorded_ends_by_signals_again() {
        if std::env::var_os(CHILD).is_some() {
            drop(Forwarding::start(std::process::id(), true, Arc::default()).unwrap());
            println!("\nready");
            thread::sleep(Duration::from_secs(30));
            return;
        }
        let name = "signals::tests::who_has_recorded_ends_by_signals_again";
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", name, "--nocapture"]).env(CHILD, "1").stdout(Stdio::piped());
        let mut child = again.spawn().unwrap();
        let told = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(told.map_while(Result::ok).any(|line| line == "ready"));
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(SIGTERM));
    }

    #[test]
    fn the_kernel_tells_what_is_ignored() {
        assert_eq!(ignored("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t00ff\n"), 0x1001);
        assert_eq!(ignored("Name:\tx\n"), 0);
    }
}
