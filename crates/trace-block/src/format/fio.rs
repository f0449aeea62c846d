//! fio iolog: first line `fio version 2 iolog` or `fio version 3 iolog`, then file lines (`name add|open|close`) and
//! request lines (`name action offset length`, bytes). Version 3 puts a time in µs before each line.

use super::encoder::{Encoder, RecordContext, Revisit};
use super::fields::{request, scaled, whole};
use super::info::{About, FormatInfo, Signs, US};
use super::{Yield, numbered};
use crate::fault::Reason;
use crate::input::Unit;
use crate::names::Names;
use crate::record::{Op, Record};
use crate::sink::{Loss, Losses};
use esker_base::Nanos;
use std::collections::BTreeMap;
use std::io::Write;

pub(crate) static V2: FormatInfo = FormatInfo {
    about: About {
        file: "fio iolog version 2",
        form: "text",
        times: "none",
        operations: "read, write, flush, discard",
        volumes: "several files",
        addresses: "byte",
    },
    encoder: Some(|| Box::new(Version::V2)),
    endings: &[".fio2"],
    signs: Signs { first_line: Some(Version::V2.first_line()), ..Signs::NONE },
    has_times: false,
    has_volumes: true,
    ..FormatInfo::of("fio2", Unit::Line, US, |_| Box::new(Parser::new(Version::V2)))
};

pub(crate) static V3: FormatInfo = FormatInfo {
    about: About {
        file: "fio iolog version 3",
        form: "text",
        times: "µs",
        operations: "read, write, flush, discard",
        volumes: "several files",
        addresses: "byte",
    },
    encoder: Some(|| Box::new(Version::V3)),
    endings: &[".fio3", ".iolog"],
    signs: Signs { first_line: Some(Version::V3.first_line()), ..Signs::NONE },
    has_volumes: true,
    ..FormatInfo::of("fio3", Unit::Line, US, |_| Box::new(Parser::new(Version::V3)))
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V2,
    V3,
}

impl Version {
    const fn first_line(self) -> &'static str {
        match self {
            Version::V2 => "fio version 2 iolog",
            Version::V3 => "fio version 3 iolog",
        }
    }
}

#[derive(Debug)]
struct Parser {
    version: Version,
    is_first: bool,
    /// Version 2: the sum of all waits so far.
    waited: Nanos,
}

impl super::Parser for Parser {
    fn parse(&mut self, line: &[u8], names: &mut Names) -> Result<Yield, Reason> {
        self.request(line, names).map(Yield::from)
    }
}

impl Parser {
    fn new(version: Version) -> Parser {
        Parser { version, is_first: true, waited: Nanos::ZERO }
    }

    fn request(&mut self, line: &[u8], names: &mut Names) -> Result<Option<Record>, Reason> {
        let line = line.trim_ascii();
        if std::mem::take(&mut self.is_first) {
            let wanted = self.version.first_line();
            return if line == wanted.as_bytes() { Ok(None) } else { Err(Reason::NoMagic(wanted)) };
        }
        if line.is_empty() {
            return Ok(None);
        }
        let mut columns = line.split(u8::is_ascii_whitespace).filter(|c| !c.is_empty());
        let at = match self.version {
            Version::V2 => self.waited,
            Version::V3 => Nanos(scaled(whole(columns.next().unwrap_or_default(), "timestamp")?, 1_000, "timestamp")?),
        };
        let file = columns.next().ok_or(Reason::Missing("file name"))?;
        let action = columns.next().ok_or(Reason::Missing("action"))?;
        let mut number = |what| whole(columns.next().unwrap_or_default(), what);
        let op = match action {
            b"add" | b"open" | b"close" => return names.number(file, str::to_string).map(|_| None),
            b"wait" if self.version == Version::V2 => return self.wait(number("wait")?),
            b"sync" | b"datasync" => Op::Flush,
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Discard,
            _ => return Err(Reason::UnknownOp("read, write, sync, datasync, trim, add, open or close")),
        };
        // A sync covers the file: its numbers mean nothing and may be absent.
        let (offset, len) = if op == Op::Flush { (0, 0) } else { (number("offset")?, number("length")?) };
        let mut record = request(at, 0, op, offset, len)?;
        record.volume = names.number(file, str::to_string)?;
        Ok(Some(record))
    }

    fn wait(&mut self, micros: u64) -> Result<Option<Record>, Reason> {
        let span = scaled(micros, 1_000, "wait")?;
        self.waited = Nanos(self.waited.0.checked_add(span).ok_or(Reason::TooLarge("wait"))?);
        Ok(None)
    }
}

impl Encoder for Version {
    fn volume(&self, name: &str, number: u32, attempt: u32) -> Option<String> {
        Some(file_name(&numbered(name, number, attempt)))
    }

    fn start(&self, _: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(self.first_line().as_bytes());
        out.push(b'\n');
    }

    fn introduce(&mut self, file: &str, _: u32, at: Nanos, out: &mut Vec<u8>) {
        encode_file(*self, file, at, &["add", "open"], out);
    }

    fn put(
        &mut self,
        place: &RecordContext<'_>,
        r: &Record,
        losses: &mut Losses,
        out: &mut Vec<u8>,
    ) -> Result<Option<Revisit>, Loss> {
        encode(*self, place.volume, r, losses, out);
        Ok(None)
    }

    fn finish(&mut self, files: &BTreeMap<u32, String>, last: Nanos, _: u64, out: &mut Vec<u8>) {
        files.values().for_each(|file| encode_file(*self, file, last, &["close"], out));
    }
}

/// A file name without the characters that end one.
fn file_name(name: &str) -> String {
    let clean = name.replace(|c: char| c.is_whitespace() || c.is_control(), "_");
    if clean.is_empty() { "_".to_string() } else { clean }
}

fn stamp(version: Version, at: Nanos, losses: &mut Losses, out: &mut Vec<u8>) {
    match version {
        Version::V2 if at > Nanos::ZERO => losses.note(Loss::NoTime),
        Version::V2 => {}
        Version::V3 => write!(out, "{} ", losses.whole_time(at, 1_000)).expect("a vector takes all"),
    }
}

/// Writes a file line: `actions` (add, open, close) in turn. They carry no request, so that no loss is counted.
fn encode_file(version: Version, file: &str, at: Nanos, actions: &[&str], out: &mut Vec<u8>) {
    for action in actions {
        stamp(version, at, &mut Losses::default(), out);
        writeln!(out, "{file} {action}").expect("a vector takes all");
    }
}

/// Writes one request to `file`.
fn encode(version: Version, file: &str, r: &Record, losses: &mut Losses, out: &mut Vec<u8>) {
    stamp(version, r.at, losses, out);
    let action = match r.op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Flush => "sync",
        Op::Discard => "trim",
    };
    writeln!(out, "{file} {action} {} {}", r.offset, r.len).expect("a vector takes all");
}
