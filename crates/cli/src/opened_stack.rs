//! Stacks that a verb opens in its own process, for one task.

use std::rc::Rc;

use esker_rt::mem::Pool;
use esker_rt::real::{Reactor, RealConfig};
use esker_stack::{Spec, Stack};

use crate::failure::Failure;
use crate::progress::Watcher;

/// A stack in this process. Its devices lock their media, so that no server uses them meanwhile.
pub struct OpenedStack {
    reactor: Reactor,
    stack: Rc<Stack>,
}

impl OpenedStack {
    /// Opens a stack.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(spec: &Spec) -> Result<OpenedStack, Failure> {
        let reactor = Reactor::new(RealConfig::seeded(1))?;
        let rt = reactor.rt();
        rt.set_secrets(crate::secrets::source());
        rt.set_watch(Some(Watcher::standard().watch()));
        let stack = Stack::build(&rt, &Pool::default(), esker_kinds::ALL, spec)?;
        let opened = OpenedStack { reactor, stack };
        opened.run(async |stack| stack.opened().await);
        Ok(opened)
    }

    /// Does something with it. Between two calls nothing goes on in it.
    pub fn run<T: 'static>(&self, work: impl AsyncFnOnce(&Rc<Stack>) -> T + 'static) -> T {
        let stack = self.stack.clone();
        self.reactor.block_on(async move { work(&stack).await })
    }

    /// Closes it.
    pub fn close(self) {
        self.run(async |stack| stack.close().await);
    }
}

/// Opens a stack, does something with it, and closes it.
///
/// # Errors
/// It cannot be opened.
pub fn with_stack<T: 'static>(spec: &Spec, work: impl AsyncFnOnce(&Rc<Stack>) -> T + 'static) -> Result<T, Failure> {
    let opened = OpenedStack::open(spec)?;
    let done = opened.run(work);
    opened.close();
    Ok(done)
}
