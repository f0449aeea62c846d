//! Behaviour of the whole crate: real samples, damage, round trips, merging.

mod blocks;
mod columns;
mod damage;
mod events;
mod foreign;
mod formats;
mod merging;
mod named;
mod parts;
mod remarks;
mod round_trips;
mod samples;
mod sinks;

use crate::{Format, Op, Record, RecordSink, Source, TraceReader, Written};
use esker_base::Nanos;
use std::io::{self, Cursor};
use std::sync::{Arc, Mutex};

/// A file in memory that the test can look into after the sink is gone.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Cursor<Vec<u8>>>>);

impl Shared {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().get_ref().clone()
    }
}

impl io::Write for Shared {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Seek for Shared {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.0.lock().unwrap().seek(to)
    }
}

fn record(at: u64, volume: u32, op: Op, offset: u64, len: u64) -> Record {
    Record { at: Nanos(at), volume, op, offset, len, who: 0 }
}

/// The same, asked for by a process.
fn by(who: u32, record: Record) -> Record {
    Record { who, ..record }
}

/// The records of a trace in memory, and the reader at its end.
fn read_all(data: impl Into<Vec<u8>>, format: Format) -> (Vec<Record>, TraceReader) {
    let mut reader = TraceReader::from_bytes(data, format).unwrap();
    let records = reader.by_ref().map(Result::unwrap).collect();
    (records, reader)
}

/// `records` as a trace, with `names` for the volumes.
fn write_all(records: &[Record], names: &[&str], format: Format) -> (Vec<u8>, Written) {
    let out = Shared::default();
    let mut sink = RecordSink::to_file(format, Box::new(out.clone())).unwrap();
    for (number, name) in names.iter().enumerate() {
        sink.name_volume(number as u32, name);
    }
    records.iter().for_each(|r| sink.put(r).unwrap());
    let written = sink.finish().unwrap();
    (out.bytes(), written)
}

fn drain(source: &mut impl Source) -> Vec<Record> {
    std::iter::from_fn(|| source.next_record().unwrap()).collect()
}
