//! Open CAS Telemetry Framework: one file for each queue of events, each a protocol buffer behind its length (varint).
//!
//! Messages after OCTF's `trace.proto`. An `Event` has a header (1: sequence, 2: time in ns) and one of several bodies,
//! of which two matter: an I/O (2) and the description of a device (3). The others tell of files and completions.

use super::encoder::{Encoder, RecordContext, Revisit};
use super::fields::{flushed, scaled};
use super::info::{About, FormatInfo, Signs};
use super::{Yield, varint};
use crate::fault::Reason;
use crate::input::{Framing, Length, Unit};
use crate::names::Names;
use crate::record::{Op, Record};
use crate::sink::{Loss, Losses};
use esker_base::Nanos;
use esker_base::units::SECTOR;
use std::collections::BTreeMap;

pub(crate) static INFO: FormatInfo = FormatInfo {
    about: About {
        file: "Open CAS Telemetry Framework",
        form: "protocol buffers",
        times: "ns",
        operations: "read, write, flush, discard",
        volumes: "named devices",
        addresses: "512 bytes",
    },
    encoder: Some(|| Box::new(Messages)),
    endings: &[".octf", "octf.trace.0"],
    // Two events say more than the two version bytes of other records.
    signs: Signs { records: Some(fits), ..Signs::NONE },
    has_volumes: true,
    has_parts: true,
    is_absolute: true,
    sorting_advice: Some("give the folder with the files of all queues unjoined"),
    ..FormatInfo::of("octf", Unit::Frame(&FRAMING), 1, |_| Box::new(Parser::default()))
};

/// Longest prefix: lengths have 32 bits.
const PREFIX_MAX: usize = 5;

/// How the bytes are cut. Nothing marks a message: after a wrong length there is no way back.
static FRAMING: Framing = Framing { head: PREFIX_MAX, length, next_start: |_| None };

fn length(bytes: &[u8]) -> Length {
    let mut rest = bytes;
    match varint::take(&mut rest).map(u32::try_from) {
        Some(Ok(len)) => Length::Whole(bytes.len() - rest.len() + len as usize),
        None if bytes.len() < PREFIX_MAX => Length::Unknown,
        _ => Length::Lost,
    }
}

/// A field of a message.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl Value<'_> {
    fn number(&self) -> Result<u64, Reason> {
        if let Value::Number(n) = self { Ok(*n) } else { Err(Reason::NotMessage) }
    }
}

impl<'a> Value<'a> {
    fn bytes(&self) -> Result<&'a [u8], Reason> {
        if let Value::Bytes(b) = self { Ok(b) } else { Err(Reason::NotMessage) }
    }
}

fn cut<'a>(message: &mut &'a [u8], len: u64) -> Result<&'a [u8], Reason> {
    let parts = usize::try_from(len).ok().and_then(|len| message.split_at_checked(len));
    let (head, rest) = parts.ok_or(Reason::NotMessage)?;
    *message = rest;
    Ok(head)
}

/// Calls `each` with the fields of a message in turn.
fn each_field<'a>(
    mut message: &'a [u8],
    mut each: impl FnMut(u64, Value<'a>) -> Result<(), Reason>,
) -> Result<(), Reason> {
    while !message.is_empty() {
        let tag = varint::take(&mut message).ok_or(Reason::NotMessage)?;
        let value = match tag & 7 {
            0 => Value::Number(varint::take(&mut message).ok_or(Reason::NotMessage)?),
            1 => Value::Bytes(cut(&mut message, 8)?),
            2 => {
                let len = varint::take(&mut message).ok_or(Reason::NotMessage)?;
                Value::Bytes(cut(&mut message, len)?)
            }
            5 => Value::Bytes(cut(&mut message, 4)?),
            _ => return Err(Reason::NotMessage),
        };
        each(tag >> 3, value)?;
    }
    Ok(())
}

/// What an `Event` holds, of what matters here.
#[derive(Default)]
struct Event<'a> {
    nanos: Option<u64>,
    io: Option<&'a [u8]>,
    device: Option<&'a [u8]>,
}

fn event(message: &[u8]) -> Result<Event<'_>, Reason> {
    let mut event = Event::default();
    each_field(message, |number, value| {
        match number {
            1 => each_field(value.bytes()?, |number, value| {
                if number == 2 {
                    event.nanos = Some(value.number()?);
                }
                Ok(())
            })?,
            2 => event.io = Some(value.bytes()?),
            3 => event.device = Some(value.bytes()?),
            _ => {}
        }
        Ok(())
    })?;
    Ok(event)
}

/// `EventIo`, without hints and the file's class.
#[derive(Default)]
struct Io {
    sector: u64,
    sectors: u64,
    device: u64,
    operation: u64,
    is_flush: bool,
}

fn io(message: &[u8]) -> Result<Io, Reason> {
    let mut io = Io::default();
    each_field(message, |number, value| {
        match number {
            1 => io.sector = value.number()?,
            2 => io.sectors = value.number()?,
            4 => io.device = value.number()?,
            5 => io.operation = value.number()?,
            6 => io.is_flush = value.number()? != 0,
            _ => {}
        }
        Ok(())
    })?;
    Ok(io)
}

/// Knows the names of the devices that the file has described so far.
#[derive(Debug, Default)]
struct Parser {
    devices: BTreeMap<u64, String>,
}

