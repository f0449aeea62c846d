//! What an operator must know about a running stack: which exports and devices of mounts cannot be used, and why.

use std::collections::BTreeSet;

use esker_block::Trouble;

use crate::stack::{Parts, Stack};
use crate::text::{Spec, split_reference};

impl Stack {
    /// Why requests to an export, or to the device of a mount, cannot succeed, in whole sentences: the stack is
    /// latched, or a layer below could not be opened and nothing between does without it. None also if there is no such
    /// name, and for a mount that lies on no device.
    pub fn unusable(&self, name: &str) -> Option<String> {
        let spec = self.spec();
        let outlet = spec.outlets().find(|outlet| outlet.name == name)?;
        let parts = self.parts.borrow();
        let search = Search { spec: &spec, parts: &parts, seen: BTreeSet::new() };
        self.dead().or_else(|| search.below(outlet.device))
    }

    /// Whether a layer could not be opened because its medium is damaged.
    pub fn has_damage(&self) -> bool {
        self.parts.borrow().instances.values().any(|instance| instance.is_damaged.get())
    }
}

/// Looks for a layer that could not be opened; each part is visited once.
struct Search<'a> {
    spec: &'a Spec,
    parts: &'a Parts,
    seen: BTreeSet<&'a str>,
}

impl<'a> Search<'a> {
    fn below(mut self, top: &'a str) -> Option<String> {
        let mut waiting = vec![top];
        while let Some(end) = waiting.pop() {
            let name = split_reference(end).0;
            let Some(instance) = self.parts.instances.get(name).filter(|_| self.seen.insert(name)) else { continue };
            if let Some(why) = instance.unusable.borrow().clone() {
                return Some(why);
            }
            // A layer that knows that it lacks something serves without it.
            if matches!(instance.ext.trouble(), Some(Trouble::Degraded(_))) {
                continue;
            }
            waiting.extend(self.spec.device(name).into_iter().flat_map(|device| &device.on).map(String::as_str));
        }
        None
    }
}
