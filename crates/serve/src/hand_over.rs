//! A served stack goes over to another process, whose clients notice a pause.
//!
//! The process that takes over, the *successor*, sends the command `hand_over` on the control socket. The server comes
//! to rest, flushes and closes the stack, and answers. Then one line for each [`Parcel`] follows, those of sockets with
//! the socket itself. The successor opens the stack. It says `taken` when it can serve, or goes away.
//!
//! Invariant: one process has the media, and one reads a connection. Until the successor has said that it serves, this
//! process can go on, and does so if the successor goes away. It opens the stack again, as after a clean stop or after
//! a crash of the successor. It holds its descriptors of all sockets until then, and removes no path.
//!
//! Reading order: `begin` (what is refused, rest), `leave` (the stack is closed), [`HandOver`] (the offer), [`parcel`]
//! (the lines), [`taking`] (the successor's side).

pub mod parcel;
pub mod taking;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::{Rc, Weak};

use esker_base::{ByteRange, Nanos};
use esker_block::{Build, ChangeMap, Device, Worlds};
use esker_front_nbd::Handed;
use esker_rt::mem::{Mem, Slice};
use esker_rt::net::{Address, Listener, Stream};
use esker_rt::sync::join_all;
use esker_rt::{Level, Rt};
use esker_stack::text::address;
use esker_stack::{Spec, Stack};

use crate::command::answer;
use crate::error::ServeError;
use crate::inherited::Inherited;
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::server::{Served, Shared, listen_for_metrics};
use parcel::{Changes, Client, Parcel};

pub use taking::{TakeError, Taken, take};

/// Kinds of devices whose content is nothing that could be lost.
const WITHOUT_CONTENT: [&str; 1] = ["null"];
/// A closed stack is gone once its last tasks have had their turn.
const GONE_MAX: Nanos = Nanos::secs(5);
const READ_BYTES: usize = 4096;

/// Whether a server may leave its stack to another process, and to which it does.
#[derive(Default)]
pub(crate) struct Leaving {
    permitted: Cell<bool>,
    /// A process has asked for it.
    asked: Cell<bool>,
    /// Everything rests, so that the asker of the command can be given the stack.
    rests: Cell<bool>,
    successor: RefCell<Option<Stream>>,
}

impl Leaving {
    pub(crate) fn permit(&self) {
        self.permitted.set(true);
    }

    /// The process that takes over.
    pub(crate) fn to(&self) -> Option<Stream> {
        self.successor.take()
    }
}

impl Shared {
    /// Leaves the stack to `client` if it has asked for that, and everything rests.
    pub(crate) fn leave_to(&self, client: &Stream) -> bool {
        let leaves = self.leaving.rests.take();
        if leaves {
            *self.leaving.successor.borrow_mut() = Some(client.clone());
            self.stop.ask(None);
        }
        leaves
    }
}

/// Sockets, connections and dirty maps of a server that another one goes on with.
#[derive(Default)]
pub struct Sockets {
    pub(crate) control: Option<Rc<Listener>>,
    /// With the address as the configuration had it.
    pub(crate) metrics: Option<(String, Rc<Listener>)>,
    pub(crate) doors: Vec<Door>,
    pub(crate) changes: Vec<Changes>,
}

/// One address of exports.
pub(crate) struct Door {
    /// The address as the stack text has it.
    pub text: String,
    pub listener: Rc<Listener>,
    pub begun: Vec<Handed>,
}

impl Sockets {
    pub(crate) fn take_control(&mut self) -> Option<Rc<Listener>> {
        self.control.take()
    }

    /// The listener for metrics: the one that is here, if it is at that address, or a new one.
    pub(crate) fn metrics_at(
        &mut self,
        rt: &Rt,
        at: &Address,
        inherited: &Inherited,
    ) -> Result<(String, Rc<Listener>), ServeError> {
        let text = address::text(at);
        match self.metrics.take().filter(|(has, _)| *has == text) {
            Some(metrics) => Ok(metrics),
            None => Ok((text, listen_for_metrics(rt, at, inherited)?)),
        }
    }

    pub(crate) fn take_door(&mut self, text: &str) -> Option<Door> {
        let at = self.doors.iter().position(|door| door.text == text)?;
        Some(self.doors.swap_remove(at))
    }

    /// Marks what clients had changed of an export before.
    pub(crate) fn mark_changes(&self, export: &str, map: &ChangeMap) {
        for changes in self.changes.iter().filter(|changes| changes.export == export) {
            changes.mark(map);
        }
    }

    /// Connections that go along.
    pub fn connections(&self) -> usize {
        self.doors.iter().map(|door| door.begun.len()).sum()
    }

    fn listeners(&self) -> impl Iterator<Item = &Rc<Listener>> {
        let metrics = self.metrics.iter().map(|(_, listener)| listener);
        self.doors.iter().map(|door| &door.listener).chain(metrics).chain(&self.control)
    }

