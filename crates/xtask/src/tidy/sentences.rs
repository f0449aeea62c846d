//! Sentences of documents and documentation comments have at most 35 words; over 25 is a note.

use super::Report;
use super::comments::comments;
use super::prose::{Sentence, sentences, sentences_of_comments};
use super::ratchet::{Offence, judge};
use super::tree::Tree;

const SOFT: usize = 25;
const HARD: usize = 35;
const FIX: &str = "make two of it, one idea each; the condition comes first";

pub fn check(tree: &Tree, report: &mut Report) {
    let mut offences = Vec::new();
    for (path, text) in tree.documents() {
        measure(path, sentences(text), &mut offences, report);
    }
    for source in &tree.sources {
        measure(&source.path, sentences_of_comments(&comments(&source.text)), &mut offences, report);
    }
    judge("sentences", tree, offences, FIX, report);
}

fn measure(path: &str, sentences: Vec<Sentence>, offences: &mut Vec<Offence>, report: &mut Report) {
    for Sentence { line, words } in sentences {
        if words > HARD {
            let what = format!("a sentence of {words} words, over {HARD}");
            offences.push(Offence { path: path.to_string(), line, what });
        } else if words > SOFT {
            report.note(path, line, format!("a sentence of {words} words, over {SOFT}"), FIX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ratchet::PATH;
    use super::super::tests::{assert_fires, assert_silent};
    use super::*;

    fn of(words: usize) -> String {
        format!("Begin {}end.\n", "word ".repeat(words - 2))
    }

    #[test]
    fn a_long_sentence_is_a_finding_in_documents_and_comments() {
        assert_fires(check, &[("docs/a.md", &format!("# A\n\n{}", of(36)))], "docs/a.md:3 a sentence of 36 words");
        assert_fires(check, &[("crates/a/src/b.rs", &format!("//! {}", of(36)))], "b.rs:1 a sentence of 36 words");
        assert_silent(check, &[("docs/a.md", &of(35).repeat(3)), ("b.rs", &format!("/// {}// {}", of(35), of(99)))]);
    }

    #[test]
    fn over_the_soft_limit_is_a_note() {
        let mut report = Report::default();
        check(&Tree::of(&[("a.md", &format!("{}{}", of(26), of(25)))]), &mut report);
        assert_eq!((report.findings.len(), report.notes.len()), (0, 1));
    }

    #[test]
    fn old_offenders_are_listed() {
        assert_silent(check, &[("a.md", &of(36)), (PATH, "[sentences]\n\"a.md\" = 1\n")]);
    }
}
