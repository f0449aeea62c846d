//! What a replay is played on. The kernel is one target, on OS threads and real time. Another one answers from a file
//! system of this project in virtual time ([`crate::files`]). The same player runs there, because it waits, sleeps and
//! calls only through this trait. Whether those block a thread or a task is the target's business.

use esker_trace_order::rules::Wait;

use crate::kernel::{Answer, Turn};
use crate::progress::Stopped;

/// One thread's view of what it is played on.
pub trait Target {
    /// Nanoseconds of the target's clock.
    fn now_ns(&self) -> u64;

    /// Waits until all threads are ready; gives the instant at which they start.
    ///
    /// # Errors
    /// [`Stopped`].
    fn start(&mut self) -> impl Future<Output = Result<u64, Stopped>>;

    /// The player comes to an action.
    fn begin(&mut self, action: u32);

    /// Whether the thread that is waited for is that far already.
    fn is_met(&self, wait: Wait) -> bool;

    /// Waits for another thread.
    ///
    /// # Errors
    /// [`Stopped`].
    fn wait(&mut self, wait: Wait) -> impl Future<Output = Result<(), Stopped>>;

    /// Thread number `thread` has reached `mark`.
    fn reach(&mut self, thread: u32, mark: u32);

    /// Sleeps until an instant of the target's clock.
    ///
    /// # Errors
    /// [`Stopped`].
    fn sleep_until(&mut self, due_ns: u64) -> impl Future<Output = Result<(), Stopped>>;

    /// Gets ready for a call that nothing holds back any more, so that the call itself takes no longer than it must.
    /// What a new process has of its parent is there from here on: its first calls may be issued while that call still
    /// runs.
    fn prepare(&mut self, turn: &Turn<'_>);

    /// Nanoseconds by which [`Target::perform`] takes longer than the call that it makes, where it does not time that.
    fn cost_ns(&self) -> u64;

    /// Nanoseconds by which a call takes longer here because the target's threads share what the traced ones did not.
    fn sharing_ns(&self) -> u64;

    /// Makes a call.
    fn perform(&mut self, turn: &Turn<'_>) -> impl Future<Output = Answer>;
}
