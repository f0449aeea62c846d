//! Sizes of a running stack. The owner of a volume's size resizes it: the layer or device to which the transparent
//! layers above it lead. All else asks for it: the contract check, exports, front ends.
//!
//! A volume on which a layer stands that is not transparent keeps its size while the stack runs: the layer was built
//! for it.
//!
//! Growing holds no request up. Before a volume is cut, the stack is drained once and its new end is enforced; then it
//! is cut, while requests before that end go on. A resize that fails leaves the size as it was.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::{BioError, Extension, VolumeId};
use esker_rt::sync::Notify;

use crate::hops::Target;
use crate::live::LiveError;
use crate::orders::Inside;
use crate::snapshot::{Cut, Instance, Leaf, Snapshot};
use crate::stack::Stack;

/// How long a cut that a client asked for waits for requests in flight.
pub(crate) const CUT_PATIENCE: Nanos = Nanos::secs(10);

/// Why a size is as before.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ResizeError {
    /// The stack could not be held, or is.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// The owner of the size.
    #[error(transparent)]
    Refused(#[from] BioError),
    /// Something above was built for its size.
    #[error(
        "\"{0}\" stands on it and keeps its size while it runs; only what exports and transparent layers stand on can be resized"
    )]
    Used(String),
    /// The stack has ended.
    #[error("the stack is closing")]
    Ended,
}

impl ResizeError {
    /// As the answer of a device.
    pub(crate) fn answer(self) -> BioError {
        match self {
            ResizeError::Refused(error) => error,
            ResizeError::Live(_) => BioError::io(self.to_string()),
            ResizeError::Used(_) => BioError::invalid(self.to_string()),
            ResizeError::Ended => BioError::Gone("the stack".into()),
        }
    }
}

/// What the stack keeps about changes of size.
#[derive(Default)]
pub(crate) struct Sizes {
    is_busy: Cell<bool>,
    changes: Cell<u64>,
    changed: Notify,
}

/// The owner of the size of a volume.
enum Owner {
    Layer { instance: Rc<Instance>, ext: Rc<dyn Extension>, port: u16 },
    Leaf(Rc<Leaf>),
}

/// One resize at a time; its end, however it comes, makes sizes known.
struct Resizing<'a>(&'a Stack);

impl Drop for Resizing<'_> {
    fn drop(&mut self) {
        self.0.parts.borrow_mut().cut = None;
        self.0.sizes.is_busy.set(false);
        self.0.note_sizes();
    }
}

impl Stack {
    /// Changes the size of an export, layer, device or port. What it gains reads as zeroes, what it loses is gone; both
    /// last on return. A cut waits for requests in flight at most as long as `patience` says.
    ///
    /// # Errors
    /// [`ResizeError`]; the size is then as before.
    pub async fn resize(&self, name: &str, bytes: u64, patience: Nanos) -> Result<(), ResizeError> {
        let volume = self.parts.borrow().volume(name);
        self.resize_volume(volume.ok_or_else(|| LiveError::Unknown(name.to_string()))?, bytes, patience).await
    }

    pub(crate) async fn resize_volume(&self, volume: VolumeId, bytes: u64, patience: Nanos) -> Result<(), ResizeError> {
        let (owned, owner) = self.owner(volume);
        let owner = owner.ok_or_else(|| BioError::Gone("the volume".into()))?;
        let now = self.check_size(volume, bytes)?;
        if self.sizes.is_busy.replace(true) {
            return Err(LiveError::Busy.into());
        }
        let _resizing = Resizing(self);
        // What cannot grow says so itself.
        let is_in_question = bytes < now || bytes > now && self.can_resize(volume);
        if is_in_question && let Some(name) = keeper(&self.snapshot.borrow(), owned) {
            return Err(ResizeError::Used(name));
        }
        if bytes < now {
            self.enforce(Cut { volume: owned, bytes }, patience).await?;
        }
        let _inside = Inside::enter(self).await.ok_or(ResizeError::Ended)?;
        // What is cut off reads as zeroes if it comes back; a size that is refused gains nothing.
        self.mark(owned, bytes, now);
        match owner {
            Owner::Layer { instance, ext, port } => {
                let below = self.below(&instance).ok_or(ResizeError::Ended)?;
                match ext.sizing() {
                    Some(sizing) => sizing.resize(below, port, bytes).await?,
                    None => return Err(BioError::invalid(esker_block::device::KEEPS_SIZE).into()),
                }
            }
            Owner::Leaf(leaf) => leaf.device.resize(bytes).await?,
        }
        self.mark(owned, now, bytes);
        Ok(())
    }

