//! The write side of a connection: messages leave whole, in the order in which they were pushed, several per write.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use esker_rt::mem::Parts;
use esker_rt::sync::Notify;
use esker_rt::{JoinHandle, Rt};
use smallvec::SmallVec;

use crate::link::Link;
use crate::pace::Pace;
use crate::watch::Stage;

/// Elements of one gathered write, over all messages in it.
const BATCH_PARTS: usize = 64;

/// Messages that are held back for each other at most.
const HELD_MAX: usize = 32;

/// So many messages of one write need no memory for their list.
const FEW: usize = 4;

/// Messages that wait for the wire. `G` is held until its message has left (or cannot leave any more): credits.
pub(crate) struct Outbox<G> {
    queue: RefCell<VecDeque<(Parts, G)>>,
    changed: Notify,
    closed: Cell<bool>,
    broken: Cell<bool>,
}

impl<G: 'static> Outbox<G> {
    /// Starts the task that writes to `link`, while which the peer is waited for in `stage`. It ends after
    /// [`Outbox::close`] or the first failure, which also ends the stream, so that its reader notices.
    pub(crate) fn start(rt: &Rt, link: Link, stage: Rc<Stage>) -> (Rc<Outbox<G>>, JoinHandle<io::Result<()>>) {
        let outbox = Rc::new(Outbox {
            queue: RefCell::default(),
            changed: Notify::default(),
            closed: Cell::new(false),
            broken: Cell::new(false),
        });
        let pace = Pace::new(rt, link.clone());
        let task = rt.spawn("nbd-write", outbox.clone().drain(link, stage, pace));
        (outbox, task)
    }

    /// Queues a message. After a failure it is dropped: no reader is left.
    pub(crate) fn push(&self, parts: Parts, guard: G) {
        if !self.broken.get() {
            self.queue.borrow_mut().push_back((parts, guard));
            self.changed.notify_one();
        }
    }

    /// Whether the reader of replies has gone.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.get()
    }

    /// Ends the task once all that is queued has left.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.changed.notify_one();
    }

    async fn drain(self: Rc<Self>, link: Link, stage: Rc<Stage>, mut pace: Pace) -> io::Result<()> {
        loop {
            self.changed.wait_until(|| !self.queue.borrow().is_empty() || self.closed.get()).await;
            pace.hold(|| self.queue.borrow().len() < HELD_MAX && !self.closed.get()).await;
            let (parts, guards) = self.batch();
            if guards.is_empty() {
                // A peer that went away does not need to hear it.
                let _waiting = stage.wait();
                let _heard = link.finish().await;
                return Ok(());
            }
            let waiting = stage.wait();
            let sent = link.write_all(parts).await;
            drop(waiting);
            if let Err(error) = sent {
                self.broken.set(true);
                self.queue.borrow_mut().clear();
                link.shutdown();
                return Err(error);
            }
            pace.sent();
        }
    }

    fn batch(&self) -> (Parts, SmallVec<[G; FEW]>) {
        let mut queue = self.queue.borrow_mut();
        let (mut parts, mut guards) = (Parts::new(), SmallVec::new());
        while guards.is_empty() || queue.front().is_some_and(|next| parts.len() + next.0.len() <= BATCH_PARTS) {
            let Some((message, guard)) = queue.pop_front() else { break };
            if parts.is_empty() {
                parts = message;
            } else {
                parts.extend(message);
            }
            guards.push(guard);
        }
        (parts, guards)
    }
}
