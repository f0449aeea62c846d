//! How many records of a `.load` trace are read in a second: `cargo run --release -p esker-trace-block --example
//! parse_speed`.
//!
//! The shipped web server trace is rendered 8 times into memory (2.15 M records) and read back, unpacked and as gzip.

#![allow(clippy::disallowed_methods, reason = "a measurement needs the machine's clock")]

use esker_trace_block::{Format, Source, Stats, TraceReader};
use flate2::{Compression, write::GzEncoder};
use std::io::{Read, Write};
use std::time::Instant;

const COPIES: usize = 8;
const TRACE: &[u8] = include_bytes!("../../../data/linux-webserver-2.load.gz");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = Vec::new();
    flate2::read::MultiGzDecoder::new(TRACE).read_to_end(&mut text)?;
    let header = b"replay_duration=0\n";
    let body = memchr::memmem::find(&text, header).ok_or("the trace has no header line")? + header.len();
    let mut many = text[..body].to_vec();
    (0..COPIES).for_each(|_| many.extend_from_slice(&text[body..]));
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&many)?;
    let gzip = gzip.finish()?;

    for round in 1..=3 {
        measure(&format!("round {round}, unpacked"), many.clone(), |_| {})?;
        measure(&format!("round {round}, gzip"), gzip.clone(), |_| {})?;
        let mut stats = Stats::new();
        measure(&format!("round {round}, unpacked + statistics"), many.clone(), |r| stats.add(r))?;
    }
    Ok(())
}

fn measure(
    what: &str,
    data: Vec<u8>,
    mut each: impl FnMut(&esker_trace_block::Record),
) -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let mut reader = TraceReader::from_bytes(data, Format::Load)?;
    let mut records = 0u64;
    while let Some(record) = reader.next_record()? {
        each(&record);
        records += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{what}: {records} records in {seconds:.3} s, {:.2} M/s", records as f64 / seconds / 1e6);
    Ok(())
}
