//! `able-theory`: the theory of stacking against the tables of the thesis, and how fast orders are found.
//!
//! `pairs_matching`: of the 30 ordered pairs of the six sample extensions, those whose cell, grid and exact last
//! handlers are as the table says. `dominance_classes`: classes into which their 720 orders fall.
//! `priority_lists_matching`: of nine lists of priorities, with and without starving allowed, those whose best score
//! and number of best orders are as listed. `exhaustive_n8_s`: all 40,320 orders of eight random extensions.
//! `branch_n12_s`: the best order of twelve; the slowest of all instances.

use esker_base::Stream;
use esker_compose::constraint::Constraints;
use esker_compose::goals::Priorities;
use esker_compose::published::{self, List};
use esker_compose::search::branch::{LOOKS_MAX, compose};
use esker_compose::search::census::{census, classes};
use esker_compose::{Built, Declaration, Problem, Setting, samples};

use crate::random_setting::{Size, setting};
use esker_lab_kit::{Figure, Lab, LabError, timing};

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let declared = Declaration::parse("six", samples::SIX, &Built::default());
    let six = declared.map_err(|errors| LabError::Data(errors.to_string()))?.setting;
    let pairs = published::pairs().filter(|row| published::pair_words(&six, &row[..5]) == *row).count();
    lab.say(format!("{pairs} pairs are as the table says"));
    let classes = classes(&six, false).map_err(|why| LabError::Data(format!("{why:?}")))?;
    let lists = published::LISTS.into_iter().filter(|list| matches(&six, *list, None)).count()
        + published::LISTS_NONE_STARVED.into_iter().filter(|list| matches(&six, *list, Some(0))).count();
    lab.say(format!("{classes} classes; {lists} lists of priorities are as listed"));
    let rounds = lab.scale(5, 50);
    let mut rng = Stream::named(lab.seed, "able-theory");
    let (mut all, mut branch) = (0.0f64, 0.0f64);
    for _ in 0..rounds {
        all = all.max(timed(&mut rng, 8, |problem| census(problem, LOOKS_MAX).is_ok()));
        branch =
            branch.max(timed(&mut rng, 12, |problem| compose(problem, LOOKS_MAX).is_ok_and(|found| found.is_proven)));
    }
    lab.say(format!("slowest of {rounds}: all orders of 8 in {all:.3} s, the best of 12 in {branch:.3} s"));
    let of = |id, value: usize, paper: usize, unit| Figure::alone(id, value as f64, unit).paper(paper as f64);
    Ok(vec![
        of("pairs_matching", pairs, 30, "of 30 pairs"),
        of("dominance_classes", classes, published::CLASSES.0, "classes of 720 orders"),
        of("priority_lists_matching", lists, 18, "of 18: nine lists, with and without starving"),
        Figure::alone("exhaustive_n8_s", all, "s, slowest instance"),
        Figure::alone("branch_n12_s", branch, "s, slowest instance"),
    ])
}

/// Whether search and census find what the list says.
fn matches(six: &Setting, (goals, ranks, _, count): List, starved_max: Option<usize>) -> bool {
    let priorities = published::priorities(goals);
    let constraints = Constraints { starved_max, ..Constraints::default() };
    let problem = Problem { setting: six, priorities: &priorities, constraints: &constraints };
    let found = compose(&problem, LOOKS_MAX).is_ok_and(|found| found.is_proven && found.score.ranks == ranks);
    found && census(&problem, LOOKS_MAX).is_ok_and(|all| all.best.ranks == ranks && all.optimal == count)
}

/// Seconds that `search` takes on a random instance.
fn timed(rng: &mut Stream, extensions: usize, search: impl Fn(&Problem<'_>) -> bool) -> f64 {
    let setting = setting(rng, Size { volumes: 6, extensions, fan_max: 3 });
    let priorities = Priorities::general(&["g0", "g1", "g2"]);
    let constraints = Constraints::default();
    let problem = Problem { setting: &setting, priorities: &priorities, constraints: &constraints };
    let (took, ended) = timing::timed(|| search(&problem));
    assert!(ended, "a search without constraints ends with a proven order");
    took
}
