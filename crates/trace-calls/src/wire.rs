//! How values become bytes: varints, and paths and words by their number in a table. Shared by every format that holds
//! calls.
//!
//! A varint has 7 bits to a byte, least significant first, the top bit set in all but the last byte (at most 10 bytes);
//! a signed one is `(n << 1) ^ (n >> 63)` as a varint. A name is the varint number of its entry in a table of names
//! that the surrounding format keeps.

#![deny(clippy::cast_possible_truncation)]

mod fields;

use std::collections::BTreeMap;

use crate::call::{At, Fd};
use crate::name::{PathBytes, Word};

/// Bytes that say something impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at}: {what}")]
pub struct Malformed {
    /// Offset in the bytes that were read.
    pub at: usize,
    /// What is wrong there.
    pub what: &'static str,
}

/// Names that were used, each once, numbered in the order of their first use.
#[derive(Debug, Clone, Default)]
pub struct NameTable {
    numbers: BTreeMap<PathBytes, u32>,
    names: Vec<PathBytes>,
    bytes: usize,
}

impl NameTable {
    /// An empty table.
    pub fn new() -> NameTable {
        NameTable::default()
    }

    /// The number of a name, which is added if it is new.
    ///
    /// # Panics
    /// With 2^32 names.
    pub fn number(&mut self, name: &PathBytes) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = u32::try_from(self.names.len()).expect("fewer names than 2^32");
        self.numbers.insert(name.clone(), number);
        self.names.push(name.clone());
        self.bytes += name.len() + 2;
        number
    }

    /// Numbers the names of a value, in the order in which it is written. The value shares their bytes with the table.
    pub fn share(&mut self, value: &mut impl Field) {
        let mut shared = |name: &PathBytes| {
            let number = self.number(name);
            self.names[number as usize].clone()
        };
        value.parts_mut(&mut |part| match part {
            PartMut::At(At { path, .. }) | PartMut::Path(path) => *path = shared(path),
            PartMut::Word(word) => *word = shared(&word.clone().into()).into(),
            PartMut::Fd(_) => (),
        });
    }

    /// About how many bytes the names take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// All names, by number.
    pub fn names(&self) -> &[PathBytes] {
        &self.names
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.numbers.clear();
        self.names.clear();
        self.bytes = 0;
    }
}

/// Appends values to bytes.
#[derive(Debug)]
pub struct Encoder<'a> {
    out: &'a mut Vec<u8>,
    names: &'a mut NameTable,
}

impl<'a> Encoder<'a> {
    /// Appends to `out`; names go to `names`.
    pub fn new(out: &'a mut Vec<u8>, names: &'a mut NameTable) -> Encoder<'a> {
        Encoder { out, names }
    }

    /// Offset of the next value.
    pub fn at(&self) -> usize {
        self.out.len()
    }

    /// One byte.
    pub fn byte(&mut self, byte: u8) {
        self.out.push(byte);
    }

    /// A varint.
    pub fn unsigned(&mut self, n: u64) {
        put_varint(self.out, n);
    }

    /// A signed varint.
    pub fn signed(&mut self, n: i64) {
        self.unsigned(((n << 1) ^ (n >> 63)) as u64);
    }

    /// A path, by its number.
    pub fn path(&mut self, path: &PathBytes) {
        let number = self.names.number(path);
        self.unsigned(u64::from(number));
    }
}

/// Appends one varint.
pub fn put_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push((n & 0x7f) as u8 | 0x80);
        n >>= 7;
    }
    out.push((n & 0x7f) as u8);
}

/// Reads values from the front of bytes.
#[derive(Debug, Clone)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
    names: &'a [PathBytes],
}

