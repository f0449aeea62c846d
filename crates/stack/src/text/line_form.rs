//! Reads the one-line form: statements such as `d1 = file path=a.img | delay read=2ms @ nbd=unix:vol.sock`.
//!
//! The reader goes over the text once, character by character; a name or value needs no token of its own.

#![allow(clippy::result_large_err, reason = "a broken statement is rare; its error is built where it is told")]

use std::collections::BTreeMap;

use super::error::{Problem, TextError, TextErrors};
use super::mount::split_options;
use super::{DeviceSpec, ExportSpec, KernelCache, Location, MountSpec, Spec};

/// Characters that end a word. Values may hold more of them than names: see [`Reader::value`].
const ENDS_WORD: &[char] = &['=', '|', ';', '@', ',', '"', '#'];

/// A word that stands alone is shown if it is shorter; what is longer may be a key that follows a blank.
const WORD_SHOWN_MAX: usize = 32;

/// Words that begin statements, unless `=` follows: then they are names of devices.
const STATEMENTS: [&str; 2] = ["export", "mount"];

/// Whether the first thing in `text` is a statement: `WORD = LETTER...`, `export WORD = ...` or `mount WORD = ...`. Two
/// words side by side, which no TOML text begins with, are a statement without its name.
pub(super) fn is_line_form(text: &str) -> bool {
    let mut reader = Reader::new("", text);
    reader.skip_lines();
    let first = reader.word();
    reader.skip_blanks();
    if STATEMENTS.contains(&first) && reader.peek() != Some('=') {
        return !reader.word().is_empty();
    }
    if first.is_empty() || first.starts_with('[') {
        return false;
    }
    if reader.take('=') {
        reader.skip_blanks();
    }
    reader.peek().is_some_and(char::is_alphabetic)
}

/// Reads a whole text and reports each statement that is not of the form.
pub(super) fn parse(file: &str, text: &str) -> Result<Spec, TextErrors> {
    let mut reader = Reader::new(file, text);
    let mut spec = Spec::default();
    let mut found = Vec::new();
    while reader.next_statement() {
        if let Err(error) = reader.statement(&mut spec) {
            found.push(error);
            reader.skip_statement();
        }
    }
    TextErrors::none(found)?;
    Ok(spec)
}

/// One kind with its parameters: a link of a chain.
struct Link {
    kind: String,
    on: Vec<String>,
    args: BTreeMap<String, String>,
    at: Location,
    lines: BTreeMap<String, u32>,
}

struct Reader<'a> {
    file: String,
    rest: &'a str,
    line: u32,
}

type Parsed<T> = Result<T, TextError>;

