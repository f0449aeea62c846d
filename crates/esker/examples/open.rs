//! A mirror of two files in this process: write, flush, read, and see what its parts count.
//!
//! `cargo run -p esker --example open -- FOLDER`

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a program of a user")]

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder: PathBuf = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let [a, b] = ["a.img", "b.img"].map(|name| folder.join(name));
    let text = format!(
        "a = file path={} size=16MiB; b = file path={} size=16MiB; vol = mirror on a, b @",
        a.display(),
        b.display()
    );
    let stack = esker::open(&text)?;
    let vol = stack.export("vol")?;
    println!("{} has {} bytes in blocks of {}", vol.name(), vol.size()?, vol.block_bytes());

    vol.write_at(&[7; 8192], 1 << 20)?;
    vol.flush()?;
    let mut read = [0; 8192];
    vol.read_at(&mut read, 1 << 20)?;
    assert_eq!(read, [7; 8192]);

    for part in stack.parts() {
        println!("{} ({}): {} numbers", part.name, part.kind, part.stats.len());
    }
    Ok(stack.close()?)
}
