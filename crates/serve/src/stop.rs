//! The end of a served stack, within its patience.

use std::cell::{Cell, RefCell};

use esker_base::{Errno, Nanos, Time};
use esker_rt::Level;
use esker_rt::mem::Slice;
use esker_rt::net::Stream;
use esker_rt::sync::{Notify, join_all, race};
use esker_stack::QuiesceError;

use crate::command::answer;
use crate::mounts;
use crate::refusal::Refusal;
use crate::server::Shared;

/// Clients that asked for the stop and take no answer are not waited for longer than that.
const FAREWELL_MAX: Nanos = Nanos::secs(1);

/// A stop that could not make everything durable.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StopError {
    /// The stack.
    #[error("stopped, but {0}; writes since the last successful flush may be lost")]
    Stack(#[from] QuiesceError),
    /// A mounted file system.
    #[error(
        "stopped, but the file system of mount \"{name}\" could not be closed: {errno}; changes since its last successful sync may be lost"
    )]
    Mount {
        /// The mount.
        name: String,
        /// What the file system said.
        errno: Errno,
    },
}

/// Whether a server is to stop, and how long it may take.
pub(crate) struct Stop {
    asked: Cell<bool>,
    told: Notify,
    patience: Cell<Nanos>,
    /// Clients of the control socket that wait for the end.
    waiting: RefCell<Vec<Stream>>,
}

impl Stop {
    pub(crate) fn within(patience: Nanos) -> Stop {
        Stop {
            asked: Cell::new(false),
            told: Notify::default(),
            patience: Cell::new(patience),
            waiting: RefCell::default(),
        }
    }

    /// Asks for it. What was asked for first holds.
    pub(crate) fn ask(&self, patience: Option<Nanos>) {
        if !self.asked.replace(true) {
            self.patience.set(patience.unwrap_or(self.patience.get()));
            self.told.notify_all();
        }
    }

    /// How long it may take.
    pub(crate) fn patience(&self) -> Nanos {
        self.patience.get()
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked.get()
    }

    pub(crate) async fn asked(&self) {
        self.told.wait_until(|| self.asked.get()).await;
    }

    /// This client is told if the stop fails.
    pub(crate) fn see_off(&self, client: &Stream) {
        self.waiting.borrow_mut().push(client.clone());
    }
}

/// Unmounts, lets clients go, then ends the stack. Answers those that asked for it if that fails.
///
/// # Errors
/// [`StopError`].
pub(crate) async fn stop(shared: &Shared) -> Result<(), StopError> {
    let patience = shared.stop.patience();
    let inflight = shared.stack.inflight();
    let text = format_args!("stopping: {inflight} requests in flight");
    shared.rt.log_event(Level::Info, "stopping", &[("in_flight", &inflight)], text);
    // Programs that use a mount cannot be sent away; they take nothing from the patience.
    let unmounted = mounts::stop(shared).await;
    let began = shared.rt.now();
    join_all(shared.doors.iter().map(|door| door.server.stop_within(patience))).await;
    join_all(shared.fronts().iter().map(|front| front.stop(patience))).await;
    let shut = shared.stack.shut(left(shared, began, patience)).await;
    let result = unmounted.and(shut.map_err(StopError::from));
    if let Err(error) = &result {
        say_farewell(shared, error).await;
    }
    result
}

/// What is left of the patience for the stack. It gets a little in any case, so that a front that took all of it does
/// not cost a flush that would have taken no time.
fn left(shared: &Shared, began: Time, patience: Nanos) -> Nanos {
    patience.saturating_sub(shared.rt.now().since(began)).max(FAREWELL_MAX)
}

async fn say_farewell(shared: &Shared, error: &StopError) {
    let line = answer(Err(Refusal::new("stop_failed", &error.to_string())));
    let clients = shared.stop.waiting.take();
    let told = clients.iter().map(|client| client.write_all(vec![Slice::heap(line.clone().into_bytes())]));
    race(join_all(told), shared.rt.sleep(FAREWELL_MAX)).await;
}
