//! What a stack does, and for each goal that is not met, the path of a request that shows why.

use crate::built::PinReason;
use crate::effect::{Effect, effects};
use crate::exact::{Handlers, Hop, How, ModelRun};
use crate::goals::{Priorities, Score};
use crate::grid::{self, Claim, Disagreement};
use crate::set::{ExtId, VolId};
use crate::setting::{Order, Setting};

/// Everything that is known of one order.
#[derive(Clone, Debug)]
pub struct Analysis<'a> {
    /// Volumes and extensions.
    pub setting: &'a Setting,
    /// The requests.
    pub run: ModelRun<'a>,
    /// The score under the priorities.
    pub score: Score,
    /// Each volume.
    pub volumes: Vec<VolumeView>,
    /// Each extension of the stack, top first.
    pub extensions: Vec<ExtensionView>,
    /// Where the grid of the thesis says something else.
    pub disagreements: Vec<Disagreement>,
    /// Neighbours that may be swapped without any effect.
    pub swaps: Vec<(ExtId, ExtId)>,
    /// Each goal that is wanted.
    pub goals: Vec<GoalView>,
    /// Layers that keep their place whatever is wanted, and why.
    pub fixed: Vec<(ExtId, PinReason)>,
}

/// One volume.
#[derive(Clone, PartialEq, Debug)]
pub struct VolumeView {
    /// The volume.
    pub volume: VolId,
    /// The last handlers of its requests.
    pub handlers: Handlers,
    /// What the grid says.
    pub claim: Claim,
}

/// One extension.
#[derive(Clone, PartialEq, Debug)]
pub struct ExtensionView {
    /// The extension.
    pub id: ExtId,
    /// Whether it sees no request.
    pub is_starved: bool,
    /// What is known of its goal on each volume of its domains.
    pub effects: Vec<(VolId, Effect)>,
    /// The volumes of its domains on which it is not dominant, and why.
    pub lost: Vec<Lost>,
}

/// Why an extension is not dominant on a volume.
#[derive(Clone, PartialEq, Debug)]
pub struct Lost {
    /// The volume.
    pub volume: VolId,
    /// In one word.
    pub cause: Cause,
    /// The request that shows it; empty if there are no requests.
    pub path: Vec<Hop>,
}

/// Why an extension is not dominant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// It sees no request: this one was led away above it.
    Starved,
    /// This request came to the volume without passing it.
    Bypassed,
    /// This request passed it and was handled again below.
    Overtaken,
    /// There are no requests to the volume.
    NoRequests,
}

/// One goal.
#[derive(Clone, PartialEq, Debug)]
pub struct GoalView {
    /// The goal.
    pub goal: String,
    /// Volumes on which an extension that serves it is dominant.
    pub dominant: Vec<(VolId, ExtId)>,
    /// Volumes on which it is reached although its extension is not dominant.
    pub effective: Vec<(VolId, ExtId)>,
    /// Where it is lost.
    pub lost: Vec<(ExtId, Lost)>,
}

impl GoalView {
    /// Whether it is reached on some volume for certain.
    pub fn is_met(&self) -> bool {
        !(self.dominant.is_empty() && self.effective.is_empty())
    }
}

