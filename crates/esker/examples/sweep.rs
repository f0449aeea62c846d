//! A sweep: how the number of striped disks changes the slowest requests of a recorded load.
//!
//! `cargo run --release -p esker --example sweep -- TRACE`

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a program of a user")]

use esker::trace::Request;

fn main() -> Result<(), esker::Error> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "data/linux-mysql.load.gz".to_string());
    let requests: Vec<Request> = esker::trace::open(&path)?.take(5_000).collect::<Result<_, _>>()?;
    println!("{} requests of {path}", requests.len());
    println!("disks  median      99th percentile");
    for disks in [1, 2, 4, 8] {
        let names: Vec<String> = (0..disks).map(|disk| format!("d{disk}")).collect();
        let drives: String = names.iter().map(|name| format!("{name} = disk-model profile=hdd-7200-2021; ")).collect();
        let text = match disks {
            1 => format!("{drives}vol = align on d0 @"),
            _ => format!("{drives}all = stripe chunk=64KiB on {}; vol = align on all @", names.join(", ")),
        };
        let predicted = esker::Prediction::default()
            .trace(&path, requests.iter().copied())
            .stack("disks", &text)?
            .run(|_, _, _| {})?;
        let found = &predicted.candidates()[0];
        println!("{disks:>5}  {:<10}  {:?}", format!("{:?}", found.p50), found.p99);
    }
    Ok(())
}
