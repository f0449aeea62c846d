//! Running text: the sentences of documents and documentation comments, with their words.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::comments::Comment;

/// A sentence of running text.
#[derive(Debug, PartialEq, Eq)]
pub struct Sentence {
    /// Line of its first word, from 1.
    pub line: usize,
    /// A code span is one word, and so is a list of names.
    pub words: usize,
}

/// Stands for a code span.
const CODE: char = '\u{1}';
/// What may stand around a word.
const MARKS: &[char] = &['(', ')', '[', ']', '"', '\'', '“', '”', '’', ',', ';', ':', '.', '!', '?', '*', '_'];
/// Words with a full stop that ends no sentence.
const ABBREVIATIONS: &[&str] = &["e.g.", "i.e.", "cf.", "vs.", "etc.", "approx."];

/// The sentences of a document. Headings, tables, code, quotations and HTML have none.
pub fn sentences(markdown: &str) -> Vec<Sentence> {
    let starts: Vec<usize> = std::iter::once(0).chain(markdown.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let line_of = |offset: usize| starts.partition_point(|start| *start <= offset);
    let (mut out, mut words, mut skipped) = (Vec::new(), Words::default(), 0_usize);
    for (event, range) in Parser::new_ext(markdown, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(tag) if is_skipped(&tag) => skipped += 1,
            Event::End(tag) if ends_skipped(tag) => skipped -= 1,
            Event::Text(text) if skipped == 0 => words.push(&text, line_of(range.start)),
            Event::Code(_) if skipped == 0 => words.push(CODE.encode_utf8(&mut [0; 4]), line_of(range.start)),
            Event::SoftBreak | Event::HardBreak => words.part(),
            Event::Start(Tag::Paragraph | Tag::Item | Tag::List(_)) | Event::End(TagEnd::Paragraph | TagEnd::Item) => {
                out.append(&mut words.sentences());
            }
            _ => {}
        }
    }
    out
}

fn is_skipped(tag: &Tag<'_>) -> bool {
    matches!(tag, Tag::Heading { .. } | Tag::Table(_) | Tag::CodeBlock(_) | Tag::BlockQuote(_) | Tag::HtmlBlock)
}

fn ends_skipped(tag: TagEnd) -> bool {
    matches!(tag, TagEnd::Heading(_) | TagEnd::Table | TagEnd::CodeBlock | TagEnd::BlockQuote(_) | TagEnd::HtmlBlock)
}

