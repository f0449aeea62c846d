//! Settings as large as texts may declare: what grows with the power of their size would never end.

use proptest::prelude::*;

use super::{GOALS, Size, setting};
use crate::constraint::Constraints;
use crate::explain::Analysis;
use crate::goals::Priorities;
use crate::grid::{self, Claim, Lower, Side};
use crate::search::branch::{LOOKS_MAX, compose};
use crate::search::census::census;
use crate::search::insertion::insert;
use crate::search::{NoOrder, Problem};
use crate::set::{EXTENSIONS_MAX, ExtId, Member, VOLUMES_MAX, VolId, VolSet};
use crate::setting::{Extension, Properties, Setting, Volume};

/// The recursion of the thesis as it is written: one call for each volume where a request may land.
fn recursive_claim(setting: &Setting, order: &[ExtId], volume: VolId) -> Claim {
    let [top, rest @ ..] = order else { return Claim::Silent };
    let a = setting.extension(*top);
    if rest.is_empty() {
        return if a.input().has(volume) { Claim::Dominant(*top) } else { Claim::Silent };
    }
    let union =
        |part: fn(&Extension) -> VolSet| rest.iter().fold(VolSet::EMPTY, |set, id| set | part(setting.extension(*id)));
    let lower = Lower { input: union(Extension::input), output: union(Extension::output) };
    match grid::side(a, &lower, volume) {
        Side::Above => Claim::Dominant(*top),
        Side::Nobody => Claim::Nobody,
        Side::Mixed => Claim::Mixed,
        Side::Silent => Claim::Silent,
        Side::Below => recursive_below(setting, a, rest, volume),
    }
}

fn recursive_below(setting: &Setting, a: &Extension, rest: &[ExtId], volume: VolId) -> Claim {
    if let [only] = rest {
        return Claim::Dominant(*only);
    }
    let landing = a.route(volume).map_or(VolSet::one(volume), |route| route.forward);
    let found: Vec<Claim> = landing.iter().map(|at| recursive_claim(setting, rest, at)).collect();
    if found.iter().all(|claim| *claim == found[0]) { found[0] } else { Claim::Mixed }
}

fn sized() -> impl Strategy<Value = Setting> {
    (1..=5usize, 1..=5usize, 0..=6usize).prop_flat_map(|(volumes, domain, extensions)| {
        setting(Size { volumes, domain: domain.min(volumes), extensions, spontaneous: true })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn the_table_of_claims_says_what_the_recursion_says(setting in sized()) {
        let order: Vec<ExtId> = setting.ids().collect();
        let wanted: Vec<Claim> = setting.volume_ids().map(|at| recursive_claim(&setting, &order, at)).collect();
        prop_assert_eq!(grid::stack(&setting, &order), wanted);
    }
}

/// Extensions of the worst case, each over all volumes, that serve the goals in turn.
fn all_over_all(extensions: usize, volumes: usize) -> Setting {
    let volume = |at| Volume { name: format!("v{at}"), visible: true, weight: 1 };
    let all: VolSet = (0..volumes).map(VolId::of).collect();
    let extension = |at: usize| {
        let goals = vec![GOALS[at % GOALS.len()].to_string()];
        let routes = Extension::worst_routes(Properties::WORST, all, all);
        Extension::new(&format!("e{at}"), goals, Properties::WORST, all, routes).unwrap()
    };
    Setting { volumes: (0..volumes).map(volume).collect(), extensions: (0..extensions).map(extension).collect() }
}

/// Composes and explains; returns how many stacks were looked at.
fn check_composed(setting: &Setting) -> u64 {
    let (priorities, constraints) = (Priorities::general(&GOALS), Constraints::default());
    let problem = Problem { setting, priorities: &priorities, constraints: &constraints };
    let found = compose(&problem, LOOKS_MAX).unwrap();
    let analysis = Analysis::of(setting, &found.order, &priorities);
    assert_eq!(analysis.score, found.score);
    assert_eq!(analysis.volumes.len(), setting.volumes.len());
    // Whatever stands at the bottom of such a stack handles everything last.
    let bottom = found.order.last().copied();
    assert!(analysis.volumes.iter().all(|view| view.handlers.dominant() == bottom));
    assert!(found.is_proven);
    found.looked_at
}

#[test]
fn twelve_extensions_over_all_of_eight_volumes_are_composed_and_explained() {
    assert!(check_composed(&all_over_all(12, 8)) < 1000);
}

#[test]
fn as_many_extensions_and_volumes_as_may_be_are_composed_and_explained() {
    assert!(check_composed(&all_over_all(EXTENSIONS_MAX, VOLUMES_MAX)) < 10_000);
}

#[test]
fn every_way_of_searching_ends_at_its_bound() {
    let setting = all_over_all(6, 2);
    let (priorities, constraints) = (Priorities::general(&GOALS), Constraints::default());
    let problem = Problem { setting: &setting, priorities: &priorities, constraints: &constraints };
    let all = census(&problem, LOOKS_MAX).unwrap();
    assert_eq!(all.allowed, 720);
    assert_eq!(census(&problem, 1000), Err(NoOrder::Uncounted(1000)));
    let order: Vec<ExtId> = setting.ids().collect();
    let whole = insert(&problem, &order, order[0], LOOKS_MAX).unwrap();
    assert!(whole.is_proven && whole.looked_at == 6);
    let cut = insert(&problem, &order, order[0], 2).unwrap();
    assert!(!cut.is_proven && cut.looked_at == 2);
    assert_eq!(insert(&problem, &order, order[0], 0), Err(NoOrder::GaveUp(0)));
    assert_eq!(compose(&problem, 0), Err(NoOrder::GaveUp(0)));
}
