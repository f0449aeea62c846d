//! What holds for all settings.

use proptest::prelude::*;

use super::{GOALS, Size, extension, setting};
use crate::constraint::Constraints;
use crate::effect::effects;
use crate::exact::ModelRun;
use crate::goals::Priorities;
use crate::grid::{self, Claim};
use crate::search::branch::{LOOKS_MAX, compose};
use crate::search::census::{census, each_order};
use crate::search::{NoOrder, Problem};
use crate::set::{ExtId, Member, VolId, VolSet};
use crate::setting::{Extension, Properties, Setting};

const SMALL: Size = Size { volumes: 4, domain: 4, extensions: 4, spontaneous: true };

/// Constraints that any order of `count` extensions may or may not keep.
fn constraints(count: usize) -> impl Strategy<Value = Constraints> {
    let pair = (0..count, 0..count).prop_filter("two of them", |(a, b)| a != b);
    let pairs = |max| proptest::collection::vec(pair.clone().prop_map(|(a, b)| (ExtId::of(a), ExtId::of(b))), 0..max);
    let pinned = proptest::collection::btree_map((0..count).prop_map(ExtId::of), 0..count, 0..2);
    let starved_max = proptest::option::of(0..3usize);
    (pairs(3), pinned, pairs(3), starved_max).prop_map(|(above, pinned, forbidden, starved_max)| Constraints {
        above,
        pinned,
        forbidden,
        starved_max,
    })
}

/// Priorities for all volumes, and for one perhaps others.
fn priorities() -> impl Strategy<Value = Priorities> {
    let list = Just(GOALS.map(str::to_string).to_vec()).prop_shuffle();
    let other = proptest::option::of((list.clone(), 0..4usize));
    (list, other).prop_map(|(general, other)| Priorities {
        general,
        of_volume: other.into_iter().map(|(list, volume)| (VolId::of(volume), list[..2].to_vec())).collect(),
    })
}

/// The best score by trying every order with the exact model alone.
fn best_by_trying_all(problem: &Problem<'_>) -> Option<crate::goals::Score> {
    let mut best = None;
    each_order(problem.setting, &mut |order| best = best.take().max(problem.judge(order)));
    best
}

fn searches_agree(problem: &Problem<'_>) -> Result<(), TestCaseError> {
    let wanted = best_by_trying_all(problem);
    match (compose(problem, LOOKS_MAX), census(problem, LOOKS_MAX)) {
        (Ok(found), Ok(all)) => {
            prop_assert!(found.is_proven);
            prop_assert_eq!(Some(&found.score.ranks), wanted.as_ref().map(|score| &score.ranks));
            prop_assert_eq!(problem.judge(&found.order), Some(found.score));
            prop_assert_eq!(Some(all.best), wanted);
        }
        (Err(NoOrder::Contradiction(_) | NoOrder::Forbidden), Err(_)) => prop_assert_eq!(wanted, None),
        other => prop_assert!(false, "{:?}", other),
    }
    Ok(())
}

