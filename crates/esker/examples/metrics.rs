//! Hands out the numbers of a stack to Prometheus.
//!
//! `cargo run -p esker --example metrics -- ADDRESS`, such as `127.0.0.1:9464`

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a program of a user")]

use std::io::{Read, Write};
use std::net::TcpStream;

use esker::{OpenOptions, Serving};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_string());
    let control = std::env::temp_dir().join(format!("metrics-{}.ctl", std::process::id()));
    let serving = Serving::at(control).metrics(&address);
    let stack = OpenOptions::default().serve(serving).open("vol = memory size=64MiB | stats @")?;
    let vol = stack.export("vol")?;
    for block in 0..1000 {
        vol.write_at(&[1; 4096], block * 4096)?;
    }

    let address = stack.metrics_address().expect("asked for above");
    let mut page = String::new();
    let mut client = TcpStream::connect(&address)?;
    client.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    client.read_to_string(&mut page)?;
    page.lines().filter(|line| line.contains("writes") && !line.starts_with('#')).for_each(|line| println!("{line}"));
    Ok(stack.close()?)
}