impl super::Parser for Parser {
    fn parse(&mut self, piece: &[u8], names: &mut Names) -> Result<Yield, Reason> {
        let mut message = piece;
        varint::take(&mut message).expect("the feed cuts behind lengths");
        let event = event(message)?;
        if let Some(device) = event.device {
            self.describe(device)?;
        }
        let Some(message) = event.io else { return Ok(Yield::Nothing) };
        let io = io(message)?;
        let at = Nanos(event.nanos.ok_or(Reason::Missing("time"))?);
        let op = match io.operation {
            1 => Op::Read,
            2 => Op::Write,
            3 => Op::Discard,
            // A bare flush need not say what it does.
            0 if io.is_flush && io.sectors == 0 => Op::Write,
            _ => return Err(Reason::UnknownOp("1 (read), 2 (write) or 3 (discard)")),
        };
        let (offset, len) = (scaled(io.sector, SECTOR, "sector")?, scaled(io.sectors, SECTOR, "length")?);
        flushed(io.is_flush, at, 0, op, offset, len)?;
        let name = self.devices.get(&io.device);
        let volume = names
            .number(&io.device.to_le_bytes(), |_| name.cloned().unwrap_or_else(|| format!("device {}", io.device)))?;
        flushed(io.is_flush, at, volume, op, offset, len)
    }
}

impl Parser {
    /// Learns a device's name. A damaged trace cannot fill the memory: what could not become a volume is not kept.
    fn describe(&mut self, message: &[u8]) -> Result<(), Reason> {
        let (mut id, mut name) = (0, None);
        each_field(message, |number, value| {
            match number {
                1 => id = value.number()?,
                2 => name = Some(String::from_utf8_lossy(value.bytes()?).into_owned()),
                _ => {}
            }
            Ok(())
        })?;
        Names::room(self.devices.len())?;
        self.devices.insert(id, name.ok_or(Reason::Missing("name of the device"))?);
        Ok(())
    }
}

/// Whether `head` starts with events: the first two, as far as there are two, must be whole and have a time.
fn fits(head: &[u8]) -> bool {
    let (mut rest, mut found) = (head, 0);
    while let Length::Whole(len) = length(rest)
        && len <= rest.len()
        && found < 2
    {
        let mut message = &rest[..len];
        let is_event = varint::take(&mut message).is_some() && event(message).is_ok_and(|e| e.nanos.is_some());
        if !is_event {
            return false;
        }
        (rest, found) = (&rest[len..], found + 1);
    }
    found > 0 && (found == 2 || rest.is_empty())
}

/// Puts a number into a message under construction; 0 is what an absent field means.
fn put_number(field: u64, value: u64, out: &mut Vec<u8>) {
    if value > 0 {
        varint::put(field << 3, out);
        varint::put(value, out);
    }
}

fn put_bytes(field: u64, bytes: &[u8], out: &mut Vec<u8>) {
    varint::put(field << 3 | 2, out);
    varint::put(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Writes an event with `body` as its field number `kind`.
fn put_event(serial: u64, at: Nanos, kind: u64, body: &[u8], out: &mut Vec<u8>) {
    let (mut header, mut event) = (Vec::with_capacity(24), Vec::with_capacity(64));
    put_number(1, serial, &mut header);
    // A time of 0 is written all the same: its absence would make the event none.
    varint::put(2 << 3, &mut header);
    varint::put(at.0, &mut header);
    put_bytes(1, &header, &mut event);
    put_bytes(kind, body, &mut event);
    varint::put(event.len() as u64, out);
    out.extend_from_slice(&event);
}

/// Messages stand alone.
struct Messages;

impl Encoder for Messages {
    fn introduce(&mut self, volume: &str, number: u32, at: Nanos, out: &mut Vec<u8>) {
        encode_device(number, volume, at, out);
    }

    fn put(
        &mut self,
        place: &RecordContext<'_>,
        r: &Record,
        losses: &mut Losses,
        out: &mut Vec<u8>,
    ) -> Result<Option<Revisit>, Loss> {
        encode(place.serial, r, losses, out).map(|()| None)
    }
}

/// Writes the description of volume `number` called `name`.
fn encode_device(number: u32, name: &str, at: Nanos, out: &mut Vec<u8>) {
    let mut body = Vec::new();
    put_number(1, u64::from(number) + 1, &mut body);
    put_bytes(2, name.as_bytes(), &mut body);
    put_event(0, at, 3, &body, out);
}

/// Writes one request.
fn encode(serial: u64, r: &Record, losses: &mut Losses, out: &mut Vec<u8>) -> Result<(), Loss> {
    let range = losses.whole_sectors(r)?;
    let sectors = u32::try_from(range.len() / SECTOR).map_err(|_| Loss::Length)?;
    let mut body = Vec::with_capacity(32);
    put_number(1, range.start() / SECTOR, &mut body);
    put_number(2, u64::from(sectors), &mut body);
    put_number(4, u64::from(r.volume) + 1, &mut body);
    let operation = match r.op {
        Op::Read => 1,
        Op::Write | Op::Flush => 2,
        Op::Discard => 3,
    };
    put_number(5, operation, &mut body);
    put_number(6, u64::from(r.op == Op::Flush), &mut body);
    put_event(serial + 1, r.at, 2, &body, out);
    Ok(())
}
