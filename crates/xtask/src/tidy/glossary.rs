//! Words that the glossary replaces stand in no document and in no text that users read: errors, help, names of
//! parameters, statistics and verbs.
//!
//! The list holds only words with no other meaning here. Words such as *rest*, *head* and *settle* are for review.

use super::Report;
use super::ratchet::{Offence, judge};
use super::syntax::{is_test_path, test_spans, texts};
use super::tree::{Source, Tree};
use super::words::words;

const PAGE: &str = "docs/reference/glossary.md";
/// Documents that must name replaced words: what they were replaced by.
const MAY_NAME_THEM: &[&str] = &[PAGE, "docs/renames.md", "CHANGELOG.md"];
/// This list is code too, and the rules' own texts quote bad examples.
const OWN: &str = "crates/xtask/";

/// What is replaced, in words of lower case, and by what.
const REPLACED: &[(&[&[&str]], &str)] = &[
    (&[&["halves"]], "members"),
    (&[&["catch", "up"], &["catches", "up"], &["catching", "up"], &["caught", "up"]], "resync"),
    (&[&["went", "on", "without", "each", "other"]], "split-brain"),
    (&[&["log", "of", "intended", "writes"]], "write-intent bitmap"),
    (&[&["lower", "end"], &["lower", "ends"]], "lower device"),
    (&[&["upper", "end"], &["upper", "ends"]], "upper port"),
    (&[&["errand"], &["errands"]], "isolated call"),
    (&[&["brought", "home"], &["bring", "home"], &["brings", "home"]], "write-back"),
];

pub fn check(tree: &Tree, report: &mut Report) {
    let mut offences = Vec::new();
    for (path, text) in tree.documents().filter(|(path, _)| !MAY_NAME_THEM.contains(path)) {
        text.lines().enumerate().for_each(|(at, line)| judge_text(path, at + 1, line, &mut offences));
    }
    for source in tree.sources.iter().filter(|source| !source.path.starts_with(OWN)) {
        judge_source(source, &mut offences);
    }
    judge("glossary", tree, offences, "use the word of docs/reference/glossary.md", report);
}

fn judge_source(source: &Source, offences: &mut Vec<Offence>) {
    let Ok(ast) = &source.ast else { return };
    if is_test_path(&source.path) {
        return;
    }
    let tests = test_spans(ast);
    for (line, text) in texts(ast) {
        if !tests.iter().any(|(first, last)| (*first..=*last).contains(&line)) {
            judge_text(&source.path, line, &text, offences);
        }
    }
}

fn judge_text(path: &str, line: usize, text: &str, offences: &mut Vec<Offence>) {
    let words = words(text);
    for (phrases, instead) in REPLACED {
        let found = phrases.iter().find(|phrase| words.windows(phrase.len()).any(|window| window == **phrase));
        if let Some(phrase) = found {
            let what = format!("\"{}\" is replaced by \"{instead}\"", phrase.join(" "));
            offences.push(Offence { path: path.to_string(), line, what });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_fires, assert_silent};
    use super::*;

    #[test]
    fn a_replaced_word_is_a_finding_in_documents_errors_and_names() {
        assert_fires(
            check,
            &[("docs/a.md", "# A\n\nBoth Halves agree.\n")],
            "a.md:3 \"halves\" is replaced by \"members\"",
        );
        assert_fires(check, &[("docs/a.md", "Its lower-end fails.\n")], "\"lower device\"");
        assert_fires(check, &[("a.rs", "#[error(\"a half catches up\")]\nstruct E;\n")], "a.rs:1 \"catches up\"");
        assert_fires(check, &[("a.rs", "fn f() {\n    stat(\"halves_in_sync\");\n}\n")], "a.rs:2 ");
        assert_fires(check, &[("a.rs", "fn f() { panic!(\"no {} errand\", 1); }\n")], "isolated call");
    }

    #[test]
    fn the_glossary_other_words_code_and_tests_pass() {
        let page = "| resync | replaces: catch up |\nThe lower of its ends. Half of it.\n";
        assert_silent(check, &[(PAGE, page), ("docs/renames.md", page)]);
        assert_silent(check, &[("docs/a.md", "The lower of two ends. Half of it. It rests.\n")]);
        assert_silent(
            check,
            &[(
                "a.rs",
                "/// Halves.\nfn halves() { f(\"half\"); }\n#[cfg(test)]\nmod tests { const A: &str = \"halves\"; }\n",
            )],
        );
        assert_silent(check, &[("crates/a/tests/b.rs", "const A: &str = \"halves\";\n")]);
    }
}
