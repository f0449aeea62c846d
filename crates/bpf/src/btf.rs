//! Where the members of the running kernel's structures lie, as the kernel itself tells (BTF, its
//! `Documentation/bpf/btf.rst`).
//!
//! Read are the header, the names and the types up to the structure that is asked for. The kernel is trusted to tell
//! the truth about itself; a text that is cut or of another version is refused, not believed.

#![allow(clippy::disallowed_methods, reason = "the kernel tells the layout of its structures in a file")]

use std::io;
use std::ops::Range;

/// Where the kernel keeps its types.
const PLACE: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u16 = 0xeb9f;
const STRUCT: u8 = 4;
const UNION: u8 = 5;
const TYPEDEF: u8 = 8;
const PROTOTYPE: u8 = 13;
/// Parts without a name within others are looked into so deep.
const DEEPEST: u32 = 8;
/// Bytes of each kind of type that are always there, of those for each of its parts, from kind 1 on.
const SIZES: [(usize, usize); 19] = [
    (16, 0),  // int
    (12, 0),  // pointer
    (24, 0),  // array
    (12, 12), // struct
    (12, 12), // union
    (12, 8),  // enum
    (12, 0),  // forward
    (12, 0),  // typedef
    (12, 0),  // volatile
    (12, 0),  // const
    (12, 0),  // restrict
    (12, 0),  // function
    (12, 8),  // prototype
    (16, 0),  // variable
    (12, 12), // section
    (12, 0),  // float
    (16, 0),  // declaration tag
    (12, 0),  // type tag
    (12, 12), // enum of 64 bits
];

/// Types that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    /// The kernel does not tell them.
    #[error("the kernel's types cannot be read from {PLACE}: {0}; it must be built with CONFIG_DEBUG_INFO_BTF")]
    Unread(#[from] io::Error),
    /// They are not as in all kernels so far.
    #[error("the kernel's types are of an unknown form or cut short")]
    Unknown,
    /// There is no such structure or member.
    #[error("this kernel has no {0}.{1}")]
    Absent(&'static str, &'static str),
}

/// The kernel's types.
pub struct Types {
    bytes: Vec<u8>,
    /// Nothing if the bytes cannot be understood. Kernels have 150,000 types, so they are gone through once.
    index: Option<Index>,
}

/// Where the types and the names lie.
struct Index {
    /// Of each type, in the order of their numbers, the first being 1.
    starts: Vec<u32>,
    names: Range<usize>,
}

impl Types {
    /// Those of the running kernel.
    ///
    /// # Errors
    /// If it tells none.
    pub fn of_kernel() -> Result<Types, BtfError> {
        Ok(Types::parse(std::fs::read(PLACE)?))
    }

    /// From the bytes that a kernel tells.
    pub fn parse(bytes: Vec<u8>) -> Types {
        let index = Index::of(&bytes);
        Types { bytes, index }
    }

    /// Offset in bytes of a member of a structure, also where it is in a part of it that has no name.
    ///
    /// # Errors
    /// If there is none, or the types cannot be understood.
    pub fn offset(&self, structure: &'static str, member: &'static str) -> Result<i32, BtfError> {
        self.find(structure, member).ok_or(BtfError::Unknown)?.ok_or(BtfError::Absent(structure, member))
    }

    /// How many arguments the programs at a tracepoint are given: kernels differ. Nothing if there is no such
    /// tracepoint, or the types cannot be understood.
    pub fn tracepoint_arguments(&self, tracepoint: &str) -> Option<usize> {
        let name = format!("btf_trace_{tracepoint}");
        let is_it = |one: &Type<'_>| one.kind == TYPEDEF && self.is_named(one.name, &name) == Some(true);
        let pointer = self.get(self.all()?.find(is_it)?.of)?;
        let function = self.get(pointer.of).filter(|function| function.kind == PROTOTYPE)?;
        // The first is the program's own.
        (function.parts.len() / 8).checked_sub(1)
    }

