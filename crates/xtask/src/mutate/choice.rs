//! Which mutants are judged: all, those of some names, or a share of them by rotation.

use std::time::Duration;

use super::patch::Mutant;

/// How many keys in a row judge every mutant once.
pub const SHARES: u64 = 3;
const USAGE: &str = "usage: cargo xtask mutate [NAME... | --rotation KEY [--budget MINUTES]]";
/// Of a rotation, where none is given.
const BUDGET: Duration = Duration::from_secs(12 * 60);

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Choice {
    All,
    Named(Vec<String>),
    Rotation {
        key: u64,
        /// No mutant begins after it.
        budget: Duration,
    },
}

impl Choice {
    pub fn parse(args: &[String]) -> Result<Choice, String> {
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text:?} is no number; {USAGE}"));
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        Ok(match words[..] {
            [] => Choice::All,
            ["--rotation", key] => Choice::Rotation { key: number(key)?, budget: BUDGET },
            ["--rotation", key, "--budget", minutes] => {
                Choice::Rotation { key: number(key)?, budget: Duration::from_secs(number(minutes)? * 60) }
            }
            _ if words.iter().any(|word| word.starts_with('-')) => return Err(USAGE.into()),
            _ => Choice::Named(args.to_vec()),
        })
    }

    pub fn budget(&self) -> Option<Duration> {
        match self {
            Choice::Rotation { budget, .. } => Some(*budget),
            _ => None,
        }
    }

    /// Those that are judged, in their order: mutants of one test program follow each other, so that each is one small
    /// build. Fails if a name is no mutant's.
    pub fn of(&self, mut mutants: Vec<Mutant>) -> Result<Vec<Mutant>, String> {
        mutants.sort_by(|a, b| (&a.test, &a.name).cmp(&(&b.test, &b.name)));
        match self {
            Choice::All => {}
            Choice::Named(names) => {
                let absent = names.iter().find(|name| !mutants.iter().any(|mutant| mutant.name == **name));
                if let Some(name) = absent {
                    return Err(format!("there is no mutant {name}"));
                }
                mutants.retain(|mutant| names.contains(&mutant.name));
            }
            Choice::Rotation { key, .. } => {
                let (all, share) = (mutants.len() as u64, key % SHARES);
                mutants =
                    mutants.drain((all * share / SHARES) as usize..(all * (share + 1) / SHARES) as usize).collect();
                // Other mutants come first the next time, so that a budget does not leave out the same ones for ever.
                let first = (key / SHARES * STEP) % (mutants.len() as u64).max(1);
                mutants.rotate_left(first as usize);
            }
        }
        Ok(mutants)
    }
}

/// How far the first mutant of a share moves from turn to turn.
const STEP: u64 = 17;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use super::*;

    fn mutants(count: usize) -> Vec<Mutant> {
        let mutant = |nr: usize| Mutant {
            name: format!("m{nr:02}"),
            path: PathBuf::new(),
            test: vec!["-p".into(), format!("esker-{}", nr % 4)],
            guard: String::new(),
        };
        (0..count).map(mutant).collect()
    }

    fn names(key: u64, count: usize) -> Vec<String> {
        let choice = Choice::Rotation { key, budget: BUDGET };
        choice.of(mutants(count)).unwrap().into_iter().map(|mutant| mutant.name).collect()
    }

    #[test]
    fn three_keys_in_a_row_judge_every_mutant_once() {
        for count in [1, 2, 3, 10, 50] {
            for key in [0, 7, 20_782] {
                let judged: Vec<String> = (key..key + SHARES).flat_map(|key| names(key, count)).collect();
                let distinct: BTreeSet<&String> = judged.iter().collect();
                assert_eq!((judged.len(), distinct.len()), (count, count), "from key {key}");
            }
        }
    }

    #[test]
    fn a_share_begins_elsewhere_the_next_time() {
        let firsts: BTreeSet<String> = (0..10).map(|turn| names(1 + turn * SHARES, 30)[0].clone()).collect();
        assert_eq!(firsts.len(), 10);
    }

    #[test]
    fn mutants_of_one_test_program_follow_each_other() {
        let choice = Choice::Rotation { key: 0, budget: BUDGET };
        let tests: Vec<Vec<String>> = choice.of(mutants(24)).unwrap().into_iter().map(|mutant| mutant.test).collect();
        assert_eq!(tests.chunk_by(|a, b| a == b).count(), 2, "{tests:?}");
    }

    #[test]
    fn named_mutants_are_judged_and_an_unknown_name_is_refused() {
        let of = |names: &[&str]| Choice::Named(names.iter().map(|name| name.to_string()).collect()).of(mutants(9));
        let judged: Vec<String> = of(&["m07", "m02"]).unwrap().into_iter().map(|mutant| mutant.name).collect();
        assert_eq!(judged, ["m02", "m07"]);
        assert_eq!(of(&["m02", "m99"]).unwrap_err(), "there is no mutant m99");
    }

    #[test]
    fn the_command_line_is_understood_or_refused() {
        let parse = |words: &str| Choice::parse(&words.split_whitespace().map(str::to_string).collect::<Vec<_>>());
        let budget = Duration::from_secs(300);
        assert_eq!(parse(""), Ok(Choice::All));
        assert_eq!(parse("a-guard b"), Ok(Choice::Named(vec!["a-guard".into(), "b".into()])));
        assert_eq!(parse("--rotation 7"), Ok(Choice::Rotation { key: 7, budget: BUDGET }));
        assert_eq!(parse("--rotation 7 --budget 5"), Ok(Choice::Rotation { key: 7, budget }));
        assert!(parse("--rotation").is_err() && parse("--rotation seven").is_err() && parse("a --b").is_err());
    }
}
