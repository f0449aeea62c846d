//! `esker hugepage run`: manages the huge pages of processes until it is told to stop.

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use esker_hugepage_linux::journal::Journal;
use esker_hugepage_linux::linux::knobs::PutBack;
use esker_hugepage_linux::{Daemon, daemon};
use esker_rt::net::Address;
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::{Level, Rt};
use esker_serve::Inherited;
use esker_serve::http;
use esker_serve::server::listen_for_metrics;
use esker_stack::text::address;

use crate::failure::Failure;
use crate::files;
use crate::hugepages::{self, Answers, SOCKET};
use crate::log::{Logging, start_of};
use crate::notify;
use crate::progress::Pace;
use crate::signals::Signals;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Manage>(About {
    words: &["hugepage", "run"],
    summary: "Give huge pages to the processes that make the best use of them",
    details: "Promotes well used regions, demotes others, and divides huge pages fairly, until a signal (SIGINT, \
              SIGTERM, SIGHUP). At the end it puts back the settings of the kernel that the configuration changed. A \
              second signal does so without waiting for work under way; after a kill, the next start does. `esker \
              hugepage doctor` says what works here.",
    examples: &[
        Example {
            line: "esker hugepage run --config hugepage.toml",
            does: "manages the processes that the file names",
        },
        Example {
            line: "esker hugepage run --config hugepage.toml --decisions why.jsonl --metrics tcp:127.0.0.1:9101",
            does: "records why each region was changed, and serves metrics",
        },
    ],
});

#[derive(clap::Args)]
struct Manage {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Socket for esker hugepage status and top
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    control: PathBuf,
    /// Hand out metrics for Prometheus over HTTP at unix:PATH or tcp:127.0.0.1:PORT
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    metrics: Option<Address>,
    /// Append each decision with its reason as one line of JSON
    #[arg(long, value_name = "FILE")]
    decisions: Option<PathBuf>,
    #[command(flatten)]
    logging: Logging,
}

fn parse_address(text: &str) -> Result<Address, String> {
    address::parse(text).map_err(|why| format!("{why}; write unix:PATH or tcp:127.0.0.1:PORT"))
}

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error("{0}: decisions cannot be written there: {1}")]
    Decisions(String, io::Error),
}

impl Run for Manage {
    const PACE: Option<Pace> = Some(Pace::Serves);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let config = hugepages::read_config(&self.config)?;
        let put_back = Arc::new(OnceLock::<PutBack>::new());
        let last = put_back.clone();
        let signals = Signals::catch_with_hangup(move || drop(last.get().map(PutBack::for_good)))?;
        let reactor = Reactor::new(RealConfig::seeded(1))?;
        let rt = reactor.rt();
        self.logging.start(&rt)?;
        let daemon = Rc::new(RefCell::new(Daemon::open(&rt, config, self.journal(&rt)?)?));
        put_back.set(daemon.borrow().put_back()).expect("it is set once");
        let mut doors = vec![listen_for_metrics(&rt, &Address::Unix(self.control.clone()), &Inherited::default())?];
        if let Some(metrics) = &self.metrics {
            doors.push(listen_for_metrics(&rt, metrics, &Inherited::default())?);
        }
        for door in &doors {
            terminal.say(&format!("status and metrics: {}", address::text(door.address())))?;
            let answers = Rc::new(Answers(daemon.clone()));
            rt.spawn("hugepage-pages", http::serve(rt.clone(), door.clone(), answers)).detach();
        }
        terminal.finish()?;
        let stop = notify::stopping(signals.first(&rt)?);
        notify::ready(&rt, None);
        let own = daemon.clone();
        reactor.block_on(async move { daemon::run(own, stop).await });
        for line in daemon.borrow_mut().close() {
            rt.log_event(Level::Info, "restored", &[], format_args!("{line}"));
        }
        Ok(())
    }
}

impl Manage {
    fn journal(&self, rt: &Rt) -> Result<Option<Journal<Box<dyn Write>>>, FileError> {
        let Some(path) = &self.decisions else { return Ok(None) };
        let file = files::append(path, 0o640);
        let file = file.map_err(|error| FileError::Decisions(path.display().to_string(), error))?;
        Ok(Some(Journal::new(Box::new(file), start_of(rt))))
    }
}
