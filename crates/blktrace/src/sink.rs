//! Writes records in any format, one at a time, and counts what the format cannot carry.

use crate::format::{Format, fio, load, msr, oracle, vscsi};
use crate::record::Record;
use esker_base::units::SECTOR;
use esker_base::{ByteRange, Nanos};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Seek, SeekFrom, Write};

/// The format in which the `tap` layer records: the one that carries every operation, any byte range and several
/// volumes, and that fio itself replays. Its times are whole µs.
pub const TAP_FORMAT: Format = Format::Fio3;

/// Bytes gathered before they are handed on.
const BATCH: usize = 256 << 10;

/// Fields to correct in what was handed on, gathered before they are written in order of place.
const REVISITS: usize = 64 << 10;

/// Something that a format cannot carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// A flush was left out.
    Flush,
    /// A discard was left out.
    Discard,
    /// A request to another than the first volume was left out.
    Volume,
    /// A request longer than the format's 32-bit length was left out.
    Length,
    /// A request later than the format's 32-bit time was left out.
    Time,
    /// A range grew outwards to whole sectors.
    Sectors,
    /// A time was rounded down to the format's unit.
    Rounded,
    /// A time was not written at all.
    NoTime,
    /// A write was written as an access without operation, which reads back as a read.
    WriteAsRead,
}

impl Loss {
    /// All losses; [`Loss::drops`] ones first.
    pub const ALL: [Loss; 9] = [
        Loss::Flush,
        Loss::Discard,
        Loss::Volume,
        Loss::Length,
        Loss::Time,
        Loss::Sectors,
        Loss::Rounded,
        Loss::NoTime,
        Loss::WriteAsRead,
    ];

    /// Whether the whole request is left out.
    pub fn drops(self) -> bool {
        matches!(self, Loss::Flush | Loss::Discard | Loss::Volume | Loss::Length | Loss::Time)
    }

    fn text(self) -> &'static str {
        match self {
            Loss::Flush => "flushes left out",
            Loss::Discard => "discards left out",
            Loss::Volume => "requests to other volumes left out",
            Loss::Length => "requests of 4 GiB or more left out",
            Loss::Time => "requests later than 2^32 s left out",
            Loss::Sectors => "ranges widened to whole sectors",
            Loss::Rounded => "times rounded down",
            Loss::NoTime => "times not written",
            Loss::WriteAsRead => "writes written as accesses without operation",
        }
    }
}

/// How often each [`Loss`] happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses([u64; Loss::ALL.len()]);

impl Losses {
    /// How often `loss` happened.
    pub fn count(&self, loss: Loss) -> u64 {
        self.0[loss as usize]
    }

    /// Whether everything was carried exactly.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|n| *n == 0)
    }

    /// Requests that were left out.
    pub fn dropped(&self) -> u64 {
        Loss::ALL.into_iter().filter(|l| l.drops()).map(|l| self.count(l)).sum()
    }

    pub(crate) fn note(&mut self, loss: Loss) {
        self.0[loss as usize] += 1;
    }

    /// The time in whole `unit`s.
    pub(crate) fn whole_time(&mut self, at: Nanos, unit: u64) -> u64 {
        if !at.0.is_multiple_of(unit) {
            self.note(Loss::Rounded);
        }
        at.0 / unit
    }

    /// The smallest range of whole sectors around the request.
    pub(crate) fn whole_sectors(&mut self, r: &Record) -> Result<ByteRange, Loss> {
        let range = r.range();
        if range.is_aligned(SECTOR) {
            return Ok(range);
        }
        let wider = range.align_out(SECTOR).ok_or(Loss::Length)?;
        self.note(Loss::Sectors);
        Ok(wider)
    }

    /// The first sector, and the length in bytes from its start.
    pub(crate) fn sector_start(&mut self, r: &Record) -> Result<(u64, u32), Loss> {
        let inside = r.offset % SECTOR;
        let len = r.len.checked_add(inside).and_then(|len| u32::try_from(len).ok()).ok_or(Loss::Length)?;
        if inside > 0 {
            self.note(Loss::Sectors);
        }
        Ok((r.offset / SECTOR, len))
    }
}

impl fmt::Display for Losses {
    /// Only what happened, separated by commas; `nothing lost` otherwise.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let happened = Loss::ALL.into_iter().filter(|l| self.count(*l) > 0);
        let lines: Vec<String> = happened.map(|l| format!("{} {}", self.count(l), l.text())).collect();
        f.write_str(if lines.is_empty() { "nothing lost" } else { "" })?;
        f.write_str(&lines.join(", "))
    }
}

