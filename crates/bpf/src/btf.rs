//! Where the members of the running kernel's structures lie, as the kernel itself tells (BTF, its `Documentation/bpf/btf.rst`).
//!
//! Read are the header, the names and the types up to the structure that is asked for. The kernel is trusted to tell the truth
//! about itself; a text that is cut or of another version is refused, not believed.

#![allow(clippy::disallowed_methods, reason = "the kernel tells the layout of its structures in a file")]

use std::io;

/// Where the kernel keeps its types.
const PLACE: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u16 = 0xeb9f;
const STRUCT: u8 = 4;
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

    /// Offset in bytes of a member of a structure.
    ///
    /// # Errors
    /// If there is none, or the types cannot be understood.
    pub fn offset(&self, structure: &'static str, member: &'static str) -> Result<i32, BtfError> {
        self.find(structure, member).ok_or(BtfError::Unknown)?.ok_or(BtfError::Absent(structure, member))
    }

    /// Nothing if the bytes are no types; nothing inside if the structure or member is not there.
    fn find(&self, structure: &str, member: &str) -> Option<Option<i32>> {
        let bytes = &self.0;
        if u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?) != MAGIC {
            return None;
        }
        let word = |at| Some(word(bytes, at)? as usize);
        let header = word(4)?;
        let part = |at: usize| bytes.get(header.checked_add(word(at)?)?..)?.get(..word(at + 4)?);
        let (types, names) = (part(8)?, part(16)?);
        let is_named = |at: u32, name: &str| {
            let rest = names.get(at as usize..)?;
            Some(rest.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0)))
        };
        let mut at = 0;
        while at < types.len() {
            let (name, info) = (self::word(types, at)?, self::word(types, at + 4)?);
            let (kind, parts) = ((info >> 24 & 31) as u8, info as usize & 0xffff);
            let (fixed, each) = *SIZES.get(usize::from(kind.checked_sub(1)?))?;
            let end = at + fixed + each * parts;
            if kind == STRUCT && is_named(name, structure)? {
                return Some(offset_among(types.get(at + fixed..end)?, info >> 31 != 0, |at| is_named(at, member)));
            }
            at = end;
        }
        Some(None)
    }
}

/// Offset of the first member whose name is the one; `bits` if members may be parts of bytes.
fn offset_among(members: &[u8], bits: bool, is_it: impl Fn(u32) -> Option<bool>) -> Option<i32> {
    let found = members.chunks_exact(12).find(|chunk| word(chunk, 0).and_then(&is_it) == Some(true))?;
    let offset = word(found, 8)? & if bits { 0xff_ffff } else { u32::MAX };
    i32::try_from(offset / 8).ok().filter(|_| offset.is_multiple_of(8))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}