    /// The lines that describe it, with the sockets that go with them.
    fn parcels(&self) -> Vec<(Parcel, Option<BorrowedFd<'_>>)> {
        let socket = |listener: &Rc<Listener>| address::text(listener.address());
        let mut all = Vec::new();
        if let Some(control) = &self.control {
            all.push((
                Parcel::Control { address: socket(control), managers: control.is_managers() },
                Some(control.as_fd()),
            ));
        }
        if let Some((text, metrics)) = &self.metrics {
            let parcel =
                Parcel::Metrics { text: text.clone(), address: socket(metrics), managers: metrics.is_managers() };
            all.push((parcel, Some(metrics.as_fd())));
        }
        for door in &self.doors {
            let parcel = Parcel::Door {
                text: door.text.clone(),
                address: socket(&door.listener),
                managers: door.listener.is_managers(),
            };
            all.push((parcel, Some(door.listener.as_fd())));
            for Handed { stream, agreed } in &door.begun {
                if let Some(carried) = stream.socket() {
                    all.push((Parcel::Client(Client::new(&door.text, agreed)), Some(carried)));
                }
            }
        }
        all.extend(self.changes.iter().map(|changes| (Parcel::Changes(changes.clone()), None)));
        all.push((Parcel::End {}, None));
        all
    }
}

/// What stands against a hand-over, before anything has changed.
fn check(shared: &Shared, formats: &BTreeMap<String, u16>) -> Result<(), Refusal> {
    let no = |what: &str| Err(Refusal::new("not_handed", what));
    if shared.is_stopping() {
        return Err(Refusal::new("stopping", "the server is stopping"));
    }
    if shared.freezer.cold().is_some() {
        return Err(Refusal::new("frozen", "the stack is frozen; thaw it first"));
    }
    if !shared.leaving.permitted.get() {
        return no("the server ends with the program that started it; only `esker serve` hands a stack over");
    }
    if !shared.fronts().is_empty() {
        return no("exports are block devices or disks of virtual machines, and such clients stay with this process; \
                   stop the server, and start the new one");
    }
    if !shared.mounts().is_empty() {
        return no("the server holds mounts, and the kernel's connection to them stays with this process; stop the \
                   server, and start the new one");
    }
    for device in shared.stack.spec().devices {
        let Some(kind) = shared.stack.kinds().iter().find(|kind| kind.name == device.kind) else { continue };
        let is_lost = matches!(kind.build, Build::Device(_)) && kind.worlds == Worlds::Both;
        if is_lost && !WITHOUT_CONTENT.contains(&kind.name) {
            let what = "its content is in the memory of this process; copy it through NBD, and start the new server";
            return Err(Refusal::new("not_handed", what).at(&device.name));
        }
        if let Some(own) = kind.check.and_then(|check| check.version())
            && formats.get(kind.name).is_none_or(|theirs| *theirs < own)
        {
            let theirs = formats.get(kind.name).map_or("none".to_string(), |version| format!("up to {version}"));
            let what =
                format!("its medium has version {own}, and the other program reads {theirs}; use one as new as this");
            return Err(Refusal::new("not_handed", &what).at(&device.name));
        }
    }
    Ok(())
}

/// Brings clients and devices to rest, so that the stack can be left to the asker.
///
/// # Errors
/// What stands against it, and clients or devices that do not rest within `patience`. All goes on then.
pub(crate) async fn begin(
    shared: &Rc<Shared>,
    formats: &BTreeMap<String, u16>,
    patience: Nanos,
) -> Result<(), Refusal> {
    check(shared, formats)?;
    if shared.leaving.asked.replace(true) {
        return Err(Refusal::new("busy", "another process takes the stack over"));
    }
    let began = shared.rt.now();
    match rest(shared, patience, began).await {
        Ok(()) => {
            shared.leaving.rests.set(true);
            Ok(())
        }
        Err(refusal) => {
            join_all(shared.doors.iter().map(|door| door.server.resume())).await;
            shared.leaving.asked.set(false);
            Err(refusal)
        }
    }
}

async fn rest(shared: &Rc<Shared>, patience: Nanos, began: esker_base::Time) -> Result<(), Refusal> {
    let halts = join_all(shared.doors.iter().map(|door| door.server.halt(patience))).await;
    if let Some(restless) = halts.into_iter().find_map(Result::err) {
        return Err(Refusal::new("timed_out", &format!("after {patience} {restless}; use a longer patience")));
    }
    let left = patience.saturating_sub(shared.rt.now().since(began));
    shared.stack.flush_within(left).await?;
    check_again(shared)
}

/// A stop or a freeze may have come meanwhile.
fn check_again(shared: &Shared) -> Result<(), Refusal> {
    match (shared.is_stopping(), shared.freezer.cold()) {
        (true, _) => Err(Refusal::new("stopping", "the server is stopping")),
        (_, Some(_)) => Err(Refusal::new("frozen", "the stack is frozen; thaw it first")),
        (false, None) => Ok(()),
    }
}

