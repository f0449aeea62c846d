//! Log lines of a world, on standard error: seconds since the start, level, text.

use std::fmt;
use std::io::Write;

use esker_base::Time;
use esker_rt::Level;
use esker_rt::handle::LogSink;

/// Writes what is at least as important as `least`.
pub struct ErrorLog {
    /// The least important level that is written.
    pub least: Level,
}

impl LogSink for ErrorLog {
    fn line(&mut self, at: Time, level: Level, text: fmt::Arguments<'_>) {
        if level > self.least {
            return;
        }
        let word = match level {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
        };
        // There is nobody to tell if that fails.
        let _unheard = writeln!(std::io::stderr(), "{:10.3} {word:<5} {text}", at.0 as f64 / 1e9);
    }
}
