//! Which of two stacks serves a load best? A prediction in virtual time, of a trace that this program makes.
//!
//! `cargo run --release -p esker --example predict`

use std::time::Duration;

use esker::trace::{Op, Request};

/// Ten seconds of random reads of 4 KiB, 50 a second.
fn reads() -> impl Iterator<Item = Request> {
    (0..500_u64).map(|n| Request {
        at: Duration::from_millis(20 * n),
        volume: 0,
        op: Op::Read,
        offset: n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 18) * 4096,
        len: 4096,
    })
}

fn main() -> Result<(), esker::Error> {
    let predicted = esker::Prediction::default()
        .trace("reads", reads())
        .stack("disk", "d = disk-model profile=hdd-7200-2021; vol = align on d @")?
        .stack("ssd", "d = ssd-model profile=ssd-sata-2021; vol = align on d @")?
        .target_p99(Duration::from_millis(10))
        .run(|_, _, _| {})?;
    for candidate in predicted.candidates() {
        println!("{}: median {:?}, 99th percentile {:?}", candidate.name, candidate.p50, candidate.p99);
    }
    println!("{}", predicted.headline());
    predicted.reasons().for_each(|reason| println!("  {reason}"));
    Ok(())
}
