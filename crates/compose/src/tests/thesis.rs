//! Every table and worked example of the thesis and of its exact reading.

use super::{order, read, six};
use crate::constraint::Constraints;
use crate::effect::{Effect, effects};
use crate::exact::ModelRun;
use crate::goals::Priorities;
use crate::grid::{self, Cell, Claim};
use crate::search::branch::{LOOKS_MAX, compose};
use crate::search::census::{census, classes};
use crate::search::insertion::{insert, places};
use crate::search::{NoOrder, Problem};
use crate::set::{ExtId, VolSet};
use crate::setting::Setting;
use crate::{published, samples};

#[test]
fn all_30_pairs_are_as_the_table_says() {
    let setting = six();
    let rows: Vec<String> = published::pairs().collect();
    assert_eq!(rows.len(), 30);
    for wanted in rows {
        assert_eq!(published::pair_words(&setting, &wanted[..5]), wanted);
    }
}

#[test]
fn no_dominance_that_the_grid_claims_for_a_pair_is_wrong_and_five_are_missed() {
    let setting = six();
    let mut missed = Vec::new();
    for (a, b) in setting.ids().flat_map(|a| setting.ids().map(move |b| (a, b))).filter(|(a, b)| a != b) {
        for found in grid::disagreements(&setting, &ModelRun::of(&setting, &[a, b])) {
            assert_eq!(found.grid, Claim::Nobody);
            missed.push(format!("{} {}", setting.names(&[a, b]).join(" "), setting.volume(found.volume).name));
        }
    }
    assert_eq!(missed, ["BV MF D", "BV LC F", "IO BV D", "IS MF D", "IS LC F"]);
}

/// Figure 5.5: one pair for each cell.
#[test]
fn each_of_the_nine_cells_has_its_pair() {
    let setting = six();
    let figure = ["MF LC", "IO DD", "BV DD", "IO LC", "IS BV", "BV IS", "IO IS", "MF IS", "LC BV"];
    for (at, names) in figure.into_iter().enumerate() {
        let pair = order(&setting, names);
        let cell = grid::cell(&setting, pair[0], pair[1]).numbers();
        assert_eq!(cell, (1 + at as u8 / 3, 1 + at as u8 % 3), "{names}");
    }
}

#[test]
fn domains_that_are_not_empty_lie_in_exactly_one_cell() {
    let sets: Vec<VolSet> =
        (1..16u32).map(|bits| (0..4).filter(|at| bits >> at & 1 == 1).map(crate::set::Member::of).collect()).collect();
    let mut seen = std::collections::BTreeMap::new();
    for (input, output) in sets.iter().flat_map(|input| sets.iter().map(move |output| (*input, *output))) {
        for below in &sets {
            let rows = [!input.meets(*below), below.within(input), input.meets(*below) && !below.within(input)];
            let columns =
                [!output.meets(*below), output.within(*below), output.meets(*below) && !output.within(*below)];
            assert_eq!((rows.iter().filter(|r| **r).count(), columns.iter().filter(|c| **c).count()), (1, 1));
            let (row, column) = Cell::of(input, output, *below).numbers();
            assert!(rows[usize::from(row) - 1] && columns[usize::from(column) - 1]);
            *seen.entry((row, column)).or_insert(0) += 1;
        }
    }
    assert_eq!(seen.len(), 9);
}

