//! A stack of which the upper part is built, reduced to what the rest of it can still change.
//!
//! A request that no extension left to place can see is *settled*: its last handler is known. All others will be
//! handled again, so their last handlers so far do not matter, only where they came from and where they go. Two
//! upper parts in the same state have the same future: the search keeps one.

use crate::constraint::Constraints;
use crate::goals::{GOALS_MAX, Score};
use crate::search::Problem;
use crate::set::{EXTENSIONS_MAX, ExtId, ExtSet, Member, Set, VolId, VolSet};

/// What is known of a volume's last handlers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Settled {
    /// Nothing is settled yet.
    Nothing,
    /// All that is settled was handled last by this extension.
    By(ExtId),
    /// Several extensions, or none: none can become dominant.
    Split,
}

/// The state of the upper part.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct State {
    /// Extensions that are not placed yet.
    pub rest: ExtSet,
    /// Destinations of requests that are not settled, for each origin, and last for those without.
    open: Vec<VolSet>,
    settled: Vec<Settled>,
}

/// One extension, as the search needs it.
struct Part {
    input: VolSet,
    output: VolSet,
    /// What is created without a request.
    spontaneous: VolSet,
    /// By volume.
    forward: Vec<VolSet>,
    generate: Vec<VolSet>,
}

/// Tables that a search looks things up in.
pub(super) struct Tables {
    parts: Vec<Part>,
    visible: VolSet,
    /// Ranks and weights by volume and extension.
    gains: Vec<Vec<Vec<(usize, u32)>>>,
    ranks: usize,
    before: Vec<ExtSet>,
    pub constraints: Constraints,
}

impl Tables {
    pub(super) fn of(problem: &Problem<'_>) -> Tables {
        let setting = problem.setting;
        let part = |id: ExtId| {
            let extension = setting.extension(id);
            let route = |volume| extension.route(volume).unwrap_or_default();
            let is_spontaneous = extension.properties().spontaneous;
            Part {
                input: extension.input(),
                output: extension.output(),
                spontaneous: if is_spontaneous { extension.generated() } else { VolSet::EMPTY },
                forward: setting.volume_ids().map(|volume| route(volume).forward).collect(),
                generate: setting.volume_ids().map(|volume| route(volume).generate).collect(),
            }
        };
        Tables {
            parts: setting.ids().map(part).collect(),
            visible: setting.visible(),
            gains: problem.priorities.table(setting),
            ranks: problem.priorities.ranks(),
            before: problem.constraints.before(setting),
            constraints: problem.constraints.clone(),
        }
    }

    /// Volumes that extensions of `rest` see.
    fn seen_by(&self, rest: ExtSet) -> VolSet {
        rest.iter().fold(VolSet::EMPTY, |set, id| set | self.parts[id.index()].input)
    }

    /// The empty stack.
    pub(super) fn start(&self) -> State {
        let rest: ExtSet = (0..self.parts.len()).map(ExtId::of).collect();
        let count = self.gains.len();
        let mut state = State { rest, open: vec![VolSet::EMPTY; count + 1], settled: vec![Settled::Nothing; count] };
        let seen = self.seen_by(rest);
        for volume in self.visible.iter() {
            match seen.has(volume) {
                true => state.open[volume.index()] = Set::one(volume),
                false => state.settled[volume.index()] = Settled::Split,
            }
        }
        state
    }

    /// Extensions that may come next at `place`, below `above`.
    pub(super) fn choices(&self, state: &State, place: usize, above: Option<ExtId>) -> ExtSet {
        let pinned = &self.constraints.pinned;
        let not_below = self.constraints.forbidden_below(above);
        let fits = |id: &ExtId| match pinned.get(id) {
            Some(at) => *at == place,
            None => !pinned.values().any(|at| *at == place),
        };
        let is_free = |id: &ExtId| !self.before[id.index()].meets(state.rest) && !not_below.has(*id);
        state.rest.iter().filter(|id| fits(id) && is_free(id)).collect()
    }

