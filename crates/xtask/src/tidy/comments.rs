//! The comments of a Rust source, which its parsed form does not hold.

/// A line comment: from its slashes to the end of its line.
#[derive(Debug, PartialEq, Eq)]
pub struct Comment<'a> {
    /// From 1.
    pub line: usize,
    pub text: &'a str,
    /// Whether only blanks stand before it.
    pub stands_alone: bool,
}

impl<'a> Comment<'a> {
    /// What documentation comments say, without their slashes and one blank; `None` for other comments.
    pub fn documentation(&self) -> Option<&'a str> {
        let text = self.text.strip_prefix("//!").or_else(|| self.text.strip_prefix("///"))?;
        if text.starts_with('/') { None } else { Some(text.strip_prefix(' ').unwrap_or(text)) }
    }
}

/// All line comments, in order. Slashes in texts and characters begin none.
pub fn comments(source: &str) -> Vec<Comment<'_>> {
    let (bytes, mut all, mut at) = (source.as_bytes(), Vec::new(), 0);
    let (mut line, mut line_start) = (1, 0);
    while at < bytes.len() {
        let end = token_end(source, at);
        if source[at..].starts_with("//") {
            let stands_alone = source[line_start..at].trim().is_empty();
            all.push(Comment { line, text: source[at..end].trim_end(), stands_alone });
        }
        for newline in (at..end).filter(|at| bytes[*at] == b'\n') {
            (line, line_start) = (line + 1, newline + 1);
        }
        at = end;
    }
    all
}

/// Where the comment, text or character that begins at `at` ends; else the next byte.
fn token_end(source: &str, at: usize) -> usize {
    let rest = &source[at..];
    let after =
        |from: usize, end: &str| rest[from..].find(end).map_or(source.len(), |found| at + from + found + end.len());
    if rest.starts_with("//") {
        return rest.find('\n').map_or(source.len(), |found| at + found);
    }
    if rest.starts_with("/*") {
        return after(2, "*/");
    }
    match rest.as_bytes()[0] {
        b'"' => at + quoted(rest, b'"'),
        b'\'' if rest.as_bytes().get(1) == Some(&b'\\') => at + quoted(rest, b'\''),
        // A character, not a lifetime: the quote that ends it comes after it.
        b'\'' if rest.chars().nth(2) == Some('\'') => at + rest.chars().take(3).map(char::len_utf8).sum::<usize>(),
        b'r' if !follows_word(source, at) => {
            let hashes = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
            match rest.as_bytes().get(1 + hashes) {
                Some(b'"') => after(2 + hashes, &format!("\"{}", "#".repeat(hashes))),
                _ => at + 1,
            }
        }
        _ => at + rest.chars().next().map_or(1, char::len_utf8),
    }
}

/// Whether `at` continues a word; the `b` of `br"…"` is none.
fn follows_word(source: &str, at: usize) -> bool {
    let before = source[..at].trim_end_matches('b');
    before.bytes().last().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Length of what begins and ends with `quote` and escapes by backslashes.
fn quoted(rest: &str, quote: u8) -> usize {
    let mut escaped = false;
    let end = rest.bytes().skip(1).position(|byte| {
        let ends = byte == quote && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(rest.len(), |end| end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<(usize, &str, bool)> {
        comments(source).iter().map(|comment| (comment.line, comment.text, comment.stands_alone)).collect()
    }

    #[test]
    fn comments_are_found_with_their_lines() {
        let text = "//! A.\nfn f() {} // B\n\n    /// C\n    /* no // comment */ x\n";
        assert_eq!(found(text), [(1, "//! A.", true), (2, "// B", false), (4, "/// C", true)]);
    }

    #[test]
    fn texts_and_characters_hold_no_comments() {
        let text = "let a = \"x // \\\" // y\"; let b = '\"'; // one\nlet c = r#\"\" // \"#; let d = br\"\\\"; // two\n\
                    let e = '\\''; fn f<'a>(x: &'a str) {} // three\nlet for_r = \"é // \";\n";
        assert_eq!(found(text), [(1, "// one", false), (2, "// two", false), (3, "// three", false)]);
    }

    #[test]
    fn a_text_of_several_lines_moves_the_line_on() {
        assert_eq!(found("f(\"a\n// b\n\");\n// c"), [(4, "// c", true)]);
    }

    #[test]
    fn documentation_is_told_from_other_comments() {
        let of = |text| comments(text)[0].documentation();
        assert_eq!((of("/// A"), of("//!  B"), of("// C"), of("//// D")), (Some("A"), Some(" B"), None, None));
    }
}
