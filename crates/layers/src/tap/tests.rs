use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use esker_base::Nanos;
use esker_block::{Bio, Buf, Device, Kind, KindError, Layer, Make, Param, ParamType};
use esker_rt::Rt;
use esker_rt::mem::{Pool, Slice};
use esker_rt::real::{File, OpenMode, Reactor, RealConfig};
use esker_rt::sim::{SimConfig, twice};
use esker_rt::sync::{Either, race};
use esker_stack::{Export, Spec, Stack};
use esker_trace_block::sink::TAP_FORMAT;
use esker_trace_block::{Op, Source, TraceReader};

use super::Tap;
use crate::testing::{check_conforms, check_refused, open, read, run, stat, try_open, write};

/// Where the kind under test records to, by its parameter `key`: each test has its own.
static OUTPUTS: Mutex<BTreeMap<String, Output>> = Mutex::new(BTreeMap::new());

/// A file in memory, which may be full.
#[derive(Clone, Default)]
struct Output {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: Option<usize>,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = self.bytes.lock().unwrap();
        if self.room.is_some_and(|room| all.len() + bytes.len() > room) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        all.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let output = OUTPUTS.lock().unwrap()[make.args.text("key")].clone();
    crate::transparent(make, Tap::new(make.rt, make.name, Box::new(output), make.args.int("buffer") as usize).unwrap())
}

static MEMORY_TAP: Kind = Kind::layer("memory-tap", "Records to the test's memory.", &PARAMS, build);
static PARAMS: [Param; 2] = [
    Param::required("key", ParamType::Text, "Key into the outputs."),
    Param::with_default("buffer", ParamType::Size, "1", "As of the tap."),
];
static KINDS: &[&Kind] = &[&esker_dev::memory::KIND, &MEMORY_TAP];

fn open_tapped(rt: &Rt, key: &str, room: Option<usize>) -> (Export, Output) {
    let output = Output { room, ..Output::default() };
    OUTPUTS.lock().unwrap().insert(key.to_string(), output.clone());
    let spec = Spec::parse("test", &format!("vol = memory size=1MiB | memory-tap key={key}")).unwrap();
    let stack = Stack::build(rt, &Pool::default(), KINDS, &spec).unwrap();
    (stack.device("vol").unwrap(), output)
}

fn ops(trace: Vec<u8>) -> Vec<(Nanos, Op, u64, u64)> {
    let mut reader = TraceReader::from_bytes(trace, TAP_FORMAT).unwrap();
    let mut all = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        all.push((record.at, record.op, record.offset, record.len));
    }
    all
}

#[test]
fn recording_changes_nothing() {
    check_conforms("vol = memory size=1MiB defer=always | tap path=t.iolog");
}

#[test]
fn every_request_is_in_the_trace_with_its_time() {
    twice(SimConfig::seeded(1), |rt| async move {
        let (vol, output) = open_tapped(&rt, "every", None);
        rt.sleep(Nanos::millis(1)).await;
        write(&vol, 4096, &[1; 1024]).await;
        rt.sleep(Nanos::millis(1)).await;
        read(&vol, 0, 512).await;
        for bio in [Bio::flush(), Bio::zero(0, 512), Bio::discard(512, 512), Bio::extents(0, 512)] {
            run(&vol, bio).await;
        }
        assert_eq!((stat(&vol, "vol", "records"), stat(&vol, "vol", "unrecorded")), (5.0, 1.0));
        vol.stack().close().await;
        let seen = ops(output.bytes.lock().unwrap().clone());
        let expected = [
            (Op::Write, 4096, 1024),
            (Op::Read, 0, 512),
            (Op::Flush, 0, 0),
            (Op::Discard, 0, 512),
            (Op::Discard, 512, 512),
        ];
        assert_eq!(seen.iter().map(|(_, op, at, len)| (*op, *at, *len)).collect::<Vec<_>>(), expected);
        assert!(seen[0].0 >= Nanos::millis(1) && seen[1].0 >= Nanos::millis(2), "{seen:?}");
    });
}

