//! Media that a start makes. None of them may take the place of one that was lost. A layer that stands on several would
//! take it for a blank one, and the data of the lost one would be out of sight.

use std::collections::BTreeSet;

use esker_block::Origin;

use crate::build::BuildError;
use crate::stack::{Parts, Stack};
use crate::text::{Spec, split_reference};

impl Stack {
    /// A medium that is made must not take the place of a lost one.
    ///
    /// # Errors
    /// A medium was made although another one, below the same layer, holds data.
    pub(crate) fn check_made(&self) -> Result<(), BuildError> {
        self.parts.borrow().check_made(&self.spec.borrow())
    }
}

impl Parts {
    fn origin(&self, leaf: &str) -> Option<&dyn Origin> {
        self.leaves.get(leaf)?.device.origin()
    }

    fn check_made(&self, spec: &Spec) -> Result<(), BuildError> {
        let made = |name: &str| self.origin(name).is_some_and(Origin::is_made);
        let new = spec.devices.iter().filter(|device| made(&device.name));
        for device in new {
            let beside = beside(spec, &device.name);
            let used = beside.into_iter().find(|leaf| self.origin(leaf).is_some_and(Origin::holds_data));
            if let Some(used) = used {
                let what = format!(
                    "its medium is not there, but \"{used}\", which is below the same layer, holds data; a medium is not made \
                     anew in place of a lost one: bring it back, or make a blank file of its size (`truncate -s SIZE PATH`), \
                     or say create = \"always\""
                );
                return Err(BuildError::of(device, what));
            }
        }
        Ok(())
    }
}

/// The other devices at the bottom that are below a layer that is above `leaf`.
fn beside<'a>(spec: &'a Spec, leaf: &'a str) -> BTreeSet<&'a str> {
    let mut above = BTreeSet::from([leaf]);
    let mut count = 0;
    while above.len() > count {
        count = above.len();
        let is_above = |device: &&crate::DeviceSpec| device.on.iter().any(|on| above.contains(split_reference(on).0));
        let more: Vec<&str> = spec.devices.iter().filter(is_above).map(|device| device.name.as_str()).collect();
        above.extend(more);
    }
    let mut seen = spec.beneath(above);
    seen.remove(leaf);
    seen
}