impl<'a> Reader<'a> {
    fn new(file: &str, text: &'a str) -> Reader<'a> {
        Reader { file: file.to_string(), rest: text, line: 1 }
    }

    /// `[export | mount] NAME = ...` up to the end of the statement.
    fn statement(&mut self, spec: &mut Spec) -> Parsed<()> {
        let at = self.place();
        let first = self.name("a statement")?;
        self.skip_blanks();
        match first.as_str() {
            "export" if self.peek() != Some('=') => {
                let name = self.name("an export")?;
                self.equals(&name)?;
                let device = self.name("the exported device")?;
                spec.exports.push(self.export(name, device, at)?);
            }
            "mount" if self.peek() != Some('=') => {
                let name = self.name("a mount")?;
                self.equals(&name)?;
                spec.mounts.push(self.mount(name, at)?);
            }
            _ => {
                self.equals(&first)?;
                self.chain(&first, at, spec)?;
            }
        }
        self.end()
    }

    /// `KIND ... | KIND ... [@ ...]`: the last link has the statement's name, those below it a number behind it.
    fn chain(&mut self, name: &str, at: Location, spec: &mut Spec) -> Parsed<()> {
        let mut links = vec![self.link()?];
        while self.take_after_lines('|') {
            links.push(self.link()?);
        }
        let mut below: Option<String> = None;
        let count = links.len();
        for (i, link) in links.into_iter().enumerate() {
            let is_top = i + 1 == count;
            let own = if is_top { name.to_string() } else { format!("{name}-{}", i + 1) };
            let on = below.replace(own.clone()).into_iter().chain(link.on).collect();
            let mut device = DeviceSpec::new(&own, &link.kind, on, link.args, link.at);
            device.lines = link.lines;
            spec.devices.push(device);
        }
        if self.take_after_lines('@') {
            let export = self.export(name.to_string(), name.to_string(), at)?;
            spec.exports.push(export);
        }
        Ok(())
    }

    fn link(&mut self) -> Parsed<Link> {
        self.skip_lines();
        let (at, kind) = (self.place(), self.name("a kind")?);
        let lines = BTreeMap::from([("kind".to_string(), self.line)]);
        let mut link = Link { kind, on: Vec::new(), args: BTreeMap::new(), at, lines };
        while self.more_options() {
            let (line, key) = (self.line, self.name("a parameter")?);
            let known = link.lines.insert(key.clone(), line);
            if known.is_some() {
                return Err(self.syntax(format!("`{key}` stands twice"), "write it once"));
            }
            if key == "on" && self.peek() != Some('=') {
                link.on = self.references()?;
            } else if key == "on" || key == "kind" {
                return Err(self.syntax(format!("`{key}` is no parameter"), "write KIND PARAM=VALUE on NAME"));
            } else {
                let value = self.value(&key)?;
                link.args.insert(key, value);
            }
        }
        Ok(link)
    }

    /// The options of an export, behind its device or `@`.
    fn export(&mut self, name: String, device: String, at: Location) -> Parsed<ExportSpec> {
        let mut export = ExportSpec { name, device, nbd: None, read_only: false, at };
        let mut seen = Vec::new();
        while self.more_options() {
            let key = self.name("an option")?;
            if seen.contains(&key) {
                return Err(self.syntax(format!("`{key}` stands twice"), "write it once"));
            }
            let value = self.value(&key)?;
            match (key.as_str(), value.as_str()) {
                ("nbd", _) => export.nbd = Some(value),
                ("read_only", "true" | "false") => export.read_only = value == "true",
                ("read_only", _) => return Err(self.syntax("`read_only` is no flag", "write true or false")),
                _ => {
                    let what = format!("an export has no option `{key}`");
                    return Err(self.syntax(what, "it has nbd and read_only"));
                }
            }
            seen.push(key);
        }
        Ok(export)
    }

    /// A kind of file system and what follows it: options, and `on DEVICE`.
    fn mount(&mut self, name: String, at: Location) -> Parsed<MountSpec> {
        let fs = self.name("a kind of file system")?;
        let (mut dir, mut device, mut cache, mut options) = (None, None, KernelCache::default(), Vec::new());
        let mut seen = Vec::new();
        while self.more_options() {
            let key = self.name("an option")?;
            if seen.contains(&key) {
                return Err(self.syntax(format!("`{key}` stands twice"), "write it once"));
            }
            if key == "on" && self.peek() != Some('=') {
                self.skip_lines();
                device = Some(self.name("a device behind `on`")?);
                seen.push(key);
                continue;
            }
            let value = self.value(&key)?;
            match key.as_str() {
                "at" => dir = Some(value),
                "cache" => cache = KernelCache::of(&value).ok_or_else(|| self.no_cache(&value))?,
                "options" => options = split_options(&value).collect(),
                _ => {
                    let what = format!("a mount has no option `{key}`");
                    return Err(self.syntax(what, "it has at, cache and options, and may stand on a device"));
                }
            }
            seen.push(key);
        }
        let what = format!("mount \"{name}\"");
        let no_dir = || Problem::NoKey { what, key: "at", example: "at=/mnt/x, or another directory" }.at(at.clone());
        let dir = dir.ok_or_else(no_dir)?;
        Ok(MountSpec { name, fs, dir, device, cache, options, at })
    }

    fn no_cache(&self, word: &str) -> TextError {
        Problem::no_cache(word).at(self.place())
    }

    /// `NAME{,NAME}`.
    fn references(&mut self) -> Parsed<Vec<String>> {
        let mut all = Vec::new();
        loop {
            self.skip_lines();
            all.push(self.name("a device behind `on`")?);
            self.skip_blanks();
            if !self.take(',') {
                return Ok(all);
            }
        }
    }

    /// `=VALUE`, bare or in double quotes.
    fn value(&mut self, key: &str) -> Parsed<String> {
        if !self.take('=') {
            let (word, key) = match key.len() {
                0..WORD_SHOWN_MAX => (format!("`{key}`"), key),
                long => (format!("a word of {long} characters"), "NAME"),
            };
            return Err(self.syntax(format!("{word} stands alone"), format!("write {key}=VALUE without blanks")));
        }
        if self.take('"') {
            let value = self.quoted()?;
            return match self.peek() {
                Some(c) if !c.is_whitespace() && !matches!(c, ';' | '|') => {
                    Err(self.syntax(format!("`{c}` follows a closing quote"), "put a blank between them"))
                }
                _ => Ok(value),
            };
        }
        let value = self.take_until(|c| c.is_whitespace() || matches!(c, ';' | '|' | '"'));
        match self.peek() {
            Some('"') => {
                Err(self.syntax(format!("a quote inside the value of `{key}`"), "put the whole value in quotes"))
            }
            _ if value.is_empty() => Err(self.syntax(format!("`{key}=` has no value"), "write \"\" for an empty one")),
            _ => Ok(value.to_string()),
        }
    }

    /// The rest of a quoted value, behind its opening quote.
    fn quoted(&mut self) -> Parsed<String> {
        let mut value = String::new();
        loop {
            // The end of the line is left for the code that skips this statement.
            match self.next_on_line() {
                Some('"') => return Ok(value),
                Some('\\') => value.push(self.escaped()?),
                None => return Err(self.syntax("a quote is not closed on its line", "close it with \"")),
                Some(c) => value.push(c),
            }
        }
    }

    fn escaped(&mut self) -> Parsed<char> {
        let fix = "write \\\\ \\\" \\n \\r \\t or \\u{HEX}";
        match self.next_on_line() {
            Some(c @ ('"' | '\\')) => Ok(c),
            Some('n') => Ok('\n'),
            Some('r') => Ok('\r'),
            Some('t') => Ok('\t'),
            Some('u') if self.take('{') => {
                let digits = self.take_until(|c| !c.is_ascii_hexdigit());
                let c = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
                c.filter(|_| self.take('}')).ok_or_else(|| self.syntax("`\\u{...}` names no character", fix))
            }
            _ => Err(self.syntax("unknown escape in quotes", fix)),
        }
    }

    fn equals(&mut self, name: &str) -> Parsed<()> {
        self.skip_blanks();
        if !self.take('=') {
            return Err(self.syntax(
                format!("no `=` behind `{name}`"),
                "write NAME = KIND ..., export NAME = DEVICE or mount NAME = KIND ...",
            ));
        }
        self.skip_lines();
        Ok(())
    }

    /// Whether another word follows in this statement; it then is next. A blank must stand before it.
    fn more_options(&mut self) -> bool {
        self.skip_blanks();
        !matches!(self.peek(), None | Some('\n' | ';' | '|' | '@'))
    }

    fn end(&mut self) -> Parsed<()> {
        self.skip_blanks();
        match self.peek() {
            None | Some(';' | '\n') => Ok(()),
            Some(c) => Err(self.syntax(format!("`{c}` is not expected here"), "end the statement with ;")),
        }
    }

    /// A word that must be there. `.` and `-` are part of words; what names are sound is checked later.
    fn name(&mut self, what: &str) -> Parsed<String> {
        let word = self.word();
        match (word, self.peek()) {
            ("", Some(c)) if c != '\n' => Err(self.syntax(format!("`{c}` where {what} should begin"), "write a name")),
            ("", _) => Err(self.syntax(format!("the text ends where {what} should begin"), "write a name")),
            _ => Ok(word.to_string()),
        }
    }

    fn word(&mut self) -> &'a str {
        self.take_until(|c| c.is_whitespace() || ENDS_WORD.contains(&c))
    }

