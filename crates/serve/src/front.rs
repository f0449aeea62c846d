//! Other ways than NBD on which clients reach the exports of a served stack, such as block devices of this machine.

use esker_base::{ByteRange, Nanos};
use esker_block::step::LocalFuture;

/// An export that clients can reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Its name.
    pub export: String,
    /// Where: a URI, or the path of a device.
    pub at: String,
    /// Bytes.
    pub size: u64,
    /// Whether changes are refused.
    pub read_only: bool,
}

/// A way on which clients reach exports. Its maker starts it; the server ends it.
pub trait Front {
    /// What can be reached through it.
    fn offers(&self) -> Vec<Offer>;

    /// Clients that are connected.
    fn clients(&self) -> usize;

    /// Called before `ranges` of an export are read or changed on another way than through this front: what it still
    /// holds back of them must go down first.
    fn before_change(&self, export: &str, ranges: &[ByteRange]) -> LocalFuture<()>;

    /// Called afterwards, whether it succeeded or not: what this front keeps of `ranges` may be out of date.
    fn after_change(&self, export: &str, ranges: &[ByteRange]) -> LocalFuture<()>;

    /// Called when an export has another size than its offer says.
    fn resized(&self, export: &str) -> LocalFuture<()>;

    /// Lets its clients go: answers what is under way for as long as `patience` says, but waits for clients that cannot
    /// be sent away, such as mounted file systems, however long they stay.
    fn stop(&self, patience: Nanos) -> LocalFuture<()>;
}
