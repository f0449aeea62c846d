//! The declaration text: volumes, extensions that exist or are only declared, priorities and constraints.
//!
//! `docs/guide/compose.md` describes it. The text is TOML and may hold a stack's text too, whose devices and layers are
//! then extensions and volumes like declared ones ([`built`](crate::built)).
//!
//! Reading order: this file, [`error`], then `form` (what TOML says), `resolve` (names become volumes and extensions),
//! `sections` (which lines belong to the stack's text) and [`rewrite`] (another order in a text).

pub mod error;
mod form;
mod resolve;
pub mod rewrite;
mod sections;

#[cfg(test)]
mod tests;

pub use error::{Problem, TextError, TextErrors};
pub use sections::stack_part;

use crate::built::{Built, PinReason};
use crate::constraint::Constraints;
use crate::explain::Analysis;
use crate::goals::Priorities;
use crate::search::Problem as SearchProblem;
use crate::set::{ExtId, VolId};
use crate::setting::{Order, Setting};

/// Longest text in bytes.
pub const TEXT_MAX: usize = 1 << 20;

/// What a text says.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Declaration {
    /// Volumes and extensions.
    pub setting: Setting,
    /// The stack, top first. Extensions that are not in it are candidates.
    pub order: Order,
    /// What is wanted.
    pub priorities: Priorities,
    /// What must hold.
    pub constraints: Constraints,
    /// Extensions that are layers of a stack's text, by their names there.
    pub built: Vec<ExtId>,
    /// Layers that keep their place, and why.
    pub fixed: Vec<(ExtId, PinReason)>,
    /// Layers on whose order it depends what lies on the media.
    pub(crate) keepers: Vec<ExtId>,
}

impl Declaration {
    /// Reads a text; `file` is its name in messages. `built` is what the stack's text in it says, if there is one.
    ///
    /// # Errors
    /// Everything that is wrong, with lines.
    pub fn parse(file: &str, text: &str, built: &Built) -> Result<Declaration, TextErrors> {
        if text.len() > TEXT_MAX {
            let problem = Problem::TooLong { bytes: text.len(), max: TEXT_MAX };
            return Err(TextErrors::one(file, 1, problem));
        }
        let document = form::read(file, text)?;
        resolve::declaration(file, text, document, built)
    }

    /// What a stack's text alone says.
    ///
    /// # Errors
    /// More volumes or layers than can be reasoned about.
    pub fn of_stack(file: &str, built: &Built) -> Result<Declaration, TextErrors> {
        Declaration::parse(file, "", built)
    }

    /// The extensions that are not in the stack.
    pub fn candidates(&self) -> Vec<ExtId> {
        self.setting.ids().filter(|id| !self.order.contains(id)).collect()
    }

    /// What `order` changes in the stack's text: each chain of layers that may change places and does, top first.
    pub fn reordered(&self, order: &[ExtId]) -> Vec<Vec<&str>> {
        let changed = self.chains(order).into_iter().zip(self.chains(&self.order)).filter(|(new, old)| new != old);
        changed.map(|(new, _)| new).collect()
    }

    /// The chains of [`Declaration::reordered`] that may change while they are served: what lies on media holds none of
    /// their layers.
    pub fn reordered_live(&self, order: &[ExtId]) -> Vec<Vec<&str>> {
        let is_keeper = |name: &&str| self.keepers.iter().any(|id| self.setting.extension(*id).name() == *name);
        self.reordered(order).into_iter().filter(|chain| !chain.iter().any(is_keeper)).collect()
    }

