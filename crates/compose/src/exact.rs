//! The exact model: what becomes of every request in a stack, by propagating tokens from top to bottom.
//!
//! A token stands for all requests with the same origin, the same last handler and the same destination. Extensions
//! may choose among their routes per request, so a token leads to one token for each route: what the model allows is
//! what can happen, no more and no less.

use std::collections::BTreeMap;

use crate::set::{ExtId, ExtSet, Member, Set, VOLUMES_MAX, VolId, VolSet};
use crate::setting::Setting;

/// How a token came about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// A client sent it.
    Sent,
    /// An extension passed it on.
    Forwarded,
    /// An extension created it because of the one before.
    Generated,
    /// An extension created it by itself.
    Spontaneous,
}

/// Requests that have the same past and destination as far as dominance can tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    /// The volume that the client addressed; none for what extensions created.
    pub origin: Option<VolId>,
    /// The extension that handled it last.
    pub last: Option<ExtId>,
    /// Where it goes.
    pub at: VolId,
    /// How it came about.
    pub how: How,
    /// The token that it came from.
    parent: Option<usize>,
    /// Steps of its path.
    hops: u32,
}

/// The last handlers of requests to a volume: those that clients addressed to it, and those that end on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Handlers {
    /// Last handlers.
    pub extensions: ExtSet,
    /// Whether some requests are handled by no extension.
    pub unhandled: bool,
}

impl Handlers {
    /// The only last handler of all requests, if there is one.
    pub fn dominant(self) -> Option<ExtId> {
        if self.unhandled { None } else { self.extensions.only() }
    }

    /// Whether there are no requests.
    pub fn is_empty(self) -> bool {
        self.extensions.is_empty() && !self.unhandled
    }

    fn add(&mut self, last: Option<ExtId>) {
        match last {
            Some(extension) => self.extensions |= Set::one(extension),
            None => self.unhandled = true,
        }
    }
}

/// One step of a request's path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// The extension that did it; none for the client.
    pub by: Option<ExtId>,
    /// Where the request was addressed before; the same as `to` for a start.
    pub from: VolId,
    /// Where it goes.
    pub to: VolId,
    /// What was done.
    pub how: How,
}

/// The requests of a stack, from entry to volume.
#[derive(Clone, Debug)]
pub struct ModelRun<'a> {
    setting: &'a Setting,
    order: Vec<ExtId>,
    tokens: Vec<Token>,
    /// Tokens that reached the volumes.
    ends: Vec<usize>,
    /// For each extension of the stack, the volumes whose requests it sees.
    seen: Vec<VolSet>,
    /// For each volume, the last handlers of its requests.
    handlers: Vec<Handlers>,
}

