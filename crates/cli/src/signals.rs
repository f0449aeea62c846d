//! SIGINT and SIGTERM: the first asks to stop, the second ends the process. SIGHUP where it is wanted.

use std::future::Future;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use esker_rt::Rt;
use esker_rt::mem::Part;
use esker_rt::net::Stream;
use signal_hook::consts::{SIGHUP, TERM_SIGNALS};
use signal_hook::{flag, low_level::pipe};

/// Exit status after a second signal.
const IMPATIENT: i32 = 1;

/// Signals as bytes in a stream that a world can wait for.
pub struct Signals(UnixStream);

impl Signals {
    /// From now on the first signal is only noted.
    ///
    /// # Errors
    /// The kernel's.
    pub fn catch() -> io::Result<Signals> {
        let (here, there) = UnixStream::pair()?;
        catch(TERM_SIGNALS, &there)?;
        Ok(Signals(here))
    }

    /// The same, and SIGHUP, with which a terminal goes, asks to stop too, unless whoever started this had it ignored, as
    /// nohup(1) does.
    ///
    /// # Errors
    /// The kernel's.
    pub fn catch_with_hangup() -> io::Result<Signals> {
        let (here, there) = UnixStream::pair()?;
        let signals = if is_ignored(SIGHUP) { &[][..] } else { &[SIGHUP][..] };
        catch(TERM_SIGNALS.iter().chain(signals), &there)?;
        Ok(Signals(here))
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

fn catch<'a>(signals: impl IntoIterator<Item = &'a i32>, there: &UnixStream) -> io::Result<()> {
    let again = Arc::new(AtomicBool::new(false));
    for signal in signals {
        // In this order: the signal that sets the flag does not find it set.
        flag::register_conditional_shutdown(*signal, IMPATIENT, again.clone())?;
        flag::register(*signal, again.clone())?;
        pipe::register(*signal, there.try_clone()?)?;
    }
    Ok(())
}

/// Whether this process was started with a signal ignored: `SigIgn` of proc_pid_status(5).
fn is_ignored(signal: i32) -> bool {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = text.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
