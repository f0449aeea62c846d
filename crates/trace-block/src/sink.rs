//! Writes records in any format, one at a time, and counts what the format cannot carry.

use crate::format::encoder::{Encoder, RecordContext, Revisit};
use crate::format::{Format, unnamed};
pub use crate::loss::{Loss, Losses};
use crate::record::Record;
use esker_base::Nanos;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Seek, SeekFrom, Write};

/// The format in which the `tap` layer records: the one that carries every operation, any byte range and several
/// volumes, and that fio itself replays. Its times are whole µs.
pub const TAP_FORMAT: Format = Format::Fio3;

/// Bytes gathered before they are handed on.
const BATCH: usize = 256 << 10;

/// Fields to correct in what was handed on, gathered before they are written in order of place.
const REVISITS: usize = 64 << 10;

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
    /// The format is only read.
    #[error("traces in format {0} are read, not written; choose one of: {names}", names = Format::written_names())]
    OnlyRead(Format),
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
    format: Format,
    encoder: Box<dyn Encoder>,
    batch: Vec<u8>,
    /// Bytes handed on before `batch`.
    handed_on: u64,
    revisits: Vec<Revisit>,
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
    /// For oracleGeneral, which needs [`RecordSink::to_file`], and as that.
    pub fn new(format: Format, output: Box<dyn Write + Send>) -> Result<RecordSink, SinkError> {
        if format.info().needs_seek {
            return Err(SinkError::NeedsSeek(format));
        }
        RecordSink::with(format, Output::Stream(output))
    }

    /// Writes `format` to `output`, which must be empty.
    ///
    /// # Errors
    /// For a format that is only read; see [`Format::is_written`].
    pub fn to_file(format: Format, output: Box<dyn WriteSeek + Send>) -> Result<RecordSink, SinkError> {
        RecordSink::with(format, Output::File(output))
    }

    fn with(format: Format, output: Output) -> Result<RecordSink, SinkError> {
        let encoder = format.info().encoder.ok_or(SinkError::OnlyRead(format))?;
        Ok(RecordSink {
            output,
            format,
            encoder: encoder(),
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
        })
    }

    /// Names a volume, before its first record. Without a name it is called `volume` and its number.
    pub fn name_volume(&mut self, volume: u32, name: &str) {
        self.names.entry(volume).or_insert_with(|| name.to_string());
    }

    /// The comment at the top of a `load` or `ebt` trace, before the first record; other formats have none.
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
        self.encoder.flush(self.handed_on, &mut self.batch);
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
        self.encoder.finish(&self.files, self.last, self.handed_on, &mut self.batch);
        self.flush()?;
        Ok(self.written)
    }

    /// Writes what stands before the first record.
    fn start(&mut self) {
        if !std::mem::replace(&mut self.is_started, true) {
            self.encoder.start(&self.comment, &mut self.batch);
        }
    }

    fn encode(&mut self, r: &Record) -> Result<(), Loss> {
        let has_volumes = self.format.has_volumes();
        if !has_volumes && *self.only.get_or_insert(r.volume) != r.volume {
            return Err(Loss::Volume);
        }
        if has_volumes && !self.files.contains_key(&r.volume) {
            self.introduce(r);
        }
        let volume = self.files.get(&r.volume).map_or("", String::as_str);
        let place = RecordContext { volume, serial: self.written.records, offset: self.handed_on };
        let revisit = self.encoder.put(&place, r, &mut self.written.losses, &mut self.batch)?;
        self.correct(revisit);
        Ok(())
    }

    /// Finds a name that the format can hold and that no other volume has.
    fn introduce(&mut self, r: &Record) {
        let given = self.names.get(&r.volume).cloned().unwrap_or_else(|| unnamed(r.volume));
        let mut attempts = (0..).map(|attempt| self.encoder.volume(&given, r.volume, attempt));
        let is_free = |name: &Option<String>| name.as_ref().is_none_or(|name| self.taken.insert(name.clone()));
        let found = attempts.find(is_free).flatten();
        let file = found.unwrap_or(given);
        self.encoder.introduce(&file, r.volume, r.at, &mut self.batch);
        self.files.insert(r.volume, file);
    }

    /// Corrects a field that is still in the batch, or keeps the correction for later.
    fn correct(&mut self, revisit: Option<Revisit>) {
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
