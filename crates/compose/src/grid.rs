//! The stacking rules grid of the thesis (figure 5.3): which one is dominant in a pair, A above B, from domains alone.
//!
//! It is a view, not the judge. The third column takes A's map as if every request of a volume went one way and no
//! other one came back. The side condition is all or nothing. [`exact`](crate::exact) decides.

use crate::set::{ExtId, ExtSet, Member, VolId, VolSet};
use crate::setting::{Extension, Setting};

/// How the input domains of A and B lie to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Row {
    /// Row 1: they have nothing in common.
    Apart,
    /// Row 2: A's holds B's.
    Holds,
    /// Row 3: they overlap, and A's does not hold B's.
    Overlaps,
}

/// How the output domain of A lies to the input domain of B.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Column {
    /// Column 1: B sees nothing of what A sends.
    Passes,
    /// Column 2: B sees everything that A sends.
    Lands,
    /// Column 3: B sees some of it.
    Partly,
}

/// A cell of the grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// Input domains.
    pub row: Row,
    /// A's output and B's input.
    pub column: Column,
}

impl Cell {
    /// The cell for domains, none of which is empty: `input` and `output` of A, and `below`, the input of B.
    pub fn of(input: VolSet, output: VolSet, below: VolSet) -> Cell {
        assert!(!(input.is_empty() || output.is_empty() || below.is_empty()), "an empty domain lies in two cells");
        let row = match input.meets(below) {
            false => Row::Apart,
            true if below.within(input) => Row::Holds,
            true => Row::Overlaps,
        };
        let column = match output.meets(below) {
            false => Column::Passes,
            true if output.within(below) => Column::Lands,
            true => Column::Partly,
        };
        Cell { row, column }
    }

    /// Its numbers as the thesis writes them.
    pub fn numbers(self) -> (u8, u8) {
        let row = match self.row {
            Row::Apart => 1,
            Row::Holds => 2,
            Row::Overlaps => 3,
        };
        let column = match self.column {
            Column::Passes => 1,
            Column::Lands => 2,
            Column::Partly => 3,
        };
        (row, column)
    }
}

/// What the grid says of one volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// This extension is dominant.
    Dominant(ExtId),
    /// A would be, but B sends to A's input domain: no extension is.
    Nobody,
    /// A's map leads into B's input domain and past it: the rule speaks of neither case.
    Mixed,
    /// No rule speaks of this volume.
    Silent,
}

/// What a cell says of one volume: which of the two, if any.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Above,
    Below,
    Nobody,
    Mixed,
    Silent,
}

/// The lower side of a comparison: one extension, or all below the top as one.
pub(crate) struct Lower {
    pub input: VolSet,
    pub output: VolSet,
}

/// The claims of the grid for A above B, for each volume of the setting.
pub fn pair(setting: &Setting, a: ExtId, b: ExtId) -> Vec<Claim> {
    stack(setting, &[a, b])
}

/// The cell of A above B.
pub fn cell(setting: &Setting, a: ExtId, b: ExtId) -> Cell {
    let (a, b) = (setting.extension(a), setting.extension(b));
    Cell::of(a.input(), a.output(), b.input())
}

/// The claims for a whole stack by the recursion of the thesis: the top against the rest as one unit, then the rest in
/// the same way. The domains of a unit are unions, which the thesis leaves open.
///
/// A claim for the rest is asked for by every volume that leads there, so the recursion is a table, filled from the
/// bottom up. For n extensions and V volumes it takes n * V * V steps at most.
pub fn stack(setting: &Setting, order: &[ExtId]) -> Vec<Claim> {
    let mut claims = vec![Claim::Silent; setting.volumes.len()];
    let mut rest = Lower { input: VolSet::EMPTY, output: VolSet::EMPTY };
    for (place, id) in order.iter().enumerate().rev() {
        let own = setting.extension(*id);
        claims = match order[place + 1..] {
            [] => setting.volume_ids().map(|volume| alone(own, *id, volume)).collect(),
            [below] => setting.volume_ids().map(|v| claim(own, *id, &rest, v, |_| Claim::Dominant(below))).collect(),
            _ => setting.volume_ids().map(|v| claim(own, *id, &rest, v, |landing| agreed(&claims, landing))).collect(),
        };
        rest = Lower { input: rest.input | own.input(), output: rest.output | own.output() };
    }
    claims
}

