//! Block traces: a reader ends, keeps times monotone, and yields no more records than it reports; an index of `ebt` leads to
//! what reading from the start leads to.

use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, MutexGuard};

use esker_blktrace::{Format, Index, Record, RecordSink, Source, TraceReader, convert};

const SAMPLE: &[u8] = include_bytes!("../../blktrace/fixtures/synthetic-msr.csv");
const PACKED: &[u8] = include_bytes!("../../../data/linux-mysql.load.gz");
/// Bytes of a packed sample: enough for some records.
const PACKED_HEAD: usize = 4096;
/// The sample in the other packings.
const PACKED_ALIKE: [&[u8]; 2] = [
    include_bytes!("../../blktrace/fixtures/synthetic-msr.csv.xz"),
    include_bytes!("../../blktrace/fixtures/synthetic-msr.csv.bz2"),
];
const RECORDED: &[u8] = include_bytes!("../../blktrace/fixtures/recorded.blktrace.1.zst");
const RECORDED_TEXT: &[u8] = include_bytes!("../../blktrace/fixtures/recorded.blkparse.zst");
const RECORDED_QUEUE: &[u8] = include_bytes!("../../../data/opencas/octf.trace.2.zst");
/// Bytes of a recording: small inputs are tried more often.
const RECORDED_HEAD: usize = 4096;

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

/// The hand-written sample in `format`.
fn sample(format: Format) -> Vec<u8> {
    let mut source = TraceReader::from_bytes(SAMPLE, Format::Msr).expect("the sample is a trace");
    let shelf = Shelf::default();
    let sink = RecordSink::to_file(format, Box::new(shelf.clone()));
    convert(&mut source, sink).expect("the sample can be converted");
    shelf.cursor().get_ref().clone()
}

/// The beginning of a recorded trace, unpacked.
fn recorded(packed: &[u8]) -> Vec<u8> {
    let mut source = zstd::Decoder::new(packed).expect("the recording is packed").take(RECORDED_HEAD as u64);
    let mut head = Vec::new();
    source.read_to_end(&mut head).expect("the recording is whole");
    head
}

pub fn corpus(format: Format) -> Vec<Vec<u8>> {
    let mut seeds = vec![sample(format), PACKED[..PACKED_HEAD].to_vec()];
    match format {
        Format::Blktrace => seeds.push(recorded(RECORDED)),
        Format::Blkparse => seeds.push(recorded(RECORDED_TEXT)),
        Format::Octf => seeds.push(recorded(RECORDED_QUEUE)),
        _ => {}
    }
    seeds
}

/// One trace in every packing.
pub fn packed_corpus() -> Vec<Vec<u8>> {
    let zstd = zstd::encode_all(SAMPLE, 3).expect("memory takes all");
    PACKED_ALIKE.iter().map(|packed| packed.to_vec()).chain([zstd, PACKED[..PACKED_HEAD].to_vec()]).collect()
}

pub fn index_corpus() -> Vec<Vec<u8>> {
    vec![sample(Format::Ebt)]
}

pub fn try_input(format: Format, input: &[u8]) -> Result<bool, String> {
    let Ok(mut reader) = TraceReader::from_bytes(input, format) else { return Ok(false) };
    let records = read(&mut reader)?;
    let (told, count) = (reader.report().records, records.len() as u64);
    if told < count { Err(format!("{count} records came, {told} were reported")) } else { Ok(count > 0) }
}

/// The records of a trace, in order of time.
fn read(reader: &mut TraceReader) -> Result<Vec<Record>, String> {
    let mut records: Vec<Record> = Vec::new();
    while let Ok(Some(record)) = reader.next_record() {
        if records.last().is_some_and(|last| record.at < last.at) {
            return Err(format!("record {} is earlier than the one before", records.len()));
        }
        if record.offset.checked_add(record.len).is_none() {
            return Err(format!("record {} ends beyond 2^64", records.len()));
        }
        records.push(record);
    }
    Ok(records)
}

/// Seeks by whatever index the bytes have.
pub fn try_index(input: &[u8]) -> Result<bool, String> {
    let Ok(index) = Index::load(&mut Cursor::new(input)) else { return Ok(false) };
    let is_sound = Index::check(&mut Cursor::new(input)).is_ok_and(|checked| checked.is_ok());
    let Ok(mut whole) = TraceReader::from_bytes(input, Format::Ebt) else { return Ok(false) };
    let records = read(&mut whole)?;
    let Some(middle) = records.get(records.len() / 2) else { return Ok(false) };
    let sought = TraceReader::open_at("sought", Cursor::new(input.to_vec()), &index, middle.at);
    let found = read(&mut sought.map_err(|e| e.to_string())?)?;
    let expected = records.iter().filter(|r| r.at >= middle.at).count();
    if is_sound && whole.report().is_clean() && found.len() != expected {
        return Err(format!("{} records from {} on by the index, {expected} without it", found.len(), middle.at));
    }
    Ok(is_sound)
}