impl<'a> ModelRun<'a> {
    /// Propagates through `order`, top first. An extension stands at most once in it.
    pub fn of(setting: &'a Setting, order: &[ExtId]) -> ModelRun<'a> {
        ModelRun::propagate(setting, order, None)
    }

    /// As [`ModelRun::of`], but routes on which extensions other than `seen` only look leave no trace: an extension
    /// that observes a request does not keep the one before from having done its work.
    pub fn without_observers(setting: &'a Setting, order: &[ExtId], seen: ExtId) -> ModelRun<'a> {
        ModelRun::propagate(setting, order, Some(seen))
    }

    fn propagate(setting: &'a Setting, order: &[ExtId], seen: Option<ExtId>) -> ModelRun<'a> {
        let order = order.to_vec();
        let handlers = vec![Handlers::default(); setting.volumes.len()];
        let mut run = ModelRun { setting, order, tokens: Vec::new(), ends: Vec::new(), seen: Vec::new(), handlers };
        for at in setting.visible().iter() {
            run.ends.push(run.tokens.len());
            run.tokens.push(Token { origin: Some(at), last: None, at, how: How::Sent, parent: None, hops: 1 });
        }
        for id in run.order.clone() {
            run.step(id, seen.is_none_or(|seen| seen == id));
        }
        for token in run.ends.iter().map(|index| &run.tokens[*index]) {
            for volume in token.origin.into_iter().chain([token.at]) {
                run.handlers[volume.index()].add(token.last);
            }
        }
        run
    }

    /// Takes all live tokens through one extension.
    fn step(&mut self, id: ExtId, leaves_trace: bool) {
        let extension = self.setting.extension(id);
        let covered = [VolSet::EMPTY; VOLUMES_MAX + 1];
        let mut level = Level { tokens: &mut self.tokens, live: BTreeMap::new(), covered };
        let mut seen = VolSet::EMPTY;
        for index in std::mem::take(&mut self.ends) {
            let token = level.tokens[index];
            let Some(route) = extension.route(token.at) else {
                level.keep(index);
                continue;
            };
            seen |= Set::one(token.at);
            let observes = !extension.properties().mutator && route.generate.is_empty();
            if observes && !leaves_trace {
                level.keep(index);
                continue;
            }
            let next = Token { last: Some(id), parent: Some(index), hops: token.hops + 1, ..token };
            level.add(Token { how: How::Forwarded, ..next }, route.forward);
            level.add(Token { origin: None, how: How::Generated, ..next }, route.generate);
        }
        if extension.properties().spontaneous {
            let (origin, last, at) = (None, Some(id), VolId::of(0));
            let created = Token { origin, last, at, how: How::Spontaneous, parent: None, hops: 1 };
            level.add(created, extension.generated());
        }
        self.ends = level.live.into_values().collect();
        self.seen.push(seen);
    }

    /// Volumes and extensions.
    pub fn setting(&self) -> &'a Setting {
        self.setting
    }

    /// The stack, top first.
    pub fn order(&self) -> &[ExtId] {
        &self.order
    }

    /// Extensions that see no request.
    pub fn starved(&self) -> ExtSet {
        let starved = self.order.iter().zip(&self.seen).filter(|(_, seen)| seen.is_empty());
        starved.map(|(id, _)| *id).collect()
    }

    /// The extensions of the stack, top first, each with the volumes whose requests it sees.
    pub fn seen(&self) -> impl Iterator<Item = (ExtId, VolSet)> {
        self.order.iter().copied().zip(self.seen.iter().copied())
    }

    /// Tokens that reached the volumes.
    pub fn ends(&self) -> impl Iterator<Item = &Token> {
        self.ends.iter().map(|index| &self.tokens[*index])
    }

    /// The last handlers of requests to `volume`.
    pub fn handlers(&self, volume: VolId) -> Handlers {
        self.handlers[volume.index()]
    }

    /// The extensions that pass on requests which clients addressed to `volume`. Where they are layers they may answer
    /// them instead, of which the model says nothing: it is about requests that reach volumes.
    pub fn seeing(&self, volume: VolId) -> ExtSet {
        let sent = self.tokens.iter().filter(|token| token.origin == Some(volume));
        sent.filter_map(|token| token.last).fold(ExtSet::EMPTY, |all, last| all | Set::one(last))
    }

    /// The last handlers of all volumes: what makes two stacks equivalent.
    pub fn dominance(&self) -> Vec<Handlers> {
        self.handlers.clone()
    }

    /// The path of a request to `volume` that `extension` is not the last to handle, if there is one. The shortest, so
    /// that a reader sees the cause.
    pub fn witness(&self, extension: ExtId, volume: VolId) -> Option<Vec<Hop>> {
        self.shortest(|token| concerns(token, volume) && token.last != Some(extension))
    }

    /// The shortest path of a request that clients addressed to `volume`.
    pub fn fate(&self, volume: VolId) -> Option<Vec<Hop>> {
        self.shortest(|token| token.origin == Some(volume))
    }

    fn shortest(&self, wanted: impl Fn(&Token) -> bool) -> Option<Vec<Hop>> {
        let found = self.ends.iter().filter(|index| wanted(&self.tokens[**index]));
        found.min_by_key(|index| self.tokens[**index].hops).map(|index| self.path(*index))
    }

    fn path(&self, end: usize) -> Vec<Hop> {
        let mut path: Vec<Hop> = std::iter::successors(Some(end), |index| self.tokens[*index].parent)
            .map(|index| self.hop(&self.tokens[index]))
            .collect();
        path.reverse();
        path
    }

    fn hop(&self, token: &Token) -> Hop {
        let from = token.parent.map_or(token.at, |parent| self.tokens[parent].at);
        Hop { by: token.last, from, to: token.at, how: token.how }
    }

    /// All that `extension` does with what it sees.
    pub fn hops(&self, extension: ExtId) -> Vec<Hop> {
        let own = self.setting.extension(extension);
        let seen = self.seen().find(|(id, _)| *id == extension).map_or(VolSet::EMPTY, |(_, seen)| seen);
        let mut hops = Vec::new();
        for (from, route) in seen.iter().filter_map(|from| own.route(from).map(|route| (from, route))) {
            let hop = |to, how| Hop { by: Some(extension), from, to, how };
            hops.extend(route.forward.iter().map(|to| hop(to, How::Forwarded)));
            hops.extend(route.generate.iter().map(|to| hop(to, How::Generated)));
        }
        if own.properties().spontaneous {
            let created = own.generated().iter();
            hops.extend(created.map(|at| Hop { by: Some(extension), from: at, to: at, how: How::Spontaneous }));
        }
        hops
    }
}

fn concerns(token: &Token, volume: VolId) -> bool {
    token.origin == Some(volume) || token.at == volume
}

/// The tokens below one extension; equal ones are one.
struct Level<'t> {
    tokens: &'t mut Vec<Token>,
    live: BTreeMap<(Option<VolId>, Option<ExtId>, VolId), usize>,
    /// Where the extension sent requests already, for each origin, and last for those without.
    covered: [VolSet; VOLUMES_MAX + 1],
}

impl Level<'_> {
    fn keep(&mut self, index: usize) {
        let token = self.tokens[index];
        self.live.entry((token.origin, token.last, token.at)).or_insert(index);
    }

    /// Adds what the extension sends to each volume of `to`.
    fn add(&mut self, token: Token, to: VolSet) {
        let covered = &mut self.covered[token.origin.map_or(VOLUMES_MAX, Member::index)];
        let new = to - *covered;
        *covered |= to;
        for at in new.iter() {
            self.live.insert((token.origin, token.last, at), self.tokens.len());
            self.tokens.push(Token { at, ..token });
        }
    }
}
