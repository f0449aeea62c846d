//! Arguments of a call, by place and type.

use std::collections::BTreeSet;

use bitflags::Flags;

use super::Bad;
use crate::call::{At, Fd, Object};
use crate::import::RawCall;
use crate::import::lex::{Arg, number};
use crate::name::PathBytes;

/// What the recorder noted beside a descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The descriptor, or [`Fd::CWD`].
    pub fd: Fd,
    /// What it is open on, as noted.
    pub text: Vec<u8>,
}

/// Keeps one copy of each path.
#[derive(Debug, Default)]
pub struct Interner {
    paths: BTreeSet<PathBytes>,
}

impl Interner {
    /// The path with these bytes.
    pub fn path(&mut self, bytes: &[u8]) -> PathBytes {
        if let Some(path) = self.paths.get(bytes) {
            return path.clone();
        }
        let path = PathBytes::from(bytes);
        self.paths.insert(path.clone());
        path
    }
}

/// The arguments of one call.
pub struct Args<'a> {
    /// The call.
    pub raw: &'a RawCall,
    /// What was noted beside descriptors.
    pub notes: Vec<Note>,
    /// Unknown flag words.
    pub unknown: Vec<String>,
    interner: &'a mut Interner,
}

impl<'a> Args<'a> {
    /// Those of `raw`; paths are kept in `interner`.
    pub fn new(raw: &'a RawCall, interner: &'a mut Interner) -> Args<'a> {
        Args { raw, notes: Vec::new(), unknown: Vec::new(), interner }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.raw.args.len()
    }

    /// What the call returned; 0 where it failed or did not return.
    pub fn result(&self) -> i64 {
        self.raw.ret.value.unwrap_or(0)
    }

    /// Whether it succeeded.
    pub fn succeeded(&self) -> bool {
        self.raw.ret.errno.is_none() && self.raw.ret.value.is_some()
    }

    /// The argument at `place`; before the call if it was changed.
    pub fn get(&self, place: usize) -> Option<&'a Arg> {
        self.raw.args.get(place).map(plain)
    }

    /// The argument of that name, as strace names those of `clone`.
    pub fn named(&self, name: &str) -> Option<&'a Arg> {
        field_of(&self.raw.args, name)
    }

    fn wanted<T>(&self, place: usize, wanted: &'static str) -> Result<T, Bad> {
        Err(Bad::Argument { place, wanted })
    }

    /// A number.
    pub fn int(&self, place: usize) -> Result<i128, Bad> {
        match self.get(place).and_then(int_of) {
            Some(value) => Ok(value),
            None => self.wanted(place, "a number"),
        }
    }

    /// An unsigned number; negative ones wrap, as in the kernel.
    pub fn u64(&self, place: usize) -> Result<u64, Bad> {
        Ok(self.int(place)? as u64)
    }

    /// A signed number; those above 2^63 wrap.
    pub fn i64(&self, place: usize) -> Result<i64, Bad> {
        Ok(self.int(place)? as i64)
    }

    /// A number of 32 bits.
    pub fn u32(&self, place: usize) -> Result<u32, Bad> {
        Ok(self.int(place)? as u32)
    }

    /// A descriptor, or `AT_FDCWD`.
    pub fn fd(&mut self, place: usize) -> Result<Fd, Bad> {
        let (fd, note) = match self.get(place) {
            Some(Arg::Int { value, note }) => (Fd(*value as i32), note),
            Some(Arg::Words { text, note }) if text == "AT_FDCWD" => (Fd::CWD, note),
            _ => return self.wanted(place, "a descriptor"),
        };
        self.note(fd, note.as_deref());
        Ok(fd)
    }

    /// Remembers what was noted beside a descriptor.
    pub fn note(&mut self, fd: Fd, note: Option<&[u8]>) {
        self.notes.extend(note.map(|text| Note { fd, text: text.to_vec() }));
    }

    /// A path.
    pub fn path(&mut self, place: usize) -> Result<PathBytes, Bad> {
        match self.get(place) {
            Some(Arg::Text { bytes, cut: true }) => Err(Bad::CutPath(bytes.escape_ascii().to_string())),
            Some(Arg::Text { bytes, .. }) => Ok(self.interner.path(bytes)),
            _ => self.wanted(place, "a path"),
        }
    }

    /// A path that the call told: `None` where it did not, or where it was cut.
    pub fn seen_path(&mut self, place: usize) -> Option<PathBytes> {
        match self.get(place) {
            Some(Arg::Text { bytes, cut: false }) => Some(self.interner.path(bytes)),
            _ => None,
        }
    }

    /// A path that starts in the working directory.
    pub fn cwd(&mut self, place: usize) -> Result<At, Bad> {
        Ok(At { dir: Fd::CWD, path: self.path(place)? })
    }

    /// A directory's descriptor and, behind it, a path.
    pub fn at(&mut self, place: usize) -> Result<At, Bad> {
        Ok(At { dir: self.fd(place)?, path: self.path(place + 1)? })
    }

    /// A path that starts in the working directory, as an object.
    pub fn object(&mut self, place: usize, follow: bool) -> Result<Object, Bad> {
        Ok(Object::Path { at: self.cwd(place)?, follow })
    }

    /// A directory and a path; with an empty or absent path the descriptor itself, if the call allows that.
    pub fn object_at(&mut self, place: usize, flags: Option<usize>, follow: bool) -> Result<Object, Bad> {
        let has = |args: &Args<'_>, word| flags.is_some_and(|flags| args.has(flags, word));
        let is_absent = matches!(self.get(place + 1), Some(Arg::Words { text, .. }) if text == "NULL");
        let is_empty = matches!(self.get(place + 1), Some(Arg::Text { bytes, cut: false }) if bytes.is_empty());
        if is_absent || (is_empty && has(self, "AT_EMPTY_PATH")) {
            let fd = self.fd(place)?;
            // An empty path in the working directory is the directory.
            let dot = || At { dir: Fd::CWD, path: PathBytes::from(".") };
            return Ok(if fd == Fd::CWD { Object::Path { at: dot(), follow: true } } else { Object::Fd(fd) });
        }
        let follow = if follow { !has(self, "AT_SYMLINK_NOFOLLOW") } else { has(self, "AT_SYMLINK_FOLLOW") };
        Ok(Object::Path { at: self.at(place)?, follow })
    }

    /// The words of an argument, cut at `|`.
    pub fn words(&self, place: usize) -> Vec<&'a str> {
        self.get(place).map(words_of).unwrap_or_default()
    }

    /// Whether one of the words of an argument is this one.
    pub fn has(&self, place: usize, word: &str) -> bool {
        self.words(place).contains(&word)
    }

    /// A set of flags; unknown flags are counted and left out.
    pub fn flags<F: Flags>(&mut self, place: usize) -> F {
        let words = self.words(place);
        self.flags_from(&words)
    }

    /// Those flags of an argument that matter here; others are as they should be.
    pub fn some_flags<F: Flags>(&self, place: usize) -> F {
        self.words(place).into_iter().filter_map(F::from_name).fold(F::empty(), F::union)
    }

    /// As [`Args::flags`], from words.
    pub fn flags_from<F: Flags>(&mut self, words: &[&str]) -> F {
        let mut set = F::empty();
        for word in words {
            match F::from_name(word) {
                Some(flag) => set.insert(flag),
                None if number(word) == Some(0) || word.is_empty() => {}
                None => self.unknown.push((*word).to_string()),
            }
        }
        set
    }

    /// Permission bits, alone or behind a type.
    pub fn mode(&self, place: usize) -> u16 {
        let from_words = || self.words(place).into_iter().filter_map(mode_bits).fold(0, |mode, bits| mode | bits);
        self.int(place).map_or_else(|_| from_words(), |mode| (mode & 0o7777) as u16)
    }

    /// A list's values.
    pub fn list(&self, place: usize) -> Result<&'a [Arg], Bad> {
        match self.raw.args.get(place).map(plain) {
            Some(Arg::List(values)) => Ok(values),
            _ => self.wanted(place, "a list"),
        }
    }
}

