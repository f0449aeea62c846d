//! `tap`: records the requests that pass as a block trace.
//!
//! Requests are encoded as they pass, into memory; a worker writes that memory to the file. In virtual time nothing
//! outside exists: the trace is encoded all the same and then thrown away, so that a stack with a tap can be simulated.

use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use esker_base::{Nanos, Time};
use esker_block::{
    Bio, Ctx, Extension, Flow, Kind, KindError, Layer, Make, Op, Param, ParamType, Stat, StatInfo, Step,
};
use esker_rt::real::Kernel;
use esker_rt::sync::Notify;
use esker_rt::{Level, Rt};
use esker_trace_block::sink::TAP_FORMAT;
use esker_trace_block::{Op as TraceOp, Record, RecordSink, SinkError};

const PARAMS: &[Param] = &[
    Param::required("path", ParamType::Text, "File for the trace; it must not exist yet."),
    Param::with_default(
        "buffer",
        ParamType::Size,
        "4MiB",
        "Bytes of the trace in memory before requests wait for the file.",
    ),
];

const STATS: &[StatInfo] = &[
    StatInfo::of("records", "Requests that were recorded."),
    StatInfo::of("unrecorded", "Requests that a trace cannot hold: range vectors and extent queries."),
    StatInfo::of("backlog_bytes", "Bytes of the trace that wait for the file."),
    StatInfo::of("is_failed", "1 after the file could not be written, with which recording ends; else 0."),
];

/// The manifest.
pub static KIND: Kind = Kind {
    cost: Nanos(350),
    stats: STATS,
    ..Kind::layer("tap", "Records the requests that pass as a block trace.", PARAMS, build)
};

/// CPU time that handing a buffer to the file is charged with in virtual time.
const WRITE_COST: Nanos = Nanos::micros(50);

struct Tap {
    state: Rc<State>,
}

struct State {
    name: String,
    begin: Time,
    buffer: usize,
    log: Arc<Log>,
    /// `None` once it is closed or has failed.
    sink: RefCell<Option<RecordSink>>,
    last: Cell<Nanos>,
    records: Cell<u64>,
    unrecorded: Cell<u64>,
    is_writing: Cell<bool>,
    written: Notify,
    failed: Cell<bool>,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let path = make.args.text("path");
    let output: Box<dyn Write + Send> = match make.rt.kernel() {
        Ok(kernel) => create(make, kernel, path)?,
        Err(_) => Box::new(io::sink()),
    };
    let tap = Tap::new(make.rt, make.name, output, make.args.int("buffer") as usize)
        .map_err(|e| KindError::Unfit(e.to_string()))?;
    crate::transparent(make, tap)
}

/// The file of a trace. It goes again with a start that fails.
fn create(make: &Make<'_>, kernel: Kernel, path: &str) -> Result<Box<dyn Write + Send>, KindError> {
    let file = kernel.create_log(Path::new(path)).map_err(|e| {
        let advice = "name a new file in a folder that exists";
        KindError::Outside(format!("{}: cannot make {path}: {e}; {advice}", make.name))
    })?;
    let made = PathBuf::from(path);
    make.created.note(move || {
        // What cannot be removed stays, empty; the error that is on its way says what went wrong.
        let _stays = kernel.remove_log(&made);
    });
    Ok(file)
}

impl Tap {
    fn new(rt: &Rt, name: &str, output: Box<dyn Write + Send>, buffer: usize) -> Result<Tap, SinkError> {
        let log = Arc::new(Log { output: Mutex::new(output), backlog: Mutex::default() });
        let mut sink = RecordSink::new(TAP_FORMAT, Box::new(Backlog(log.clone())))?;
        sink.name_volume(0, name);
        let state = State {
            name: name.to_string(),
            begin: rt.now(),
            buffer,
            log,
            sink: RefCell::new(Some(sink)),
            last: Cell::default(),
            records: Cell::default(),
            unrecorded: Cell::default(),
            is_writing: Cell::default(),
            written: Notify::default(),
            failed: Cell::default(),
        };
        Ok(Tap { state: Rc::new(state) })
    }
}

