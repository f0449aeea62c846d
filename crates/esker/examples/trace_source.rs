//! Reads a trace in any of the known formats and counts what is in it.
//!
//! `cargo run -p esker --example trace_source -- TRACE`

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a program of a user")]

use std::collections::BTreeMap;

fn main() -> Result<(), esker::Error> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "data/linux-mysql.load.gz".to_string());
    let mut requests = esker::trace::open(&path)?;
    let mut counts: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    let mut last = std::time::Duration::ZERO;
    for request in requests.by_ref() {
        let request = request?;
        let (count, bytes) = counts.entry(request.op).or_default();
        (*count, *bytes, last) = (*count + 1, *bytes + request.len, request.at);
    }
    for (op, (count, bytes)) in counts {
        println!("{op:?}: {count} requests, {bytes} bytes");
    }
    println!("{last:?}, {} volumes, {} damaged lines", requests.volumes().len(), requests.faults());
    Ok(())
}