/// The lowest extension has nothing to be compared with.
fn alone(own: &Extension, id: ExtId, volume: VolId) -> Claim {
    if own.input().has(volume) { Claim::Dominant(id) } else { Claim::Silent }
}

/// The claim for one volume of a stack with `top` above `rest`. `below` says which one of the rest is meant, if it is
/// one of them, from the volumes where the requests of the top land.
fn claim(top: &Extension, id: ExtId, rest: &Lower, volume: VolId, below: impl Fn(VolSet) -> Claim) -> Claim {
    match side(top, rest, volume) {
        Side::Above => Claim::Dominant(id),
        Side::Nobody => Claim::Nobody,
        Side::Mixed => Claim::Mixed,
        Side::Silent => Claim::Silent,
        Side::Below => below(top.route(volume).map_or(VolSet::one(volume), |route| route.forward)),
    }
}

/// What the claims for all of these volumes say, if they say the same.
fn agreed(claims: &[Claim], landing: VolSet) -> Claim {
    let mut found = landing.iter().map(|volume| claims[volume.index()]);
    let first = found.next().expect("a request lands somewhere");
    if found.all(|claim| claim == first) { first } else { Claim::Mixed }
}

/// What the cell of `a` above `b` says of `volume`.
pub(crate) fn side(a: &Extension, b: &Lower, volume: VolId) -> Side {
    let Cell { row, column } = Cell::of(a.input(), a.output(), b.input);
    let (in_a, in_b) = (a.input().has(volume), b.input.has(volume));
    let unless_b_sends = if b.output.meets(a.input()) { Side::Nobody } else { Side::Above };
    match (row, column) {
        (Row::Apart, Column::Passes) if in_b => Side::Below,
        (Row::Apart | Row::Overlaps, Column::Passes) if in_a => unless_b_sends,
        (Row::Overlaps, Column::Passes) if in_b => Side::Below,
        (Row::Holds, Column::Passes) if in_a => Side::Above,
        (Row::Apart | Row::Overlaps, Column::Lands) if in_a || in_b => Side::Below,
        (Row::Holds, Column::Lands) if in_a => Side::Below,
        (Row::Apart, Column::Partly) if in_b => Side::Below,
        (Row::Overlaps, Column::Partly) if in_b && !in_a => Side::Below,
        (_, Column::Partly) => match a.route(volume).map(|route| route.forward) {
            None => Side::Silent,
            Some(lands) if lands.within(b.input) => Side::Below,
            Some(lands) if lands.meets(b.input) => Side::Mixed,
            Some(_) => unless_b_sends,
        },
        _ => Side::Silent,
    }
}

/// Where the grid and the exact model say different things of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disagreement {
    /// The volume.
    pub volume: VolId,
    /// What the grid says: that an extension is dominant, or that none is.
    pub grid: Claim,
    /// The extension that handles its requests last. Together with a claim of dominance this refutes the grid; with
    /// `Nobody` it shows what the grid is too coarse to see.
    pub exact: ExtSet,
    /// Whether some of its requests are handled by no extension at all.
    pub unhandled: bool,
}

/// All disagreements over a stack. Where the grid is silent or mixed there is none.
pub fn disagreements(setting: &Setting, run: &crate::exact::ModelRun<'_>) -> Vec<Disagreement> {
    let claims = stack(setting, run.order());
    let found = setting.volume_ids().filter_map(|volume| {
        let handlers = run.handlers(volume);
        let differs = match claims[volume.index()] {
            Claim::Dominant(who) => !handlers.is_empty() && handlers.dominant() != Some(who),
            Claim::Nobody => handlers.dominant().is_some(),
            Claim::Mixed | Claim::Silent => false,
        };
        let grid = claims[volume.index()];
        differs.then_some(Disagreement { volume, grid, exact: handlers.extensions, unhandled: handlers.unhandled })
    });
    found.collect()
}
