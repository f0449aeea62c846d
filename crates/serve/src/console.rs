//! Connections to the control socket: commands in, answers out, one at a time.

use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::{Bio, Device, RangeOp};
use esker_rt::Level;
use esker_rt::mem::{Mem, Part};
use esker_rt::net::{Listener, Stream};
use esker_rt::sync::{Credits, Either, join_all, race};
use serde_json::{Value, json};

use crate::command::{Command, RangeCommand, answer, bounded, parse_layer};
use crate::lines::Lines;
use crate::server::Shared;
use crate::status;

/// Connections at a time; more wait to be accepted.
const CONNECTIONS_MAX: u64 = 8;
/// A client that says nothing for so long is dropped.
const IDLE_MAX: Nanos = Nanos::secs(60);
const READ_BYTES: usize = 4096;

/// Accepts connections until the server stops.
pub(crate) async fn serve(shared: Rc<Shared>, listener: Rc<Listener>) {
    let slots = Rc::new(Credits::new(CONNECTIONS_MAX));
    loop {
        slots.take(1).await;
        match race(listener.accept(), shared.stopping()).await {
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
                shared.rt.log(Level::Warn, format_args!("control: cannot accept: {error}; trying again in 100 ms"));
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
                send(stream, answer(Err(error.to_string()))).await;
                return;
            }
        };
        if let Some(line) = line {
            let result = perform(shared, &line).await;
            if !send(stream, answer(result)).await {
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

/// Whether the client took it.
async fn send(stream: &Stream, line: String) -> bool {
    stream.write_all(vec![Part::heap(line.into_bytes())]).await.is_ok()
}

async fn perform(shared: &Rc<Shared>, line: &[u8]) -> Result<Value, String> {
    let command = Command::parse(line).map_err(|e| e.to_string())?;
    let stack = &shared.stack;
    let changed = match command {
        Command::Status {} => return Ok(status::of(shared)),
        Command::Dump {} => return Ok(json!({ "toml": stack.spec().to_toml(), "line": stack.spec().to_line() })),
        Command::Stop {} => {
            shared.rt.log(Level::Info, format_args!("control: asked to stop"));
            shared.ask_to_stop();
            return Ok(Value::Null);
        }
        Command::Ranges { ref export, ref ops } => return change_ranges(shared, export, ops).await,
        Command::Insert { ref device, ref above, patience_ms } => {
            let layer = parse_layer(device).map_err(|e| e.to_string())?;
            stack.insert(layer, above, bounded(patience_ms)).await
        }
        Command::Remove { ref name, patience_ms } => stack.remove(name, bounded(patience_ms)).await,
        Command::Reorder { ref names, patience_ms } => stack.reorder(names, bounded(patience_ms)).await,
    };
    let what = command.line();
    match changed {
        Ok(()) => {
            shared.changes.set(shared.changes.get() + 1);
            shared.rt.log(Level::Info, format_args!("control: done: {}", what.trim_end()));
            Ok(Value::Null)
        }
        Err(error) => {
            shared.rt.log(Level::Warn, format_args!("control: not done: {}: {error}", what.trim_end()));
            Err(error.to_string())
        }
    }
}

/// Most operations of one command; a line holds hardly more.
const RANGES_MAX: usize = 1024;

async fn change_ranges(shared: &Rc<Shared>, name: &str, ops: &[RangeCommand]) -> Result<Value, String> {
    let export = shared.stack.export(name).ok_or_else(|| format!("no export is named \"{name}\""))?;
    let wanted: Option<Vec<RangeOp>> = ops.iter().map(RangeCommand::op).collect();
    let wanted = wanted.ok_or("a range passes the last byte that can be addressed")?;
    if wanted.is_empty() || wanted.len() > RANGES_MAX {
        return Err(format!("{} operations; give 1 to {RANGES_MAX}", wanted.len()));
    }
    if export.is_read_only() {
        return Err(format!("export \"{name}\" is read-only"));
    }
    let size = export.limits().size;
    let touched = wanted.iter().filter_map(RangeOp::ranges).flat_map(|(src, dst)| src.into_iter().chain([dst]));
    let touched: Vec<ByteRange> = touched.collect();
    for range in &touched {
        if range.end() > size {
            return Err(format!("{range} passes the end of \"{name}\" at {size}; nothing was changed"));
        }
        shared.doors.iter().for_each(|door| door.server.note_change(name, *range));
    }
    let fronts = shared.fronts();
    join_all(fronts.iter().map(|front| front.before_change(name, &touched))).await;
    let done = export.request(Bio::ranges(wanted)).await;
    join_all(fronts.iter().map(|front| front.after_change(name, &touched))).await;
    match done.result {
        Ok(_) => Ok(json!({ "done": ops.len() })),
        Err(error) => Err(error.to_string()),
    }
}
