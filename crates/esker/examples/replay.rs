//! Plays a trace against a real stack, one request after the other, and tells how long they took.
//!
//! `cargo run --release -p esker --example replay -- TRACE`

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a program of a user")]

use std::time::{Duration, Instant};

use esker::trace::{Op, Request};

fn play(vol: &esker::Export, request: &Request) -> Result<(), esker::Error> {
    // The volume may be smaller than the one that was recorded.
    let len = request.len.min(1 << 20);
    let offset = request.offset % (vol.size()? - len);
    match request.op {
        Op::Read => vol.read_at(&mut vec![0; len as usize], offset),
        Op::Write => vol.write_at(&vec![0xe5; len as usize], offset),
        Op::Flush => vol.flush(),
        Op::Discard => vol.discard(offset, len),
    }
}

fn main() -> Result<(), esker::Error> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "data/linux-mysql.load.gz".to_string());
    let stack = esker::open("disk = memory size=1GiB; vol = align on disk @")?;
    let vol = stack.export("vol")?;
    let mut times: Vec<Duration> = Vec::new();
    for request in esker::trace::open(&path)?.take(10_000) {
        let (request, begun) = (request?, Instant::now());
        play(&vol, &request)?;
        times.push(begun.elapsed());
    }
    times.sort();
    println!("{} requests of {path}", times.len());
    for (name, share) in [("median", 0.5), ("99 %", 0.99), ("slowest", 1.0)] {
        println!("{name:>8}  {:?}", times[((times.len() - 1) as f64 * share) as usize]);
    }
    stack.close()
}
