//! Effectiveness: whether an extension reaches its goal on a volume, as far as that can be known without its meaning.
//!
//! Dominance proves it. So does theorem 1 of the thesis: nothing below changes or creates requests on the extension's
//! volumes. The theorem's clause about what B accesses is left out, because observing outside cannot disturb, and
//! what B *takes* from a volume in order to change it counts as a disturbance. Theorem 2 needs two amendments: nothing
//! between may feed the lower one, and an extension that sees no request is not effective.

use crate::exact::ModelRun;
use crate::set::{ExtId, VolId, VolSet};
use crate::setting::{Order, Setting};

/// What is known of an extension's goal on one volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// It is the last to handle every request; observers below do not count.
    Dominant,
    /// Nothing below disturbs what it sees (theorem 1).
    Undisturbed,
    /// Something below changes or creates requests on its volumes: only the meaning of that can tell.
    Undecided,
    /// It sees no request at all.
    Starved,
    /// No request goes to this volume.
    Idle,
}

impl Effect {
    /// Whether the goal is reached for certain.
    pub fn is_proven(self) -> bool {
        matches!(self, Effect::Dominant | Effect::Undisturbed)
    }
}

/// What is known of `extension`, which stands in `order`, on each volume of its domains.
pub fn effects(setting: &Setting, order: &Order, extension: ExtId) -> Vec<(VolId, Effect)> {
    let run = ModelRun::without_observers(setting, order, extension);
    let place = order.iter().position(|id| *id == extension).expect("the extension stands in the order");
    let own = setting.extension(extension);
    let volumes = own.input() | own.output();
    let below = order[place + 1..].iter().fold(VolSet::EMPTY, |set, id| set | setting.extension(*id).disturbed());
    let effect = |volume: VolId| {
        let handlers = run.handlers(volume);
        match () {
            () if run.starved().has(extension) && handlers.dominant() != Some(extension) => Effect::Starved,
            () if handlers.is_empty() => Effect::Idle,
            () if handlers.dominant() == Some(extension) => Effect::Dominant,
            () if own.input().has(volume) && !below.meets(volumes) => Effect::Undisturbed,
            () => Effect::Undecided,
        }
    };
    volumes.iter().map(|volume| (volume, effect(volume))).collect()
}
