//! Lines of a script, read.

use std::str::{FromStr, SplitAsciiWhitespace};

use esker_vfs::Stamp;

use super::{
    ACCESSES, Durable, FLAGS, FOLLOWS, HELD, Held, KINDS, Object, RENAMES, ROOMS, ScriptOp, WHENCES, Word, XATTR_SETS,
    XattrOp,
};
use crate::attrs::SetTime;
use crate::flags::{Access, OpenFlags};
use crate::paths::Follow;

/// Nanoseconds of the unit of times in scripts.
pub(super) const SECOND: i64 = 1_000_000_000;

/// What a line begins with that states what the call above it answers.
pub const EXPECTED: &str = "//=";

/// Why a text is no script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScriptError {
    /// Line, from 1 on.
    pub line: usize,
    /// What is wrong there.
    pub fault: ScriptFault,
}

/// What is wrong with a line of a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScriptFault {
    /// It is no call.
    NoCall {
        /// Its words.
        text: String,
        /// Why not.
        why: &'static str,
    },
    /// It states an answer of no call, or a second one.
    NoQuestion,
}

impl std::fmt::Display for ScriptError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let line = self.line;
        match &self.fault {
            ScriptFault::NoCall { text, why } => write!(f, "line {line}: \"{text}\": {why}"),
            ScriptFault::NoQuestion => write!(f, "line {line} expects an outcome, and no call stands before it"),
        }
    }
}

impl std::error::Error for ScriptError {}

/// A call of a script, and what the script says that it answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScriptLine {
    /// Line, from 1 on.
    pub number: usize,
    /// The call.
    pub op: ScriptOp,
    /// Its answer, if the line behind it states one.
    pub expected: Option<String>,
}

impl ScriptLine {
    /// The calls of a text with their answers.
    ///
    /// # Errors
    /// The first line that is no call, or states an answer of none.
    pub fn read(text: &str) -> Result<Vec<ScriptLine>, ScriptError> {
        let mut lines: Vec<ScriptLine> = Vec::new();
        for (text, number) in text.lines().map(str::trim).zip(1..) {
            if let Some(expected) = text.strip_prefix(EXPECTED) {
                let line = lines.last_mut().filter(|line| line.expected.is_none());
                line.ok_or(ScriptError { line: number, fault: ScriptFault::NoQuestion })?.expected =
                    Some(expected.trim().to_string());
            } else if let Some(op) = call(text, number) {
                lines.push(ScriptLine { number, op: op?, expected: None });
            }
        }
        Ok(lines)
    }
}

impl ScriptOp {
    /// The calls of a text.
    ///
    /// # Errors
    /// The first line that is no call.
    pub fn script(text: &str) -> Result<Vec<ScriptOp>, ScriptError> {
        text.lines().map(str::trim).zip(1..).filter_map(|(text, line)| call(text, line)).collect()
    }
}

/// The call of a line, unless it is empty or a comment.
fn call(text: &str, line: usize) -> Option<Result<ScriptOp, ScriptError>> {
    let no_call = |why| ScriptError { line, fault: ScriptFault::NoCall { text: text.to_string(), why } };
    (!text.is_empty() && !text.starts_with("//")).then(|| text.parse().map_err(no_call))
}

/// Words of a line that are still to be read.
struct Words<'a>(std::iter::Peekable<SplitAsciiWhitespace<'a>>);

type Read<T> = Result<T, &'static str>;

impl FromStr for ScriptOp {
    type Err = &'static str;

    fn from_str(line: &str) -> Read<ScriptOp> {
        let mut words = Words(line.split_ascii_whitespace().peekable());
        let verb = words.word()?;
        let op = words.bytes(verb).or_else(|| words.names(verb)).or_else(|| words.attributes(verb));
        let op = op.ok_or("no call has this name")??;
        if words.0.next().is_some() { Err("words follow that the call does not have") } else { Ok(op) }
    }
}

