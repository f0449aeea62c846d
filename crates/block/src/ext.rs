//! An extension (layer): a request context that may wait, and a completion context that may not (ABLE, section 5.2).

use std::rc::Rc;

use esker_rt::Rt;
use esker_rt::mem::Pool;

use crate::bio::{Bio, Done, VolumeId};
use crate::device::{Stat, Usage};
use crate::step::Step;

/// What an extension decided about a request.
pub enum Flow {
    /// It goes on below, as it stands in place. The loop finds the next extension or leaf for its destination.
    Down,
    /// It goes on below after its extension had taken it ([`Bio::take`]) in order to wait.
    Resume(Bio),
    /// It is answered here; nothing below sees it.
    Done(Done),
}

/// Finds what is below a slot. Implemented by the stack.
pub trait Route {
    /// A handle on everything below `slot`, which outlives live changes of the stack.
    fn below(&self, slot: u16) -> Below;
}

/// Everything below one slot, for requests that an extension generates. Cheap to clone.
#[derive(Clone)]
pub struct Below {
    submit: Rc<dyn Submit>,
    slot: u16,
}

/// Sends a request into a stack below a slot. Implemented by the stack's snapshots.
pub trait Submit {
    /// Starts `bio`, whose destination is one of the slot's lower volumes.
    fn submit_below(self: Rc<Self>, slot: u16, bio: Bio) -> Step<Done>;
}

impl Below {
    /// A handle for `slot`. For the stack.
    pub fn new(submit: Rc<dyn Submit>, slot: u16) -> Below {
        Below { submit, slot }
    }

    /// Starts `bio` below. Its destination must be one of the slot's lower volumes ([`Ctx::lower`]).
    pub fn submit(&self, bio: Bio) -> Step<Done> {
        self.submit.clone().submit_below(self.slot, bio)
    }
}

/// What the loop lends an extension for one request.
pub struct Ctx<'a> {
    /// The world.
    pub rt: &'a Rt,
    /// Where buffers come from.
    pub pool: &'a Pool,
    /// One word kept from `issue` to `complete` of the same request; 0 at first.
    pub scratch: u64,
    /// Which of the extension's upper ends the request came in by.
    pub port: u16,
    slot: u16,
    lowers: &'a [VolumeId],
    route: &'a dyn Route,
}

impl<'a> Ctx<'a> {
    /// For the stack's loop, which enters slots with it one after the other.
    #[inline]
    pub fn new(rt: &'a Rt, pool: &'a Pool, route: &'a dyn Route) -> Ctx<'a> {
        Ctx { rt, pool, scratch: 0, port: 0, slot: 0, lowers: &[], route }
    }

    /// Makes it the context of slot number `slot`. For the stack's loop.
    #[inline]
    pub fn enter(&mut self, slot: u16, port: u16, lowers: &'a [VolumeId], scratch: u64) {
        self.slot = slot;
        self.port = port;
        self.lowers = lowers;
        self.scratch = scratch;
    }

    /// The volume of lower end `i`, in the order in which the stack text lists them.
    #[inline]
    pub fn lower(&self, i: usize) -> VolumeId {
        self.lowers[i]
    }

    /// A handle for requests that this extension generates, now or in the future that it returns.
    pub fn below(&self) -> Below {
        self.route.below(self.slot)
    }
}

/// A layer. One value serves all requests of its slot; state is in `Cell`s.
pub trait Extension {
    /// Decides about a request. `bio.dest` is already lower end 0: a layer with one lower end just passes it down.
    ///
    /// The request stays where it is while it passes, because moving it costs more than most layers do: change it in
    /// place and return [`Flow::Down`]. To answer it, or to keep it while waiting, `take` it.
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow>;

    /// Sees the answer of a request that it passed down. Synchronous by type: here nothing can wait.
    fn complete(&self, _ctx: &mut Ctx<'_>, _done: &mut Done) {}

    /// Whether `complete` does anything. A layer that answers false is not called on the way up, which halves its cost;
    /// asked once, when the layer is built.
    fn completes(&self) -> bool {
        true
    }

    /// Called once after the last request, when the layer leaves a stack or the stack closes.
    fn close(&self) {}

    /// What it tells about itself.
    fn stats(&self) -> Vec<Stat> {
        Vec::new()
    }

    /// What it has used, if it models a device.
    fn usage(&self) -> Option<Usage> {
        None
    }
}