    /// The layers of the stack's text that may change places, chain by chain, each in the order that `order` gives it.
    pub fn chains(&self, order: &[ExtId]) -> Vec<Vec<&str>> {
        let is_free = |id: &&ExtId| !self.fixed.iter().any(|(fixed, _)| fixed == *id);
        let mut chains = Vec::new();
        let mut seen = Vec::new();
        for first in self.built.iter().filter(is_free) {
            let volumes = self.setting.extension(*first).input();
            if !seen.contains(&volumes) {
                let here = |id: &&ExtId| self.built.contains(id) && self.setting.extension(**id).input() == volumes;
                let chain: Order = order.iter().filter(here).filter(is_free).copied().collect();
                chains.push(self.setting.names(&chain));
            }
            seen.push(volumes);
        }
        chains
    }

    /// Layers that `order` moves against each other although what lies on the media depends on their order, top first.
    pub fn made_anew(&self, order: &[ExtId]) -> Vec<&str> {
        let kept = |order: &[ExtId], of: ExtId| -> Order {
            let volumes = self.setting.extension(of).input();
            let here = |id: &ExtId| self.keepers.contains(id) && self.setting.extension(*id).input() == volumes;
            order.iter().copied().filter(here).collect()
        };
        let moves = |id: &ExtId| {
            let place = |order: &[ExtId]| kept(order, *id).iter().position(|other| other == id);
            self.keepers.contains(id) && place(&self.order) != place(order)
        };
        order.iter().filter(|id| moves(id)).map(|id| self.setting.extension(*id).name()).collect()
    }

    /// Whether layers of a stack's text stand between others only because what lies on the media holds them there.
    pub fn is_held_by_media(&self) -> bool {
        self.fixed.iter().any(|(_, held)| matches!(held, PinReason::Tables | PinReason::Arranged))
    }

    /// Everything that is known of `order`, and which layers keep their place in it.
    pub fn analysis(&self, order: &Order) -> Analysis<'_> {
        let fixed = self.fixed.iter().copied().filter(|(id, _)| order.contains(id)).collect();
        Analysis { fixed, ..Analysis::of(&self.setting, order, &self.priorities) }
    }

    /// The question that the text asks.
    pub fn problem(&self) -> SearchProblem<'_> {
        SearchProblem { setting: &self.setting, priorities: &self.priorities, constraints: &self.constraints }
    }

    /// Adds a list of priorities as a command line gives it: `space,energy` for all volumes, or `D=space,energy` for
    /// the volume D.
    ///
    /// # Errors
    /// An unknown volume or goal, or a list that is too long or names a goal twice.
    pub fn want(&mut self, text: &str) -> Result<(), Problem> {
        let (volume, list) = match text.split_once('=') {
            Some((name, list)) => {
                let id = self.setting.find_volume(name);
                (Some(id.ok_or_else(|| resolve::unknown_volume("--goals", name, &self.setting))?), list)
            }
            None => (None, text),
        };
        let goals: Vec<String> = list.split(',').map(|goal| goal.trim().to_string()).collect();
        resolve::check_goals(&goals, &self.setting)?;
        match volume {
            Some(id) => drop(self.priorities.of_volume.insert(id, goals)),
            None => self.priorities.general = goals,
        }
        Ok(())
    }

    /// The volume of that name.
    ///
    /// # Errors
    /// If there is none.
    pub fn volume(&self, name: &str) -> Result<VolId, Problem> {
        self.setting.find_volume(name).ok_or_else(|| resolve::unknown_volume("the command line", name, &self.setting))
    }

    /// The extension of that name.
    ///
    /// # Errors
    /// If there is none.
    pub fn extension(&self, name: &str) -> Result<ExtId, Problem> {
        self.setting.find(name).ok_or_else(|| resolve::unknown_extension("the command line", name, &self.setting))
    }
}

/// What is wrong with constraints, for people.
pub(crate) fn contradiction_text(setting: &Setting, contradiction: &crate::constraint::Contradiction) -> String {
    resolve::contradiction_problem(setting, contradiction).to_string()
}

/// Whether `name` can name a volume, extension or goal.
fn is_sound_name(name: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=64).contains(&name.len()) && !name.starts_with('-') && name.chars().all(is_fine)
}