/// The calls, by what they are about.
impl<'a> Words<'a> {
    fn bytes(&mut self, verb: &str) -> Option<Read<ScriptOp>> {
        Some(match verb {
            "open" => self.open(),
            "close" => self.held().map(ScriptOp::Close),
            "dup" => self.held().and_then(|from| Ok(ScriptOp::Dup(from, self.held()?))),
            "read" => self.held().and_then(|held| Ok(ScriptOp::Read(held, self.number()?, self.at()?))),
            "write" => self.held().and_then(|held| Ok(ScriptOp::Write(held, self.number()?, self.seed()?, self.at()?))),
            "seek" => self.held().and_then(|held| Ok(ScriptOp::Seek(held, self.one_of(&WHENCES)?, self.number()?))),
            "truncate" => self.object().and_then(|object| Ok(ScriptOp::Truncate(object, self.number()?))),
            "allocate" => self
                .held()
                .and_then(|held| Ok(ScriptOp::Allocate(held, self.one_of(&ROOMS)?, self.number()?, self.number()?))),
            "copy" => self.spot().and_then(|from| Ok(ScriptOp::Copy(from, self.spot()?, self.number()?))),
            "clone" => self.held().and_then(|from| Ok(ScriptOp::Clone(from, self.held()?))),
            "sync" => self.sync(),
            _ => return None,
        })
    }

    fn names(&mut self, verb: &str) -> Option<Read<ScriptOp>> {
        Some(match verb {
            "mkdir" => self.path().and_then(|path| Ok(ScriptOp::Mkdir(path, self.octal()?))),
            "mknod" => self
                .path()
                .and_then(|path| Ok(ScriptOp::Mknod(path, self.one_of(&KINDS)?, self.octal()?, self.number()?))),
            "link" => self.object().and_then(|old| Ok(ScriptOp::Link(old, self.path()?, self.follow()))),
            "symlink" => self.path().and_then(|target| Ok(ScriptOp::Symlink(target, self.path()?))),
            "readlink" => self.path().map(ScriptOp::Readlink),
            "unlink" => self.path().map(ScriptOp::Unlink),
            "rmdir" => self.path().map(ScriptOp::Rmdir),
            "rename" => self.path().and_then(|from| Ok(ScriptOp::Rename(from, self.path()?, self.one_of(&RENAMES)?))),
            "list" => self.object().map(ScriptOp::List),
            "chdir" => self.object().map(ScriptOp::Chdir),
            _ => return None,
        })
    }

    fn attributes(&mut self, verb: &str) -> Option<Read<ScriptOp>> {
        Some(match verb {
            "stat" => self.object().map(|object| ScriptOp::Stat(object, self.follow())),
            "access" => self.path().and_then(|path| Ok(ScriptOp::Access(path, self.access()?))),
            "chmod" => self.object().and_then(|object| Ok(ScriptOp::Chmod(object, self.octal()?))),
            "chown" => self
                .object()
                .and_then(|object| Ok(ScriptOp::Chown(object, self.owner()?, self.owner()?, self.follow()))),
            "times" => {
                self.object().and_then(|object| Ok(ScriptOp::Times(object, self.time()?, self.time()?, self.follow())))
            }
            "getxattr" => self.xattr(|words| words.path().map(XattrOp::Get)),
            "listxattr" => self.xattr(|_| Ok(XattrOp::List)),
            "setxattr" => self.xattr(|words| {
                Ok(XattrOp::Set(words.path()?, words.number()?, words.seed()?, words.one_of(&XATTR_SETS)?))
            }),
            "removexattr" => self.xattr(|words| words.path().map(XattrOp::Remove)),
            "umask" => self.octal().map(ScriptOp::Umask),
            "become" => self.number().map(ScriptOp::Become),
            _ => return None,
        })
    }

    fn open(&mut self) -> Read<ScriptOp> {
        Ok(ScriptOp::Open(self.held()?, self.path()?, self.flags()?, self.octal()?))
    }

    fn sync(&mut self) -> Read<ScriptOp> {
        Ok(ScriptOp::Sync(match self.word()? {
            "data" => Durable::Data(self.held()?),
            "file" => Durable::File(self.held()?),
            "all" => Durable::All,
            _ => return Err("data, file or all is synced"),
        }))
    }

    fn xattr(&mut self, read: impl FnOnce(&mut Words<'a>) -> Read<XattrOp>) -> Read<ScriptOp> {
        let object = self.object()?;
        let op = read(self)?;
        Ok(ScriptOp::Xattr(object, op, self.follow()))
    }
}

/// The words of calls.
impl<'a> Words<'a> {
    fn word(&mut self) -> Read<&'a str> {
        self.0.next().ok_or("a word is missing")
    }

