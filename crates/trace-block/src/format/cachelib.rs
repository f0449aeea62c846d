//! CacheLib's CSV of requests to a store of named blocks (Meta's Tectonic):
//! `op_time,block_id,...,io_size,io_offset,...`.
//!
//! A block is a part (`rs_shard_id`) of what `block_id` names. Blocks have no place on a disk: each gets
//! [`BLOCK_BYTES`] in order of first appearance. A line stands for `op_count` requests.

use super::Yield;
use super::fields::{request, seconds, whole};
use super::info::{About, FormatInfo, SECOND, Signs};
use super::named::{Table, Wanted};
use crate::fault::Reason;
use crate::input::Unit;
use crate::names::Names;
use crate::record::Op;
use std::collections::BTreeMap;

pub(crate) static INFO: FormatInfo = FormatInfo {
    about: About {
        file: "CacheLib's block store CSV",
        form: "text",
        times: "s",
        operations: "read, write",
        volumes: "one",
        addresses: "byte in a named block",
    },
    signs: Signs { header: Some(|line| COLUMNS.is_header(line)), ..Signs::NONE },
    is_absolute: true,
    ..FormatInfo::of("cachelib", Unit::Line, SECOND, |_| Box::new(Parser::default()))
};

static COLUMNS: Wanted<7> = Wanted {
    separator: b',',
    names: ["op_time", "block_id", "io_size", "io_offset", "op_name", "op_count", "rs_shard_id"],
    needed: 5,
    loose: None,
    example: "op_time,block_id,block_id_size,io_size,io_offset,user_name,user_namespace,op_name,op_count",
};

/// The room of a block: 8 MiB of data, what is stored beside it, and some.
const BLOCK_BYTES: u64 = 16 << 20;

/// More blocks than this are refused, so that memory stays below 200 MiB.
const BLOCKS_MAX: usize = 4 << 20;

/// The most requests that one line may stand for.
const REPEATS_MAX: u64 = 1000;

#[derive(Debug)]
struct Parser {
    table: Table<7>,
    /// The number of each block, by the hash of its name.
    blocks: BTreeMap<u128, u32>,
}

impl Default for Parser {
    fn default() -> Parser {
        Parser { table: Table::new(&COLUMNS), blocks: BTreeMap::new() }
    }
}

impl super::Parser for Parser {
    fn parse(&mut self, line: &[u8], _: &mut Names) -> Result<Yield, Reason> {
        let Some(columns) = self.table.columns(line)? else { return Ok(Yield::Nothing) };
        let [second, block, size, offset, name, count, shard] = columns;
        let at = seconds(second, "op_time")?;
        let op = operation(name.trim_ascii())?;
        let count = if count.is_empty() { 1 } else { whole(count, "op_count")? };
        if count > REPEATS_MAX {
            return Err(Reason::Beyond { what: "op_count", most: REPEATS_MAX });
        }
        let inside = request(at, 0, op, whole(offset, "io_offset")?, whole(size, "io_size")?)?;
        if inside.range().end() > BLOCK_BYTES {
            return Err(Reason::Beyond { what: "end of the range in its block", most: BLOCK_BYTES });
        }
        let mut record = inside;
        record.offset += self.number(block.trim_ascii(), shard.trim_ascii())? * BLOCK_BYTES;
        let count = usize::try_from(count).expect("few repeats");
        Ok(if count == 1 { Yield::One(record) } else { Yield::Many(vec![record; count]) })
    }

    fn missing_mark(&self) -> Option<Reason> {
        self.table.missing_mark()
    }
}

impl Parser {
    /// The number of a block in order of first appearance.
    fn number(&mut self, block: &[u8], shard: &[u8]) -> Result<u64, Reason> {
        if block.is_empty() {
            return Err(Reason::Missing("block_id"));
        }
        let (key, next) = (hash(block, shard), self.blocks.len());
        if let Some(number) = self.blocks.get(&key) {
            return Ok(u64::from(*number));
        }
        if next >= BLOCKS_MAX {
            return Err(Reason::Beyond { what: "number of different blocks", most: BLOCKS_MAX as u64 });
        }
        self.blocks.insert(key, u32::try_from(next).expect("fewer blocks than 2^32"));
        Ok(next as u64)
    }
}

/// `getChunkData.Permanent`, `putChunk.NotInitialized` and alike.
fn operation(name: &[u8]) -> Result<Op, Reason> {
    match name {
        [b'g', b'e', b't', ..] => Ok(Op::Read),
        [b'p', b'u', b't', ..] => Ok(Op::Write),
        _ => Err(Reason::UnknownOp("a name that begins with get or put")),
    }
}

/// FNV-1a of 128 bits: the names of blocks are hashes already, and two alike among millions are as good as impossible.
fn hash(block: &[u8], shard: &[u8]) -> u128 {
    let bytes = block.iter().chain(b",").chain(shard);
    bytes.fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_blocks_than_memory_allows_are_refused_and_known_ones_are_read() {
        let (known, new) = (hash(b"known", b""), hash(b"new", b""));
        let others = (0u128..).zip(1u32..).take(BLOCKS_MAX - 1);
        let blocks = std::iter::once((known, 0)).chain(others).collect();
        let mut parser = Parser { blocks, ..Parser::default() };
        assert_eq!((parser.blocks.len(), parser.blocks.contains_key(&new)), (BLOCKS_MAX, false));
        assert_eq!(parser.number(b"known", b""), Ok(0));
        let full = Reason::Beyond { what: "number of different blocks", most: BLOCKS_MAX as u64 };
        assert_eq!(parser.number(b"new", b""), Err(full));
    }
}