    /// Marks the bytes of a volume from `start` to `end`, if there are any, as changed.
    fn mark(&self, volume: VolumeId, start: u64, end: u64) {
        if let Some(range) = end.checked_sub(start).and_then(|len| ByteRange::new(start, len)) {
            self.shared.exports.mark(&self.snapshot.borrow(), volume, range);
        }
    }

    /// The size of a volume now, if it could have `bytes` instead.
    fn check_size(&self, volume: VolumeId, bytes: u64) -> Result<u64, BioError> {
        let snapshot = self.snapshot.borrow();
        let limits = snapshot.limits(volume).ok_or_else(|| BioError::Gone("the volume".into()))?;
        match bytes > 0 && bytes.is_multiple_of(u64::from(limits.block)) {
            true => Ok(limits.size),
            false => Err(BioError::invalid(format!(
                "{bytes} bytes cannot be a size; it is a multiple of {}, and not 0",
                limits.block
            ))),
        }
    }

    /// Whether the size of a volume may change.
    pub(crate) fn can_resize(&self, volume: VolumeId) -> bool {
        match self.owner(volume).1 {
            Some(Owner::Layer { ext, .. }) => ext.sizing().is_some(),
            Some(Owner::Leaf(leaf)) => leaf.device.can_resize(),
            None => false,
        }
    }

    /// The volume below all transparent layers, and its owner.
    fn owner(&self, mut volume: VolumeId) -> (VolumeId, Option<Owner>) {
        let snapshot = self.snapshot.borrow();
        let mut position = 0;
        loop {
            match snapshot.hop(snapshot.hop_at(position, volume)).target {
                Target::Slot { index, port } => {
                    let slot = &snapshot.slots[usize::from(index)];
                    if !slot.instance.kind.transparent {
                        let (instance, ext) = (slot.instance.clone(), slot.ext.clone());
                        return (volume, Some(Owner::Layer { instance, ext, port }));
                    }
                    (position, volume) = (index + 1, slot.first);
                }
                Target::Leaf(index) => {
                    return (volume, Some(Owner::Leaf(snapshot.leaves[usize::from(index)].1.clone())));
                }
                Target::Nowhere => return (volume, None),
            }
        }
    }

    /// Lets nothing come any more behind the new end, and waits until nothing is there.
    async fn enforce(&self, cut: Cut, patience: Nanos) -> Result<(), ResizeError> {
        self.drain(patience).await?;
        self.parts.borrow_mut().cut = Some(cut);
        self.note_sizes();
        self.shared.admission.open();
        Ok(())
    }

    /// Sizes may have changed: the contract knows them from now on, and waiting tasks are told.
    pub(crate) fn note_sizes(&self) {
        let cut = self.parts.borrow().cut;
        let is_new = self.snapshot.borrow().note_sizes(cut);
        self.tell_sizes(is_new);
    }

    /// The same where only those of one layer may have changed, and what is below it is known.
    pub(crate) fn note_sizes_of(&self, instance: &Rc<Instance>) {
        let (cut, snapshot) = (self.parts.borrow().cut, self.snapshot.borrow());
        let is_new = snapshot.slot_of(instance).is_some_and(|slot| snapshot.note_slot(slot, cut));
        self.tell_sizes(is_new);
    }

    fn tell_sizes(&self, is_new: bool) {
        if is_new {
            self.sizes.changes.set(self.sizes.changes.get() + 1);
            self.sizes.changed.notify_all();
        }
    }

    /// How often sizes have changed so far.
    pub fn size_changes(&self) -> u64 {
        self.sizes.changes.get()
    }

    /// Waits until sizes have changed more often than that.
    pub async fn sizes_changed(&self, since: u64) {
        self.sizes.changed.wait_until(|| self.sizes.changes.get() > since).await;
    }
}

/// The first layer on `volume` that was built for its size, transparent ones between them aside.
fn keeper(snapshot: &Snapshot, volume: VolumeId) -> Option<String> {
    let mut sized = vec![volume];
    for slot in snapshot.slots.iter().rev() {
        if !slot.lowers.iter().any(|lower| sized.contains(lower)) {
            continue;
        }
        if !slot.instance.kind.transparent {
            return Some(slot.instance.name.clone());
        }
        sized.extend(&slot.uppers);
    }
    None
}
