//! Commands of the control socket, done.

use std::rc::{Rc, Weak};

use esker_base::{ByteRange, Errno};
use esker_block::{Bio, Device, RangeOp};
use esker_rt::Level;
use esker_rt::net::Stream;
use esker_rt::sync::join_all;
use esker_stack::Export;
use serde_json::{Value, json};

use crate::command::{COMMANDS, Command, PROTOCOL, RangeCommand, bounded, parse_layer};
use crate::console::Performer;
use crate::freeze;
use crate::hand_over;
use crate::mounts::HeldMount;
use crate::refusal::Refusal;
use crate::server::Shared;
use crate::sizes;
use crate::status::Status;

/// Performs commands for as long as the server is there: a connection that waits for the next one does not hold it.
pub(crate) struct Operator(pub Weak<Shared>);

impl Performer for Operator {
    async fn perform(&self, line: &[u8]) -> Result<Value, Refusal> {
        match self.0.upgrade() {
            Some(shared) => perform(&shared, line).await,
            None => Err(Refusal::new("stopping", "this server has left its stack to another process; connect again")),
        }
    }

    fn see_off(&self, client: &Stream) {
        if let Some(shared) = self.0.upgrade() {
            shared.stop.see_off(client);
        }
    }

    fn leave_to(&self, client: &Stream) -> bool {
        self.0.upgrade().is_some_and(|shared| shared.leave_to(client))
    }

    async fn stopping(&self) {
        if let Some(shared) = self.0.upgrade() {
            shared.stop.asked().await;
        }
    }
}

/// Does what a line asks.
async fn perform(shared: &Rc<Shared>, line: &[u8]) -> Result<Value, Refusal> {
    let command = Command::parse(line)?;
    match command {
        Command::Hello {} => Ok(hello(shared.pid)),
        Command::Status {} => Ok(serde_json::to_value(Status::of(shared)).expect("a status is texts and numbers")),
        Command::Dump {} => {
            let spec = shared.stack.spec();
            Ok(json!({ "toml": spec.to_toml(), "line": spec.to_line() }))
        }
        Command::Stop { patience_ms } => {
            shared.rt.log_event(Level::Info, "stop_asked", &[], format_args!("control: asked to stop"));
            shared.stop.ask(patience_ms.map(bounded));
            Ok(Value::Null)
        }
        command @ (Command::Insert { .. }
        | Command::Remove { .. }
        | Command::Replace { .. }
        | Command::Attach { .. }
        | Command::Detach { .. }
        | Command::Reorder { .. }
        | Command::Remap { .. }
        | Command::Resize { .. }
        | Command::Order { .. }
        | Command::Sync { .. }
        | Command::Freeze { .. }
        | Command::Thaw { .. }
        | Command::HandOver { .. }
        | Command::Meters { .. }) => {
            let result = act(shared, &command).await;
            report(shared, &command, &result);
            result
        }
    }
}

/// The version of the protocol, the commands, and the process, if that is known.
pub(crate) fn hello(pid: Option<u32>) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    json!({ "server": "esker", "version": version, "pid": pid, "protocol": PROTOCOL, "commands": COMMANDS })
}

/// Orders the file system of a mount to do what only its kind can do.
async fn order_mount(mount: &HeldMount, words: &[String]) -> Result<Value, Refusal> {
    let name = &mount.spec.name;
    let fs = mount.fs.as_ref().map_err(|unusable| Refusal::new("unusable", &unusable.why).at(name))?;
    let refused = |errno: Errno| Refusal::new("refused", &errno.to_string()).at(name);
    fs.ask(words).await.map(Value::String).map_err(refused)
}