impl<'a> Decoder<'a> {
    /// Reads `bytes`, with `names` by number.
    pub fn new(bytes: &'a [u8], names: &'a [PathBytes]) -> Decoder<'a> {
        Decoder { bytes, at: 0, names }
    }

    /// Offset of the next read.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Whether all is read.
    pub fn is_done(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// An error at the current place.
    pub fn malformed(&self, what: &'static str) -> Malformed {
        Malformed { at: self.at, what }
    }

    /// One byte.
    ///
    /// # Errors
    /// The bytes end.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let byte = *self.bytes.get(self.at).ok_or(self.malformed("the bytes end inside a value"))?;
        self.at += 1;
        Ok(byte)
    }

    /// A varint.
    ///
    /// # Errors
    /// The bytes end, or the number is larger than 2^64 - 1.
    pub fn unsigned(&mut self) -> Result<u64, Malformed> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            n |= bits << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err(self.malformed("a number larger than 64 bits"))
    }

    /// A signed varint.
    ///
    /// # Errors
    /// As [`Decoder::unsigned`].
    pub fn signed(&mut self) -> Result<i64, Malformed> {
        let n = self.unsigned()?;
        Ok((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    /// Raw bytes after their varint length.
    ///
    /// # Errors
    /// Longer than `max`, or than what is left.
    pub fn bytes(&mut self, max: usize) -> Result<&'a [u8], Malformed> {
        let len = self.unsigned()?;
        let left = self.bytes.len() - self.at;
        let len = usize::try_from(len).ok().filter(|len| *len <= max.min(left));
        let len = len.ok_or(self.malformed("a name longer than allowed, or than what is left"))?;
        let taken = &self.bytes[self.at..self.at + len];
        self.at += len;
        Ok(taken)
    }

    /// A path by its number.
    ///
    /// # Errors
    /// The table has no such name.
    pub fn path(&mut self) -> Result<PathBytes, Malformed> {
        let number = self.unsigned()?;
        let name = usize::try_from(number).ok().and_then(|number| self.names.get(number));
        name.cloned().ok_or(self.malformed("the number of no name"))
    }
}

/// What is looked for inside values. A path that starts somewhere is one part, not two.
#[derive(Debug, Clone, Copy)]
pub enum Part<'a> {
    /// A path and where it starts.
    At(&'a At),
    /// A descriptor.
    Fd(Fd),
    /// Any other path.
    Path(&'a PathBytes),
    /// A name that is no path.
    Word(&'a Word),
}

/// A [`Part`] that can be changed.
#[derive(Debug)]
pub enum PartMut<'a> {
    /// A path and where it starts.
    At(&'a mut At),
    /// A descriptor.
    Fd(&'a mut Fd),
    /// Any other path.
    Path(&'a mut PathBytes),
    /// A name that is no path.
    Word(&'a mut Word),
}

/// A value that is written, read, told to people, and whose parts can be seen and changed.
pub trait Field: Sized {
    /// Appends it.
    fn put(&self, to: &mut Encoder<'_>);

    /// Reads it.
    ///
    /// # Errors
    /// The bytes are none of its.
    fn get(from: &mut Decoder<'_>) -> Result<Self, Malformed>;

    /// Appends it as text for people.
    fn render(&self, to: &mut String);

    /// Shows each of its parts to `see`, in the order of its fields.
    fn parts<'a>(&'a self, see: &mut dyn FnMut(Part<'a>)) {
        let _ = see;
    }

    /// Shows each of its parts to `change`, in the order of its fields.
    fn parts_mut(&mut self, change: &mut dyn FnMut(PartMut<'_>)) {
        let _ = change;
    }
}

/// A structure is its fields, one after the other.
macro_rules! structs {
    ($( $name:ident { $($field:ident),* } )*) => { $(
        impl $crate::wire::Field for $name {
            fn put(&self, to: &mut $crate::wire::Encoder<'_>) {
                $( $crate::wire::Field::put(&self.$field, to); )*
            }

            fn get(from: &mut $crate::wire::Decoder<'_>) -> Result<$name, $crate::wire::Malformed> {
                Ok($name { $( $field: $crate::wire::Field::get(from)? ),* })
            }

            fn render(&self, to: &mut String) {
                to.push('{');
                $(
                    to.push_str(concat!(stringify!($field), "="));
                    $crate::wire::Field::render(&self.$field, to);
                    to.push(' ');
                )*
                to.pop();
                to.push('}');
            }

            fn parts<'a>(&'a self, see: &mut dyn FnMut($crate::wire::Part<'a>)) {
                $( $crate::wire::Field::parts(&self.$field, see); )*
            }

            fn parts_mut(&mut self, change: &mut dyn FnMut($crate::wire::PartMut<'_>)) {
                $( $crate::wire::Field::parts_mut(&mut self.$field, change); )*
            }
        }
    )* };
}

pub(crate) use structs;

/// Choices are one byte, sets of flags a varint.
macro_rules! word_fields {
    (choices: $($choice:ty),*; flags: $($flags:ty),*) => {
        $(
            impl $crate::wire::Field for $choice {
                fn put(&self, to: &mut $crate::wire::Encoder<'_>) {
                    to.byte(self.code());
                }

                fn get(from: &mut $crate::wire::Decoder<'_>) -> Result<$choice, $crate::wire::Malformed> {
                    let code = from.byte()?;
                    <$choice>::from_code(code).ok_or(from.malformed(concat!("no ", stringify!($choice))))
                }

                fn render(&self, to: &mut String) {
                    to.push_str(self.name());
                }
            }
        )*
        $(
            impl $crate::wire::Field for $flags {
                fn put(&self, to: &mut $crate::wire::Encoder<'_>) {
                    to.unsigned(self.bits().into());
                }

                fn get(from: &mut $crate::wire::Decoder<'_>) -> Result<$flags, $crate::wire::Malformed> {
                    let bits = <u32 as $crate::wire::Field>::get(from)?;
                    <$flags>::from_bits(bits).ok_or(from.malformed(concat!("unknown ", stringify!($flags))))
                }

                fn render(&self, to: &mut String) {
                    to.push_str(if self.is_empty() { "0" } else { "" });
                    to.push_str(&self.text());
                }
            }
        )*
    };
}

pub(crate) use word_fields;
