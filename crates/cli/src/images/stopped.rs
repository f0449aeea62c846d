//! Copies that end at SIGINT and SIGTERM as if they had failed, so that nothing stays of them.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use esker_layer_thin::images::{Sink, Source};
use signal_hook::consts::TERM_SIGNALS;

/// A source or sink that fails after a signal.
pub struct Stoppable<T> {
    inner: T,
    asked: Arc<AtomicBool>,
}

impl<T> Stoppable<T> {
    /// From now on a signal is only noted.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(inner: T) -> io::Result<Stoppable<T>> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in TERM_SIGNALS {
            // The second one ends the process.
            signal_hook::flag::register_conditional_shutdown(*signal, 1, asked.clone())?;
            signal_hook::flag::register(*signal, asked.clone())?;
        }
        Ok(Stoppable { inner, asked })
    }

    fn checked(&mut self) -> io::Result<&mut T> {
        match self.asked.load(Ordering::Relaxed) {
            true => Err(io::Error::other("a signal stopped the copy; nothing was kept")),
            false => Ok(&mut self.inner),
        }
    }
}

impl Source for Stoppable<Box<dyn Source>> {
    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    fn next_data(&mut self, from: u64) -> io::Result<Option<Range<u64>>> {
        self.checked()?.next_data(from)
    }

    fn read(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.checked()?.read(at, bytes)
    }
}

impl<T: Sink> Sink for Stoppable<T> {
    fn begin(&mut self, bytes: u64) -> io::Result<()> {
        self.checked()?.begin(bytes)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.checked()?.write(at, bytes)
    }

    fn end(&mut self) -> io::Result<()> {
        self.checked()?.end()
    }
}
