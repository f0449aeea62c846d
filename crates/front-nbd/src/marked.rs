//! A device that marks changes itself, for exports behind which nothing else does.

use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::{Bio, BioError, ChangeMap, Device, Done, Limits, Stat, Step, Usage};

/// `device`, whose changes are marked in `changes`.
pub(crate) struct Marked {
    pub device: Rc<dyn Device>,
    pub changes: Rc<ChangeMap>,
}

impl Device for Marked {
    fn limits(&self) -> &Limits {
        self.device.limits()
    }

    fn size(&self) -> u64 {
        self.device.size()
    }

    fn is_read_only(&self) -> bool {
        self.device.is_read_only()
    }

    fn can_resize(&self) -> bool {
        self.device.can_resize()
    }

    /// What is cut off reads as zeroes if it comes back; a size that is refused gains nothing.
    fn resize(&self, bytes: u64) -> Step<Result<(), BioError>> {
        let size = self.device.size();
        let changes = self.changes.clone();
        let mark = move |start, end: u64| {
            let range = end.checked_sub(start).and_then(|len| ByteRange::new(start, len));
            range.into_iter().for_each(|range| changes.mark(range));
        };
        mark(bytes, size);
        self.device.resize(bytes).map(move |result| {
            if result.is_ok() {
                mark(size, bytes);
            }
            result
        })
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        self.changes.note(&bio);
        self.device.submit(bio)
    }

    fn depth(&self) -> u32 {
        self.device.depth()
    }

    fn stats(&self) -> Vec<Stat> {
        self.device.stats()
    }

    fn usage(&self) -> Option<Usage> {
        self.device.usage()
    }
}
