//! Layers with state on their media: opened once, served, brought to rest and closed in the same way.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use esker_block::step::LocalFuture;
use esker_block::{
    Below, Bio, BioError, Ctx, Done, Extension, Flow, KindError, LayerHandle, Mark, OpenContext, Orders, Sizing, Stat,
    Step, Trouble,
};
use esker_rt::Rt;
use esker_rt::mem::Pool;

use crate::io::Io;

/// A task in the background: its name, and what it does until it ends.
pub type Task = (&'static str, LocalFuture<()>);

/// The state of a layer, from its opening on.
pub trait Stateful: Sized + 'static {
    /// What the stack text and the devices below say.
    type Config: Clone + 'static;

    /// Whether [`Stateful::complete`] does anything.
    const COMPLETES: bool = false;

    /// As [`Extension::marks`].
    fn marks(config: &Self::Config) -> Vec<Mark>;

    /// Restores the state from what is below.
    ///
    /// # Errors
    /// As [`Extension::open`].
    fn open(config: Self::Config, io: Io) -> impl Future<Output = Result<Rc<Self>, KindError>>;

    /// The tasks that begin after the opening.
    fn tasks(self: &Rc<Self>, _handle: &LayerHandle) -> Vec<Task> {
        Vec::new()
    }

    /// As [`Extension::issue`].
    fn issue(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow>;

    /// Whether [`Stateful::again`] may give anything.
    const RETRIES: bool = false;

    /// As [`Extension::complete`].
    fn complete(&self, _ctx: &mut Ctx<'_>, _done: &mut Done) {}

    /// As [`Extension::again`].
    fn again(&self, _ctx: &mut Ctx<'_>, _done: &mut Done) -> Option<Bio> {
        None
    }

    /// As [`Extension::quiesce`]. A latched layer has nothing to bring below.
    ///
    /// # Errors
    /// As [`Extension::quiesce`].
    fn quiesce(self: &Rc<Self>, _io: &Io) -> impl Future<Output = Result<(), BioError>> {
        async { Ok(()) }
    }

    /// Ends the tasks.
    fn close(&self) {}

    /// As [`Extension::sizing`]; asked before the opening, too.
    fn sizing(_config: &Self::Config) -> Option<&dyn Sizing> {
        None
    }

    /// As [`Extension::orders`].
    fn orders(_config: &Self::Config) -> Option<&dyn Orders> {
        None
    }

    /// As [`Extension::spares`].
    fn spares(&self, _lower: usize) -> bool {
        false
    }

    /// As [`Extension::grows`].
    ///
    /// # Errors
    /// Why not.
    fn grows(&self) -> Result<(), String> {
        Err("only a mirror takes further members".to_string())
    }

    /// As [`Extension::releases`].
    fn releases(&self, _lower: usize) -> bool {
        false
    }

    /// As [`Extension::relowered`].
    fn relowered(&self, _gone: Option<usize>) {}

    /// As [`Extension::stats`].
    fn stats(&self) -> Vec<Stat> {
        Vec::new()
    }

    /// As [`Extension::trouble`].
    fn trouble(&self) -> Option<Trouble>;
}

/// What opening has made: the state, and the world in which it is.
struct Opened<S> {
    state: Rc<S>,
    rt: Rt,
    pool: Pool,
}

/// Makes durable what a killed process left in the caches of the devices that have the state: an opening builds on what
/// it reads there. A device that holds nothing but data may sleep on. One that fails here fails the opening's own
/// requests, too.
async fn settle(io: &Io, marks: &[Mark]) {
    let lowers: BTreeSet<usize> = marks.iter().map(|mark| mark.lower).collect();
    for lower in lowers {
        let _flushed = io.flush(io.lower(lower)).await;
    }
}

/// A layer with a state.
pub struct StatefulLayer<S: Stateful> {
    config: S::Config,
    opened: Rc<OnceCell<Opened<S>>>,
}

impl<S: Stateful> StatefulLayer<S> {
    /// A layer that is not yet open.
    pub fn new(config: S::Config) -> StatefulLayer<S> {
        StatefulLayer { config, opened: Rc::default() }
    }

    #[inline]
    fn state(&self) -> &Rc<S> {
        &self.opened.get().expect("the stack opens a layer before its first request").state
    }
}

impl<S: Stateful> Extension for StatefulLayer<S> {
    fn marks(&self) -> Vec<Mark> {
        S::marks(&self.config)
    }

    fn completes(&self) -> bool {
        S::COMPLETES
    }

    fn retries(&self) -> bool {
        S::RETRIES
    }

    fn again(&self, ctx: &mut Ctx<'_>, done: &mut Done) -> Option<Bio> {
        self.state().again(ctx, done)
    }

    fn open(&self, opening: OpenContext) -> Step<Result<(), KindError>> {
        let (config, opened) = (self.config.clone(), self.opened.clone());
        Step::later(async move {
            let OpenContext { rt, pool, below, handle } = opening;
            let io = Io::new(&rt, &pool, below);
            settle(&io, &S::marks(&config)).await;
            let state = S::open(config, io).await?;
            for (name, task) in state.tasks(&handle) {
                rt.spawn(name, task).detach();
            }
            let is_first = opened.set(Opened { state, rt, pool }).is_ok();
            debug_assert!(is_first, "a layer is opened once");
            Ok(())
        })
    }

    #[inline]
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        self.state().issue(ctx, bio)
    }

    #[inline]
    fn complete(&self, ctx: &mut Ctx<'_>, done: &mut Done) {
        self.state().complete(ctx, done);
    }

    fn quiesce(&self, below: Below) -> Step<Result<(), BioError>> {
        let opened = self.opened.clone();
        Step::later(async move {
            let Some(Opened { state, rt, pool }) = opened.get() else { return Ok(()) };
            state.quiesce(&Io::new(rt, pool, below)).await
        })
    }

    fn close(&self) {
        self.opened.get().inspect(|opened| opened.state.close());
    }

    fn sizing(&self) -> Option<&dyn Sizing> {
        S::sizing(&self.config)
    }

    fn orders(&self) -> Option<&dyn Orders> {
        S::orders(&self.config)
    }

    fn spares(&self, lower: usize) -> bool {
        self.opened.get().is_some_and(|opened| opened.state.spares(lower))
    }

    fn grows(&self) -> Result<(), String> {
        self.opened.get().map_or_else(|| Err("it is not open".to_string()), |opened| opened.state.grows())
    }

    fn releases(&self, lower: usize) -> bool {
        self.opened.get().is_some_and(|opened| opened.state.releases(lower))
    }

    fn relowered(&self, gone: Option<usize>) {
        if let Some(opened) = self.opened.get() {
            opened.state.relowered(gone);
        }
    }

    fn stats(&self) -> Vec<Stat> {
        self.opened.get().map_or_else(Vec::new, |opened| opened.state.stats())
    }

    fn trouble(&self) -> Option<Trouble> {
        self.opened.get()?.state.trouble()
    }
}