/// The sentences of documentation comments, with the lines of their source.
pub fn sentences_of_comments(comments: &[Comment<'_>]) -> Vec<Sentence> {
    let (mut out, mut rest) = (Vec::new(), comments);
    while let Some(first) = rest.first() {
        let belongs = |(at, comment): &(usize, &Comment<'_>)| {
            comment.line == first.line + at && comment.documentation().is_some()
        };
        let length = rest.iter().enumerate().take_while(belongs).count();
        let text: Vec<&str> = rest[..length].iter().filter_map(Comment::documentation).collect();
        let moved = |sentence: Sentence| Sentence { line: sentence.line + first.line - 1, ..sentence };
        out.extend(sentences(&text.join("\n")).into_iter().map(moved));
        rest = &rest[length.max(1)..];
    }
    out
}

/// The words of one paragraph, each with its line.
#[derive(Default)]
struct Words {
    all: Vec<(String, usize)>,
    /// The next piece continues the last word.
    is_open: bool,
}

impl Words {
    fn push(&mut self, text: &str, line: usize) {
        let mut parts = text.split_whitespace();
        if self.is_open
            && !text.starts_with(char::is_whitespace)
            && let (Some(last), Some(part)) = (self.all.last_mut(), parts.next())
        {
            last.0 += part;
        }
        self.all.extend(parts.map(|part| (part.to_string(), line)));
        self.is_open = !self.all.is_empty() && !text.ends_with(char::is_whitespace);
    }

    fn part(&mut self) {
        self.is_open = false;
    }

    /// Takes the paragraph's words out as sentences.
    fn sentences(&mut self) -> Vec<Sentence> {
        self.is_open = false;
        let all = std::mem::take(&mut self.all);
        let (mut out, mut from) = (Vec::new(), 0);
        for at in 0..all.len() {
            let next = all.get(at + 1).map(|(word, _)| word.as_str());
            if next.is_none_or(|next| ends_sentence(&all[at].0, next)) {
                out.push(Sentence { line: all[from].1, words: count(&all[from..=at]) });
                from = at + 1;
            }
        }
        out
    }
}

fn ends_sentence(word: &str, next: &str) -> bool {
    let bare = word.trim_end_matches([')', ']', '"', '\'', '”', '’', '*', '_']);
    let begins = next.trim_start_matches(MARKS).chars().next().is_none_or(|first| !first.is_lowercase());
    bare.ends_with(['.', '!', '?']) && begins && !ABBREVIATIONS.contains(&bare.trim_start_matches('('))
}

/// Counts words. A list of names is one: code spans, each perhaps with a gloss in brackets, which only commas, `and`
/// and `or` part.
fn count(words: &[(String, usize)]) -> usize {
    let (mut all, mut in_list, mut at) = (0, false, 0);
    while let Some((word, _)) = words.get(at) {
        let bare = word.trim_matches(MARKS);
        let is_code = bare.starts_with(CODE) && bare.chars().all(|c| c == CODE || MARKS.contains(&c));
        let joins = matches!(bare, "and" | "or") && words.get(at + 1).is_some_and(|(next, _)| next.contains(CODE));
        if in_list && word.starts_with('(') {
            at = gloss_end(words, at);
            continue;
        }
        at += 1;
        if in_list && (is_code || joins) {
            continue;
        }
        in_list = is_code;
        all += usize::from(bare.contains(|c: char| c.is_alphanumeric() || c == CODE));
    }
    all
}

/// The word after the bracket that opens at word `at` is closed.
fn gloss_end(words: &[(String, usize)], at: usize) -> usize {
    let mut depth = 0_isize;
    let closes = words[at..].iter().position(|(word, _)| {
        depth += word.matches('(').count() as isize - word.matches(')').count() as isize;
        depth <= 0
    });
    closes.map_or(words.len(), |closes| at + closes + 1)
}

#[cfg(test)]
mod tests {
    use super::super::comments::comments;
    use super::*;

    fn check(markdown: &str, expected: &[(usize, usize)]) {
        let found: Vec<_> = sentences(markdown).iter().map(|sentence| (sentence.line, sentence.words)).collect();
        assert_eq!(found, expected, "{markdown:?}");
    }

    #[test]
    fn sentences_end_at_stops_before_capitals() {
        check("One two. Three\nfour five!\n\nSix.", &[(1, 2), (1, 3), (4, 1)]);
        check("It has 3.5 words, e.g. Six (or so.) Next one", &[(1, 8), (1, 2)]);
        check("- one two\n- three\n  - four. Five\n", &[(1, 2), (2, 1), (3, 1), (3, 1)]);
    }

    #[test]
    fn a_code_span_and_a_list_of_them_is_one_word() {
        check("Use `a b c` now.", &[(1, 3)]);
        check("Statistics: `a`, `b` and\n`c` (of it), `d`.", &[(1, 2)]);
        check("Read [`a`] (what (so to say) it is), [`b`] and go (at once).", &[(1, 6)]);
        check("**Bold** text and [a link of five](x.md) end.", &[(1, 8)]);
    }

    #[test]
    fn only_running_text_has_sentences() {
        check(
            "# One two three\n\n| a b | c |\n|---|---|\n| d e f | g |\n\n```\ncode here\n```\n\n> quoted words\n\n<!-- no -->\n",
            &[],
        );
    }

    #[test]
    fn comments_keep_their_lines() {
        let text = "//! One two.\n//! Three\n//! four.\n\n/// Five.\nfn f() {} // six\n// seven\n/// Eight.\n";
        let found: Vec<_> = sentences_of_comments(&comments(text)).iter().map(|s| (s.line, s.words)).collect();
        assert_eq!(found, [(1, 2), (2, 2), (5, 1), (8, 1)]);
    }
}