#[test]
fn requests_wait_for_the_file_rather_than_lose_records() {
    twice(SimConfig::seeded(1), |rt| async move {
        let (vol, output) = open_tapped(&rt, "wait", None);
        let mut waited = 0;
        for i in 0..40_000u64 {
            let bio = Bio::write(i % 2000 * 512, Buf::zeroed(vol.stack().pool(), 512));
            let begin = rt.now();
            assert!(vol.submit(bio).await.result.is_ok());
            waited += u64::from(rt.now().since(begin) > super::WRITE_COST);
        }
        assert!(waited > 0, "a buffer of one byte must have been full");
        vol.stack().close().await;
        assert_eq!(ops(output.bytes.lock().unwrap().clone()).len(), 40_000);
    });
}

/// One client past five taps: while one of them makes it wait, the others' workers finish without being looked at, and
/// their buffers fill up again before they are.
async fn past_five_taps(rt: Rt) {
    let mut text = "vol = memory size=1MiB".to_string();
    for key in ["five-1", "five-2", "five-3", "five-4", "five-5"] {
        OUTPUTS.lock().unwrap().insert(key.to_string(), Output::default());
        text += &format!(" | memory-tap key={key} buffer=600KiB");
    }
    let spec = Spec::parse("test", &text).unwrap();
    let stack = Stack::build(&rt, &Pool::default(), KINDS, &spec).unwrap();
    let vol = stack.device("vol").unwrap();
    for i in 0..200_000u64 {
        run(&vol, Bio::zero(i % 2000 * 512, 512)).await;
    }
    stack.close().await;
    for part in stack.stats().iter().filter(|part| part.kind == "memory-tap") {
        let stats: Vec<_> = part.stats.iter().map(|s| (s.name, s.value)).collect();
        assert_eq!(stats[..3], [("records", 200_000.0), ("unrecorded", 0.0), ("backlog_bytes", 0.0)]);
    }
}

#[test]
fn full_buffers_are_emptied_while_requests_wait_for_other_taps() {
    twice(SimConfig { seed: 1, cpus: 2 }, past_five_taps);
    let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
    let (rt, patience) = (reactor.rt(), reactor.rt().sleep(Nanos::secs(30)));
    let end = reactor.block_on(async move { race(past_five_taps(rt), patience).await });
    assert_eq!(end, Either::Left(()), "requests wait for a tap that is not emptied");
}

#[test]
fn a_full_disk_ends_the_recording_but_not_the_requests() {
    twice(SimConfig::seeded(1), |rt| async move {
        let (vol, _) = open_tapped(&rt, "full", Some(0));
        for i in 0..40_000u64 {
            run(&vol, Bio::zero(i % 2000 * 512, 512)).await;
        }
        assert_eq!(stat(&vol, "vol", "is_failed"), 1.0);
        assert!(stat(&vol, "vol", "unrecorded") > 0.0);
        vol.stack().close().await;
    });
}

#[test]
fn a_file_gets_the_trace_and_none_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live.iolog");
    let text = format!("vol = memory size=1MiB | tap path={}", path.display());
    let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
    let rt = reactor.rt();
    let trace = reactor.block_on(async move {
        let vol = open(&rt, &text);
        write(&vol, 512, &[1; 512]).await;
        vol.stack().close().await;
        let again = try_open(&rt, &text).err().expect("the file exists");
        assert!(again.contains("live.iolog"), "{again}");
        let mode = OpenMode { read_only: true, direct: false, create_new: false, exclusive: false };
        let file = File::open(&rt.kernel().unwrap(), &path, mode).unwrap();
        let size = file.size().unwrap() as usize;
        file.read(0, vec![Slice::heap(vec![0; size])]).await.unwrap()
    });
    let bytes = trace.op.into_parts()[0].bytes().to_vec();
    assert_eq!(ops(bytes).iter().map(|(_, op, at, len)| (*op, *at, *len)).collect::<Vec<_>>(), [(Op::Write, 512, 512)]);
}

#[test]
fn a_tap_needs_a_path() {
    check_refused("vol = memory size=1MiB | tap", "path");
}