/// Closes the stack of a server whose clients rest.
pub(crate) async fn leave(served: Served, successor: Stream) -> HandOver {
    let shared = served.shared();
    let (rt, spec) = (shared.rt.clone(), shared.stack.spec());
    let doors = shared.doors.iter().map(|door| Door {
        text: door.text.clone(),
        listener: door.listener.clone(),
        begun: door.server.take_handed(),
    });
    let sockets = Sockets {
        control: Some(shared.control.clone()),
        metrics: shared.metrics.clone(),
        doors: doors.collect(),
        changes: changes(shared, &spec),
    };
    join_all(shared.doors.iter().map(|door| door.server.stop_within(Nanos::ZERO))).await;
    let shut = shared.stack.shut(shared.stop.patience()).await;
    served.ended().await;
    let stack = Rc::downgrade(&shared.stack);
    drop(served);
    let fault = match shut {
        Ok(()) => gone(&rt, &stack).await,
        Err(error) => Err(error.to_string()),
    };
    HandOver { rt, successor, sockets, spec, fault }
}

fn changes(shared: &Shared, spec: &Spec) -> Vec<Changes> {
    let of = |name: &str| {
        let export = shared.stack.export(name)?;
        let whole = ByteRange::new(0, export.size())?;
        Some(Changes::new(name, &export.track_changes()?.runs(whole, export.size())))
    };
    spec.exports.iter().filter_map(|export| of(&export.name)).collect()
}

/// Waits until nothing holds the stack, and so its media.
async fn gone(rt: &Rt, stack: &Weak<Stack>) -> Result<(), String> {
    let until = rt.now() + GONE_MAX;
    while stack.strong_count() > 0 {
        if rt.now() > until {
            return Err("a task still holds the stack".to_string());
        }
        rt.sleep(Nanos::millis(1)).await;
    }
    Ok(())
}

/// A stack that is closed, with the sockets of its clients, for another process to go on with.
pub struct HandOver {
    rt: Rt,
    successor: Stream,
    sockets: Sockets,
    spec: Spec,
    /// Why the stack could not be closed.
    fault: Result<(), String>,
}

/// What became of an offer.
pub enum Offered {
    /// The other process, of this number, serves the stack.
    Taken(u32),
    /// It does not: this process goes on, with the stack as it was.
    Back(Spec, Sockets),
}

impl HandOver {
    /// Offers everything to the other process, and waits until it serves or goes away. `on_taken` is told its number
    /// before it goes on.
    pub async fn offer(self, on_taken: impl FnOnce(u32)) -> Offered {
        match self.try_offer().await {
            Ok(pid) => {
                on_taken(pid);
                self.sockets.listeners().for_each(|listener| listener.own_path(false));
                let text = format_args!("handed over: process {pid} serves the stack");
                self.rt.log_event(Level::Info, "handed_over", &[("pid", &pid)], text);
                // If it has gone meanwhile, it leaves the media as any server that is killed.
                let _heard = self.say(answer(Ok(serde_json::Value::Null))).await;
                Offered::Taken(pid)
            }
            Err(why) => {
                let text = format_args!("not handed over: {why}; this server goes on");
                self.rt.log_event(Level::Warn, "not_handed_over", &[("error", &why)], text);
                self.successor.shutdown();
                Offered::Back(self.spec, self.sockets)
            }
        }
    }

    async fn try_offer(&self) -> Result<u32, String> {
        if let Err(why) = &self.fault {
            let _heard = self.say(answer(Err(Refusal::new("stop_failed", why)))).await;
            return Err(why.clone());
        }
        let lost = |error: std::io::Error| format!("the other process cannot be reached: {error}");
        self.say(answer(Ok(serde_json::Value::Null))).await.map_err(lost)?;
        for (parcel, socket) in self.sockets.parcels() {
            let line = parcel.line().into_bytes();
            match socket {
                Some(socket) => self.successor.send_with(&self.rt, line, socket).await.map_err(lost)?,
                None => self.successor.write_all(vec![Slice::heap(line)]).await.map(drop).map_err(lost)?,
            }
        }
        let line = next_line(&self.successor).await.ok_or("the other process went away before it could serve")?;
        parcel::verdict(&line)
    }

    async fn say(&self, line: String) -> std::io::Result<()> {
        self.successor.write_all(vec![Slice::heap(line.into_bytes())]).await.map(drop)
    }
}

/// The next line of a stream without descriptors; none if it ends before.
async fn next_line(stream: &Stream) -> Option<Vec<u8>> {
    let mut lines = Lines::default();
    loop {
        if let Some(line) = lines.take().ok()? {
            return Some(line.to_vec());
        }
        let (parts, count) = stream.read(vec![Slice::heap(vec![0; READ_BYTES])]).await;
        let count = count.ok().filter(|count| *count > 0)?;
        if let Some(Slice { mem: Mem::Heap(bytes), .. }) = parts.first() {
            lines.feed(&bytes[..count]);
        }
    }
}
