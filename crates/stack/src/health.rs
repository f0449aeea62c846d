//! What an operator must know about a running stack: which exports and devices of mounts cannot be used, and why.

use std::collections::BTreeSet;

use esker_block::Trouble;

use crate::stack::{Parts, Stack};
use crate::text::{Spec, split_reference};

/// Why a layer, and what lies on it, cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unusable {
    /// Whole sentences.
    pub why: String,
    /// Whether its medium is damaged.
    pub is_damage: bool,
}

impl Unusable {
    /// For a reason that is no damage of a medium.
    pub fn undamaged(why: String) -> Unusable {
        Unusable { why, is_damage: false }
    }
}

impl Stack {
    /// Why requests to an export, or to the device of a mount, cannot succeed: the stack is latched, or a layer below
    /// could not be opened and nothing between does without it. None also if there is no such name, and for a mount
    /// that lies on no device.
    pub fn unusable(&self, name: &str) -> Option<Unusable> {
        let (spec, parts) = (self.spec.borrow(), self.parts.borrow());
        let device = self.outlet_device(&spec, name)?;
        let search = Search { spec: &spec, parts: &parts, seen: BTreeSet::new() };
        self.dead().map(Unusable::undamaged).or_else(|| search.below(device))
    }
}

/// Looks for a layer that could not be opened; each part is visited once.
struct Search<'a> {
    spec: &'a Spec,
    parts: &'a Parts,
    seen: BTreeSet<&'a str>,
}

impl<'a> Search<'a> {
    fn below(mut self, top: &'a str) -> Option<Unusable> {
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