/// The exhaustive comparison of the specification: with worst-case maps columns 1 and 2 never err, in 25 875 of 50 625
/// combinations of domains.
#[test]
fn the_first_two_columns_hold_for_all_domains_over_four_volumes() {
    let sets: Vec<VolSet> =
        (1..16u32).map(|bits| (0..4).filter(|at| bits >> at & 1 == 1).map(crate::set::Member::of).collect()).collect();
    let text = "[volume.a]\n[volume.b]\n[volume.c]\n[volume.d]\n";
    let mut setting = read(text).setting;
    let (mut pairs, mut judged) = (0, 0);
    let worst = |name: &str, input, output| {
        let properties = crate::setting::Properties::WORST;
        let routes = crate::setting::Extension::worst_routes(properties, input, output);
        crate::setting::Extension::new(name, Vec::new(), properties, output, routes).unwrap()
    };
    let domains: Vec<(VolSet, VolSet)> = sets.iter().flat_map(|i| sets.iter().map(move |o| (*i, *o))).collect();
    for (input, output) in &domains {
        for (input_b, output_b) in &domains {
            pairs += 1;
            if Cell::of(*input, *output, *input_b).column == grid::Column::Partly {
                continue;
            }
            judged += 1;
            setting.extensions = vec![worst("A", *input, *output), worst("B", *input_b, *output_b)];
            let order: Vec<ExtId> = setting.ids().collect();
            let run = ModelRun::of(&setting, &order);
            let found = grid::disagreements(&setting, &run);
            assert!(found.iter().all(|found| found.grid == Claim::Nobody), "{:?}", setting.extensions);
            // The other way of "if and only if": where the side condition fails, A is not dominant on all of its input.
            if grid::pair(&setting, order[0], order[1]).contains(&Claim::Nobody) {
                let dominant = |volume| run.handlers(volume).dominant() == Some(order[0]);
                assert!(!input.iter().all(dominant), "{:?}", setting.extensions);
            }
        }
    }
    assert_eq!((pairs, judged), (50_625, 25_875));
}

fn dominance(setting: &Setting, names: &str) -> Vec<String> {
    let run = ModelRun::of(setting, &order(setting, names));
    setting.volumes.iter().map(|volume| published::exact_word(setting, &run, &volume.name)).collect()
}

#[test]
fn offloading_above_deduplication_gives_both_volumes_to_deduplication() {
    let setting = read(samples::OFFLOAD_DEDUP).setting;
    assert_eq!(dominance(&setting, "IO DD"), ["DD", "none", "DD"]);
    assert_eq!(dominance(&setting, "DD IO"), ["IO", "none", "split"]);
    assert_eq!(dominance(&six(), "BV IO DD"), ["DD", "BV", "DD", "-"]);
    assert_eq!(dominance(&six(), "BV DD IO"), ["IO", "BV", "split", "-"]);
}

/// The best order of exactly the named extensions.
fn best_of(names: &[&str], goals: &[&str]) -> String {
    let mut setting = read(samples::OFFLOAD_DEDUP).setting;
    setting.extensions.retain(|extension| names.contains(&extension.name()));
    let (priorities, constraints) = (Priorities::general(goals), Constraints::default());
    let problem = Problem { setting: &setting, priorities: &priorities, constraints: &constraints };
    let found = compose(&problem, LOOKS_MAX).unwrap();
    assert!(found.is_proven);
    format!("{} {:?}", setting.names(&found.order).join(" "), found.score.ranks)
}

#[test]
fn space_wants_offloading_on_top_and_energy_below() {
    assert_eq!(best_of(&["DD", "IO"], &["space", "energy"]), "IO DD [2, 0]");
    assert_eq!(best_of(&["DD", "IO"], &["energy", "space"]), "DD IO [1, 0]");
}

#[test]
fn insertion_can_be_worse_than_composition() {
    let declared = read(samples::OFFLOAD_DEDUP);
    let problem = declared.problem();
    let setting = &declared.setting;
    let version = setting.find("BV").unwrap();
    let all = places(&problem, &declared.order, version);
    let orders: Vec<String> = all.iter().map(|place| setting.names(&place.order).join(" ")).collect();
    assert_eq!(orders, ["BV DD IO", "DD BV IO", "DD IO BV"], "n + 1 places, the others keep their order");
    for place in &all {
        assert_eq!(place.score.as_ref().unwrap().ranks, [0, 1]);
    }
    assert_eq!(insert(&problem, &declared.order, version, LOOKS_MAX).unwrap().score.ranks, [0, 1]);
    assert_eq!(compose(&problem, LOOKS_MAX).unwrap().score.ranks, [2, 0]);
    let rank = |names: &str| problem.judge(&order(setting, names)).unwrap().ranks;
    assert_eq!([rank("IO BV DD"), rank("BV IO DD"), rank("IO DD BV")], [[2, 0], [2, 0], [1, 0]]);
}