/// One to `max` extensions.
fn sized(max: usize) -> impl Strategy<Value = Setting> {
    (1..=max).prop_flat_map(|extensions| setting(Size { volumes: 4, domain: 4, extensions, spontaneous: true }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn branch_and_bound_finds_what_trying_all_orders_finds(
        (setting, constraints) in sized(5).prop_flat_map(|s| { let n = s.extensions.len().max(2); (Just(s), constraints(n)) }),
        priorities in priorities(),
        constrained in any::<bool>(),
    ) {
        let count = setting.extensions.len();
        let fits = |pair: &(ExtId, ExtId)| pair.0.index() < count && pair.1.index() < count;
        let mut constraints = if constrained { constraints } else { Constraints::default() };
        constraints.above.retain(fits);
        constraints.forbidden.retain(fits);
        constraints.pinned.retain(|id, _| id.index() < count);
        searches_agree(&Problem { setting: &setting, priorities: &priorities, constraints: &constraints })?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Against the incremental census, which the case above ties to the exact model.
    #[test]
    fn branch_and_bound_finds_what_a_census_finds_up_to_seven(setting in sized(7), priorities in priorities()) {
        let constraints = Constraints::default();
        let problem = Problem { setting: &setting, priorities: &priorities, constraints: &constraints };
        let found = compose(&problem, LOOKS_MAX).unwrap();
        prop_assert_eq!(found.score.ranks, census(&problem, LOOKS_MAX).unwrap().best.ranks);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    /// Wide domains, hardly any of which commute: the hard case.
    #[test]
    fn twelve_extensions_are_composed_exactly(
        setting in setting(Size { volumes: 8, domain: 8, extensions: 12, spontaneous: true }),
        sparse in setting(Size { volumes: 8, domain: 2, extensions: 12, spontaneous: true }),
        priorities in priorities(),
    ) {
        for setting in [setting, sparse] {
            let constraints = Constraints::default();
            let problem = Problem { setting: &setting, priorities: &priorities, constraints: &constraints };
            let found = compose(&problem, LOOKS_MAX).unwrap();
            prop_assert!(found.is_proven, "{} looked at", found.looked_at);
            prop_assert_eq!(problem.judge(&found.order), Some(found.score));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 100_000, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn swapping_commuting_neighbours_changes_nothing(
        setting in setting(Size { volumes: 7, domain: 2, extensions: 5, spontaneous: true }),
        at in 0..4usize,
    ) {
        let order: Vec<ExtId> = setting.ids().collect();
        prop_assume!(setting.extension(order[at]).commutes_with(setting.extension(order[at + 1])));
        let mut swapped = order.clone();
        swapped.swap(at, at + 1);
        let (one, other) = (ModelRun::of(&setting, &order), ModelRun::of(&setting, &swapped));
        prop_assert_eq!(one.dominance(), other.dominance());
        prop_assert_eq!(one.starved(), other.starved());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Corollary 1.
    #[test]
    fn an_observer_below_takes_no_certainty_away(
        setting in setting(SMALL),
        observer in extension(4, Size { volumes: 4, domain: 4, extensions: 5, spontaneous: false }),
        place in 0..=4usize,
    ) {
        let mut with = setting.clone();
        let routes = Extension::worst_routes(Properties::ACCESSOR, observer.input(), observer.input());
        with.extensions.push(
            Extension::new("o", Vec::new(), Properties::ACCESSOR, observer.input(), routes).unwrap(),
        );
        let order: Vec<ExtId> = setting.ids().collect();
        let mut longer = order.clone();
        longer.insert(place, ExtId::of(4));
        for id in &order {
            prop_assert_eq!(effects(&setting, &order, *id), effects(&with, &longer, *id));
        }
    }

    /// Columns 1 and 2 with precise maps: what they claim is true, though they claim too little. Column 3 never errs
    /// for A.
    #[test]
    fn the_grid_claims_nothing_false_outside_its_third_column(
        setting in setting(Size { volumes: 4, domain: 4, extensions: 2, spontaneous: false }),
    ) {
        let mut setting = setting;
        setting.volumes.iter_mut().for_each(|volume| volume.visible = true);
        let pair: Vec<ExtId> = setting.ids().collect();
        let cell = grid::cell(&setting, pair[0], pair[1]);
        for found in grid::disagreements(&setting, &ModelRun::of(&setting, &pair)) {
            let is_of_b = found.grid == Claim::Dominant(pair[1]);
            let is_wrong = matches!(found.grid, Claim::Dominant(_));
            prop_assert!(!is_wrong || (is_of_b && cell.column == grid::Column::Partly), "{:?} {:?}", cell, found);
        }
    }

    #[test]
    fn every_lost_dominance_has_a_witness_that_is_a_path(setting in setting(SMALL)) {
        let order: Vec<ExtId> = setting.ids().collect();
        let run = ModelRun::of(&setting, &order);
        for (id, volume) in setting.ids().flat_map(|id| setting.volume_ids().map(move |v| (id, v))) {
            let handlers = run.handlers(volume);
            let path = run.witness(id, volume);
            prop_assert_eq!(path.is_none(), handlers.dominant() == Some(id) || handlers.is_empty());
            let Some(path) = path else { continue };
            prop_assert!(path.iter().rev().find_map(|hop| hop.by) != Some(id));
            prop_assert!(path.windows(2).all(|hops| hops[0].to == hops[1].from));
            let place = |id: ExtId| order.iter().position(|other| *other == id);
            let places: Vec<_> = path.iter().filter_map(|hop| hop.by).map(place).collect();
            prop_assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "down the stack");
            for hop in &path {
                let Some(by) = hop.by.map(|id| setting.extension(id)) else { continue };
                let reached = match hop.how {
                    crate::exact::How::Forwarded => by.forward(VolSet::one(hop.from)),
                    _ => by.generate(VolSet::one(hop.from)),
                };
                prop_assert!(reached.has(hop.to));
            }
        }
    }
}
