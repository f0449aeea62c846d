//! Values as strace writes them: numbers, strings, flags, lists, structures, and what decorates them.

/// Deepest nesting of lists and structures.
const DEPTH_MAX: usize = 12;
/// Stands behind the note on a descriptor of a file without a name.
const GONE: &[u8] = b"(deleted)";

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arg {
    /// A number, with what the recorder noted in `<>` behind it.
    Int {
        /// Its value.
        value: i128,
        /// `</path>`, without the brackets.
        note: Option<Vec<u8>>,
    },
    /// A string.
    Text {
        /// Its bytes.
        bytes: Vec<u8>,
        /// Whether the recorder cut it.
        cut: bool,
    },
    /// Anything else in words: flags, constants, expressions.
    Words {
        /// As they stand.
        text: String,
        /// As in `Int`.
        note: Option<Vec<u8>>,
    },
    /// `[…]`
    List(Vec<Arg>),
    /// `{…}`
    Fields(Vec<Arg>),
    /// `name=value`
    Named(String, Box<Arg>),
    /// `before => after`
    Change(Box<Arg>, Box<Arg>),
}

/// What does not fit, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LexError {
    /// Byte offset in what was lexed.
    pub at: usize,
    /// What was expected.
    pub what: &'static str,
}

/// Cuts bytes into values.
#[derive(Debug)]
pub struct Lexer<'a> {
    bytes: &'a [u8],
    /// Offset of the next byte.
    pub at: usize,
}

impl<'a> Lexer<'a> {
    /// Cuts `bytes`.
    pub fn new(bytes: &'a [u8]) -> Lexer<'a> {
        Lexer { bytes, at: 0 }
    }

    /// What is left.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn fail<T>(&self, what: &'static str) -> Result<T, LexError> {
        Err(LexError { at: self.at, what })
    }

