//! blkreplay `.load`: a free comment, the header line, then `start s ; sector ; length (sectors) ; op ; 0.0 ; 0.0`.

use super::Yield;
use super::encoder::{self, RecordContext, Revisit};
use super::fields::{fill, is_remark, request, scaled, seconds, whole};
use super::info::{About, FormatInfo, Signs};
use crate::fault::Reason;
use crate::input::Unit;
use crate::names::Names;
use crate::record::{Op, Record};
use crate::sink::{Loss, Losses};
use esker_base::units::SECTOR;
use std::io::Write;

/// A comment longer than this is none: the trace has another format.
const COMMENT_LINES_MAX: u64 = 200;

/// The part of the comment that is kept.
const COMMENT_BYTES_MAX: usize = 16 << 10;

/// The header line as blkreplay's own converter writes it.
const HEADER: &str = "start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0";

pub(crate) static INFO: FormatInfo = FormatInfo {
    about: About {
        file: "blkreplay `.load`",
        form: "text",
        times: "ns",
        operations: "read, write",
        volumes: "one",
        addresses: "512 bytes",
    },
    encoder: Some(|| Box::new(Encoder)),
    endings: &[".load"],
    signs: Signs { below_comment: Some(is_header), by_ending: true, ..Signs::NONE },
    ..FormatInfo::of("load", Unit::Line, 1, |_| Box::new(Parser::default()))
};

#[derive(Debug, Default)]
struct Parser {
    /// The header line or a first record was seen.
    started: bool,
    comment_lines: u64,
    comment: Vec<u8>,
}

impl super::Parser for Parser {
    fn parse(&mut self, line: &[u8], _: &mut Names) -> Result<Yield, Reason> {
        self.request(line).map(Yield::from)
    }

    fn comment(&self) -> &[u8] {
        &self.comment
    }

    fn missing_mark(&self) -> Option<Reason> {
        (!self.started).then_some(Reason::NoHeader(self.comment_lines))
    }
}

impl Parser {
    fn request(&mut self, line: &[u8]) -> Result<Option<Record>, Reason> {
        if self.started {
            return if is_remark(line.trim_ascii()) { Ok(None) } else { record(line).map(Some) };
        }
        if is_header(line) {
            self.started = true;
            return Ok(None);
        }
        match record(line) {
            Ok(first) => {
                self.started = true;
                Ok(Some(first))
            }
            Err(_) => self.comment_line(line),
        }
    }

    fn comment_line(&mut self, line: &[u8]) -> Result<Option<Record>, Reason> {
        self.comment_lines += 1;
        if self.comment_lines > COMMENT_LINES_MAX {
            return Err(Reason::NoHeader(COMMENT_LINES_MAX));
        }
        if self.comment.len() + line.len() < COMMENT_BYTES_MAX {
            self.comment.extend_from_slice(line);
            self.comment.push(b'\n');
        }
        Ok(None)
    }
}

/// Whether `line` is the header line, however it is spaced.
fn is_header(line: &[u8]) -> bool {
    let mut columns = line.split(|b| *b == b';').map(<[u8]>::trim_ascii);
    columns.next() == Some(b"start") && columns.next() == Some(b"sector")
}

fn record(line: &[u8]) -> Result<Record, Reason> {
    let [start, sector, length, op] = fill(line.split(|b| *b == b';'))?;
    let at = seconds(start, "start")?;
    let offset = scaled(whole(sector, "sector")?, SECTOR, "sector")?;
    let len = scaled(whole(length, "length")?, SECTOR, "length")?;
    request(at, 0, operation(op.trim_ascii())?, offset, len)
}

/// blktrace's letters: the operation, then flags such as `A` (read ahead), `S` (synchronous) or `M` (metadata).
fn operation(letters: &[u8]) -> Result<Op, Reason> {
    match letters {
        [b'R', flags @ ..] if flags.iter().all(u8::is_ascii_uppercase) => Ok(Op::Read),
        [b'W', flags @ ..] if flags.iter().all(u8::is_ascii_uppercase) => Ok(Op::Write),
        _ => Err(Reason::UnknownOp("R or W")),
    }
}

struct Encoder;

impl encoder::Encoder for Encoder {
    fn start(&self, comment: &[u8], out: &mut Vec<u8>) {
        encode_header(comment, out);
    }

    fn put(
        &mut self,
        _: &RecordContext<'_>,
        r: &Record,
        losses: &mut Losses,
        out: &mut Vec<u8>,
    ) -> Result<Option<Revisit>, Loss> {
        encode(r, losses, out).map(|()| None)
    }
}

/// Writes the comment and the header line.
fn encode_header(comment: &[u8], out: &mut Vec<u8>) {
    let own = "Block trace written by esker.\n\n#################################################################\n";
    let text = if comment.is_empty() { own.as_bytes() } else { comment };
    out.extend_from_slice(text);
    out.extend_from_slice(HEADER.as_bytes());
    out.push(b'\n');
}

/// Writes one record; ranges grow outwards to whole sectors.
fn encode(r: &Record, losses: &mut Losses, out: &mut Vec<u8>) -> Result<(), Loss> {
    let op = match r.op {
        Op::Read => 'R',
        Op::Write => 'W',
        Op::Flush => return Err(Loss::Flush),
        Op::Discard => return Err(Loss::Discard),
    };
    let range = losses.whole_sectors(r)?;
    let (secs, nanos) = (r.at.0 / 1_000_000_000, r.at.0 % 1_000_000_000);
    let (sector, length) = (range.start() / SECTOR, range.len() / SECTOR);
    writeln!(out, "{secs:>7}.{nanos:09} ; {sector:>12} ; {length:>4} ; {op} ; 0.0 ; 0.0").expect("a vector takes all");
    Ok(())
}