impl<'a> Analysis<'a> {
    /// Analyses `order`, top first, as if each extension could change places.
    pub fn of(setting: &'a Setting, order: &Order, priorities: &Priorities) -> Analysis<'a> {
        let run = ModelRun::of(setting, order);
        let claims = grid::stack(setting, order);
        let view = |(volume, claim)| VolumeView { volume, handlers: run.handlers(volume), claim };
        let volumes = setting.volume_ids().zip(claims).map(view).collect();
        let extensions: Vec<ExtensionView> = order.iter().map(|id| extension_view(&run, order, *id)).collect();
        let commute = |pair: &&[ExtId]| setting.extension(pair[0]).commutes_with(setting.extension(pair[1]));
        let goals = priorities.all().into_iter().map(|goal| goal_view(&run, priorities, &extensions, goal));
        Analysis {
            setting,
            score: priorities.score(setting, &run),
            volumes,
            disagreements: grid::disagreements(setting, &run),
            swaps: order.windows(2).filter(commute).map(|pair| (pair[0], pair[1])).collect(),
            goals: goals.collect(),
            fixed: Vec::new(),
            extensions,
            run,
        }
    }

    /// How many extensions of the order may change places.
    pub fn movable(&self) -> usize {
        self.run.order().len() - self.fixed.len()
    }

    /// Goals that are reached nowhere.
    pub fn failed(&self) -> impl Iterator<Item = &GoalView> {
        self.goals.iter().filter(|goal| !goal.is_met())
    }

    /// One extension of the stack.
    pub fn extension(&self, id: ExtId) -> Option<&ExtensionView> {
        self.extensions.iter().find(|view| view.id == id)
    }
}

fn extension_view(run: &ModelRun<'_>, order: &Order, id: ExtId) -> ExtensionView {
    let setting = run.setting();
    let own = setting.extension(id);
    let upper = {
        let place = order.iter().position(|other| *other == id).expect("the extension stands in the order");
        ModelRun::of(setting, &order[..place])
    };
    let is_starved = run.starved().has(id);
    let lost = (own.input() | own.output())
        .iter()
        .filter(|volume| run.handlers(*volume).dominant() != Some(id))
        .map(|volume| lost(run, &upper, id, volume, is_starved));
    ExtensionView { id, is_starved, effects: effects(setting, order, id), lost: lost.collect() }
}

fn lost(run: &ModelRun<'_>, upper: &ModelRun<'_>, id: ExtId, volume: VolId, is_starved: bool) -> Lost {
    if is_starved && let Some(path) = upper.fate(volume) {
        return Lost { volume, cause: Cause::Starved, path };
    }
    match run.witness(id, volume) {
        None => Lost { volume, cause: Cause::NoRequests, path: Vec::new() },
        Some(path) => {
            let passed = path.iter().any(|hop| hop.by == Some(id));
            Lost { volume, cause: if passed { Cause::Overtaken } else { Cause::Bypassed }, path }
        }
    }
}

fn goal_view(run: &ModelRun<'_>, priorities: &Priorities, extensions: &[ExtensionView], goal: &str) -> GoalView {
    let serves = run.setting().with_goal(goal);
    let wanted = |volume: VolId| priorities.of(volume).iter().any(|g| g == goal);
    let server = |volume: VolId| run.handlers(volume).dominant().filter(|id| serves.has(*id));
    let dominant = run.setting().volume_ids().filter(|volume| wanted(*volume));
    let dominant = dominant.filter_map(|volume| server(volume).map(|id| (volume, id))).collect();
    let mut view = GoalView { goal: goal.to_string(), dominant, effective: Vec::new(), lost: Vec::new() };
    for extension in extensions.iter().filter(|extension| serves.has(extension.id)) {
        for lost in extension.lost.iter().filter(|lost| wanted(lost.volume)) {
            let effect = extension.effects.iter().find(|(volume, _)| *volume == lost.volume);
            match effect.is_some_and(|(_, effect)| effect.is_proven()) {
                true => view.effective.push((lost.volume, extension.id)),
                false => view.lost.push((extension.id, lost.clone())),
            }
        }
    }
    view
}

/// A path in words.
pub fn path_text(setting: &Setting, path: &[Hop]) -> String {
    let name = |volume: VolId| setting.volume(volume).name.as_str();
    let word = |hop: &Hop| {
        let by = hop.by.map_or("a client", |id| setting.extension(id).name());
        match hop.how {
            How::Sent => format!("{by} sends to {}", name(hop.to)),
            How::Forwarded if hop.from == hop.to => format!("{by} passes on"),
            How::Forwarded => format!("{by} leads to {}", name(hop.to)),
            How::Generated => format!("{by} creates one to {}", name(hop.to)),
            How::Spontaneous => format!("{by} creates one to {} by itself", name(hop.to)),
        }
    };
    path.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// Why, in words.
pub fn lost_text(setting: &Setting, id: ExtId, lost: &Lost) -> String {
    let (own, volume) = (setting.extension(id).name(), &setting.volume(lost.volume).name);
    let path = path_text(setting, &lost.path);
    let last = lost.path.iter().rev().find_map(|hop| hop.by);
    let last = last.map_or("no extension", |id| setting.extension(id).name());
    match lost.cause {
        Cause::Starved => format!("{own} sees no request: {path}, where {own} does not look"),
        Cause::Bypassed => format!("{volume}: {last} handles a request last that {own} does not see: {path}"),
        Cause::Overtaken => format!("{volume}: {last} handles a request after {own}: {path}"),
        Cause::NoRequests => format!("{volume}: no request comes here"),
    }
}
