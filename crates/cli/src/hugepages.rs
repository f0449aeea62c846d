//! What the verbs of the manager of huge pages share: its socket, its status as text, its screen.

pub mod screen;
pub mod text;

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use esker_hugepage_linux::{Config, Daemon, Status};
use esker_serve::http::Pages;

use crate::failure::Failure;
use crate::local::{ANSWER_BYTES_MAX, Local, LocalError};

/// Where the manager answers if nothing else is said.
pub const SOCKET: &str = "esker-hugepage.sock";

/// A manager that is alive answers within one promotion.
const PATIENCE: Duration = Duration::from_secs(10);

const METRICS: &str = "/metrics";
const STATUS: &str = "/status";

/// The argument --control of verbs that ask a manager.
#[derive(clap::Args)]
pub struct Manager {
    /// Socket of the manager, as esker hugepage run printed it
    #[arg(long = "control", value_name = "PATH", default_value = SOCKET)]
    path: PathBuf,
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFileError {
    /// There is none, or none that may be read.
    #[error("{0}: cannot be read: {1}")]
    Read(String, io::Error),
    /// It is none.
    #[error("{0}: {1}")]
    Wrong(String, esker_hugepage_linux::config::ConfigError),
}

/// Reads the configuration of a manager.
///
/// # Errors
/// [`ConfigFileError`].
pub fn read_config(path: &Path) -> Result<Config, ConfigFileError> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| ConfigFileError::Read(name.clone(), error))?;
    Config::parse(&text).map_err(|error| ConfigFileError::Wrong(name, error))
}

/// Why a manager tells nothing.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error(
        "{0}: no manager answers there: {1}\ntip: start `esker hugepage run`, or name its socket with --control PATH"
    )]
    Unreached(String, LocalError),
    #[error("{0}: the manager gives no status: {1}")]
    Strange(String, String),
}

impl Manager {
    /// Asks for the status.
    ///
    /// # Errors
    /// A manager that is not there, or answers strangely.
    pub fn status(&self) -> Result<Status, Failure> {
        let path = self.place();
        let answer = self.get().map_err(|error| AskError::Unreached(path.clone(), error))?;
        let strange = |why: &str| AskError::Strange(path.clone(), why.to_string());
        let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| strange("it breaks off"))?;
        if !head.starts_with("HTTP/1.1 200 ") {
            return Err(strange(head.lines().next().unwrap_or_default()).into());
        }
        Ok(serde_json::from_str(body).map_err(|error| strange(&error.to_string()))?)
    }

    /// Where it is.
    pub fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn get(&self) -> Result<String, LocalError> {
        let mut stream = Local::connect(&self.path, PATIENCE)?;
        stream.write_all(format!("GET {STATUS} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
        Ok(answer)
    }
}

/// What a manager hands out.
pub struct Answers(pub Rc<RefCell<Daemon>>);

impl Pages for Answers {
    fn paths(&self) -> &'static [&'static str] {
        &[METRICS, STATUS]
    }

    fn page(&self, path: &str) -> (&'static str, String) {
        let status = self.0.borrow_mut().status();
        match path {
            METRICS => (esker_metrics::CONTENT_TYPE, esker_hugepage_linux::metrics::page(status)),
            _ => ("application/json", serde_json::to_string(&status).expect("a status is numbers and text")),
        }
    }
}
