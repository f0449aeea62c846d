//! Bytes and time that each format takes for a record: `cargo run --release -p esker-trace-block --example format_cost
//! [FORMAT]`.
//!
//! Two shipped traces are written in every format and read back; the best of five rounds counts. Bytes are as written
//! and packed with zstd at level 3; time is that of reading the unpacked bytes, beside that of `load` in the same run.
//! With a FORMAT, that one is read once and nothing else is done, so that instructions can be counted from outside.

#![allow(clippy::disallowed_methods, reason = "a measurement needs the machine's clock")]

use esker_trace_block::{Format, RecordSink, Source, TraceReader, convert};
use std::error::Error;
use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex};
use std::time::Instant;

const ROUNDS: usize = 5;
const TRACES: [(&str, &[u8], Format); 2] = [
    ("linux-webserver-2.load.gz", include_bytes!("../../../data/linux-webserver-2.load.gz"), Format::Load),
    ("cloudPhysicsIO.vscsi.zst", include_bytes!("../../../data/cloudPhysicsIO.vscsi.zst"), Format::Vscsi1),
];

/// Bytes that outlive the sink that writes them.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<Cursor<Vec<u8>>>>);

impl Write for Shelf {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panics").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Shelf {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.lock().expect("no writer panics").seek(to)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let only: Option<Format> = std::env::args().nth(1).map(|name| name.parse()).transpose()?;
    for (name, data, format) in TRACES {
        if let Some(only) = only {
            let bytes = written(data, format, only)?;
            println!("{name} as {only}: {} records, {} bytes", read(&bytes, only)?, bytes.len());
            continue;
        }
        println!("{name}\n{:<16}{:>10}{:>10}{:>10}{:>10}", "format", "B/record", "zstd", "ns/record", "of load");
        let mut load = 0.0;
        for to in Format::written() {
            let bytes = written(data, format, to)?;
            let records = read(&bytes, to)? as f64;
            let ns = best_time(&bytes, to)? * 1e9 / records;
            load = if to == Format::Load { ns } else { load };
            let packed = zstd::encode_all(&bytes[..], 3)?.len() as f64;
            let (plain, ratio) = (bytes.len() as f64 / records, ns / load);
            println!("{:<16}{plain:>10.2}{:>10.2}{ns:>10.0}{ratio:>10.2}", to.name(), packed / records);
        }
    }
    Ok(())
}

/// A trace in format `to`.
fn written(data: &[u8], from: Format, to: Format) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut source = TraceReader::from_bytes(data, from)?;
    let shelf = Shelf::default();
    convert(&mut source, RecordSink::to_file(to, Box::new(shelf.clone()))?)?;
    let bytes = shelf.0.lock().expect("no writer panics").get_ref().clone();
    Ok(bytes)
}

fn read(bytes: &[u8], format: Format) -> Result<u64, Box<dyn Error>> {
    let mut reader = TraceReader::from_bytes(bytes, format)?;
    while reader.next_record()?.is_some() {}
    Ok(reader.report().records)
}

fn best_time(bytes: &[u8], format: Format) -> Result<f64, Box<dyn Error>> {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        read(bytes, format)?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}
