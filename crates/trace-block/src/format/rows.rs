//! Formats of one request to a line in fixed columns, each described by a [`Layout`]: one parser and one encoder for
//! all.
//!
//! Layouts after the descriptions that come with the traces, one module for each.

pub(crate) mod alibaba;
pub(crate) mod arc;
pub(crate) mod disksim;
pub(crate) mod fiu;
pub(crate) mod mqsim;
pub(crate) mod msr;
pub(crate) mod tencent;

use super::encoder::{Encoder, RecordContext, Revisit};
use super::fields::{hexadecimal, is_remark, request, scaled, time, whole};
use super::{Parser, Yield};
use crate::fault::Reason;
use crate::names::Names;
use crate::record::{Op, Record};
use crate::sink::{Loss, Losses};
use esker_base::Nanos;
use esker_base::units::SECTOR;
use std::io::Write;

/// More text columns than any layout has.
const COLUMNS_MAX: usize = 12;

/// How a format's lines are made up.
#[derive(Debug)]
struct Layout {
    /// A comma, or a space for any run of white space.
    separator: u8,
    /// How a line that names the columns starts, if traces may have one.
    header: &'static [u8],
    columns: &'static [Column],
    /// Text columns that a line must have; later ones may be missing.
    needed: usize,
}

#[derive(Debug)]
enum Column {
    /// Units of 10^`digits` ns, written with a fraction if `is_fractional`.
    Time {
        digits: u32,
        is_fractional: bool,
    },
    Volume(Volume),
    Op(Words),
    /// DiskSim's hexadecimal flags, of which bit 0 means a read.
    Flags,
    /// In units of so many bytes.
    Offset(u64),
    Length(u64),
    Process,
    /// Not read; written as this.
    Ignored(&'static str),
    /// Not read; written as the number of the request, from 0.
    Serial,
}

/// The words for read and write, in any case.
#[derive(Debug)]
struct Words {
    read: &'static str,
    write: &'static str,
    expected: &'static str,
}

/// How a volume is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Volume {
    Number,
    /// Two columns, of which the second is a number.
    HostDisk,
    /// Two columns, both numbers.
    MajorMinor,
}

/// The text columns of a line.
struct Fields<'a> {
    line: &'a [u8],
    /// Where each column starts and ends.
    spans: [(usize, usize); COLUMNS_MAX],
    count: usize,
}

impl<'a> Fields<'a> {
    fn cut(line: &'a [u8], separator: u8) -> Fields<'a> {
        let mut fields = Fields { line, spans: [(0, 0); COLUMNS_MAX], count: 0 };
        let is_end = |b: u8| if separator == b' ' { b.is_ascii_whitespace() } else { b == separator };
        let mut from = 0;
        for at in 0..=line.len() {
            if at < line.len() && !is_end(line[at]) {
                continue;
            }
            if (separator != b' ' || at > from) && fields.count < COLUMNS_MAX {
                fields.spans[fields.count] = (from, at);
                fields.count += 1;
            }
            from = at + 1;
        }
        fields
    }

    /// Column `at`; empty if it is missing.
    fn get(&self, at: usize) -> &'a [u8] {
        let (from, to) = self.spans[at];
        &self.line[from..to]
    }

    /// Columns `at` and the next one, with what stands between them.
    fn pair(&self, at: usize) -> &'a [u8] {
        &self.line[self.spans[at].0..self.spans[at + 1].1]
    }
}

impl Column {
    /// How many text columns this is.
    fn span(&self) -> usize {
        if matches!(self, Column::Volume(Volume::HostDisk | Volume::MajorMinor)) { 2 } else { 1 }
    }
}

impl Words {
    fn op(&self, field: &[u8]) -> Result<Op, Reason> {
        match field.trim_ascii() {
            word if word.eq_ignore_ascii_case(self.read.as_bytes()) => Ok(Op::Read),
            word if word.eq_ignore_ascii_case(self.write.as_bytes()) => Ok(Op::Write),
            _ => Err(Reason::UnknownOp(self.expected)),
        }
    }
}

