//! DiskSim's parameter files as a tree: `kind NAME { field = value, ... }`.

use std::collections::BTreeMap;

/// Deepest nesting: parsing is recursive.
const DEPTH_MAX: usize = 16;

/// A value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A number, word or several words, as written.
    Text(String),
    /// `[ ... ]`.
    List(Vec<Value>),
    /// `kind { ... }`.
    Block(Block),
}

/// A block with its fields and their lines.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Block {
    /// First word.
    pub kind: String,
    /// Second word, for blocks at the top.
    pub name: String,
    /// Line of its first word, from 1.
    pub line: usize,
    /// Fields by name, with spaces as written once.
    pub fields: BTreeMap<String, (usize, Value)>,
}

/// What is wrong in a text, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// Line, from 1.
    pub line: usize,
    /// What was expected.
    pub text: String,
}

struct Cursor<'a> {
    rest: &'a str,
    line: usize,
}

/// The blocks at the top of a file. Statements without a block (`source`, `instantiate`) are passed over.
///
/// # Errors
/// The line of what cannot be read.
pub fn blocks(text: &str) -> Result<Vec<Block>, Wrong> {
    let (mut cursor, mut found) = (Cursor { rest: text, line: 1 }, Vec::new());
    loop {
        cursor.skip();
        if cursor.rest.is_empty() {
            return Ok(found);
        }
        let line = cursor.line;
        let words = cursor.until(&['{', '[', '\n', '#']);
        let mut words = words.split_whitespace();
        let (kind, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (kind, name) = (kind.to_string(), name.to_string());
        cursor.skip();
        match cursor.rest.chars().next() {
            Some('{') => found.push(Block { kind, name, line, fields: cursor.fields(0)? }),
            Some('[') => cursor.pass_list()?,
            _ => {}
        }
    }
}

impl<'a> Cursor<'a> {
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    /// Passes white space and comments.
    fn skip(&mut self) {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.take(blank);
            if !self.rest.starts_with('#') {
                return;
            }
            self.until(&['\n']);
        }
    }

    /// The text before the first of `ends`.
    fn until(&mut self, ends: &[char]) -> &'a str {
        let at = self.rest.find(ends).unwrap_or(self.rest.len());
        self.take(at)
    }

    fn wrong<T>(&self, text: impl Into<String>) -> Result<T, Wrong> {
        Err(Wrong { line: self.line, text: text.into() })
    }

    /// The fields of the block whose brace comes next.
    fn fields(&mut self, depth: usize) -> Result<BTreeMap<String, (usize, Value)>, Wrong> {
        let mut fields = BTreeMap::new();
        self.take(1);
        loop {
            self.skip();
            match self.rest.chars().next() {
                None => return self.wrong("expected } before the end"),
                Some('}') => {
                    self.take(1);
                    return Ok(fields);
                }
                Some(',') => drop(self.take(1)),
                Some(_) => {
                    let line = self.line;
                    let name = self.until(&['=', '{', '}', '[', ']', '\n']);
                    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
                    if !self.rest.starts_with('=') || name.is_empty() {
                        return Err(Wrong { line, text: format!("expected \"field = value\", found \"{name}\"") });
                    }
                    self.take(1);
                    fields.insert(name, (line, self.value(depth)?));
                }
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, Wrong> {
        if depth >= DEPTH_MAX {
            return self.wrong(format!("expected at most {DEPTH_MAX} blocks or lists in each other"));
        }
        self.skip();
        if self.rest.starts_with('[') {
            return self.list(depth + 1);
        }
        let line = self.line;
        let text = self.until(&[',', '{', '}', '[', ']', '#', '\n']).trim().to_string();
        self.skip();
        if self.rest.starts_with('{') {
            let fields = self.fields(depth + 1)?;
            return Ok(Value::Block(Block { kind: text, name: String::new(), line, fields }));
        }
        if text.is_empty() { Err(Wrong { line, text: "expected a value".into() }) } else { Ok(Value::Text(text)) }
    }

    fn list(&mut self, depth: usize) -> Result<Value, Wrong> {
        let mut items = Vec::new();
        self.take(1);
        loop {
            self.skip();
            match self.rest.chars().next() {
                None => return self.wrong("expected ] before the end"),
                Some(']') => {
                    self.take(1);
                    return Ok(Value::List(items));
                }
                Some(',') => drop(self.take(1)),
                Some(_) => items.push(self.value(depth)?),
            }
        }
    }

    /// Passes a list of anything, such as `instantiate [ a, b ] as c` and the topology.
    fn pass_list(&mut self) -> Result<(), Wrong> {
        let mut open = 0usize;
        loop {
            self.until(&['[', ']', '#']);
            match self.rest.chars().next() {
                None => return self.wrong("expected ] before the end"),
                Some('#') => drop(self.until(&['\n'])),
                Some('[') => {
                    open += 1;
                    self.take(1);
                }
                Some(_) => {
                    open -= 1;
                    self.take(1);
                    if open == 0 {
                        return Ok(());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "# a disk\ndm_disk One.model {\n  Block count =  17,\n  Seek = [ 1.5, -2 ], # two\n  \
                        Part = dm_part { Zones = [ z { a = 1 }, z { a = 2 } ] # Zones\n }\n}\n\
                        instantiate [ d ] as One\nsource other.file\ndisksim_disk Two { x (in y) = source a.model }\n";

    #[test]
    fn blocks_fields_lists_and_comments_are_read() {
        let found = blocks(TEXT).unwrap();
        let [one, two] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((one.kind.as_str(), one.name.as_str(), one.line), ("dm_disk", "One.model", 2));
        assert_eq!(one.fields["Block count"], (3, Value::Text("17".into())));
        let numbers = ["1.5", "-2"].map(|text| Value::Text(text.into()));
        assert_eq!(one.fields["Seek"], (4, Value::List(numbers.into())));
        let (_, Value::Block(part)) = &one.fields["Part"] else { panic!() };
        let (_, Value::List(zones)) = &part.fields["Zones"] else { panic!() };
        assert_eq!((part.kind.as_str(), zones.len()), ("dm_part", 2));
        assert_eq!(two.fields["x (in y)"].1, Value::Text("source a.model".into()));
    }

    #[test]
    fn damaged_texts_name_the_line() {
        for (text, line, words) in [
            ("a b {\n c = 1\n", 3, "expected } before"),
            ("a b {\n c\n}", 2, "\"field = value\", found \"c\""),
            ("a b {\n c = [ 1, \n", 3, "expected ] before"),
            ("a b {\n c = ,\n}", 2, "expected a value"),
            ("instantiate [ a\n", 2, "expected ] before"),
        ] {
            let wrong = blocks(text).unwrap_err();
            assert!(wrong.line == line && wrong.text.contains(words), "{text:?}: {wrong:?}");
        }
        let deep = format!("a b {{ c = {}", "[".repeat(100_000));
        assert!(blocks(&deep).unwrap_err().text.contains("at most 16"));
    }

    proptest! {
        #[test]
        fn nothing_panics(at in 0..TEXT.len(), byte in "[\\[\\]{}=,#\\n a]", cut in 0..TEXT.len()) {
            let mut text = TEXT.to_string();
            text.replace_range(at..=at, &byte);
            drop(blocks(&text));
            prop_assert!(blocks(&TEXT[..cut]).is_ok_and(|found| found.len() <= 2) || cut < TEXT.len());
        }
    }
}
