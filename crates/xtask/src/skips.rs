//! Which tests this machine could not run, and which of those may be skipped.
//!
//! Tests record their skips through `esker-skip`. The list in `skips.toml` holds, for each ability that a machine may
//! lack, the tests that may be skipped for want of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use esker_skip::{Ability, Record};

/// The list, from the root of the tree.
pub const LIST: &str = "crates/xtask/skips.toml";
/// If it is set, a skip that is not listed is a failure.
pub const STRICT_VARIABLE: &str = "ESKER_SKIPS_ARE_LISTED";

/// Tests that may be skipped, each with the ability that the machine lacks then.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Listed(BTreeSet<(String, Ability)>);

impl Listed {
    /// Reads the list: a key per ability, with an array of tests, each written as package, space and path.
    pub fn parse(text: &str) -> Result<Listed, String> {
        let table: toml::Table = text.parse().map_err(|error| format!("{LIST}: {error}"))?;
        let mut listed = BTreeSet::new();
        for (word, tests) in &table {
            let known = || Ability::ALL.iter().map(|ability| ability.word()).collect::<Vec<_>>().join(", ");
            let ability = Ability::named(word)
                .ok_or_else(|| format!("{LIST}: `{word}` is no ability of a machine; use one of: {}", known()))?;
            let tests = tests.as_array().ok_or_else(|| format!("{LIST}: `{word}` takes an array of tests"))?;
            for test in tests {
                let test =
                    test.as_str().ok_or_else(|| format!("{LIST}: `{word}` takes the names of tests, not {test}"))?;
                listed.insert((test.to_string(), ability));
            }
        }
        Ok(Listed(listed))
    }

    /// Names of all listed tests.
    pub fn tests(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(test, _)| test.as_str())
    }

    fn holds(&self, record: &Record) -> bool {
        self.0.contains(&(record.test.clone(), record.lacks))
    }
}

/// Prints how many tests were skipped, for want of what, and each that is not listed. Whether all of them are listed.
pub fn report(records: &Path, root: &Path) -> Result<bool, String> {
    let text = fs::read_to_string(root.join(LIST)).map_err(|error| format!("{LIST}: {error}"))?;
    let listed = Listed::parse(&text)?;
    let records = match fs::read_to_string(records) {
        Ok(text) => parse(&text)?,
        Err(error) if error.kind() == ErrorKind::NotFound => BTreeSet::new(),
        Err(error) => return Err(format!("{}: {error}", records.display())),
    };
    let (lines, are_listed) = judge(&records, &listed);
    lines.iter().for_each(|line| println!("{line}"));
    Ok(are_listed)
}

fn parse(text: &str) -> Result<BTreeSet<Record>, String> {
    let read = |line| Record::parse(line).ok_or_else(|| format!("a record of a skip is damaged: {line:?}"));
    text.lines().map(read).collect()
}

/// A test that is skipped twice for the same ability counts once.
fn judge(records: &BTreeSet<Record>, listed: &Listed) -> (Vec<String>, bool) {
    let mut skipped: BTreeMap<Ability, BTreeSet<&str>> = BTreeMap::new();
    for record in records {
        skipped.entry(record.lacks).or_default().insert(&record.test);
    }
    let tests: BTreeSet<&str> = records.iter().map(|record| record.test.as_str()).collect();
    let mut lines = vec![format!("skips: {} tests were skipped", tests.len())];
    lines.extend(skipped.iter().map(|(ability, tests)| format!("skips: {:>3} for want of {ability}", tests.len())));
    let surplus: Vec<&Record> = records.iter().filter(|record| !listed.holds(record)).collect();
    for Record { test, lacks, why } in &surplus {
        lines.push(format!("skips: NOT LISTED: {test}: lacks {lacks}: {why}; provide it, or list the test in {LIST}"));
    }
    (lines, surplus.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "damon = [\"esker-a m::t\"]\n";

    fn records(skips: &[(&str, Ability)]) -> BTreeSet<Record> {
        let record =
            |(test, lacks): &(&str, Ability)| Record { test: test.to_string(), lacks: *lacks, why: "why".into() };
        skips.iter().map(record).collect()
    }

    #[test]
    fn a_listed_skip_passes_for_its_ability_alone() {
        let listed = Listed::parse(TEXT).unwrap();
        let check = |test, lacks| judge(&records(&[(test, lacks)]), &listed).1;
        assert!(check("esker-a m::t", Ability::Damon));
        assert!(!check("esker-a m::t", Ability::Root), "it is listed for another ability");
        assert!(!check("esker-b m::t", Ability::Damon), "it is a test of another package");
        assert!(judge(&BTreeSet::new(), &listed).1);
    }

    #[test]
    fn skips_are_counted_by_ability_and_those_not_listed_are_named() {
        let skips =
            [("esker-a m::t", Ability::Damon), ("esker-a m::u", Ability::Damon), ("esker-a m::u", Ability::Root)];
        let (lines, _) = judge(&records(&skips), &Listed::parse(TEXT).unwrap());
        assert_eq!(
            lines[..3],
            ["skips: 2 tests were skipped", "skips:   2 for want of damon", "skips:   1 for want of root"]
        );
        assert!(lines[3..].iter().all(|line| line.starts_with("skips: NOT LISTED: esker-a m::u: lacks")), "{lines:?}");
        assert_eq!(lines.len(), 5);
    }

    #[test]
    fn a_list_that_names_no_ability_is_refused() {
        assert!(Listed::parse("luck = []\n").unwrap_err().contains("`luck` is no ability"));
        assert!(Listed::parse("root = \"t\"\n").unwrap_err().contains("array"));
        assert!(Listed::parse("root = [3]\n").unwrap_err().contains("names of tests"));
    }

    #[test]
    fn records_are_read_from_the_file_and_damage_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (file, root) = (folder.path().join("skips"), crate::root());
        assert_eq!(report(&file, &root), Ok(true), "no test was skipped");
        let record = Record { test: "esker-a m::t".into(), lacks: Ability::Root, why: "no".into() };
        record.append(&file).unwrap();
        assert_eq!(report(&file, &root), Ok(false));
        fs::write(&file, "half a re").unwrap();
        assert!(report(&file, &root).unwrap_err().contains("damaged"));
    }
}