impl Extension for Tap {
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let state = &self.state;
        state.record(ctx.rt, bio);
        let backlog = state.log.backlog().len();
        if backlog > 0 {
            state.write_out(ctx.rt);
        }
        if backlog <= state.buffer {
            return Step::Now(Flow::Down);
        }
        let state = state.clone();
        crate::resume_after(bio, async move {
            state.written.wait_until(|| state.failed.get() || state.log.backlog().len() <= state.buffer).await;
        })
    }

    /// Writes the rest. Blocks until a worker that is at it has finished.
    fn close(&self) {
        let sink = self.state.sink.borrow_mut().take();
        let finished = sink.map_or(Ok(()), |sink| sink.finish().map(drop));
        if finished.is_err() || self.state.log.write_out().is_err() {
            self.state.failed.set(true);
        }
    }

    fn stats(&self) -> Vec<Stat> {
        let stat = |name, value: u64| Stat { name, value: value as f64 };
        let state = &self.state;
        vec![
            stat("records", state.records.get()),
            stat("unrecorded", state.unrecorded.get()),
            stat("backlog_bytes", state.log.backlog().len() as u64),
            stat("is_failed", u64::from(state.failed.get())),
        ]
    }
}

impl State {
    fn record(&self, rt: &Rt, bio: &Bio) {
        let mut sink = self.sink.borrow_mut();
        let (Some(open), Some(op)) = (sink.as_mut(), trace_op(&bio.op)) else {
            return self.unrecorded.set(self.unrecorded.get() + 1);
        };
        // A task's clock may run ahead of the next one's; a trace's may not run back.
        let at = rt.now().since(self.begin).max(self.last.get());
        self.last.set(at);
        let (offset, len) = if op == TraceOp::Flush { (0, 0) } else { (bio.offset(), bio.len()) };
        self.records.set(self.records.get() + 1);
        if let Err(error) = open.put(&Record { at, volume: 0, op, offset, len, who: bio.tag.pid }) {
            *sink = None;
            self.fail(rt, &error);
        }
    }

    /// Starts a worker on the backlog, if none is at it.
    fn write_out(self: &Rc<State>, rt: &Rt) {
        if self.failed.get() || self.is_writing.replace(true) {
            return;
        }
        let (state, world) = (self.clone(), rt.clone());
        rt.spawn("tap", async move {
            // What came in while a worker was at it may be what requests wait for.
            while !state.failed.get() && !state.log.backlog().is_empty() {
                let log = state.log.clone();
                if let Err(error) = world.worker(WRITE_COST, move || log.write_out()).await {
                    state.sink.borrow_mut().take();
                    state.fail(&world, &error);
                }
                state.written.notify_all();
            }
            state.is_writing.set(false);
        })
        .detach();
    }

    fn fail(&self, rt: &Rt, error: &dyn std::fmt::Display) {
        self.failed.set(true);
        rt.log(Level::Error, format_args!("{}: recording stopped, requests go on: {error}", self.name));
    }
}

/// What a block trace can say. A zero is recorded as a discard: neither carries data.
fn trace_op(op: &Op) -> Option<TraceOp> {
    match op {
        Op::Read => Some(TraceOp::Read),
        Op::Write => Some(TraceOp::Write),
        Op::Flush => Some(TraceOp::Flush),
        Op::Zero | Op::Discard => Some(TraceOp::Discard),
        Op::Ranges(_) | Op::Extents => None,
    }
}

/// Lock order: output, then backlog.
struct Log {
    output: Mutex<Box<dyn Write + Send>>,
    backlog: Mutex<Vec<u8>>,
}

impl Log {
    fn backlog(&self) -> MutexGuard<'_, Vec<u8>> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the backlog. It is taken under the output's lock, so that bytes go out in order from any task.
    fn write_out(&self) -> io::Result<()> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = std::mem::take(&mut *self.backlog());
        output.write_all(&bytes)?;
        output.flush()
    }
}

/// The reactor's end of the log: appends to the backlog and never blocks on the output.
struct Backlog(Arc<Log>);

impl Write for Backlog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.backlog().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
