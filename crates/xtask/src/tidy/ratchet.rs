//! Old offenders: for each rule a list of keys, most of them files, with a measure that may only shrink.

use std::collections::BTreeMap;

use super::Report;
use super::tree::Tree;

/// The list of all rules: a table for each, with `"key" = measure` in its lines.
pub const PATH: &str = "crates/xtask/ratchet.toml";
const HEADER: &str = "\
# Offenders that were there before their rule: for each rule of `cargo xtask tidy` its files with the number of findings,
# and for `budgets` files and `file::Type::function` with their lines. Numbers may only shrink. `cargo xtask tidy --shrink`
# writes the numbers of now where they are smaller. It raises none. A file that moves takes its lines along, by hand.

";
const SHRINK: &str = "run `cargo xtask tidy --shrink`";

type Lists = BTreeMap<String, BTreeMap<String, usize>>;

/// The old offenders of one rule.
pub struct Ratchet {
    rule: &'static str,
    listed: BTreeMap<String, usize>,
    seen: BTreeMap<String, usize>,
}

/// What the list says of a measure.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Within the limit, or as it was listed.
    Fine,
    /// Over the limit, and not in the list.
    New,
    /// More than the list has, which is this.
    Grown(usize),
    /// Less than the list has. The finding is made.
    Shrunk,
}

/// A measure that has shrunk below the list's: what `--shrink` writes.
#[derive(Debug)]
pub struct Shrunk {
    rule: &'static str,
    key: String,
    /// Nothing if the key leaves the list.
    now: Option<usize>,
}

/// One offence against a rule that counts offences by file.
pub struct Offence {
    pub path: String,
    pub line: usize,
    pub what: String,
}

impl Ratchet {
    /// The list of `rule`. A list that cannot be read is a finding, and then `None`.
    pub fn of(rule: &'static str, tree: &Tree, report: &mut Report) -> Option<Ratchet> {
        let text = tree.texts.get(PATH).map_or("", String::as_str);
        match toml::from_str::<Lists>(text) {
            Ok(mut lists) => {
                Some(Ratchet { rule, listed: lists.remove(rule).unwrap_or_default(), seen: BTreeMap::new() })
            }
            Err(error) => {
                let what = format!("not tables of numbers: {}", error.message());
                report.find(PATH, 1, what, "write `[RULE]`, and below it lines of `\"KEY\" = NUMBER`");
                None
            }
        }
    }

    /// Judges the measure of `key`, which needs no listing up to `limit`.
    pub fn verdict(&mut self, key: &str, now: usize, limit: usize, report: &mut Report) -> Verdict {
        self.seen.insert(key.to_string(), now);
        match self.listed.get(key).copied() {
            None if now > limit => Verdict::New,
            None => Verdict::Fine,
            Some(listed) if now > listed => Verdict::Grown(listed),
            Some(listed) if now < listed || now <= limit => {
                let left = Some(now).filter(|now| *now > limit);
                self.shrink(
                    key.to_string(),
                    left,
                    format!("`{key}` stands at {listed} in [{}], and has {now}", self.rule),
                    report,
                );
                Verdict::Shrunk
            }
            Some(_) => Verdict::Fine,
        }
    }

    /// Finds the listed keys that were not judged.
    pub fn finish(self, report: &mut Report) {
        for key in self.listed.keys().filter(|key| !self.seen.contains_key(*key)) {
            self.shrink(key.clone(), None, format!("`{key}` in [{}] has nothing left to list", self.rule), report);
        }
    }

    fn shrink(&self, key: String, now: Option<usize>, what: String, report: &mut Report) {
        report.find(PATH, 1, what, SHRINK);
        report.shrunk.push(Shrunk { rule: self.rule, key, now });
    }
}

/// Judges all offences against a rule: in files that are not listed each is a finding, in others a number that has
/// grown.
pub fn judge(rule: &'static str, tree: &Tree, offences: Vec<Offence>, fix: &str, report: &mut Report) {
    let Some(mut ratchet) = Ratchet::of(rule, tree, report) else { return };
    let mut by_file: BTreeMap<String, Vec<Offence>> = BTreeMap::new();
    for offence in offences {
        by_file.entry(offence.path.clone()).or_default().push(offence);
    }
    for (path, offences) in by_file {
        match ratchet.verdict(&path, offences.len(), 0, report) {
            Verdict::New => offences.iter().for_each(|offence| report.find(&path, offence.line, &offence.what, fix)),
            Verdict::Grown(listed) => {
                let lines: Vec<String> = offences.iter().map(|offence| offence.line.to_string()).collect();
                let (now, lines) = (offences.len(), lines.join(", "));
                let what = format!("{now} offences against `{rule}`, {listed} when it was listed; in lines {lines}");
                report.find(&path, offences[0].line, what, fix);
            }
            Verdict::Fine | Verdict::Shrunk => {}
        }
    }
    ratchet.finish(report);
}

/// The list's text with smaller numbers.
pub fn shrink(text: &str, shrunk: &[Shrunk]) -> Result<String, String> {
    let mut lists: Lists = toml::from_str(text).map_err(|error| format!("{PATH}: {error}"))?;
    for Shrunk { rule, key, now } in shrunk {
        let list = lists.entry(rule.to_string()).or_default();
        match now {
            Some(now) => drop(list.insert(key.clone(), *now)),
            None => drop(list.remove(key)),
        }
    }
    lists.retain(|_, list| !list.is_empty());
    let body = toml::to_string(&lists).map_err(|error| format!("{PATH}: {error}"))?;
    Ok(format!("{HEADER}{body}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "a.md";

    fn judged(count: usize, list: &str) -> Report {
        let offence = |line| Offence { path: FILE.into(), line, what: format!("bad word {line}") };
        let mut report = Report::default();
        judge("words", &Tree::of(&[(PATH, list)]), (1..=count).map(offence).collect(), "mend it", &mut report);
        report
    }

    fn check(count: usize, list: &str, expected: &[&str]) {
        let report = judged(count, list);
        let found: Vec<&str> = report.findings.iter().map(|finding| finding.what.as_str()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn an_unlisted_file_has_a_finding_for_each_offence() {
        check(2, "", &["bad word 1", "bad word 2"]);
        check(0, "", &[]);
    }

    #[test]
    fn a_listed_number_may_only_shrink() {
        let list = "[words]\n\"a.md\" = 2\n";
        check(2, list, &[]);
        check(3, list, &["3 offences against `words`, 2 when it was listed; in lines 1, 2, 3"]);
        check(1, list, &["`a.md` stands at 2 in [words], and has 1"]);
        check(0, list, &["`a.md` in [words] has nothing left to list"]);
        check(
            0,
            "[words]\n\"a.md\" = \"two\"\n",
            &["not tables of numbers: invalid type: string \"two\", expected usize"],
        );
    }

    #[test]
    fn shrinking_lowers_numbers_and_raises_none() {
        let list = "[other]\n\"b.md\" = 7\n\n[words]\n\"a.md\" = 2\n";
        let shrunk = |count| shrink(list, &judged(count, list).shrunk).unwrap();
        assert_eq!(shrunk(1), format!("{HEADER}[other]\n\"b.md\" = 7\n\n[words]\n\"a.md\" = 1\n"));
        assert_eq!(shrunk(0), format!("{HEADER}[other]\n\"b.md\" = 7\n"));
        assert_eq!(shrunk(3), format!("{HEADER}{list}"));
    }
}