    /// Whether `word` comes next; it is passed over.
    pub fn skip(&mut self, word: &[u8]) -> bool {
        let found = self.rest().starts_with(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    /// Passes over spaces and comments.
    pub fn skip_blank(&mut self) {
        loop {
            while matches!(self.peek(), Some(b' ' | b'\t')) {
                self.at += 1;
            }
            if !self.rest().starts_with(b"/*") {
                return;
            }
            self.at += memchr::memmem::find(self.rest(), b"*/").map_or(self.rest().len(), |end| end + 2);
        }
    }

    /// Values up to and with the closing `end`.
    ///
    /// # Errors
    /// A value is malformed, or the end is missing.
    pub fn list(&mut self, end: u8, depth: usize) -> Result<Vec<Arg>, LexError> {
        let mut values = Vec::new();
        if depth > DEPTH_MAX {
            return self.fail("less nesting");
        }
        loop {
            self.skip_blank();
            match self.peek() {
                None => return self.fail("the end of a list"),
                Some(byte) if byte == end => {
                    self.at += 1;
                    return Ok(values);
                }
                Some(b',') => self.at += 1,
                Some(_) => values.push(self.value(depth)?),
            }
        }
    }

    /// One value.
    ///
    /// # Errors
    /// It is malformed.
    pub fn value(&mut self, depth: usize) -> Result<Arg, LexError> {
        if depth > DEPTH_MAX {
            return self.fail("less nesting");
        }
        let value = self.simple(depth)?;
        self.skip_blank();
        if !self.skip(b"=>") {
            return Ok(value);
        }
        self.skip_blank();
        let after = self.value(depth + 1)?;
        Ok(Arg::Change(Box::new(value), Box::new(after)))
    }

    fn simple(&mut self, depth: usize) -> Result<Arg, LexError> {
        let _ = self.skip(b"@") || self.skip(b"~");
        match self.peek() {
            Some(b'"') => self.text(),
            Some(b'[') => {
                self.at += 1;
                self.list(b']', depth + 1).map(Arg::List)
            }
            Some(b'{') => {
                self.at += 1;
                self.list(b'}', depth + 1).map(Arg::Fields)
            }
            _ => self.words(depth),
        }
    }

    /// A string in quotes with C escapes; dots behind it say that it was cut.
    fn text(&mut self) -> Result<Arg, LexError> {
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            let plain = memchr::memchr2(b'"', b'\\', self.rest());
            let Some(plain) = plain else { return self.fail("the end of a string") };
            bytes.extend_from_slice(&self.rest()[..plain]);
            self.at += plain + 1;
            if self.bytes[self.at - 1] == b'"' {
                let cut = self.skip(b"...");
                return Ok(Arg::Text { bytes, cut });
            }
            bytes.push(self.escaped()?);
        }
    }

    /// The byte behind a backslash.
    fn escaped(&mut self) -> Result<u8, LexError> {
        let Some(byte) = self.peek() else { return self.fail("an escaped byte") };
        self.at += 1;
        Ok(match byte {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'v' => 0x0b,
            b'f' => 0x0c,
            b'a' => 0x07,
            b'b' => 0x08,
            b'e' => 0x1b,
            b'x' => self.digits(16, 2, 0)?,
            b'0'..=b'7' => self.digits(8, 2, u32::from(byte - b'0'))?,
            other => other,
        })
    }

    /// Up to `max` more digits of an escaped byte.
    fn digits(&mut self, radix: u32, max: usize, first: u32) -> Result<u8, LexError> {
        let mut value = first;
        for _ in 0..max {
            let Some(digit) = self.peek().and_then(|byte| char::from(byte).to_digit(radix)) else { break };
            value = value * radix + digit;
            self.at += 1;
        }
        u8::try_from(value).or_else(|_| self.fail("an escaped byte below 256"))
    }

    /// Words up to the next comma or closing bracket, a number among them.
    fn words(&mut self, depth: usize) -> Result<Arg, LexError> {
        let start = self.at;
        let mut note = None;
        let mut end = start;
        let mut open = 0usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'(' | b'[' | b'{' => open += 1,
                b')' | b']' | b'}' | b',' if open == 0 => break,
                b')' | b']' | b'}' => open -= 1,
                b'"' => {
                    self.text()?;
                    end = self.at;
                    continue;
                }
                b'=' if self.rest().starts_with(b"=>") => break,
                b'=' if open == 0 && self.is_name(start) && !self.rest().starts_with(b"==") => {
                    return self.named(start, depth);
                }
                b'<' if self.rest().starts_with(b"<<") => self.at += 1,
                b'<' => {
                    note = Some(self.note()?);
                    continue;
                }
                b'/' if self.rest().starts_with(b"/*") => {
                    self.skip_blank();
                    continue;
                }
                _ => {}
            }
            self.at += 1;
            if byte != b' ' {
                end = self.at;
            }
        }
        if self.at == start {
            return self.fail("a value");
        }
        Ok(number_or_words(&self.bytes[start..end.max(start)], note))
    }

    /// Whether what stands since `start` is an identifier.
    fn is_name(&self, start: usize) -> bool {
        let name = &self.bytes[start..self.at];
        !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    }

    fn named(&mut self, start: usize, depth: usize) -> Result<Arg, LexError> {
        let name = String::from_utf8_lossy(&self.bytes[start..self.at]).into_owned();
        self.at += 1;
        let value = self.value(depth + 1)?;
        Ok(Arg::Named(name, Box::new(value)))
    }

    /// What stands in `<>`, which nests; the arrow of a connection closes nothing.
    pub fn note(&mut self) -> Result<Vec<u8>, LexError> {
        let start = self.at + 1;
        let mut open = 0usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'<' => open += 1,
                b'>' if self.at > 0 && self.bytes[self.at - 1] == b'-' && open == 1 => {}
                b'>' => open -= 1,
                _ => {}
            }
            self.at += 1;
            if open == 0 {
                let mut note = unescaped(&self.bytes[start..self.at - 1]);
                // A name that is gone is told behind the brackets.
                if self.skip(GONE) {
                    note.extend_from_slice(b" (deleted)");
                }
                return Ok(note);
            }
        }
        self.fail("the end of a note in <>")
    }
}

/// A note's bytes: control characters, brackets and bytes beyond ASCII stand there in octal.
fn unescaped(note: &[u8]) -> Vec<u8> {
    if !note.contains(&b'\\') {
        return note.to_vec();
    }
    let mut lexer = Lexer::new(note);
    let mut bytes = Vec::with_capacity(note.len());
    while let Some(byte) = lexer.peek() {
        lexer.at += 1;
        bytes.push(if byte == b'\\' { lexer.escaped().unwrap_or(b'\\') } else { byte });
    }
    bytes
}

fn number_or_words(bytes: &[u8], note: Option<Vec<u8>>) -> Arg {
    let text = String::from_utf8_lossy(bytes).trim().to_string();
    match number(&text) {
        Some(value) => Arg::Int { value, note },
        None => Arg::Words { text, note },
    }
}

/// A number as C writes it.
pub fn number(text: &str) -> Option<i128> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let value = if let Some(hex) = digits.strip_prefix("0x") {
        u64::from_str_radix(hex, 16).ok()?
    } else if let Some((base, shift)) = digits.split_once("<<") {
        base.parse::<u64>().ok()?.checked_shl(shift.parse().ok()?)?
    } else if digits.len() > 1 && digits.starts_with('0') {
        u64::from_str_radix(digits, 8).ok()?
    } else if digits.starts_with(|c: char| c.is_ascii_digit()) {
        digits.parse().ok()?
    } else {
        return None;
    };
    Some(sign * i128::from(value))
}
