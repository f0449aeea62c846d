//! The side of the process that takes a stack over.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::Kind;
use esker_front_nbd::Handed;
use esker_rt::Rt;
use esker_rt::mem::Slice;
use esker_rt::net::{Listener, Stream};
use esker_rt::sync::{Either, race};
use esker_stack::text::address;

use super::parcel::{Client, Parcel, Verdict};
use super::{Door, Sockets, next_line};
use crate::command::{Command, parse_answer};
use crate::lines::Lines;
use crate::refusal::Refusal;

/// More lines are no hand-over: a server has at most so many connections and sockets.
const PARCELS_MAX: usize = 64 << 10;
const READ_BYTES: usize = 64 << 10;
/// What the other process may take beyond its patience: to close its stack, and to send everything.
const BEYOND_PATIENCE: Nanos = Nanos::secs(60);

/// Why a stack could not be taken over. The other process goes on with it.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// What the server says.
    #[error("the server goes on: {0}")]
    Refused(Refusal),
    /// The connection.
    #[error("the server goes on, or has died: its connection failed: {0}")]
    Io(#[from] io::Error),
    /// It went away.
    #[error("the server went away in the middle of the hand-over")]
    Silent,
    /// It does not answer.
    #[error("the server goes on: it gives no answer in time; use a longer patience")]
    Late,
    /// Something else came.
    #[error("the server goes on: what it sends is not understood: {0}; is it of another version?")]
    Strange(String),
}

/// The newest version of each kind's format that a program reads.
pub fn formats(kinds: &[&Kind]) -> BTreeMap<String, u16> {
    let version = |kind: &&Kind| Some((kind.name.to_string(), kind.check?.version()?));
    kinds.iter().filter_map(version).collect()
}

/// A stack that was closed by the process that served it, and waits there for a word.
pub struct Taken {
    stream: Stream,
}

/// Asks the server at the other end of `stream`, a connection to its control socket, for its stack and its sockets.
/// They are usable once it has closed the stack, which this waits for.
///
/// # Errors
/// [`TakeError`].
pub async fn take(
    rt: &Rt,
    stream: Stream,
    formats: BTreeMap<String, u16>,
    patience: Nanos,
) -> Result<(Taken, Sockets), TakeError> {
    let patience_ms = patience.0 / 1_000_000;
    let command = Command::HandOver { formats, patience_ms };
    let work = async {
        stream.write_all(vec![Slice::heap(command.line().into_bytes())]).await?;
        receive(rt, &stream).await
    };
    match race(work, rt.sleep(Nanos(patience.0.saturating_add(BEYOND_PATIENCE.0)))).await {
        Either::Left(sockets) => Ok((Taken { stream: stream.clone() }, sockets?)),
        Either::Right(()) => Err(TakeError::Late),
    }
}

/// The answer, and all parcels with their sockets.
async fn receive(rt: &Rt, stream: &Stream) -> Result<Sockets, TakeError> {
    let (mut lines, mut buffer) = (Lines::default(), vec![0; READ_BYTES]);
    let (mut is_answered, mut parcels, mut sockets) = (false, Vec::new(), VecDeque::new());
    loop {
        while let Some(line) = lines.take().map_err(|error| TakeError::Strange(error.to_string()))? {
            if !is_answered {
                parse_answer(line).map_err(TakeError::Refused)?;
                is_answered = true;
                continue;
            }
            let parcel = Parcel::parse(line).map_err(TakeError::Strange)?;
            if parcel == (Parcel::End {}) {
                return unpack(rt, parcels, sockets);
            }
            parcels.push(parcel);
            if parcels.len() > PARCELS_MAX {
                return Err(TakeError::Strange("it does not end".to_string()));
            }
        }
        let (count, carried) = stream.receive_with(&mut buffer).await?;
        if count == 0 {
            return Err(TakeError::Silent);
        }
        sockets.extend(carried);
        lines.feed(&buffer[..count]);
    }
}

/// Gives each parcel its socket.
fn unpack(rt: &Rt, parcels: Vec<Parcel>, mut carried: VecDeque<OwnedFd>) -> Result<Sockets, TakeError> {
    let mut sockets = Sockets::default();
    for parcel in parcels {
        let socket = if parcel.has_socket() { carried.pop_front() } else { None };
        match (parcel, socket) {
            (Parcel::Control { address, managers }, Some(socket)) => {
                sockets.control = Some(listener(rt, socket, &address, managers)?);
            }
            (Parcel::Metrics { text, address, managers }, Some(socket)) => {
                sockets.metrics = Some((text, listener(rt, socket, &address, managers)?));
            }
            (Parcel::Door { text, address, managers }, Some(socket)) => {
                let listener = listener(rt, socket, &address, managers)?;
                sockets.doors.push(Door { text, listener, begun: Vec::new() });
            }
            (Parcel::Client(client), Some(socket)) => enter(rt, &mut sockets, client, socket)?,
            (Parcel::Changes(changes), None) => sockets.changes.push(changes),
            (other, _) => return Err(TakeError::Strange(format!("no socket came with {}", other.line().trim_end()))),
        }
    }
    match carried.len() {
        0 => Ok(sockets),
        more => Err(TakeError::Strange(format!("{more} sockets came without a line"))),
    }
}

fn enter(rt: &Rt, sockets: &mut Sockets, client: Client, socket: OwnedFd) -> Result<(), TakeError> {
    let door = sockets.doors.iter_mut().find(|door| door.text == client.door);
    let door = door.ok_or_else(|| TakeError::Strange(format!("no socket listens at {:?}", client.door)))?;
    let agreed = client.agreed().map_err(TakeError::Strange)?;
    door.begun.push(Handed { stream: Stream::from_socket(rt, socket)?, agreed });
    Ok(())
}

fn listener(rt: &Rt, socket: OwnedFd, at: &str, is_managers: bool) -> Result<Rc<Listener>, TakeError> {
    let address = address::parse(at).map_err(|why| TakeError::Strange(format!("{at:?}: {why}")))?;
    Ok(Rc::new(Listener::from_socket(rt, socket, address, is_managers)?))
}

impl Taken {
    /// Tells the other process that this one, of number `pid`, serves from now on. It lets go of everything.
    ///
    /// # Errors
    /// The other process has said that it goes on.
    pub async fn confirm(self, pid: u32) -> Result<(), Refusal> {
        // It may have died meanwhile: then there is nothing that it could serve, and this process has it all.
        let _gone = self.stream.write_all(vec![Slice::heap(Verdict::Taken(pid).line().into_bytes())]).await;
        match next_line(&self.stream).await {
            Some(line) => parse_answer(&line).map(drop),
            None => Ok(()),
        }
    }

    /// Gives everything back, and says why. The stack must be closed here.
    pub async fn give_back(self, why: &str) {
        let line = Verdict::Refused(why.to_string()).line();
        // One that has died hears nothing.
        let _heard = self.stream.write_all(vec![Slice::heap(line.into_bytes())]).await;
    }
}
