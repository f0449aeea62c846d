//! Reads the parts of a trace one after the other. It needs no index.

use super::super::{Yield, fields, varint};
use super::{
    BLOCK_HEAD_BYTES, BLOCK_RECORDS, END_MARK, EbtHeader, End, Kind, MAGIC, PAYLOAD_MAX, check_header, columns,
};
use crate::fault::Reason;
use crate::names::{Names, VOLUMES_MAX};
use crate::record::Record;
use std::collections::BTreeMap;

/// The part of the comment that is kept.
const COMMENT_BYTES_MAX: usize = 16 << 10;

/// What was read so far.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    names: BTreeMap<u64, String>,
    comment: Vec<u8>,
    /// Why nothing of this trace can be read.
    refused: Option<Reason>,
    /// Number of the record that should come next.
    next: u64,
    is_ended: bool,
}

impl Parser {
    /// For a trace that is read from record number `next` on, whose volumes have these names.
    pub(crate) fn resumed(next: u64, names: BTreeMap<u64, String>) -> Parser {
        Parser { names, next, ..Parser::default() }
    }
}

impl super::super::Parser for Parser {
    fn comment(&self) -> &[u8] {
        &self.comment
    }

    /// Without the end mark something is missing.
    fn missing_end(&self) -> Option<Reason> {
        (!self.is_ended).then_some(Reason::NoEnd)
    }

    fn parse(&mut self, piece: &[u8], names: &mut Names) -> Result<Yield, Reason> {
        if let Some(reason) = self.refused {
            return Err(reason);
        }
        if piece.starts_with(&MAGIC) {
            // A damaged header says nothing of the blocks; one from a newer program does.
            self.refused = check_header(piece).err().filter(|r| *r != Reason::Checksum);
            return check_header(piece).map(|()| Yield::Nothing);
        }
        if piece.starts_with(&END_MARK) {
            self.is_ended = true;
            let end = End::take(piece)?;
            return self.jump(end.records).map(|()| Yield::Nothing);
        }
        let (head, payload) = open(piece)?;
        match head.kind {
            Kind::Records | Kind::RecordsOfProcesses => self.records(&head, &payload, names),
            Kind::Names => self.name(&head, &payload).map(|()| Yield::Nothing),
            Kind::Comment => {
                let room = COMMENT_BYTES_MAX.saturating_sub(self.comment.len());
                self.comment.extend_from_slice(&payload[..payload.len().min(room)]);
                Ok(Yield::Nothing)
            }
            // The index serves seeks.
            Kind::Index => Ok(Yield::Nothing),
        }
    }
}

impl Parser {
    /// Moves on to record number `to`.
    fn jump(&mut self, to: u64) -> Result<(), Reason> {
        let expected = std::mem::replace(&mut self.next, to);
        if to == expected { Ok(()) } else { Err(Reason::Gap { expected, found: to }) }
    }

    /// A gap before a block is known when the block is read; its records count all the same.
    fn records(&mut self, head: &EbtHeader, payload: &[u8], names: &mut Names) -> Result<Yield, Reason> {
        let gap = self.jump(head.first).err();
        self.next = head.first.saturating_add(u64::from(head.items));
        let mut records = decode(head, payload)?;
        for record in &mut records {
            record.volume = self.number(record.volume, names)?;
        }
        Ok(match gap {
            None => Yield::Many(records),
            Some(reason) => Yield::After(reason, records),
        })
    }

    /// The number by which the reader knows the volume.
    fn number(&self, volume: u32, names: &mut Names) -> Result<u32, Reason> {
        let name = self.names.get(&u64::from(volume));
        names.number(&volume.to_le_bytes(), |_| name.cloned().unwrap_or_else(|| crate::format::unnamed(volume)))
    }

    fn name(&mut self, head: &EbtHeader, payload: &[u8]) -> Result<(), Reason> {
        for (number, name) in take_names(head, payload)? {
            self.names.insert(number, name);
        }
        Ok(())
    }
}

/// The head and the unpacked payload of a block.
pub(super) fn open(piece: &[u8]) -> Result<(EbtHeader, Vec<u8>), Reason> {
    let head = EbtHeader::take(piece)?;
    let stored = &piece[BLOCK_HEAD_BYTES..];
    if stored.len() != head.stored as usize || crc32fast::hash(stored) != head.payload_crc {
        return Err(Reason::Checksum);
    }
    let payload = match head.is_packed {
        true => zstd::bulk::decompress(stored, (head.raw as usize).min(PAYLOAD_MAX)).map_err(|_| Reason::Columnar)?,
        false => stored.to_vec(),
    };
    if payload.len() == head.raw as usize { Ok((head, payload)) } else { Err(Reason::Columnar) }
}

/// The records of a block, each of which keeps the promises of [`Record`]; volumes are numbered as in the file.
fn decode(head: &EbtHeader, payload: &[u8]) -> Result<Vec<Record>, Reason> {
    if head.items as usize > BLOCK_RECORDS {
        return Err(Reason::TooLarge("block"));
    }
    let records = columns::take(payload, head.items as usize, head.at, head.kind == Kind::RecordsOfProcesses)?;
    for r in &records {
        fields::request(r.at, r.volume, r.op, r.offset, r.len)?;
    }
    Ok(records)
}

/// The names in a block of them, with their numbers.
pub(super) fn take_names(head: &EbtHeader, mut payload: &[u8]) -> Result<Vec<(u64, String)>, Reason> {
    let mut names = Vec::new();
    for number in (head.first..).take(head.items as usize) {
        let len = varint::take(&mut payload).ok_or(Reason::Columnar)?;
        let len = usize::try_from(len).ok().filter(|len| *len <= payload.len()).ok_or(Reason::Columnar)?;
        let (name, rest) = payload.split_at(len);
        if number >= VOLUMES_MAX as u64 {
            return Err(Reason::TooManyVolumes(VOLUMES_MAX));
        }
        names.push((number, String::from_utf8_lossy(name).into_owned()));
        payload = rest;
    }
    Ok(names)
}
