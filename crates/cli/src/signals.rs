//! SIGINT and SIGTERM: the first asks to stop, the second ends the process.

use std::future::Future;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use esker_rt::Rt;
use esker_rt::mem::Part;
use esker_rt::net::Stream;
use signal_hook::consts::TERM_SIGNALS;
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
        let again = Arc::new(AtomicBool::new(false));
        for signal in TERM_SIGNALS {
            // In this order: the signal that sets the flag does not find it set.
            flag::register_conditional_shutdown(*signal, IMPATIENT, again.clone())?;
            flag::register(*signal, again.clone())?;
            pipe::register(*signal, there.try_clone()?)?;
        }
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
