//! Freezing: everything on the media, nothing in flight, and new requests held back until a thaw, so that a snapshot of
//! the media is a consistent state. A freeze has a limit, after which it ends by itself: a forgotten one is no outage.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_base::{ByteRange, Nanos, Time};
use esker_block::Device;
use esker_rt::Level;
use esker_rt::sync::{Either, join_all, race};
use esker_stack::FrozenStack;

use crate::mounts;
use crate::refusal::Refusal;
use crate::server::Shared;

/// The state of one stack.
#[derive(Default)]
pub(crate) struct Freezer {
    numbers: Cell<u64>,
    now: RefCell<Option<Frozen>>,
}

/// A freeze in force.
struct Frozen {
    number: u64,
    since: Time,
    until: Time,
    /// Lets requests in when it is dropped.
    _held: FrozenStack,
}

/// What the status tells about a freeze.
pub(crate) struct Cold {
    pub number: u64,
    pub since: Time,
    pub until: Time,
}

/// How a freeze began, or how long it lasted.
pub(crate) struct Done {
    pub number: u64,
    pub time: Nanos,
}

impl Freezer {
    /// The freeze in force.
    pub(crate) fn cold(&self) -> Option<Cold> {
        self.now.borrow().as_ref().map(|f| Cold { number: f.number, since: f.since, until: f.until })
    }

    fn end(&self, number: Option<u64>) -> Option<Frozen> {
        self.now.borrow_mut().take_if(|frozen| number.is_none_or(|number| frozen.number == number))
    }
}

/// Waits until nothing is in flight, flushes everything, and lets requests go on. Gives the time for which they were
/// held.
///
/// # Errors
/// Requests and flushes that did not end within `patience`, and devices that could not be flushed; requests go on in
/// either case.
pub(crate) async fn sync(shared: &Rc<Shared>, patience: Nanos) -> Result<Nanos, Refusal> {
    let began = shared.rt.now();
    drop(shared.stack.quiesce(patience).await?);
    Ok(shared.rt.now().since(began))
}

/// The same, but requests are held until [`thaw`], or for `limit` at most. Gives the freeze's number and how long it
/// took to begin.
///
/// # Errors
/// As for [`sync`], and a stack that is frozen already.
pub(crate) async fn freeze(shared: &Rc<Shared>, limit: Nanos, patience: Nanos) -> Result<Done, Refusal> {
    if let Some(cold) = shared.freezer.cold() {
        let what = format!("the stack is frozen already (freeze {}); thaw it first", cold.number);
        return Err(Refusal::new("frozen", &what));
    }
    let began = shared.rt.now();
    let left = || patience.saturating_sub(shared.rt.now().since(began));
    // What fronts and file systems hold back goes down while requests are let in, and most of what a flush has to do.
    push_down(shared, patience).await?;
    shared.stack.flush_within(left()).await?;
    let since = shared.rt.now();
    // Requests are held from here on, and no longer than `limit`.
    let held = shared.stack.quiesce(left().min(limit)).await?;
    if shared.is_stopping() {
        return Err(Refusal::new("stopping", "the server is stopping; it flushes everything itself"));
    }
    let number = shared.freezer.numbers.get() + 1;
    shared.freezer.numbers.set(number);
    let until = since + limit;
    *shared.freezer.now.borrow_mut() = Some(Frozen { number, since, until, _held: held });
    let own = shared.clone();
    shared.rt.spawn("thaw", async move { thaw_at(&own, number, until).await }).detach();
    let text = format_args!("freeze {number}: requests are held for at most {limit}");
    shared.rt.log_event(Level::Info, "frozen", &[("freeze", &number)], text);
    Ok(Done { number, time: shared.rt.now().since(began) })
}

/// Ends a freeze, any if no number is given. Gives its number and how long requests were held.
///
/// # Errors
/// If it is not in force any more: what was copied meanwhile may not be a consistent state.
pub(crate) fn thaw(shared: &Shared, number: Option<u64>) -> Result<Done, Refusal> {
    let Some(frozen) = shared.freezer.end(number) else {
        let which = number.map_or("the stack is not frozen".to_string(), |n| format!("freeze {n} is not in force"));
        let advice =
            "if it ended by its limit, what was copied meanwhile may not be consistent: freeze with a longer one";
        return Err(Refusal::new("not_frozen", &format!("{which}; {advice}")));
    };
    let (number, time) = (frozen.number, shared.rt.now().since(frozen.since));
    shared.rt.log_event(
        Level::Info,
        "thawed",
        &[("freeze", &number)],
        format_args!("freeze {number}: thawed after {time}"),
    );
    Ok(Done { number, time })
}

/// Fronts and file systems write to the end in any case, but are waited for no longer than `patience`.
async fn push_down(shared: &Rc<Shared>, patience: Nanos) -> Result<(), Refusal> {
    let own = shared.clone();
    let pushed = shared.rt.spawn("push-down", async move {
        let exports = own.stack.spec().exports;
        for front in own.fronts() {
            let whole = |name: &str| ByteRange::new(0, own.stack.export(name)?.size());
            let all = exports.iter().filter_map(|e| Some(front.before_change(&e.name, &[whole(&e.name)?])));
            join_all(all.collect::<Vec<_>>()).await;
        }
        mounts::sync(&own).await;
    });
    match race(pushed, shared.rt.sleep(patience)).await {
        Either::Left(()) => Ok(()),
        Either::Right(()) => {
            let what = format!("clients of this machine still wrote back after {patience}; use a longer patience");
            Err(Refusal::new("timed_out", &what))
        }
    }
}

async fn thaw_at(shared: &Shared, number: u64, until: Time) {
    // The end of the server ends the freeze too: requests that are held must be answered.
    let why = match race(shared.rt.sleep_until(until), shared.stopping()).await {
        Either::Left(()) => "its limit",
        Either::Right(()) => "the stop of the server",
    };
    if shared.freezer.end(Some(number)).is_some() {
        let text = format_args!("freeze {number}: ended by {why}; what was copied meanwhile may not be consistent");
        shared.rt.log_event(Level::Warn, "freeze_ended", &[("freeze", &number), ("cause", &why)], text);
    }
}
