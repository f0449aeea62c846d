//! Where the members of the running kernel's structures lie, as the kernel itself tells (BTF, its
//! `Documentation/bpf/btf.rst`).
//!
//! Read are the header, the names and the types up to the structure that is asked for. The kernel is trusted to tell
//! the truth about itself; a text that is cut or of another version is refused, not believed.

#![allow(clippy::disallowed_methods, reason = "the kernel tells the layout of its structures in a file")]

use std::io;

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
pub struct Types(Vec<u8>);

impl Types {
    /// Those of the running kernel.
    ///
    /// # Errors
    /// If it tells none.
    pub fn of_kernel() -> Result<Types, BtfError> {
        Ok(Types(std::fs::read(PLACE)?))
    }

    /// From the bytes that a kernel tells.
    pub fn parse(bytes: Vec<u8>) -> Types {
        Types(bytes)
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
        let (types, names) = self.parts()?;
        let types = all_types(types)?;
        let name = format!("btf_trace_{tracepoint}");
        let is_it = |one: &&Type<'_>| one.kind == TYPEDEF && is_named(names, one.name, &name) == Some(true);
        let get = |number: u32| types.get((number as usize).checked_sub(1)?);
        let pointer = get(types.iter().find(is_it)?.of)?;
        let function = get(pointer.of).filter(|function| function.kind == PROTOTYPE)?;
        // The first is the program's own.
        (function.parts.len() / 8).checked_sub(1)
    }

    /// The types and the names; nothing if the bytes are none.
    fn parts(&self) -> Option<(&[u8], &[u8])> {
        let bytes = &self.0;
        if u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?) != MAGIC {
            return None;
        }
        let word = |at| Some(word(bytes, at)? as usize);
        let header = word(4)?;
        let part = |at: usize| bytes.get(header.checked_add(word(at)?)?..)?.get(..word(at + 4)?);
        Some((part(8)?, part(16)?))
    }

    /// Nothing if the bytes are no types; nothing inside if the structure or member is not there.
    fn find(&self, structure: &str, member: &str) -> Option<Option<i32>> {
        let (types, names) = self.parts()?;
        let is_named = |at: u32, name: &str| is_named(names, at, name);
        let types = all_types(types)?;
        for one in types.iter().filter(|one| one.kind == STRUCT) {
            if is_named(one.name, structure)? {
                let bits = one.offset_of(&types, &|at| is_named(at, member), DEEPEST);
                return Some(bits.and_then(|bits| i32::try_from(bits / 8).ok().filter(|_| bits.is_multiple_of(8))));
            }
        }
        Some(None)
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
}

/// All of them, in the order of their numbers, the first being 1. Nothing if they are cut.
fn all_types(bytes: &[u8]) -> Option<Vec<Type<'_>>> {
    let mut types = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let (name, info) = (word(bytes, at)?, word(bytes, at + 4)?);
        let (kind, parts) = ((info >> 24 & 31) as u8, info as usize & 0xffff);
        let (fixed, each) = *SIZES.get(usize::from(kind.checked_sub(1)?))?;
        let end = at + fixed + each * parts;
        types.push(Type {
            name,
            kind,
            has_bits: info >> 31 != 0,
            of: word(bytes, at + 8)?,
            parts: bytes.get(at + fixed..end)?,
        });
        at = end;
    }
    Some(types)
}

impl Type<'_> {
    /// Offset in bits of the first member whose name is the one, also within members without a name.
    fn offset_of(&self, types: &[Type<'_>], is_it: &impl Fn(u32) -> Option<bool>, depth: u32) -> Option<u32> {
        if self.kind != STRUCT && self.kind != UNION {
            return None;
        }
        self.parts.chunks_exact(12).find_map(|member| {
            let (name, of, told) = (word(member, 0)?, word(member, 4)?, word(member, 8)?);
            let offset = told & if self.has_bits { 0xff_ffff } else { u32::MAX };
            match (name, depth) {
                (0, 0) => None,
                (0, _) => {
                    let part = types.get((of as usize).checked_sub(1)?)?;
                    offset.checked_add(part.offset_of(types, is_it, depth - 1)?)
                }
                _ => (is_it(name) == Some(true)).then_some(offset),
            }
        })
    }
}

fn is_named(names: &[u8], at: u32, name: &str) -> Option<bool> {
    let rest = names.get(at as usize..)?;
    Some(rest.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0)))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}
