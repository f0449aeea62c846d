//! Block numbers alone: 4 bytes each, little endian, neither time nor operation nor length.
//!
//! The samples that come with caffeine's simulator (`w106.trace` and others of CloudPhysics) are of this kind. Nothing
//! marks them: a name like theirs tells, if the bytes do not contradict.

use super::fields::request;
use super::info::{About, FormatInfo, Signs};
use super::{Parser, Yield};
use crate::fault::Reason;
use crate::input::Unit;
use crate::names::Names;
use crate::record::{Op, Record};
use esker_base::Nanos;
use esker_base::codec::Reader;
use std::collections::BTreeSet;

pub(crate) static INFO: FormatInfo = FormatInfo {
    about: About {
        file: "block numbers (CloudPhysics `w106.trace`)",
        form: "4-byte numbers",
        times: "none",
        operations: "none: all are reads",
        volumes: "one",
        addresses: "4 KiB",
    },
    signs: Signs { name: Some(|file, head| is_name(file) && fits(head)), ..Signs::NONE },
    has_times: false,
    has_operations: false,
    ..FormatInfo::of("ids", Unit::Bytes(RECORD_BYTES), 1, |_| Box::new(Numbers))
};

const RECORD_BYTES: usize = 4;

/// What a number stands for. The traces do not tell the size of a block; this is that of a page.
const BLOCK_BYTES: u64 = 4096;

/// Numbers beyond this (1 TiB of blocks) are rather something else.
const LIKELY_MAX: u32 = 1 << 28;

/// Fewer different numbers than this in the beginning are rather the zeros of a disk image.
const DIFFERENT_MIN: usize = 8;

/// Numbers stand alone.
#[derive(Debug)]
struct Numbers;

impl Parser for Numbers {
    fn parse(&mut self, piece: &[u8], _: &mut Names) -> Result<Yield, Reason> {
        parse(piece).map(Yield::One)
    }
}

fn parse(piece: &[u8]) -> Result<Record, Reason> {
    let id = Reader::new(piece).le_u32().expect("the feed cuts whole records");
    request(Nanos::ZERO, 0, Op::Read, u64::from(id) * BLOCK_BYTES, BLOCK_BYTES)
}

/// Whether a file is called like those of CloudPhysics: `w` and digits, then `.trace`.
fn is_name(file: &str) -> bool {
    let number = file.strip_prefix('w').and_then(|rest| rest.strip_suffix(".trace"));
    number.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether `head` could be a list of block numbers: no text, no large numbers, and not always the same ones.
pub(crate) fn fits(head: &[u8]) -> bool {
    let (ids, _) = head.as_chunks::<RECORD_BYTES>();
    let ids: BTreeSet<u32> = ids.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    head.contains(&0) && ids.len() >= DIFFERENT_MIN && ids.last().is_some_and(|largest| *largest <= LIKELY_MAX)
}
