//! Findings as a table.

use super::finding::{Finding, State};

/// Columns of the state, and of the name of a check.
const STATE: usize = 9;
const CHECK: usize = 20;
/// Columns of a line.
const WIDTH: usize = 100;

/// A row for each finding, and a line that counts them.
pub fn page(findings: &[Finding]) -> String {
    let head = row("state", "check", &["found".to_string()]);
    let rows = findings.iter().map(|finding| row(shown(finding.state), finding.check, &lines(finding)));
    let count = |state| findings.iter().filter(|finding| finding.state == state).count();
    let (ok, notes, missing) = (count(State::Ok), count(State::Note), count(State::Missing));
    let counts = format!("\n{} checks: {ok} ok, {notes} to note, {missing} missing", findings.len());
    [head].into_iter().chain(rows).chain([counts]).collect::<Vec<_>>().join("\n")
}

/// What is missing, and the verbs that need it; `None` if nothing is.
pub fn missing(findings: &[Finding]) -> Option<String> {
    let missing = findings.iter().filter(|finding| finding.state == State::Missing);
    let told = missing.map(|finding| format!("{} (for {})", finding.check, finding.verbs.join(", ")));
    let told = told.collect::<Vec<_>>().join("; ");
    (!told.is_empty()).then_some(told)
}

fn shown(state: State) -> &'static str {
    match state {
        State::Missing => "MISSING",
        State::Ok | State::Note => state.word(),
    }
}

/// What is said of a finding: a path before it, and below it what to do and for which verbs.
fn lines(finding: &Finding) -> Vec<String> {
    let path = finding.path.as_ref().map_or(String::new(), |path| format!("{path}: "));
    let mut lines = wrapped(&format!("{path}{}", finding.found), "");
    if let Some(advice) = &finding.advice {
        lines.extend(wrapped(&format!("do:  {advice}"), "     "));
        if !finding.verbs.is_empty() {
            lines.extend(wrapped(&format!("for: {}", finding.verbs.join(", ")), "     "));
        }
    }
    lines
}

fn row(state: &str, check: &str, lines: &[String]) -> String {
    let first = |at: usize| if at == 0 { (state, check) } else { ("", "") };
    let line = |(at, text): (usize, &String)| {
        let (state, check) = first(at);
        format!("{state:<STATE$}{check:<CHECK$}{text}")
    };
    lines.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
}

/// Cuts a text between words into lines that fit behind the first two columns. Lines after the first are indented.
fn wrapped(text: &str, indent: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a first line");
        let is_first = line.trim().is_empty();
        if !is_first && line.chars().count() + 1 + word.chars().count() > WIDTH - STATE - CHECK {
            lines.push(format!("{indent}{word}"));
        } else {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::finding::Subject;
    use super::*;

    const THING: Subject = Subject { check: "thing", verbs: &["serve", "attach"] };

    #[test]
    fn a_table_says_what_to_do_and_for_which_verbs() {
        let findings = [
            THING.ok("works"),
            THING.note("is slow", "tune it").at("/srv"),
            Subject { check: "other", verbs: &[] }.missing("is absent", "get it"),
        ];
        let expected = "state    check               found\n\
                        ok       thing               works\n\
                        note     thing               /srv: is slow\n                             \
                        do:  tune it\n                             \
                        for: serve, attach\n\
                        MISSING  other               is absent\n                             \
                        do:  get it\n\n\
                        3 checks: 1 ok, 1 to note, 1 missing";
        assert_eq!(page(&findings), expected);
        assert_eq!(missing(&findings).as_deref(), Some("other (for )"));
        assert_eq!(missing(&findings[..2]), None);
    }

    #[test]
    fn long_texts_are_cut_between_words_and_long_words_are_not() {
        let text = "word ".repeat(40);
        let lines = wrapped(text.trim(), "  ");
        assert!(lines.len() == 3 && lines.iter().all(|line| line.len() <= WIDTH - STATE - CHECK), "{lines:?}");
        assert!(lines[1].starts_with("  word") && !lines[0].starts_with(' '), "{lines:?}");
        assert_eq!(wrapped(&"x".repeat(200), "").len(), 1);
    }
}
