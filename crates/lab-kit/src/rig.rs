//! A stack of an experiment in a world of its own.

use std::rc::Rc;

use esker_block::{Bio, Device};
use esker_rt::mem::Pool;
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::{Rt, Sim, SimConfig};
use esker_stack::{Export, Spec, Stack};

use crate::experiment::LabError;

/// A stack, and the world that it lives in.
pub struct Rig<W> {
    /// The world.
    pub world: W,
    /// The stack.
    pub stack: Rc<Stack>,
}

impl Rig<Sim> {
    /// In virtual time.
    ///
    /// # Errors
    /// [`LabError::Build`].
    pub fn simulated(seed: u64, text: &str) -> Result<Rig<Sim>, LabError> {
        let world = Sim::new(SimConfig::seeded(seed));
        let stack = stack(&world.rt(), &spec(text))?;
        Ok(Rig { world, stack })
    }
}

impl Rig<Reactor> {
    /// On this machine.
    ///
    /// # Errors
    /// [`LabError::Start`] and [`LabError::Build`].
    pub fn real(seed: u64, text: &str) -> Result<Rig<Reactor>, LabError> {
        let world = Reactor::new(RealConfig::seeded(seed))?;
        let stack = stack(&world.rt(), &spec(text))?;
        Ok(Rig { world, stack })
    }
}

impl<W> Rig<W> {
    /// A device of the stack.
    ///
    /// # Panics
    /// If there is none of that name.
    pub fn device(&self, name: &str) -> Rc<dyn Device> {
        device(&self.stack, name)
    }
}

/// Reads an experiment's own text.
///
/// # Panics
/// If it is wrong.
pub fn spec(text: &str) -> Spec {
    Spec::parse("the experiment's stack", text).unwrap_or_else(|e| panic!("the experiment's own text: {e}"))
}

/// Builds a stack of the product's kinds.
///
/// # Errors
/// [`LabError::Build`].
pub fn stack(rt: &Rt, spec: &Spec) -> Result<Rc<Stack>, LabError> {
    Ok(Stack::build(rt, &Pool::default(), esker_kinds::ALL, spec)?)
}

/// A device of a stack.
///
/// # Panics
/// If there is none of that name.
pub fn device(stack: &Rc<Stack>, name: &str) -> Rc<dyn Device> {
    Rc::new(stack.device(name).expect("the experiment's own name"))
}

/// The export or else the device `vol` of a stack.
///
/// # Panics
/// If there is neither.
pub fn vol(stack: &Rc<Stack>) -> Export {
    stack.export("vol").or_else(|| stack.device("vol")).expect("the experiment's own name")
}

/// Sends `requests` requests to `vol`, `depth` of them at a time. `client` gets the number of a client and makes what
/// makes its requests, which gets their numbers.
///
/// # Panics
/// If a request fails.
pub async fn send_all<M>(stack: Rc<Stack>, depth: u64, requests: u64, client: impl Fn(u64) -> M)
where
    M: FnMut(u64) -> Bio + 'static,
{
    let vol = vol(&stack);
    let sender = |number| {
        let (vol, mut request) = (vol.clone(), client(number));
        async move {
            for i in 0..requests / depth {
                let done = vol.request(request(i)).await;
                assert!(done.result.is_ok(), "a request of the experiment failed: {:?}", done.result);
            }
        }
    };
    clients(stack.rt(), depth, sender).await;
}

/// Runs so many clients at once, each to its end.
pub async fn clients<T: 'static, F>(rt: &Rt, count: u64, client: impl Fn(u64) -> F) -> Vec<T>
where
    F: Future<Output = T> + 'static,
{
    let clients: Vec<_> = (0..count).map(|number| rt.spawn("client", client(number))).collect();
    let mut ended = Vec::new();
    for client in clients {
        ended.push(client.await);
    }
    ended
}
