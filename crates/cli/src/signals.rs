//! SIGINT and SIGTERM: the first asks to stop, one that comes a while after it ends the process, after a last act where
//! there is one. SIGHUP where it is wanted.

use std::future::Future;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use esker_rt::Rt;
use esker_rt::mem::Slice;
use esker_rt::net::Stream;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, TERM_SIGNALS};
use signal_hook::flag;
use signal_hook::low_level::{self, pipe};

/// Exit status after a second signal.
const IMPATIENT: i32 = 1;
/// Signals within this time after the first ask the same again: a shell and its terminal may both report a hangup, and
/// the end of a parent comes once for each of its threads (`PR_SET_PDEATHSIG`).
const SAME: Duration = Duration::from_millis(500);

/// Signals as bytes in a stream that a world can wait for.
pub struct Signals(UnixStream);

impl Signals {
    /// From now on the first signal is only noted.
    ///
    /// # Errors
    /// The kernel's.
    pub fn catch() -> io::Result<Signals> {
        Ok(Signals(catch(TERM_SIGNALS, None)?))
    }

    /// The same, and SIGHUP, with which a terminal goes, asks to stop too, unless the parent process had it ignored, as
    /// nohup(1) does. Before a second signal ends the process, `last` is done on another thread; a third one waits for
    /// nothing.
    ///
    /// # Errors
    /// The kernel's.
    pub fn catch_with_hangup(last: impl FnOnce() + Send + 'static) -> io::Result<Signals> {
        let hangup = if is_ignored(SIGHUP) { &[][..] } else { &[SIGHUP][..] };
        Ok(Signals(catch(TERM_SIGNALS.iter().chain(hangup), Some(Box::new(last)))?))
    }

    /// SIGHUP, which ends nothing.
    ///
    /// # Errors
    /// The kernel's.
    pub fn hangups() -> io::Result<Signals> {
        let (noted, handlers) = UnixStream::pair()?;
        pipe::register(SIGHUP, handlers)?;
        Ok(Signals(noted))
    }

    /// A byte for each signal.
    ///
    /// # Errors
    /// In virtual time, where there are none.
    pub fn stream(self, rt: &Rt) -> io::Result<Stream> {
        Stream::from_socket(rt, self.0.into())
    }

    /// Waits for the first signal.
    ///
    /// # Errors
    /// In virtual time, where there are none.
    pub fn first(self, rt: &Rt) -> io::Result<impl Future<Output = ()> + use<>> {
        let stream = Stream::from_socket(rt, self.0.into())?;
        Ok(async move { drop(stream.read(vec![Slice::heap(vec![0])]).await) })
    }
}

/// A flag that SIGINT and SIGTERM raise, for a loop that waits for keys. SIGHUP ends the process, also if it was
/// started with it ignored, as nohup(1) does: the terminal is gone, and a read of it, which crossterm repeats without
/// end, returns nothing.
///
/// # Errors
/// The kernel's.
pub fn end_of_screen() -> io::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, asked.clone())?;
    }
    flag::register_conditional_default(SIGHUP, Arc::new(AtomicBool::new(true)))?;
    Ok(asked)
}

/// A flag that SIGINT, SIGTERM and SIGHUP raise, for work that then ends by itself and leaves a whole result. Another
/// signal changes nothing: timeout(1) sends two. SIGHUP stays ignored where the parent process had it ignored.
///
/// # Errors
/// The kernel's.
pub fn end_of_work() -> io::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    let hangup = if is_ignored(SIGHUP) { &[][..] } else { &[SIGHUP][..] };
    for signal in TERM_SIGNALS.iter().chain(hangup).filter(|signal| **signal != SIGQUIT) {
        flag::register(*signal, asked.clone())?;
    }
    Ok(asked)
}

/// What is done before a process ends.
type Act = Box<dyn FnOnce() + Send>;

/// Has signals noted. The stream that is returned says so once.
fn catch<'a>(signals: impl IntoIterator<Item = &'a i32>, last: Option<Act>) -> io::Result<UnixStream> {
    let (mut noted, handlers) = UnixStream::pair()?;
    let (here, mut there) = UnixStream::pair()?;
    let is_last = Arc::new(AtomicBool::new(false));
    for signal in signals {
        flag::register_conditional_shutdown(*signal, IMPATIENT, is_last.clone())?;
        pipe::register(*signal, handlers.try_clone()?)?;
    }
    thread::Builder::new().name("signals".to_string()).spawn(move || {
        let mut first = [0];
        // Without a listener there is nothing to notify.
        let _told = noted.read_exact(&mut first).and_then(|()| there.write_all(&first));
        thread::sleep(SAME);
        let Some(act) = last else { return is_last.store(true, Ordering::SeqCst) };
        await_another(&mut noted);
        is_last.store(true, Ordering::SeqCst);
        act();
        low_level::exit(IMPATIENT);
    })?;
    Ok(here)
}

/// Waits for a signal that comes after those that asked the same as the first.
fn await_another(noted: &mut UnixStream) {
    let mut same = [0; 64];
    let emptied = noted.set_nonblocking(true).and_then(|()| {
        while noted.read(&mut same).is_ok_and(|count| count > 0) {}
        noted.set_nonblocking(false)
    });
    let came = emptied.and_then(|()| noted.read_exact(&mut same[..1]));
    came.expect("the handlers hold the other end for as long as the process lives");
}

/// Whether this process was started with a signal ignored: `SigIgn` of proc_pid_status(5).
fn is_ignored(signal: i32) -> bool {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = text.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
