//! Comments and documents name the actor: the collector, the client. `whoever`, `nobody` and `somebody` hide it.

use super::Report;
use super::comments::comments;
use super::ratchet::{Offence, judge};
use super::tree::Tree;
use super::words::words;

/// Each in two parts, because this file is judged too.
const HIDDEN: &[&str] = &[concat!("who", "ever"), concat!("no", "body"), concat!("some", "body")];
/// People exist in guides, so this is for review.
const PERHAPS: &str = "who";
const FIX: &str = "name the actor with a noun: the collector, the client";

pub fn check(tree: &Tree, report: &mut Report) {
    let mut offences = Vec::new();
    for (path, text) in tree.documents() {
        text.lines().enumerate().for_each(|(at, line)| judge_line(path, at + 1, line, &mut offences, report));
    }
    for source in &tree.sources {
        for comment in comments(&source.text) {
            judge_line(&source.path, comment.line, comment.text, &mut offences, report);
        }
    }
    judge("actors", tree, offences, FIX, report);
}

fn judge_line(path: &str, line: usize, text: &str, offences: &mut Vec<Offence>, report: &mut Report) {
    // Code spans quote a word.
    let words = words(&text.split('`').step_by(2).collect::<Vec<_>>().join(" "));
    if let Some(word) = HIDDEN.iter().find(|word| words.iter().any(|found| found == *word)) {
        offences.push(Offence { path: path.to_string(), line, what: format!("\"{word}\" hides the actor") });
    } else if words.iter().any(|word| word == PERHAPS) {
        report.note(path, line, format!("\"{PERHAPS}\" is for people"), FIX);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_fires, assert_silent};
    use super::*;

    #[test]
    fn a_hidden_actor_is_a_finding_in_documents_and_comments() {
        for word in HIDDEN {
            let text = format!("Then, {word} reads it.\n");
            assert_fires(check, &[("a.md", &text)], "a.md:1 ");
            assert_fires(check, &[("a.rs", &format!("fn f() {{}}\n// {text}"))], "a.rs:2 ");
            assert_silent(check, &[("a.rs", &format!("const A: &str = \"// {word}\";\nfn {word}() {{}}\n"))]);
        }
    }

    #[test]
    fn named_actors_and_people_pass() {
        let text = format!("The client reads it. A person who has root may. No `{}`.\n", HIDDEN[0]);
        assert_silent(check, &[("a.md", &text)]);
        let mut report = Report::default();
        check(&Tree::of(&[("a.md", &text)]), &mut report);
        assert_eq!(report.notes.len(), 1);
    }
}