/// A value without its name, as it was before the call.
pub(super) fn plain(arg: &Arg) -> &Arg {
    match arg {
        Arg::Named(_, value) => plain(value),
        Arg::Change(before, _) => plain(before),
        other => other,
    }
}

/// A value without its name, as it was after the call.
pub(super) fn after(arg: &Arg) -> &Arg {
    match arg {
        Arg::Named(_, value) => after(value),
        Arg::Change(_, after_it) => after(after_it),
        other => other,
    }
}

/// The named value among values.
pub(super) fn field_of<'a>(values: &'a [Arg], name: &str) -> Option<&'a Arg> {
    values.iter().find_map(|value| match value {
        Arg::Named(its, inner) if its == name => Some(plain(inner)),
        _ => None,
    })
}

/// The named value in a structure.
pub(super) fn field<'a>(structure: &'a Arg, name: &str) -> Option<&'a Arg> {
    match structure {
        Arg::Fields(values) => field_of(values, name),
        _ => None,
    }
}

/// The number that a value is.
pub(super) fn int_of(arg: &Arg) -> Option<i128> {
    match plain(arg) {
        Arg::Int { value, .. } => Some(*value),
        Arg::Words { text, .. } => named_number(text),
        _ => None,
    }
}

/// Numbers that strace writes by name.
fn named_number(text: &str) -> Option<i128> {
    match text {
        "NULL" => Some(0),
        "LONG_MAX" | "OFFSET_MAX" | "LLONG_MAX" => Some(i64::MAX.into()),
        "LONG_MIN" | "LLONG_MIN" => Some(i64::MIN.into()),
        "ULONG_MAX" | "SIZE_MAX" => Some(u64::MAX.into()),
        "INT_MAX" => Some(i32::MAX.into()),
        "UINT_MAX" => Some(u32::MAX.into()),
        _ => text.split_whitespace().next().and_then(number),
    }
}

/// The words of a value, cut at `|`.
pub(super) fn words_of(arg: &Arg) -> Vec<&str> {
    match plain(arg) {
        Arg::Words { text, .. } => text.split('|').map(str::trim).collect(),
        _ => Vec::new(),
    }
}

/// Permission bits of one word of a mode.
fn mode_bits(word: &str) -> Option<u16> {
    match word {
        "S_ISUID" => Some(0o4000),
        "S_ISGID" => Some(0o2000),
        "S_ISVTX" => Some(0o1000),
        _ => number(word).map(|bits| (bits & 0o7777) as u16),
    }
}

/// The permission bits in a structure's field.
pub(super) fn mode_of(arg: &Arg) -> u16 {
    match plain(arg) {
        Arg::Int { value, .. } => (*value & 0o7777) as u16,
        other => words_of(other).into_iter().filter_map(mode_bits).fold(0, |mode, bits| mode | bits),
    }
}