impl Volume {
    /// The text that tells a volume from the others, once it is known to be one.
    fn key<'a>(self, fields: &Fields<'a>, at: usize) -> Result<&'a [u8], Reason> {
        match self {
            Volume::Number => whole(fields.get(at), "volume number").map(|_| fields.get(at).trim_ascii()),
            Volume::HostDisk => whole(fields.get(at + 1), "disk number").map(|_| fields.pair(at)),
            Volume::MajorMinor => {
                whole(fields.get(at), "major number")?;
                whole(fields.get(at + 1), "minor number").map(|_| fields.pair(at))
            }
        }
    }

    fn shown(self, key: &str) -> String {
        match self {
            Volume::Number => key.to_string(),
            Volume::HostDisk => key.replace(',', "."),
            Volume::MajorMinor => key.split_ascii_whitespace().collect::<Vec<_>>().join(","),
        }
    }
}

impl Parser for &'static Layout {
    fn parse(&mut self, line: &[u8], names: &mut Names) -> Result<Yield, Reason> {
        self.request(line, names).map(Yield::from)
    }
}

impl Encoder for &'static Layout {
    fn volume(&self, name: &str, number: u32, attempt: u32) -> Option<String> {
        Some(self.volume_text(name, number, attempt))
    }

    fn put(
        &mut self,
        place: &RecordContext<'_>,
        r: &Record,
        losses: &mut Losses,
        out: &mut Vec<u8>,
    ) -> Result<Option<Revisit>, Loss> {
        self.encode(place.volume, place.serial, r, losses, out).map(|()| None)
    }
}

impl Layout {
    /// The request of one line, or `None` if it is empty, a comment or names the columns.
    fn request(&self, line: &[u8], names: &mut Names) -> Result<Option<Record>, Reason> {
        let line = line.trim_ascii();
        if is_remark(line) || self.is_header(line) {
            return Ok(None);
        }
        let fields = Fields::cut(line, self.separator);
        if fields.count < self.needed {
            return Err(Reason::Columns { found: fields.count, needed: self.needed });
        }
        let (mut at, mut op, mut offset, mut len, mut volume) = (Nanos::ZERO, Op::Read, 0, 0, None);
        let (mut place, mut who) = (0, 0);
        for column in self.columns {
            let field = fields.get(place);
            match column {
                Column::Time { digits, .. } => at = time(field, *digits, "timestamp")?,
                Column::Volume(kind) => volume = Some((*kind, kind.key(&fields, place)?)),
                Column::Op(words) => op = words.op(field)?,
                Column::Flags if hexadecimal(field, "flags")? & 1 == 1 => op = Op::Read,
                Column::Flags => op = Op::Write,
                Column::Offset(unit) => offset = scaled(whole(field, "offset")?, *unit, "offset")?,
                Column::Length(unit) => len = scaled(whole(field, "length")?, *unit, "length")?,
                // A number that is none says nothing of the process.
                Column::Process => {
                    who = whole(field, "process").ok().and_then(|who| u32::try_from(who).ok()).unwrap_or(0)
                }
                Column::Ignored(_) | Column::Serial => {}
            }
            place += column.span();
        }
        let mut record = Record { who, ..request(at, 0, op, offset, len)? };
        if let Some((kind, key)) = volume {
            record.volume = names.number(key, |key| kind.shown(key))?;
        }
        Ok(Some(record))
    }

    fn is_header(&self, line: &[u8]) -> bool {
        let start = line.get(..self.header.len());
        !self.header.is_empty() && start.is_some_and(|start| start.eq_ignore_ascii_case(self.header))
    }

    /// Whether `line` is one of this format rather than of another one with alike columns.
    fn fits(&self, line: &[u8]) -> bool {
        if self.is_header(line) {
            return true;
        }
        let fields = Fields::cut(line, self.separator);
        let total: usize = self.columns.iter().map(Column::span).sum();
        let is_fractional = self.columns.iter().any(|c| matches!(c, Column::Time { is_fractional: true, .. }));
        (self.needed..=total).contains(&fields.count)
            && fields.get(0).contains(&b'.') == is_fractional
            && matches!(self.request(line, &mut Names::default()), Ok(Some(_)))
    }

