//! Stacks that a verb opens in its own process, for one task.

use std::rc::Rc;

use esker_rt::mem::Pool;
use esker_rt::real::{Reactor, RealConfig};
use esker_stack::{Spec, Stack};

use crate::failure::Failure;

/// Opens a stack, does something with it, and closes it. Its devices lock their media, so that no server uses them
/// meanwhile.
///
/// # Errors
/// It cannot be opened.
pub fn with_stack<T: 'static>(spec: &Spec, work: impl AsyncFnOnce(&Rc<Stack>) -> T + 'static) -> Result<T, Failure> {
    let reactor = Reactor::new(RealConfig::seeded(1))?;
    let rt = reactor.rt();
    rt.set_secrets(crate::secrets::source());
    let stack = Stack::build(&rt, &Pool::default(), esker_kinds::ALL, spec)?;
    Ok(reactor.block_on(async move {
        stack.opened().await;
        let done = work(&stack).await;
        stack.close().await;
        done
    }))
}