    /// Passes separators; false at the end of the text.
    fn next_statement(&mut self) -> bool {
        self.skip_lines();
        while self.take(';') {
            self.skip_lines();
        }
        self.peek().is_some()
    }

    /// Passes what is left of a broken statement. Quotes are not honoured: they may be what is broken.
    fn skip_statement(&mut self) {
        self.take_until(|c| c == ';' || c == '\n');
    }

    /// Takes `sign`, which may stand on a later line than what it continues.
    fn take_after_lines(&mut self, sign: char) -> bool {
        let (rest, line) = (self.rest, self.line);
        self.skip_lines();
        let found = self.take(sign);
        if !found {
            (self.rest, self.line) = (rest, line);
        }
        found
    }

    /// Passes blanks and a comment, not the end of the line.
    fn skip_blanks(&mut self) {
        self.take_until(|c| c == '\n' || !c.is_whitespace());
        if self.peek() == Some('#') {
            self.take_until(|c| c == '\n');
        }
    }

    fn skip_lines(&mut self) {
        self.skip_blanks();
        while self.take('\n') {
            self.skip_blanks();
        }
    }

    fn take_until(&mut self, end: impl Fn(char) -> bool) -> &'a str {
        let (taken, rest) = self.rest.split_at(self.rest.find(end).unwrap_or(self.rest.len()));
        self.rest = rest;
        self.line += taken.matches('\n').count() as u32;
        taken
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next_on_line(&mut self) -> Option<char> {
        let c = self.peek().filter(|c| *c != '\n')?;
        self.take(c);
        Some(c)
    }

    fn take(&mut self, c: char) -> bool {
        let Some(rest) = self.rest.strip_prefix(c) else { return false };
        self.rest = rest;
        self.line += u32::from(c == '\n');
        true
    }

    fn place(&self) -> Location {
        Location { file: self.file.clone(), line: self.line }
    }

    fn syntax(&self, what: impl Into<String>, fix: impl Into<String>) -> TextError {
        Problem::syntax(what, fix).at(self.place())
    }
}
