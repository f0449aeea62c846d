//! Closes connections whose client does not get on: it chooses no export, sends no payload, or takes no replies.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::Nanos;
use esker_rt::Rt;
use esker_rt::sync::{Either, race};

use crate::admission::Gate;
use crate::link::Link;

/// Something that waits for the client again and again. Odd while it does; no clock is read on its way.
#[derive(Default)]
pub(crate) struct Stage(Cell<u64>);

impl Stage {
    /// Says that the caller waits for the client until the guard is dropped. A guard, because a wrapper would move each
    /// future twice.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        self.0.set(self.0.get() + 1);
        Waiting(self)
    }

    fn is_stuck(&self, seen: u64) -> bool {
        seen % 2 == 1 && self.0.get() == seen
    }
}

/// A wait for the client.
pub(crate) struct Waiting<'a>(&'a Stage);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.0.set(self.0.0.get() + 1);
    }
}

/// How long a client may take.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    /// To choose an export.
    pub handshake: Nanos,
    /// To send one payload or take one batch of replies; at most twice as long is waited.
    pub stall: Nanos,
}

/// What closed a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Late,
    Stalled,
}

/// The watch over one connection.
pub(crate) struct ConnectionWatch {
    pub receiving: Rc<Stage>,
    pub sending: Rc<Stage>,
    chosen: Rc<Gate>,
    ended: Rc<Gate>,
    verdict: Rc<Cell<Option<Verdict>>>,
}

impl ConnectionWatch {
    pub(crate) fn start(rt: &Rt, link: Link, patience: Patience) -> ConnectionWatch {
        let gate = || Rc::new(Gate::closed());
        let watch = ConnectionWatch {
            receiving: Rc::default(),
            sending: Rc::default(),
            chosen: gate(),
            ended: gate(),
            verdict: Rc::default(),
        };
        let (chosen, ended, verdict) = (watch.chosen.clone(), watch.ended.clone(), watch.verdict.clone());
        let stages = [watch.receiving.clone(), watch.sending.clone()];
        let clock = rt.clone();
        rt.spawn("nbd-watch", async move {
            if let Either::Right(()) = race(chosen.wait(), clock.sleep(patience.handshake)).await {
                verdict.set(Some(Verdict::Late));
                return link.shutdown();
            }
            loop {
                let seen = stages.each_ref().map(|stage| stage.0.get());
                if let Either::Left(()) = race(ended.wait(), clock.sleep(patience.stall)).await {
                    return;
                }
                if stages.iter().zip(seen).any(|(stage, seen)| stage.is_stuck(seen)) {
                    verdict.set(Some(Verdict::Stalled));
                    return link.shutdown();
                }
            }
        })
        .detach();
        watch
    }

    pub(crate) fn chosen(&self) {
        self.chosen.open();
    }

    pub(crate) fn ended(&self) {
        self.chosen.open();
        self.ended.open();
    }

    pub(crate) fn verdict(&self) -> Option<Verdict> {
        self.verdict.get()
    }
}
