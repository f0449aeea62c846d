//! `cargo xtask mutate`: removes one guard at a time from a copy of the tree and demands that the named test notices.
//!
//! A mutant is a patch in `crates/it/mutants`. Above its first `---` line stand two header lines: `test:` with the
//! arguments of `cargo test` that run the test, and `guard:` with what the patch takes away. A mutant is *killed* only
//! by a failing test: one that does not compile, hangs or crashes the test program proves nothing.
//!
//! Reading order: [`patch`] (header of a mutant), [`choice`] (which mutants are judged), [`scratch`] (the copy and
//! cargo in it), then this file.

mod choice;
mod patch;
mod scratch;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Instant;

use choice::{Choice, SHARES};
use patch::Mutant;
use scratch::{Scratch, TestRun};

/// Where mutants lie, from the root of the tree.
const MUTANTS: &str = "crates/it/mutants";

/// What became of a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Killed,
    Survived,
    NotApplied,
    NotCompiled,
    TimedOut,
    /// The test program ended without saying which test failed.
    Crashed,
    /// The time was over before its turn came.
    LeftOut,
    /// Its test does not pass without the mutant, or matches no test.
    BadTest(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Killed => write!(f, "killed"),
            Verdict::Survived => write!(f, "SURVIVED: the test passes without the guard; sharpen the test"),
            Verdict::NotApplied => write!(f, "NOT APPLIED: the code has moved on; renew the patch"),
            Verdict::NotCompiled => write!(f, "NOT COMPILED: a compiler error is no test; repair the patch"),
            Verdict::TimedOut => write!(f, "TIMED OUT: bound the test's waits so that it fails instead"),
            Verdict::Crashed => write!(f, "CRASHED: the test program died without a failing test"),
            Verdict::LeftOut => write!(f, "left out: the budget of time is spent"),
            Verdict::BadTest(why) => write!(f, "BAD TEST: {why}"),
        }
    }
}

/// `cargo xtask mutate [NAME... | --rotation KEY [--budget MINUTES]]`.
pub fn main(args: &[String]) -> Result<bool, String> {
    let root = crate::root();
    let choice = Choice::parse(args)?;
    let mutants = choice.of(patch::read_all(&root.join(MUTANTS))?)?;
    if mutants.is_empty() {
        return Err(format!("there is no mutant in {MUTANTS}"));
    }
    if let Choice::Rotation { key, budget } = choice {
        let (share, minutes) = (key % SHARES + 1, budget.as_secs() / 60);
        println!(
            "mutate: share {share} of {SHARES} by key {key}: {} mutants, at most {minutes} minutes",
            mutants.len()
        );
    }
    let verdicts = judge_all(&root, &mutants, &choice)?;
    println!("{:<36} {:<44} verdict", "mutant", "guard");
    for (mutant, verdict) in mutants.iter().zip(&verdicts) {
        println!("{:<36} {:<44} {verdict}", mutant.name, mutant.guard);
    }
    let count = |wanted: &Verdict| verdicts.iter().filter(|verdict| *verdict == wanted).count();
    let (killed, left_out) = (count(&Verdict::Killed), count(&Verdict::LeftOut));
    println!("mutate: {killed} of {} killed, {left_out} left out; logs in {}", verdicts.len(), scratch::FOLDER);
    Ok(killed > 0 && killed + left_out == verdicts.len())
}

/// Judges the mutants in their order. Those that the budget has no time for are left out.
fn judge_all(root: &Path, mutants: &[Mutant], choice: &Choice) -> Result<Vec<Verdict>, String> {
    let (scratch, begun) = (Scratch::new(root)?, Instant::now());
    let mut baseline: BTreeMap<&[String], Option<Verdict>> = BTreeMap::new();
    let mut verdicts = Vec::new();
    for mutant in mutants {
        if choice.budget().is_some_and(|budget| begun.elapsed() >= budget) {
            verdicts.push(Verdict::LeftOut);
            continue;
        }
        // A rotation follows a run of all tests, which is its baseline.
        if choice.budget().is_none() && !baseline.contains_key(mutant.test.as_slice()) {
            println!("baseline: cargo test {}", mutant.test.join(" "));
            baseline.insert(&mutant.test, judge_baseline(&scratch, mutant)?);
        }
        let verdict = match baseline.get(mutant.test.as_slice()).cloned().flatten() {
            Some(bad) => bad,
            None => judge(&scratch, mutant)?,
        };
        println!("mutant: {:>5} s: {}: {verdict}", begun.elapsed().as_secs(), mutant.name);
        verdicts.push(verdict);
    }
    Ok(verdicts)
}

/// `None` if the unmutated tree passes the mutant's test.
fn judge_baseline(scratch: &Scratch, mutant: &Mutant) -> Result<Option<Verdict>, String> {
    scratch.restore()?;
    let bad = |why: &str| Some(Verdict::BadTest(why.into()));
    if !scratch.compiles(mutant)? {
        return Ok(bad("the tree does not compile without the mutant"));
    }
    Ok(match scratch.test(mutant)? {
        TestRun { passed: 0, failed: 0, .. } => bad("its arguments match no test"),
        TestRun { success: true, .. } => None,
        _ => bad("it fails without the mutant"),
    })
}

fn judge(scratch: &Scratch, mutant: &Mutant) -> Result<Verdict, String> {
    scratch.restore()?;
    if !scratch.apply(mutant)? {
        return Ok(Verdict::NotApplied);
    }
    if !scratch.compiles(mutant)? {
        return Ok(Verdict::NotCompiled);
    }
    Ok(match scratch.test(mutant)? {
        TestRun { success: true, passed: 0, .. } => Verdict::BadTest("its arguments match no test".into()),
        TestRun { success: true, .. } => Verdict::Survived,
        TestRun { timed_out: true, .. } => Verdict::TimedOut,
        TestRun { failed: 0, .. } => Verdict::Crashed,
        _ => Verdict::Killed,
    })
}

#[cfg(test)]
mod tests;
