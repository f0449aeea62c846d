//! The encoder of one trace: where a format's own state lives while it is written.

use super::{Family, Format, blkparse, blktrace, ebt, fio, load, major_minor, numbered, octf, oracle, rows, vscsi};
use crate::record::Record;
use crate::sink::{Loss, Losses};
use esker_base::Nanos;
use std::collections::BTreeMap;

/// The format's own state.
pub(crate) enum Encoder {
    Load,
    Vscsi(vscsi::Version),
    Oracle(oracle::Encoder),
    Rows(&'static rows::Layout),
    Fio(fio::Version),
    Blkparse,
    Blktrace,
    Octf,
    Ebt(ebt::Writer),
}

/// What is known when a record is written.
pub(crate) struct Place<'a> {
    /// The volume as it is written; empty where the format has one volume.
    pub volume: &'a str,
    /// Records before this one.
    pub serial: u64,
    /// Bytes before those in the buffer.
    pub offset: u64,
}

impl Encoder {
    /// The encoder of `format`, or `None` if Esker only reads it.
    pub fn new(format: Format) -> Option<Encoder> {
        Some(match format.family() {
            Family::Load => Encoder::Load,
            Family::Vscsi(version) => Encoder::Vscsi(version),
            Family::Oracle => Encoder::Oracle(oracle::Encoder::default()),
            Family::Rows(layout) => Encoder::Rows(layout),
            Family::Fio(version) => Encoder::Fio(version),
            Family::Blkparse => Encoder::Blkparse,
            Family::Blktrace => Encoder::Blktrace,
            Family::Octf => Encoder::Octf,
            Family::Ebt => Encoder::Ebt(ebt::Writer::default()),
            Family::Measured | Family::Ids | Family::Biosnoop | Family::Cachelib | Family::Hfplayer => return None,
        })
    }

    /// How volume `number` called `name` is written. Texts tell volumes apart, so that another `attempt` gives another
    /// text; `None` if numbers do that and the name stays as it is.
    pub fn volume(&self, name: &str, number: u32, attempt: u32) -> Option<String> {
        match self {
            Encoder::Rows(layout) => Some(layout.volume(name, number, attempt)),
            Encoder::Blkparse | Encoder::Blktrace => {
                let [major, minor] = major_minor(name, number, attempt);
                Some(format!("{major},{minor}"))
            }
            Encoder::Octf | Encoder::Ebt(_) => None,
            // Those of one volume never ask.
            Encoder::Fio(_) | Encoder::Load | Encoder::Vscsi(_) | Encoder::Oracle(_) => {
                Some(fio::file_name(&numbered(name, number, attempt)))
            }
        }
    }

    /// Writes what stands before the first record.
    pub fn start(&self, comment: &[u8], out: &mut Vec<u8>) {
        match self {
            Encoder::Load => load::encode_header(comment, out),
            Encoder::Fio(version) => {
                out.extend_from_slice(version.first_line().as_bytes());
                out.push(b'\n');
            }
            Encoder::Ebt(_) => ebt::Writer::start(comment, out),
            _ => {}
        }
    }

    /// Writes what stands before the first record of a volume, which is at `at`.
    pub fn introduce(&mut self, volume: &str, number: u32, at: Nanos, out: &mut Vec<u8>) {
        match self {
            Encoder::Fio(version) => fio::encode_file(*version, volume, at, &["add", "open"], out),
            Encoder::Octf => octf::encode_device(number, volume, at, out),
            Encoder::Ebt(writer) => writer.name_volume(number, volume),
            _ => {}
        }
    }

    /// Writes one record; the correction is one of an earlier record.
    pub fn put(
        &mut self,
        place: &Place<'_>,
        r: &Record,
        losses: &mut Losses,
        out: &mut Vec<u8>,
    ) -> Result<Option<oracle::Revisit>, Loss> {
        match self {
            Encoder::Load => load::encode(r, losses, out)?,
            Encoder::Vscsi(version) => vscsi::encode(*version, place.serial, r, losses, out)?,
            Encoder::Oracle(encoder) => return encoder.encode(r, losses, out),
            Encoder::Rows(layout) => layout.encode(place.volume, place.serial, r, losses, out)?,
            Encoder::Fio(version) => fio::encode(*version, place.volume, r, losses, out),
            Encoder::Blkparse => blkparse::encode(place.volume, place.serial, r, losses, out)?,
            Encoder::Blktrace => blktrace::encode(place.volume, place.serial, r, losses, out)?,
            Encoder::Octf => octf::encode(place.serial, r, losses, out)?,
            Encoder::Ebt(writer) => writer.put(r, place.offset, out),
        }
        Ok(None)
    }

    /// Writes what was put and is not in `out` yet; `offset` is the number of bytes before `out`.
    pub fn flush(&mut self, offset: u64, out: &mut Vec<u8>) {
        if let Encoder::Ebt(writer) = self {
            writer.end_block(offset, out);
        }
    }

    /// Writes what stands behind the last record, which is at `last`.
    pub fn finish(&mut self, volumes: &BTreeMap<u32, String>, last: Nanos, offset: u64, out: &mut Vec<u8>) {
        match self {
            Encoder::Fio(version) => {
                volumes.values().for_each(|file| fio::encode_file(*version, file, last, &["close"], out));
            }
            Encoder::Ebt(writer) => writer.finish(offset, out),
            _ => {}
        }
    }
}
