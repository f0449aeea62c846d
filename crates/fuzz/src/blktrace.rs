//! Block traces: a reader ends, keeps times monotone, and yields no more records than it reports; an index of `ebt`
//! leads to what reading from the start leads to.

use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, MutexGuard};

use esker_trace_block::{Format, Index, Record, RecordSink, Source, TraceReader, convert};

const SAMPLE: &[u8] = include_bytes!("../../trace-block/fixtures/synthetic-msr.csv");
const PACKED: &[u8] = include_bytes!("../../../data/linux-mysql.load.gz");
/// Bytes of a packed sample: enough for some records.
const PACKED_HEAD: usize = 4096;
/// The sample in the other packings.
const PACKED_ALIKE: [&[u8]; 2] = [
    include_bytes!("../../trace-block/fixtures/synthetic-msr.csv.xz"),
    include_bytes!("../../trace-block/fixtures/synthetic-msr.csv.bz2"),
];
const RECORDED: &[u8] = include_bytes!("../../trace-block/fixtures/recorded.blktrace.1.zst");
const RECORDED_TEXT: &[u8] = include_bytes!("../../trace-block/fixtures/recorded.blkparse.zst");
const RECORDED_QUEUE: &[u8] = include_bytes!("../../../data/opencas/octf.trace.2.zst");
const MEASURED: &[u8] = include_bytes!("../../../data/disksim/hp_c2247a/hp_c2247a.trace.zst");
const CACHELIB: &[u8] = include_bytes!("../../trace-block/fixtures/synthetic-cachelib.csv");
const HFPLAYER: &[u8] = include_bytes!("../../trace-block/fixtures/synthetic-hfplayer.csv");
const BIOSNOOP: &[u8] = include_bytes!("../../trace-block/fixtures/synthetic-biosnoop.txt");
/// Beginnings of files that are no traces.
const FOREIGN: [&[u8]; 9] = [
    b"; a job\n[global]\nrw=randread\nioengine=libaio\n",
    b"1, 52345, 0, 4096, 0, 0x0\n2, 61000, 1, 4096, 8192, 0x0\n",
    b"[pid  7] 12:30:01.25 read(3,  <unfinished ...>\n[pid  7] <... read resumed>\"x\", 1) = 1\n",
    b"[\n{\"name\":\"read\",\"ts\":\"1\",\"dur\":\"8\",\"ph\":\"X\"}\n",
    b"Linux 6.1.0 (host)\n\nDevice             tps    kB_read/s\n",
    b"op_time,key,key_size,op\n1,2,3,GET\n",
    b"# a disk\ndisksim_disk A {\n  Model = source a.model,\n",
    b"Seek distances measured: 138\n1,\t1.24500\n",
    b"\xd4\xc3\xb2\xa1\x02\0\x04\0",
];
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
    let sink = RecordSink::to_file(format, Box::new(shelf.clone())).expect("the format is written");
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

pub(crate) fn corpus(format: Format) -> Vec<Vec<u8>> {
    let mut seeds = vec![PACKED[..PACKED_HEAD].to_vec()];
    seeds.extend(format.is_written().then(|| sample(format)));
    match format {
        Format::Blktrace => seeds.push(recorded(RECORDED)),
        Format::Blkparse => seeds.push(recorded(RECORDED_TEXT)),
        Format::Octf => seeds.push(recorded(RECORDED_QUEUE)),
        Format::DisksimMeasured => seeds.push(recorded(MEASURED)),
        Format::Cachelib => seeds.push(CACHELIB.to_vec()),
        Format::Hfplayer => seeds.push(HFPLAYER.to_vec()),
        Format::Biosnoop => seeds.push(BIOSNOOP.to_vec()),
        Format::Ids => seeds.push((0..256u32).flat_map(|id| (id * id % 97).to_le_bytes()).collect()),
        _ => {}
    }
    seeds
}

/// Traces of all formats, and files that are none.
pub(crate) fn any_corpus() -> Vec<Vec<u8>> {
    Format::ALL.into_iter().flat_map(corpus).chain(FOREIGN.map(<[u8]>::to_vec)).collect()
}

/// One trace in every packing.
pub(crate) fn packed_corpus() -> Vec<Vec<u8>> {
    let zstd = zstd::encode_all(SAMPLE, 3).expect("memory takes all");
    PACKED_ALIKE.iter().map(|packed| packed.to_vec()).chain([zstd, PACKED[..PACKED_HEAD].to_vec()]).collect()
}

pub(crate) fn index_corpus() -> Vec<Vec<u8>> {
    vec![sample(Format::Ebt)]
}

/// Reads a file whose format is not known; a refusal must be words.
pub(crate) fn try_any(input: &[u8]) -> Result<bool, String> {
    // A name that lets block numbers be told.
    match TraceReader::open("w1.trace", Box::new(Cursor::new(input.to_vec())), None) {
        Ok(reader) => try_reader(reader),
        Err(e) if e.to_string().contains("w1.trace") => Ok(false),
        Err(e) => Err(format!("the refusal does not name the file: {e}")),
    }
}

pub(crate) fn try_input(format: Format, input: &[u8]) -> Result<bool, String> {
    TraceReader::from_bytes(input, format).map_or(Ok(false), try_reader)
}

fn try_reader(mut reader: TraceReader) -> Result<bool, String> {
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
pub(crate) fn try_index(input: &[u8]) -> Result<bool, String> {
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
