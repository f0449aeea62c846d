//! Connections to the control socket: commands in, answers out, one at a time.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

use esker_base::Nanos;
use esker_rt::Rt;
use esker_rt::mem::{Mem, Slice};
use esker_rt::net::{Listener, Stream};
use esker_rt::sync::{Either, race};
use serde_json::Value;

use crate::accept;
use crate::command::{Command, answer};
use crate::lines::Lines;
use crate::refusal::Refusal;

/// Connections at a time; when one more comes, the oldest without a command under way ends.
const CONNECTIONS_MAX: usize = 8;
/// A client that says nothing, or takes no answer, for so long is dropped.
const IDLE_MAX: Nanos = Nanos::secs(60);
const READ_BYTES: usize = 4096;

/// What does commands.
pub(crate) trait Performer: 'static {
    /// Does what a line asks.
    fn perform(&self, line: &[u8]) -> impl Future<Output = Result<Value, Refusal>>;

    /// A client has asked for the end.
    fn see_off(&self, client: &Stream);

    /// Leaves the stack to a client that has asked for it, if everything rests. No more is read from the client here.
    fn leave_to(&self, _client: &Stream) -> bool {
        false
    }

    /// Waits until no more commands are taken.
    fn stopping(&self) -> impl Future<Output = ()>;
}

/// Takes commands until the performer stops.
pub(crate) async fn serve<P: Performer>(rt: Rt, performer: Rc<P>, listener: Rc<Listener>) {
    let (own, world) = (performer.clone(), rt.clone());
    let converse = async move |stream: &Stream, works: &Cell<bool>| {
        if !converse(&world, &*own, stream, works).await {
            stream.shutdown();
        }
    };
    race(accept::serve(&rt, &listener, "control", CONNECTIONS_MAX, converse), performer.stopping()).await;
}

/// Answers commands until the client goes away, says nothing, or cannot be understood any more. True if the server was
/// left to the client, so that the connection goes on.
async fn converse<P: Performer>(rt: &Rt, performer: &P, stream: &Stream, works: &Cell<bool>) -> bool {
    let (mut lines, mut is_seen_off) = (Lines::default(), false);
    loop {
        let line = match lines.take() {
            Ok(line) => line.map(<[u8]>::to_vec),
            Err(error) => {
                send(rt, stream, answer(Err(error.into()))).await;
                return false;
            }
        };
        if let Some(line) = line {
            works.set(true);
            let result = performer.perform(&line).await;
            works.set(false);
            if result.is_ok() && performer.leave_to(stream) {
                return true;
            }
            if !is_seen_off && matches!(Command::parse(&line), Ok(Command::Stop { .. })) {
                performer.see_off(stream);
                is_seen_off = true;
            }
            if !send(rt, stream, answer(result)).await {
                return false;
            }
            continue;
        }
        let read = stream.read(vec![Slice::heap(vec![0; READ_BYTES])]);
        let Either::Left((parts, Ok(count @ 1..))) = race(read, rt.sleep(IDLE_MAX)).await else { return false };
        if let Some(Slice { mem: Mem::Heap(bytes), .. }) = parts.first() {
            lines.feed(&bytes[..count]);
        }
    }
}

/// Whether the client took it in time.
async fn send(rt: &Rt, stream: &Stream, line: String) -> bool {
    let write = stream.write_all(vec![Slice::heap(line.into_bytes())]);
    matches!(race(write, rt.sleep(IDLE_MAX)).await, Either::Left(Ok(_)))
}