const SHEPHERD: &str = r#"
[volume.D]
[volume.F]
visible = false
[extension.IS]
goal = "reliability"
input = "D"
output = "D"
[extension.EX]
goal = "energy"
input = "D"
output = ["D", "F"]
"#;

/// Figure 5.2.
#[test]
fn caching_below_shepherding_takes_all_and_above_it_splits() {
    let setting = read(SHEPHERD).setting;
    let cell = |names: &str| {
        let pair = order(&setting, names);
        grid::cell(&setting, pair[0], pair[1]).numbers()
    };
    assert_eq!((cell("IS EX"), cell("EX IS")), ((2, 2), (2, 3)));
    assert_eq!(dominance(&setting, "IS EX"), ["EX", "EX"]);
    assert_eq!(dominance(&setting, "EX IS"), ["split", "EX"]);
    let run = ModelRun::of(&setting, &order(&setting, "EX IS"));
    let handlers = run.handlers(setting.find_volume("D").unwrap());
    assert_eq!((handlers.extensions.len(), handlers.unhandled), (2, false));
}

/// Theorem 2, and what it forgets: an extension between may feed the lower one.
#[test]
fn offloading_starves_a_cache_below_unless_somebody_between_writes_to_the_disk() {
    let text = format!("{}[extension.X]\ninput = \"F\"\noutput = [\"D\", \"F\"]\n", samples::SIX);
    let setting = read(&text).setting;
    let cache = setting.find("LC").unwrap();
    let starved = |names: &str| ModelRun::of(&setting, &order(&setting, names)).starved().has(cache);
    assert!(starved("IO LC"));
    assert!(!starved("IO X LC"));
    let of = |names: &str| effects(&setting, &order(&setting, names), cache)[0].1;
    assert_eq!((of("IO LC"), of("LC IO")), (Effect::Starved, Effect::Undecided));
}

/// The smallest case in which the third column errs.
const COUNTEREXAMPLE: &str = r#"
[volume.v0]
[volume.v1]
[volume.v2]
[extension.A]
input = ["v0", "v1"]
output = ["v0", "v2"]
properties = "mutator"
forward = { v0 = "v2", v1 = "v0" }
[extension.B]
input = "v2"
output = "v2"
"#;

#[test]
fn the_third_column_errs_and_the_disagreement_is_found() {
    let setting = read(COUNTEREXAMPLE).setting;
    let pair = order(&setting, "A B");
    assert_eq!(grid::cell(&setting, pair[0], pair[1]).numbers(), (1, 3));
    let claims = grid::pair(&setting, pair[0], pair[1]);
    assert_eq!(claims[0], Claim::Dominant(pair[1]));
    let run = ModelRun::of(&setting, &pair);
    assert_eq!(run.handlers(setting.find_volume("v0").unwrap()).extensions.len(), 2);
    let found = grid::disagreements(&setting, &run);
    assert_eq!((found.len(), found[0].grid), (1, Claim::Dominant(pair[1])));
}

#[test]
fn a_generator_that_acts_by_itself_breaks_the_first_cell_of_row_two() {
    let text = |spontaneous: bool| {
        format!(
            "[volume.D]\n[volume.E]\n[extension.A]\ninput = \"D\"\noutput = \"E\"\n\
             [extension.B]\ninput = \"D\"\noutput = \"D\"\nspontaneous = {spontaneous}\n"
        )
    };
    for (spontaneous, wanted) in [(false, "A"), (true, "split")] {
        let setting = read(&text(spontaneous)).setting;
        let pair = order(&setting, "A B");
        assert_eq!(grid::cell(&setting, pair[0], pair[1]).numbers(), (2, 1));
        assert_eq!(dominance(&setting, "A B")[0], wanted);
    }
}