    fn number<T: FromStr>(&mut self) -> Read<T> {
        self.word()?.parse().map_err(|_| "a word is not the number that belongs there")
    }

    fn octal(&mut self) -> Read<u16> {
        let mode = u16::from_str_radix(self.word()?, 8);
        mode.ok().filter(|mode| *mode <= 0o7777).ok_or("a mode has up to four octal digits")
    }

    fn seed(&mut self) -> Read<u64> {
        let seed = self.word()?.strip_prefix('x').and_then(|digits| digits.parse().ok());
        seed.ok_or("a stream of bytes is x and a number")
    }

    fn at(&mut self) -> Read<Option<i64>> {
        let Some(word) = self.0.next_if(|word| word.starts_with('@')) else { return Ok(None) };
        word[1..].parse().map(Some).map_err(|_| "an offset is @ and a number")
    }

    fn held(&mut self) -> Read<Held> {
        let number = self.word()?.strip_prefix('#').and_then(|digits| digits.parse().ok());
        number.filter(|number: &u8| usize::from(*number) < HELD).map(Held).ok_or("a held file is #0 to #7")
    }

    fn spot(&mut self) -> Read<(Held, Option<i64>)> {
        Ok((self.held()?, self.at()?))
    }

    fn object(&mut self) -> Read<Object> {
        match self.0.peek() {
            Some(word) if word.starts_with('#') => self.held().map(Object::Held),
            Some(_) | None => self.path().map(Object::Path),
        }
    }

    fn path(&mut self) -> Read<Word> {
        const BROKEN: &str = "a backslash begins \\x and two hexadecimal digits";
        let word = self.word()?;
        if word == "\"\"" {
            return Ok(Word(Vec::new()));
        }
        if word.starts_with(['#', '@']) {
            return Err("a path begins with # or @, which is written \\x23 or \\x40");
        }
        let (mut bytes, mut rest) = (Vec::new(), word.as_bytes());
        while let Some((byte, behind)) = rest.split_first() {
            rest = behind;
            if *byte != b'\\' {
                bytes.push(*byte);
                continue;
            }
            let digits = behind.get(1..3).filter(|_| behind[0] == b'x').and_then(|digits| str::from_utf8(digits).ok());
            bytes.push(digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).ok_or(BROKEN)?);
            rest = &behind[3..];
        }
        Ok(Word(bytes))
    }

    fn one_of<T: Copy>(&mut self, table: &[(T, &'static str)]) -> Read<T> {
        let word = self.word()?;
        let found = table.iter().find(|(_, text)| *text == word);
        found.map(|(value, _)| *value).ok_or("a word is none of those that belong there")
    }

    fn follow(&mut self) -> Follow {
        let (nothing, word) = FOLLOWS[1];
        if self.0.next_if_eq(&word).is_some() { nothing } else { Follow::Links }
    }

    fn flags(&mut self) -> Read<OpenFlags> {
        let word = self.word()?;
        if word == "rdonly" {
            return Ok(OpenFlags::RDONLY);
        }
        word.split(',').try_fold(OpenFlags::RDONLY, |flags, word| {
            let (flag, _) = FLAGS.iter().find(|(_, text)| *text == word).ok_or("no flag of open has this name")?;
            Ok(flags | *flag)
        })
    }

    fn access(&mut self) -> Read<Access> {
        let word = self.word()?;
        if word == "-" {
            return Ok(Access::empty());
        }
        word.chars().try_fold(Access::empty(), |access, letter| {
            let (bit, _) = ACCESSES.iter().find(|(_, known)| *known == letter).ok_or("access is some of r, w and x")?;
            Ok(access | *bit)
        })
    }

    fn owner(&mut self) -> Read<Option<u32>> {
        match self.0.next_if_eq(&"-") {
            Some(_) => Ok(None),
            None => self.number().map(Some),
        }
    }

    fn time(&mut self) -> Read<SetTime> {
        Ok(match self.word()? {
            "keep" => SetTime::Keep,
            "now" => SetTime::Now,
            seconds => {
                let seconds: i64 = seconds.parse().map_err(|_| "a time is keep, now, or seconds since 1970")?;
                SetTime::To(Stamp(seconds.checked_mul(SECOND).ok_or("a time is too far away")?))
            }
        })
    }
}
