//! Block traces: a reader ends, keeps times monotone, and yields no more records than the bytes can hold.

use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, MutexGuard};

use esker_blktrace::{Format, RecordSink, Source, TraceReader, convert};

const SAMPLE: &[u8] = include_bytes!("../../blktrace/fixtures/synthetic-msr.csv");
const PACKED: &[u8] = include_bytes!("../../../data/linux-mysql.load.gz");
/// Bytes of a packed sample: enough for some records.
const PACKED_HEAD: usize = 4096;

/// Bytes that outlive the sink that writes them.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<Cursor<Vec<u8>>>>);

impl Shelf {
    fn cursor(&self) -> MutexGuard<'_, Cursor<Vec<u8>>> {
        self.0.lock().expect("no writer panics")
    }
}

impl Write for Shelf {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.cursor().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Shelf {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.cursor().seek(to)
    }
}

pub fn corpus(format: Format) -> Vec<Vec<u8>> {
    let mut source = TraceReader::from_bytes(SAMPLE, Format::Msr).expect("the sample is a trace");
    let shelf = Shelf::default();
    let sink = RecordSink::to_file(format, Box::new(shelf.clone()));
    convert(&mut source, sink).expect("the sample can be converted");
    let whole = shelf.cursor().get_ref().clone();
    vec![whole, PACKED[..PACKED_HEAD].to_vec()]
}

pub fn try_input(format: Format, input: &[u8]) -> Result<bool, String> {
    let Ok(mut reader) = TraceReader::from_bytes(input, format) else { return Ok(false) };
    let (mut last, mut count) = (None, 0u64);
    while let Ok(Some(record)) = reader.next_record() {
        if last.is_some_and(|last| record.at < last) {
            return Err(format!("record {count} is earlier than the one before"));
        }
        last = Some(record.at);
        count += 1;
    }
    let told = reader.report().records;
    if told < count { Err(format!("{count} records came, {told} were reported")) } else { Ok(count > 0) }
}
