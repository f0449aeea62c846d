//! A served stack that goes over to another process: both sides of it, as `esker serve` has them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use std::time::Duration;

use esker_base::Nanos;
use esker_rt::mem::Pool;
use esker_rt::net::{Address, Stream};
use esker_rt::real::Reactor;
use esker_rt::sync::{Either, race};
use esker_rt::{Level, Rt};
use esker_serve::hand_over::{self, taking};
use esker_serve::{Command, Config, HandOver, Offered, Served, TakeError};
use esker_stack::Spec;

use crate::control;
use crate::failure::Failure;
use crate::local::{Local, LocalError};
use crate::notify;
use crate::verbs::serve::{Asked, usable};

/// How long clients and devices of the other server may take to come to rest.
const PATIENCE: Nanos = Nanos::secs(30);
/// A server that is alive takes a connection so soon.
const PROMPT: Duration = Duration::from_secs(10);

/// Where a stack is served.
#[derive(Clone)]
pub struct Place {
    /// The world.
    pub rt: Rt,
    /// Buffers.
    pub pool: Pool,
    /// How it is served.
    pub config: Config,
}

/// Why the place of another server cannot be taken. It goes on.
#[derive(Debug, thiserror::Error)]
enum HandingError {
    #[error("{0}: the server there cannot hand its stack over: it is of an older version; stop it, and start this one")]
    Older(String),
    #[error(
        "{0}: the server there has another stack than this text; give the text that it was started with, or the one that \
         `esker stack dump` prints"
    )]
    Differs(String),
    #[error(
        "{0}: the server there runs in directory {1}, where relative paths lead; start this one in the same directory"
    )]
    Elsewhere(String, String),
    #[error("{0}: not asked: {1}")]
    Unreached(String, LocalError),
    #[error("{0}: {1}")]
    NotTaken(String, TakeError),
    #[error("{0}: the other server goes on: {1}")]
    TooLate(String, esker_serve::Refusal),
}

/// Takes the place of the server at the control socket of `place`. None if a signal came first.
///
/// # Errors
/// What stands against it; the other server goes on then.
pub fn take_over(
    reactor: &Reactor,
    place: &Place,
    spec: &Spec,
    asked: Asked,
) -> Result<Option<(Served, Asked)>, Failure> {
    let Address::Unix(path) = &place.config.control else { unreachable!("a control socket is a path") };
    let name = path.display().to_string();
    let spec = compared(path, &name, spec)?;
    let local = Local::connect(path, PROMPT).map_err(|error| HandingError::Unreached(name.clone(), error))?;
    let stream = Stream::from_socket(&place.rt, local.into_socket()?)?;
    reactor.block_on(take(place.clone(), spec, stream, name, asked))
}

/// The stack of this text, which the server at `path` has. Exports without an address are where the server has them: a
/// service manager passed it their sockets.
fn compared(path: &Path, name: &str, spec: &Spec) -> Result<Spec, Failure> {
    let hello = control::ask(path, &Command::Hello {})?;
    let knows = hello["commands"].as_array().is_some_and(|all| all.iter().any(|word| word == "hand_over"));
    if !knows {
        return Err(HandingError::Older(name.to_string()).into());
    }
    let (theirs, mut spec) = (control::spec(path)?, spec.clone());
    for export in spec.exports.iter_mut().filter(|export| export.nbd.is_none()) {
        let same = theirs.exports.iter().find(|their| their.name == export.name);
        export.nbd = same.and_then(|their| their.nbd.clone());
    }
    if theirs.to_toml() != spec.to_toml() {
        return Err(HandingError::Differs(name.to_string()).into());
    }
    match hello["pid"].as_u64().and_then(other_directory) {
        Some(other) => Err(HandingError::Elsewhere(name.to_string(), other.display().to_string()).into()),
        None => Ok(spec),
    }
}

/// The directory of process `pid`, if it is known and another one than ours. The peer of the control socket does not
/// tell it: that is the service manager where the socket was passed.
fn other_directory(pid: u64) -> Option<PathBuf> {
    let process = PathBuf::from(format!("/proc/{pid}/cwd"));
    let (theirs, ours) = (std::fs::metadata(&process).ok()?, std::fs::metadata(".").ok()?);
    let is_same = (theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino());
    (!is_same).then(|| std::fs::read_link(&process).unwrap_or(process))
}

async fn take(
    place: Place,
    spec: Spec,
    stream: Stream,
    name: String,
    asked: Asked,
) -> Result<Option<(Served, Asked)>, Failure> {
    let Place { rt, pool, config } = place;
    let formats = taking::formats(esker_kinds::ALL);
    let (taken, sockets) = hand_over::take(&rt, stream, formats, PATIENCE)
        .await
        .map_err(|error| HandingError::NotTaken(name.clone(), error))?;
    let connections = sockets.connections();
    let opened = match Served::adopt(&rt, &pool, esker_kinds::ALL, &spec, config, sockets) {
        // An export that cannot be used is no reason to take it from a server that can use it.
        Ok(served) => usable(served, false, asked, rt.clone()).await,
        Err(error) => Err(error.into()),
    };
    let (served, asked) = match opened {
        Ok(Some(started)) => started,
        Ok(None) => {
            taken.give_back("a signal ended it").await;
            return Ok(None);
        }
        Err(failure) => {
            taken.give_back(&failure.text()).await;
            return Err(failure);
        }
    };
    if let Err(refusal) = taken.confirm(std::process::id()).await {
        served.abandon().await;
        return Err(HandingError::TooLate(name, refusal).into());
    }
    served.own_paths();
    let text = format_args!("taken over: {connections} connections go on");
    rt.log_event(Level::Info, "taken_over", &[("connections", &connections)], text);
    Ok(Some((served, asked)))
}

/// Serves until `asked`, or until another process serves the stack: its number.
///
/// # Errors
/// A stop that failed, and a stack that was offered, came back, and cannot be opened any more.
pub async fn run(place: Place, served: Served, asked: Asked) -> Result<Option<u32>, Failure> {
    let rt = place.rt.clone();
    let (mut served, mut asked) = (served, asked);
    loop {
        let Some(offer) = served.run_or_leave(&mut asked).await? else {
            rt.log_event(Level::Info, "stopped", &[], format_args!("stopped: everything is flushed"));
            return Ok(None);
        };
        match offered(offer, &mut asked).await {
            (Offered::Taken(pid), _) => return Ok(Some(pid)),
            (Offered::Back(..), true) => {
                rt.log_event(Level::Info, "stopped", &[], format_args!("stopped: everything was flushed before"));
                return Ok(None);
            }
            (Offered::Back(spec, sockets), false) => {
                let Place { rt, pool, config } = place.clone();
                served = Served::adopt(&rt, &pool, esker_kinds::ALL, &spec, config, sockets)?;
                served.opened().await;
            }
        }
    }
}

/// What became of an offer, and whether a signal came meanwhile.
async fn offered(offer: HandOver, asked: &mut Asked) -> (Offered, bool) {
    let work = Box::pin(offer.offer(notify::successor));
    let mut work: std::pin::Pin<Box<dyn Future<Output = Offered>>> = work;
    match race(&mut work, asked).await {
        Either::Left(offered) => (offered, false),
        // The other process may serve already: it is waited for.
        Either::Right(()) => (work.await, true),
    }
}
