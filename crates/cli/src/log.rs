//! Arguments of logs: where a server's events go, and how they look.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use esker_rt::{Level, Rt};
use esker_serve::log::{Format, Log};

use crate::failure::Failure;
use crate::files;
use crate::progress::BesideBars;

/// Where the events of a server go.
#[derive(clap::Args)]
pub struct Logging {
    /// Least important log lines to write: error, warn, info or debug [default: info, and warn for `esker run`]
    #[arg(long, value_enum)]
    log: Option<LogLevel>,
    /// How log lines look: text for people, json for programs
    #[arg(long, value_enum, default_value = "text")]
    log_format: LogFormat,
    /// Append log lines to this file instead of writing them to standard error
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
}

/// How important a log line is.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum LogLevel {
    /// What fails.
    Error,
    /// What an operator should look at.
    Warn,
    /// What happens.
    Info,
    /// What helps to find mistakes.
    Debug,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum LogFormat {
    /// Seconds since the start, level, text
    Text,
    /// One JSON object a line
    Json,
}

/// The file of the log.
#[derive(Debug, thiserror::Error)]
#[error("{path}: the log cannot be written there: {source}")]
struct LogFileError {
    path: String,
    source: io::Error,
}

impl Logging {
    /// Sends the world's events there from now on.
    ///
    /// # Errors
    /// A file that cannot be opened.
    pub fn start(&self, rt: &Rt) -> Result<(), Failure> {
        self.start_at(rt, LogLevel::Info)
    }

    /// The same; `level` is the least, unless the command line says another one.
    ///
    /// # Errors
    /// As [`Logging::start`].
    pub fn start_at(&self, rt: &Rt, level: LogLevel) -> Result<(), Failure> {
        let out: Box<dyn Write> = match &self.log_file {
            None => Box::new(BesideBars),
            Some(path) => {
                let file = files::append(path, 0o640);
                Box::new(file.map_err(|source| LogFileError { path: path.display().to_string(), source })?)
            }
        };
        let format = match self.log_format {
            LogFormat::Text => Format::Text,
            LogFormat::Json => Format::Json,
        };
        rt.set_log(Box::new(Log::new(out, format, least(self.log.unwrap_or(level)), start_of(rt))));
        Ok(())
    }
}

fn least(level: LogLevel) -> Level {
    match level {
        LogLevel::Error => Level::Error,
        LogLevel::Warn => Level::Warn,
        LogLevel::Info => Level::Info,
        LogLevel::Debug => Level::Debug,
    }
}

/// Nanoseconds from 1970 to the start of the world.
pub fn start_of(rt: &Rt) -> i128 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i128);
    since_1970 - i128::from(rt.now().0)
}
