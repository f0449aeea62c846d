//! Connections to the control socket: commands in, answers out, one at a time.

use std::rc::Rc;

use esker_base::Nanos;
use esker_rt::Level;
use esker_rt::mem::{Mem, Part};
use esker_rt::net::{Listener, Stream};
use esker_rt::sync::{Credits, Either, race};

use crate::command::answer;
use crate::lines::Lines;
use crate::perform::perform;
use crate::server::Shared;

/// Connections at a time; more wait to be accepted.
const CONNECTIONS_MAX: u64 = 8;
/// A client that says nothing, or takes no answer, for so long is dropped.
const IDLE_MAX: Nanos = Nanos::secs(60);
const READ_BYTES: usize = 4096;

/// Accepts connections until the server stops.
pub(crate) async fn serve(shared: Rc<Shared>, listener: Rc<Listener>) {
    let slots = Rc::new(Credits::new(CONNECTIONS_MAX));
    loop {
        let next = async {
            slots.take(1).await;
            listener.accept().await
        };
        match race(next, shared.stopping()).await {
            Either::Left(Ok(stream)) => {
                let (shared, slots) = (shared.clone(), slots.clone());
                let rt = shared.rt.clone();
                let task = async move {
                    converse(&shared, &stream).await;
                    stream.shutdown();
                    slots.give(1);
                };
                rt.spawn("control", task).detach();
            }
            Either::Left(Err(error)) => {
                slots.give(1);
                let text = format_args!("control: cannot accept: {error}; trying again in 100 ms");
                shared.rt.tell(Level::Warn, "accept_failed", &[("error", &error)], text);
                shared.rt.sleep(Nanos::millis(100)).await;
            }
            Either::Right(()) => return,
        }
    }
}

/// Answers commands until the client goes away, says nothing, or cannot be understood any more.
async fn converse(shared: &Rc<Shared>, stream: &Stream) {
    let mut lines = Lines::default();
    loop {
        let line = match lines.take() {
            Ok(line) => line.map(<[u8]>::to_vec),
            Err(error) => {
                send(shared, stream, answer(Err(error.into()))).await;
                return;
            }
        };
        if let Some(line) = line {
            let result = perform(shared, &line).await;
            if !send(shared, stream, answer(result)).await {
                return;
            }
            continue;
        }
        let read = stream.read(vec![Part::heap(vec![0; READ_BYTES])]);
        let Either::Left((parts, Ok(count @ 1..))) = race(read, shared.rt.sleep(IDLE_MAX)).await else { return };
        if let Some(Part { mem: Mem::Heap(bytes), .. }) = parts.first() {
            lines.feed(&bytes[..count]);
        }
    }
}

/// Whether the client took it in time.
async fn send(shared: &Shared, stream: &Stream, line: String) -> bool {
    let write = stream.write_all(vec![Part::heap(line.into_bytes())]);
    matches!(race(write, shared.rt.sleep(IDLE_MAX)).await, Either::Left(Ok(_)))
}