/// A trace cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The operating system failed a write; what was written before may be incomplete.
    #[error("the trace cannot be written: {0}")]
    Io(#[from] io::Error),
    /// The format needs corrections of what was written before.
    #[error(
        "{0} traces are written to a seekable file only, not to a pipe: each record names the next one of its object"
    )]
    NeedsSeek(Format),
}

/// A place to write that can be written again.
pub trait WriteSeek: Write + Seek {}

impl<T: Write + Seek> WriteSeek for T {}

/// Where a trace goes.
enum Output {
    Stream(Box<dyn Write + Send>),
    File(Box<dyn WriteSeek + Send>),
}

impl Output {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Output::Stream(w) => w,
            Output::File(w) => w,
        }
    }
}

/// The format's own state.
enum Encoder {
    Load,
    Vscsi(vscsi::Version),
    Oracle(oracle::Encoder),
    Msr,
    Fio(fio::Version),
}

/// What a finished sink wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Records in the trace.
    pub records: u64,
    /// What the format could not carry.
    pub losses: Losses,
}

/// Writes a trace record by record. Call [`RecordSink::finish`]: a dropped sink loses its last batch.
pub struct RecordSink {
    output: Output,
    encoder: Encoder,
    batch: Vec<u8>,
    /// Bytes handed on before `batch`.
    handed_on: u64,
    revisits: Vec<oracle::Revisit>,
    comment: Vec<u8>,
    /// Names given by the caller.
    names: BTreeMap<u32, String>,
    /// Names as written, all different.
    files: BTreeMap<u32, String>,
    taken: BTreeSet<String>,
    /// The volume of a format that has one.
    only: Option<u32>,
    is_started: bool,
    last: Nanos,
    written: Written,
}

impl RecordSink {
    /// Writes `format` to `output`, which is only ever appended to.
    ///
    /// # Errors
    /// For oracleGeneral, which needs [`RecordSink::to_file`].
    pub fn new(format: Format, output: Box<dyn Write + Send>) -> Result<RecordSink, SinkError> {
        match format {
            Format::OracleGeneral => Err(SinkError::NeedsSeek(format)),
            _ => Ok(RecordSink::with(format, Output::Stream(output))),
        }
    }

    /// Writes `format` to `output`, which must be empty.
    pub fn to_file(format: Format, output: Box<dyn WriteSeek + Send>) -> RecordSink {
        RecordSink::with(format, Output::File(output))
    }

    fn with(format: Format, output: Output) -> RecordSink {
        let encoder = match format {
            Format::Load => Encoder::Load,
            Format::Vscsi1 => Encoder::Vscsi(vscsi::Version::V1),
            Format::Vscsi2 => Encoder::Vscsi(vscsi::Version::V2),
            Format::OracleGeneral => Encoder::Oracle(oracle::Encoder::default()),
            Format::Msr => Encoder::Msr,
            Format::Fio2 => Encoder::Fio(fio::Version::V2),
            Format::Fio3 => Encoder::Fio(fio::Version::V3),
        };
        RecordSink {
            output,
            encoder,
            batch: Vec::with_capacity(BATCH + 1024),
            handed_on: 0,
            revisits: Vec::new(),
            comment: Vec::new(),
            names: BTreeMap::new(),
            files: BTreeMap::new(),
            taken: BTreeSet::new(),
            only: None,
            is_started: false,
            last: Nanos::ZERO,
            written: Written { records: 0, losses: Losses::default() },
        }
    }

    /// Names a volume, before its first record. Without a name it is called `volume` and its number.
    pub fn name_volume(&mut self, volume: u32, name: &str) {
        self.names.entry(volume).or_insert_with(|| name.to_string());
    }

    /// The comment at the top of a `.load` trace, before the first record; other formats have none.
    pub fn set_comment(&mut self, comment: &[u8]) {
        self.comment = comment.to_vec();
    }

    /// Adds one record.
    ///
    /// # Errors
    /// If a write fails. What the format cannot carry is no error but a counted loss.
    pub fn put(&mut self, record: &Record) -> Result<(), SinkError> {
        self.start();
        match self.encode(record) {
            Ok(()) => self.written.records += 1,
            Err(loss) => self.written.losses.note(loss),
        }
        self.last = self.last.max(record.at);
        if self.batch.len() >= BATCH {
            self.hand_on()?;
        }
        Ok(())
    }