    /// The text columns of a volume called `name` with this `number`; another `attempt` gives another text.
    fn volume_text(&self, name: &str, number: u32, attempt: u32) -> String {
        let kind = self.columns.iter().find_map(|c| if let Column::Volume(kind) = c { Some(*kind) } else { None });
        match kind {
            Some(Volume::HostDisk) => host_disk(&super::numbered(name, number, attempt)),
            Some(Volume::MajorMinor) => super::major_minor(name, number, attempt).map(|n| n.to_string()).join(" "),
            Some(Volume::Number) | None => match name.parse::<u64>() {
                Ok(own) if attempt == 0 => own.to_string(),
                _ => (u64::from(number) + u64::from(attempt)).to_string(),
            },
        }
    }

    /// Writes request `serial` of the volume with these text columns.
    fn encode(
        &self,
        volume: &str,
        serial: u64,
        r: &Record,
        losses: &mut Losses,
        out: &mut Vec<u8>,
    ) -> Result<(), Loss> {
        match r.op {
            Op::Flush => return Err(Loss::Flush),
            Op::Discard => return Err(Loss::Discard),
            Op::Read | Op::Write => {}
        }
        let sectors = self.columns.iter().any(|c| matches!(c, Column::Offset(SECTOR)));
        let range = if sectors { losses.whole_sectors(r)? } else { r.range() };
        self.note_missing(r, losses);
        for (i, column) in self.columns.iter().enumerate() {
            if i > 0 {
                out.push(self.separator);
            }
            let written = match column {
                Column::Time { digits, is_fractional } => write_time(*digits, *is_fractional, r.at, losses, out),
                Column::Volume(_) => write!(out, "{volume}"),
                Column::Op(words) => write!(out, "{}", if r.op == Op::Read { words.read } else { words.write }),
                Column::Flags => write!(out, "{}", u8::from(r.op == Op::Read)),
                Column::Offset(unit) => write!(out, "{}", range.start() / unit),
                Column::Length(unit) => write!(out, "{}", range.len() / unit),
                Column::Process => write!(out, "{}", r.who),
                Column::Ignored(text) => write!(out, "{text}"),
                Column::Serial => write!(out, "{serial}"),
            };
            written.expect("a vector takes all");
        }
        out.push(b'\n');
        Ok(())
    }

    /// Counts what no column carries.
    fn note_missing(&self, r: &Record, losses: &mut Losses) {
        let has = |wanted: fn(&Column) -> bool| self.columns.iter().any(wanted);
        if r.at > Nanos::ZERO && !has(|c| matches!(c, Column::Time { .. })) {
            losses.note(Loss::NoTime);
        }
        if r.op == Op::Write && !has(|c| matches!(c, Column::Op(_) | Column::Flags)) {
            losses.note(Loss::WriteAsRead);
        }
    }
}

fn write_time(
    digits: u32,
    is_fractional: bool,
    at: Nanos,
    losses: &mut Losses,
    out: &mut Vec<u8>,
) -> std::io::Result<()> {
    let unit = 10u64.pow(digits);
    if is_fractional {
        return write!(out, "{}.{:0width$}", at.0 / unit, at.0 % unit, width = digits as usize);
    }
    write!(out, "{}", losses.whole_time(at, unit))
}

/// MSR's host and disk columns for a volume called `name`.
fn host_disk(name: &str) -> String {
    let clean = name.replace(|c: char| c == ',' || c.is_control(), "_");
    match clean.rsplit_once('.') {
        Some((host, disk)) if !disk.is_empty() && disk.bytes().all(|b| b.is_ascii_digit()) => format!("{host},{disk}"),
        _ => format!("{clean},0"),
    }
}
