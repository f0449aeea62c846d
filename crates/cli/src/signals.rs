//! SIGINT and SIGTERM: the first asks to stop, one that comes a while after it ends the process. SIGHUP where it is wanted.

use std::future::Future;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use esker_rt::Rt;
use esker_rt::mem::Part;
use esker_rt::net::Stream;
use signal_hook::consts::{SIGHUP, TERM_SIGNALS};
use signal_hook::{flag, low_level::pipe};

/// Exit status after a second signal.
const IMPATIENT: i32 = 1;
/// What comes within this time after the first asks the same again: a shell and its terminal may both tell of a hangup, and a
/// parent's end is told once for each of its threads (`PR_SET_PDEATHSIG`).
const SAME: Duration = Duration::from_millis(500);

/// Signals as bytes in a stream that a world can wait for.
pub struct Signals(UnixStream);

impl Signals {
    /// From now on the first signal is only noted.
    ///
    /// # Errors
    /// The kernel's.
    pub fn catch() -> io::Result<Signals> {
        Ok(Signals(catch(TERM_SIGNALS)?))
    }

    /// The same, and SIGHUP, with which a terminal goes, asks to stop too, unless whoever started this had it ignored, as
    /// nohup(1) does.
    ///
    /// # Errors
    /// The kernel's.
    pub fn catch_with_hangup() -> io::Result<Signals> {
        let hangup = if is_ignored(SIGHUP) { &[][..] } else { &[SIGHUP][..] };
        Ok(Signals(catch(TERM_SIGNALS.iter().chain(hangup))?))
    }

    /// Waits for the first signal.
    ///
    /// # Errors
    /// In virtual time, where there are none.
    pub fn first(self, rt: &Rt) -> io::Result<impl Future<Output = ()> + use<>> {
        let stream = Stream::from_socket(rt, self.0.into())?;
        Ok(async move { drop(stream.read(vec![Part::heap(vec![0])]).await) })
    }
}

/// Has signals noted. The stream that is returned says so once.
fn catch<'a>(signals: impl IntoIterator<Item = &'a i32>) -> io::Result<UnixStream> {
    let (mut noted, handlers) = UnixStream::pair()?;
    let (here, mut there) = UnixStream::pair()?;
    let is_second = Arc::new(AtomicBool::new(false));
    for signal in signals {
        flag::register_conditional_shutdown(*signal, IMPATIENT, is_second.clone())?;
        pipe::register(*signal, handlers.try_clone()?)?;
    }
    thread::Builder::new().name("signals".to_string()).spawn(move || {
        let mut first = [0];
        // Where nobody listens any more, nobody need be told.
        let _told = noted.read_exact(&mut first).and_then(|()| there.write_all(&first));
        thread::sleep(SAME);
        is_second.store(true, Ordering::SeqCst);
    })?;
    Ok(here)
}

/// Whether this process was started with a signal ignored: `SigIgn` of proc_pid_status(5).
fn is_ignored(signal: i32) -> bool {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = text.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