    /// Hands everything on to the output and flushes it.
    ///
    /// # Errors
    /// If a write fails.
    pub fn flush(&mut self) -> Result<(), SinkError> {
        self.hand_on()?;
        self.revisit()?;
        Ok(self.output.writer().flush()?)
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// If a write fails.
    pub fn finish(mut self) -> Result<Written, SinkError> {
        self.start();
        if let Encoder::Fio(version) = self.encoder {
            for file in self.files.values() {
                fio::encode_file(version, file, self.last, &["close"], &mut self.batch);
            }
        }
        self.flush()?;
        Ok(self.written)
    }

    /// Writes what stands before the first record.
    fn start(&mut self) {
        if std::mem::replace(&mut self.is_started, true) {
            return;
        }
        match self.encoder {
            Encoder::Load => load::encode_header(&self.comment, &mut self.batch),
            Encoder::Fio(version) => {
                self.batch.extend_from_slice(version.first_line().as_bytes());
                self.batch.push(b'\n');
            }
            Encoder::Msr | Encoder::Vscsi(_) | Encoder::Oracle(_) => {}
        }
    }

    fn encode(&mut self, r: &Record) -> Result<(), Loss> {
        match self.encoder {
            Encoder::Msr | Encoder::Fio(_) => return self.encode_named(r),
            _ if *self.only.get_or_insert(r.volume) != r.volume => return Err(Loss::Volume),
            _ => {}
        }
        let (losses, out) = (&mut self.written.losses, &mut self.batch);
        match &mut self.encoder {
            Encoder::Vscsi(version) => vscsi::encode(*version, self.written.records, r, losses, out),
            Encoder::Oracle(encoder) => {
                let revisit = encoder.encode(r, losses, out)?;
                self.correct(revisit);
                Ok(())
            }
            _ => load::encode(r, losses, out),
        }
    }

    /// Formats in which each record names its volume.
    fn encode_named(&mut self, r: &Record) -> Result<(), Loss> {
        if !self.files.contains_key(&r.volume) {
            self.introduce(r);
        }
        let file = &self.files[&r.volume];
        let (losses, out) = (&mut self.written.losses, &mut self.batch);
        match self.encoder {
            Encoder::Fio(version) => fio::encode(version, file, r, losses, out),
            _ => msr::encode(file, r, losses, out)?,
        }
        Ok(())
    }

    /// Finds a name that the format can hold and that no other volume has.
    fn introduce(&mut self, r: &Record) {
        let given = self.names.get(&r.volume).cloned().unwrap_or_else(|| format!("volume{}", r.volume));
        let mut name = given.clone();
        let file = loop {
            let file = match self.encoder {
                Encoder::Fio(_) => fio::file_name(&name),
                _ => msr::columns(&name),
            };
            if self.taken.insert(file.clone()) {
                break file;
            }
            name = format!("{name}_{}", r.volume);
        };
        if let Encoder::Fio(version) = self.encoder {
            fio::encode_file(version, &file, r.at, &["add", "open"], &mut self.batch);
        }
        self.files.insert(r.volume, file);
    }

    /// Corrects a field that is still in the batch, or keeps the correction for later.
    fn correct(&mut self, revisit: Option<oracle::Revisit>) {
        let Some(revisit) = revisit else { return };
        match revisit.at.checked_sub(self.handed_on) {
            Some(at) => self.batch[at as usize..][..8].copy_from_slice(&revisit.next.to_le_bytes()),
            None => self.revisits.push(revisit),
        }
    }

    fn hand_on(&mut self) -> io::Result<()> {
        self.output.writer().write_all(&self.batch)?;
        self.handed_on += self.batch.len() as u64;
        self.batch.clear();
        if self.revisits.len() >= REVISITS { self.revisit() } else { Ok(()) }
    }

    /// Writes the corrections in order of place and returns to the end.
    fn revisit(&mut self) -> io::Result<()> {
        let Output::File(file) = &mut self.output else { return Ok(()) };
        if self.revisits.is_empty() {
            return Ok(());
        }
        self.revisits.sort_unstable();
        for revisit in self.revisits.drain(..) {
            file.seek(SeekFrom::Start(revisit.at))?;
            file.write_all(&revisit.next.to_le_bytes())?;
        }
        file.seek(SeekFrom::Start(self.handed_on)).map(|_| ())
    }
}