#[test]
fn the_720_orders_fall_into_57_classes_or_20_and_starve_only_the_cache() {
    let setting = six();
    assert_eq!(classes(&setting, false), Ok(57));
    assert_eq!(classes(&setting, true), Ok(20));
    let (priorities, constraints) = (Priorities::default(), Constraints::default());
    let all =
        census(&Problem { setting: &setting, priorities: &priorities, constraints: &constraints }, LOOKS_MAX).unwrap();
    assert_eq!(all.allowed, 720);
    let starved: Vec<u64> = ["BV", "DD", "IO", "MF", "IS", "LC"]
        .map(|name| all.starved_in[crate::set::Member::index(setting.find(name).unwrap())])
        .to_vec();
    assert_eq!(starved, [0, 0, 0, 0, 0, 240]);
}

fn check_list((goals, ranks, optimal, count): published::List, starved_max: Option<usize>) {
    let setting = six();
    let priorities = published::priorities(goals);
    let constraints = Constraints { starved_max, ..Constraints::default() };
    let problem = Problem { setting: &setting, priorities: &priorities, constraints: &constraints };
    let found = compose(&problem, LOOKS_MAX).unwrap();
    assert_eq!((&found.score.ranks[..], found.is_proven), (&ranks[..], true), "{goals:?}");
    assert_eq!(problem.judge(&found.order), Some(found.score.clone()), "{goals:?}");
    assert_eq!(problem.judge(&order(&setting, optimal)).unwrap().ranks, ranks, "{goals:?}");
    let all = census(&problem, LOOKS_MAX).unwrap();
    assert_eq!((&all.best.ranks[..], all.optimal), (&ranks[..], count), "{goals:?}");
    assert_eq!(all.best.ranks, found.score.ranks, "{goals:?}");
}

#[test]
fn nine_priority_lists_have_the_listed_best_scores() {
    published::LISTS.into_iter().for_each(|list| check_list(list, None));
}

#[test]
fn nine_priority_lists_have_the_listed_best_scores_if_nobody_may_starve() {
    published::LISTS_NONE_STARVED.into_iter().for_each(|list| check_list(list, Some(0)));
}

#[test]
fn properties_give_the_sets_of_the_thesis() {
    let setting = six();
    let sets = |name: &str| {
        let extension = setting.extension(setting.find(name).unwrap());
        [extension.accessed(), extension.mutated(), extension.generated()].map(|set| setting.volume_names(set))
    };
    assert_eq!(sets("BV"), ["D, F", "", "D_r"].map(str::to_string));
    assert_eq!(sets("IO"), ["", "D_r", "D_r"].map(str::to_string));
    assert_eq!(sets("LC"), ["", "D, M", ""].map(str::to_string));
}

#[test]
fn contradicting_constraints_and_impossible_demands_are_told_apart() {
    let setting = six();
    let priorities = Priorities::general(&["space"]);
    let id = |name: &str| setting.find(name).unwrap();
    let answer = |constraints: &Constraints| {
        compose(&Problem { setting: &setting, priorities: &priorities, constraints }, LOOKS_MAX)
    };
    let cycle = Constraints { above: vec![(id("BV"), id("DD")), (id("DD"), id("BV"))], ..Constraints::default() };
    assert!(matches!(answer(&cycle), Err(NoOrder::Contradiction(_))));
    let starving = Constraints { above: vec![(id("IO"), id("LC"))], starved_max: Some(0), ..Constraints::default() };
    // IS, between the two, would feed LC only if it saw requests to F: it does.
    assert!(answer(&starving).is_ok());
    let pinned = [("BV", 0), ("IO", 1), ("LC", 2)].map(|(name, at)| (id(name), at)).into_iter().collect();
    let pinned = Constraints { pinned, starved_max: Some(0), ..Constraints::default() };
    assert_eq!(answer(&pinned), Err(NoOrder::Forbidden));
    let problem = Problem { setting: &setting, priorities: &priorities, constraints: &Constraints::default() };
    assert!(matches!(compose(&problem, 3), Err(NoOrder::GaveUp(3))));
    assert!(!compose(&problem, 7).unwrap().is_proven);
}