/// What changes something, or holds requests up.
async fn act(shared: &Rc<Shared>, command: &Command) -> Result<Value, Refusal> {
    let stack = &shared.stack;
    match command {
        Command::Remap { export, ops } => return change_ranges(shared, export, ops).await,
        Command::Resize { export, bytes, patience_ms } => {
            return sizes::resize(shared, export, *bytes, bounded(*patience_ms)).await;
        }
        Command::Order { device, words } => {
            if let Some(mount) = shared.mount(device) {
                return order_mount(&mount, words).await;
            }
            let answer = stack.order(device, words).await?;
            sizes::notify_fronts(shared).await;
            return Ok(serde_json::from_str(&answer).unwrap_or(Value::String(answer)));
        }
        Command::Sync { patience_ms } => {
            let held = freeze::sync(shared, bounded(*patience_ms)).await?;
            return Ok(json!({ "held_ms": held.0 as f64 / 1e6 }));
        }
        Command::Freeze { limit_ms, patience_ms } => {
            let limit = bounded(*limit_ms);
            let begun = freeze::freeze(shared, limit, bounded(*patience_ms)).await?;
            let (took, limit) = (begun.time.0 as f64 / 1e6, limit.0 as f64 / 1e6);
            return Ok(json!({ "freeze": begun.number, "took_ms": took, "limit_ms": limit }));
        }
        Command::Thaw { freeze } => {
            let ended = freeze::thaw(shared, *freeze)?;
            return Ok(json!({ "freeze": ended.number, "held_ms": ended.time.0 as f64 / 1e6 }));
        }
        Command::HandOver { formats, patience_ms } => {
            hand_over::begin(shared, formats, bounded(*patience_ms)).await?;
            return Ok(Value::Null);
        }
        Command::Meters { what, patience_ms } => {
            stack.measure(what.measure(), bounded(*patience_ms)).await?;
            return Ok(Value::Null);
        }
        Command::Insert { device, above, patience_ms } => {
            stack.insert(parse_layer(device)?, above, bounded(*patience_ms)).await?;
        }
        Command::Remove { name, patience_ms } => stack.remove(name, bounded(*patience_ms)).await?,
        Command::Replace { device, with, patience_ms } => {
            stack.replace(device, parse_layer(with)?, bounded(*patience_ms)).await?;
        }
        Command::Attach { device, with, patience_ms } => {
            stack.attach(device, parse_layer(with)?, bounded(*patience_ms)).await?;
        }
        Command::Detach { device, patience_ms } => stack.detach(device, bounded(*patience_ms)).await?,
        Command::Reorder { names, patience_ms } => stack.reorder(names, bounded(*patience_ms)).await?,
        Command::Hello {} | Command::Status {} | Command::Dump {} | Command::Stop { .. } => {
            unreachable!("answered by the caller")
        }
    }
    shared.changes.set(shared.changes.get() + 1);
    Ok(Value::Null)
}

/// Orders that come by the thousand.
const CALLS: [&str; 7] = ["control", "members", "changes", "read", "receive-data", "receive-zero", "receive-keep"];

fn report(shared: &Shared, command: &Command, result: &Result<Value, Refusal>) {
    let line = command.shown(shared.stack.kinds());
    // A cleaner in another process, a transfer of a snapshot and a wait for a resync make many calls.
    let is_one = |words: &[String]| words.first().is_some_and(|word| CALLS.contains(&word.as_str()));
    let is_call = matches!(command, Command::Order { words, .. } if is_one(words));
    let level = if is_call { Level::Debug } else { Level::Info };
    match result {
        Ok(_) => shared.rt.log_event(level, "command", &[("command", &line)], format_args!("control: done: {line}")),
        Err(error) => {
            let fields: [(&str, &dyn std::fmt::Display); 2] = [("command", &line), ("error", error)];
            let text = format_args!("control: not done: {line}: {error}");
            shared.rt.log_event(Level::Warn, "command_refused", &fields, text);
        }
    }
}

/// Most operations of one command; a line holds hardly more.
const RANGES_MAX: usize = 1024;

/// The export of that name, which may be changed.
pub(crate) fn export_of(shared: &Shared, name: &str) -> Result<Export, Refusal> {
    let refused = |code, text| Refusal::new(code, text).at(name);
    let export = shared.stack.export(name);
    let export = export.ok_or_else(|| refused("unknown_name", "no export is named so; `esker status` lists them"))?;
    match export.is_read_only() {
        true => Err(refused("read_only", "this export is read-only")),
        false => Ok(export),
    }
}

async fn change_ranges(shared: &Rc<Shared>, name: &str, ops: &[RangeCommand]) -> Result<Value, Refusal> {
    let export = export_of(shared, name)?;
    let wanted = range_ops(ops).map_err(|error| error.at(name))?;
    let size = export.size();
    let touched = wanted.iter().filter_map(RangeOp::ranges).flat_map(|(src, dst)| src.into_iter().chain([dst]));
    let touched: Vec<ByteRange> = touched.collect();
    for range in &touched {
        if range.end() > size {
            let text = format!("{range} passes the end at {size}; nothing was changed");
            return Err(Refusal::new("bad_range", &text).at(name));
        }
    }
    let fronts = shared.fronts();
    join_all(fronts.iter().map(|front| front.before_change(name, &touched))).await;
    let done = export.request(Bio::ranges(wanted)).await;
    join_all(fronts.iter().map(|front| front.after_change(name, &touched))).await;
    match done.result {
        Ok(_) => Ok(json!({ "done": ops.len() })),
        Err(error) => Err(Refusal::from(error).at(name)),
    }
}

fn range_ops(ops: &[RangeCommand]) -> Result<Vec<RangeOp>, Refusal> {
    let wanted: Option<Vec<RangeOp>> = ops.iter().map(RangeCommand::op).collect();
    let beyond = "a range passes the last byte that can be addressed; nothing was changed";
    let wanted = wanted.ok_or_else(|| Refusal::new("bad_range", beyond))?;
    match wanted.len() {
        1..=RANGES_MAX => Ok(wanted),
        other => Err(Refusal::new("bad_range", &format!("{other} operations; give 1 to {RANGES_MAX}"))),
    }
}