    /// Puts an extension under the upper part, and tells whether it is starved there.
    pub(super) fn place(&self, state: &mut State, id: ExtId) -> bool {
        let part = &self.parts[id.index()];
        state.rest = state.rest - Set::one(id);
        let seen = self.seen_by(state.rest);
        let clients = self.gains.len();
        let mut taken = VolSet::EMPTY;
        for origin in 0..=clients {
            let hit = state.open[origin] & part.input;
            if hit.is_empty() {
                continue;
            }
            taken |= hit;
            let forward = hit.iter().fold(VolSet::EMPTY, |set, at| set | part.forward[at.index()]);
            state.open[origin] = (state.open[origin] - hit) | (forward & seen);
            let settled = forward - seen;
            if origin < clients && !settled.is_empty() {
                state.bind(VolId::of(origin), id);
            }
            settled.iter().for_each(|at| state.bind(at, id));
        }
        let created = taken.iter().fold(part.spontaneous, |set, at| set | part.generate[at.index()]);
        state.open[clients] |= created & seen;
        (created - seen).iter().for_each(|at| state.bind(at, id));
        taken.is_empty()
    }

    /// A score that no stack with this upper part exceeds, of which `live` extensions see requests. For a whole stack
    /// it is the score.
    pub(super) fn bound(&self, state: &State, live: usize) -> Score {
        let mut score = Score { ranks: vec![0; self.ranks], live: live + state.rest.len() };
        let mut led = Led { tables: self, rest: state.rest, known: [None; EXTENSIONS_MAX] };
        for (volume, gains) in self.gains.iter().enumerate() {
            // One extension at most is dominant on a volume, and rank by rank comparison survives addition: the best
            // choice for each volume bounds the sum.
            let worth =
                |gains: &&Vec<(usize, u32)>| gains.iter().map(|(rank, _)| 1u32 << (GOALS_MAX - rank)).sum::<u32>();
            let candidates = self.candidates(state, VolId::of(volume), &mut led);
            let best = candidates.iter().map(|id| &gains[id.index()]).max_by_key(worth);
            score.add(best.map_or(&[], Vec::as_slice));
        }
        score
    }

    /// Extensions that may still be dominant on `volume` in the end.
    fn candidates(&self, state: &State, volume: VolId, led: &mut Led<'_>) -> ExtSet {
        let open = state.open[volume.index()];
        match state.settled[volume.index()] {
            Settled::By(id) if open.is_empty() => Set::one(id),
            // What is open will be handled by another one.
            Settled::By(_) | Settled::Split => ExtSet::EMPTY,
            Settled::Nothing if open.is_empty() => {
                let sends = |id: &ExtId| self.parts[id.index()].output.has(volume);
                state.rest.iter().filter(sends).collect()
            }
            Settled::Nothing => state.rest.iter().filter(|id| open.within(led.to(*id))).collect(),
        }
    }

    /// Volumes from which extensions of `rest` can lead every request to `id`, each in the order that suits best.
    fn led_to(&self, id: ExtId, rest: ExtSet) -> VolSet {
        let mut led = self.parts[id.index()].input;
        loop {
            let mut more = led;
            for part in (rest - Set::one(id)).iter().map(|other| &self.parts[other.index()]) {
                let new = (part.input - led).iter().filter(|at| part.forward[at.index()].within(led));
                more |= new.collect();
            }
            if more == led {
                return led;
            }
            led = more;
        }
    }
}

/// What [`Tables::led_to`] says, once for each extension of a state: every volume asks for it.
struct Led<'t> {
    tables: &'t Tables,
    rest: ExtSet,
    known: [Option<VolSet>; EXTENSIONS_MAX],
}

impl Led<'_> {
    fn to(&mut self, id: ExtId) -> VolSet {
        *self.known[id.index()].get_or_insert_with(|| self.tables.led_to(id, self.rest))
    }
}

impl State {
    fn bind(&mut self, volume: VolId, by: ExtId) {
        let settled = &mut self.settled[volume.index()];
        *settled = match *settled {
            Settled::Nothing => Settled::By(by),
            Settled::By(id) if id == by => Settled::By(id),
            Settled::By(_) | Settled::Split => Settled::Split,
        };
    }
}