    /// All types, in the order of their numbers.
    fn all(&self) -> Option<impl Iterator<Item = Type<'_>>> {
        let starts = &self.index.as_ref()?.starts;
        Some(starts.iter().filter_map(|at| Type::at(&self.bytes, *at as usize)))
    }

    fn get(&self, number: u32) -> Option<Type<'_>> {
        let at = self.index.as_ref()?.starts.get((number as usize).checked_sub(1)?)?;
        Type::at(&self.bytes, *at as usize)
    }

    fn is_named(&self, at: u32, name: &str) -> Option<bool> {
        let rest = self.bytes[self.index.as_ref()?.names.clone()].get(at as usize..)?;
        Some(rest.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0)))
    }

    /// Nothing if the bytes are no types; nothing inside if the structure or member is not there.
    fn find(&self, structure: &str, member: &str) -> Option<Option<i32>> {
        for one in self.all()?.filter(|one| one.kind == STRUCT) {
            if self.is_named(one.name, structure)? {
                let bits = self.offset_in(&one, member, DEEPEST);
                return Some(bits.and_then(|bits| i32::try_from(bits / 8).ok().filter(|_| bits.is_multiple_of(8))));
            }
        }
        Some(None)
    }

    /// Offset in bits of the first member with this name, also within members without a name.
    fn offset_in(&self, of: &Type<'_>, member: &str, depth: u32) -> Option<u32> {
        if of.kind != STRUCT && of.kind != UNION {
            return None;
        }
        of.parts.chunks_exact(12).find_map(|part| {
            let (name, inner, told) = (word(part, 0)?, word(part, 4)?, word(part, 8)?);
            let offset = told & if of.has_bits { 0xff_ffff } else { u32::MAX };
            match (name, depth) {
                (0, 0) => None,
                (0, _) => offset.checked_add(self.offset_in(&self.get(inner)?, member, depth - 1)?),
                _ => (self.is_named(name, member) == Some(true)).then_some(offset),
            }
        })
    }
}

impl Index {
    /// Nothing if the bytes are none, or are cut.
    fn of(bytes: &[u8]) -> Option<Index> {
        if u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?) != MAGIC {
            return None;
        }
        let word = |at| Some(word(bytes, at)? as usize);
        let header = word(4)?;
        let part = |at: usize| {
            let start = header.checked_add(word(at)?)?;
            let range = start..start.checked_add(word(at + 4)?)?;
            bytes.get(range.clone())?;
            Some(range)
        };
        let (types, names) = (part(8)?, part(16)?);
        let (mut starts, mut at) = (Vec::new(), types.start);
        while at < types.end {
            starts.push(u32::try_from(at).ok()?);
            at += Type::at(&bytes[..types.end], at)?.bytes;
        }
        Some(Index { starts, names })
    }
}

/// A type, with its parts as they are told.
struct Type<'a> {
    name: u32,
    kind: u8,
    /// Members may be parts of bytes.
    has_bits: bool,
    /// Another type, of kinds that have one; else a size.
    of: u32,
    parts: &'a [u8],
    /// Bytes of the type itself.
    bytes: usize,
}

impl<'a> Type<'a> {
    /// The type that begins there. Nothing if it is cut, or of a kind that none knows.
    fn at(bytes: &'a [u8], at: usize) -> Option<Type<'a>> {
        let (name, info) = (word(bytes, at)?, word(bytes, at + 4)?);
        let (kind, parts) = ((info >> 24 & 31) as u8, info as usize & 0xffff);
        let (fixed, each) = *SIZES.get(usize::from(kind.checked_sub(1)?))?;
        let size = fixed + each * parts;
        let of = word(bytes, at + 8)?;
        let parts = bytes.get(at + fixed..at + size)?;
        Some(Type { name, kind, has_bits: info >> 31 != 0, of, parts, bytes: size })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}
