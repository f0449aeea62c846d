//! No promises in place of content: empty documentation, leftover marks and empty sections are findings.

use super::Report;
use super::markdown::{Piece, pieces};
use super::tree::{Source, Tree};

/// Written in two halves so that this file may hold them.
const MARKS: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("TB", "D"), concat!("unimple", "mented")];

pub fn check(tree: &Tree, report: &mut Report) {
    for source in &tree.sources {
        check_source(source, report);
    }
    for (path, text) in tree.documents() {
        check_marks(path, text, report);
        check_sections(path, text, report);
    }
}

fn check_source(source: &Source, report: &mut Report) {
    if let Err(error) = &source.ast {
        report.find(&source.path, error.span().start().line, format!("does not parse: {error}"), "make it compile");
    }
    check_marks(&source.path, &source.text, report);
    check_doc_comments(source, report);
    // A `tests.rs` is described by the module it tests.
    if !source.path.ends_with("/tests.rs") && !source.text.starts_with("//!") {
        report.find(&source.path, 1, "the file does not start with `//!`", "say in one sentence what lives here");
    }
}

fn check_marks(path: &str, text: &str, report: &mut Report) {
    for (at, line) in text.lines().enumerate() {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        if let Some(mark) = words.find(|word| MARKS.contains(word)) {
            report.find(path, at + 1, format!("leftover mark `{mark}`"), "do it now, or say what is the case today");
        }
    }
}

/// A run of `///` or `//!` lines of which none says anything.
fn check_doc_comments(source: &Source, report: &mut Report) {
    let mut run: Option<(usize, bool)> = None;
    for (at, line) in source.text.lines().chain(std::iter::once("")).enumerate() {
        let line = line.trim_start();
        let said = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(|rest| !rest.trim().is_empty());
        run = match (run, said) {
            (None, Some(said)) => Some((at + 1, said)),
            (Some((first, before)), Some(said)) => Some((first, before || said)),
            (Some((first, false)), None) => {
                report.find(&source.path, first, "empty documentation comment", "say what the item is for");
                None
            }
            (_, None) => None,
        };
    }
}

/// A heading with nothing below it, neither content nor a deeper heading.
fn check_sections(path: &str, text: &str, report: &mut Report) {
    let mut open: Option<(usize, u8)> = None;
    let mut empty = Vec::new();
    for (line, piece) in pieces(text) {
        match (open, piece) {
            (Some((heading, above)), Piece::Heading(level)) => {
                if level <= above {
                    empty.push(heading);
                }
                open = Some((line, level));
            }
            (None, Piece::Heading(level)) => open = Some((line, level)),
            // Code inside the heading itself lies on its line.
            (Some((heading, _)), _) if heading == line => {}
            (_, _) => open = None,
        }
    }
    empty.extend(open.map(|(heading, _)| heading));
    for line in empty {
        report.find(path, line, "section without content", "write it or remove its heading");
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_fires, assert_silent};
    use super::*;

    #[test]
    fn finished_text_is_fine() {
        assert_silent(
            check,
            &[("a.rs", "//! A.\n//!\n//! B.\n\n/// C.\n///\n/// D.\nstruct E;\n"), ("b/tests.rs", "")],
        );
        assert_silent(check, &[("a.md", "# A\n\n## B `c`\n\nText.\n\n## D\n\n| a |\n|---|\n| b |\n")]);
    }

    #[test]
    fn marks_are_findings_as_whole_words() {
        for mark in MARKS {
            assert_fires(check, &[("a.rs", &format!("//! A.\n// {mark}: later\n"))], mark);
            assert_fires(check, &[("a.md", &format!("See {mark}."))], mark);
        }
        assert_silent(check, &[("a.md", "A todo list in lower case is prose.")]);
    }

    #[test]
    fn empty_documentation_is_a_finding() {
        assert_fires(check, &[("a.rs", "//! A.\n\n///\nstruct B;\n")], "a.rs:3 empty");
        assert_fires(check, &[("a.rs", "//!\n")], "empty");
        assert_fires(check, &[("a.rs", "struct B;\n")], "does not start with");
        assert_fires(check, &[("a.rs", "//! A.\nfn {")], "does not parse");
    }

    #[test]
    fn empty_sections_are_findings() {
        assert_fires(check, &[("a.md", "# A\n\n## B\n\n## C\n\ntext\n")], "a.md:3 section");
        assert_fires(check, &[("a.md", "# A\n\ntext\n\n## B `c`\n")], "a.md:5 section");
    }
}
