//! Signals that are sent to the recorder and meant for the program.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::{Handle, Signals};

/// Signals are passed on until this is dropped.
pub struct Forwarding(Handle);

impl Forwarding {
    /// Passes signals on to a process of ours; of another's, the first one sets `stop`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn start(pid: u32, is_ours: bool, stop: Arc<AtomicBool>) -> io::Result<Forwarding> {
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2])?;
        let handle = signals.handle();
        thread::spawn(move || {
            for signal in &mut signals {
                if !is_ours {
                    stop.store(true, Ordering::Relaxed);
                } else if !comes_by_itself(signal) {
                    pass_on(pid, signal);
                }
            }
        });
        Ok(Forwarding(handle))
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.0.close();
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
