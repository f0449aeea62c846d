//! Serves a volume to NBD clients while this process uses it too.
//!
//! `cargo run -p esker --example serve -- FOLDER`, and beside it `nbdcopy` or `esker status --control FOLDER/app.ctl`.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a program of a user")]

use std::path::PathBuf;

use esker::{OpenOptions, Serving};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder: PathBuf = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let (socket, control) = (folder.join("app.sock"), folder.join("app.ctl"));
    let text = format!("vol = memory size=64MiB @ nbd=unix:{}", socket.display());
    let stack = OpenOptions::default().serve(Serving::at(&control)).open(&text)?;
    println!("nbd+unix:///vol?socket={}", socket.display());
    println!("control socket {}", control.display());

    let vol = stack.export("vol")?;
    vol.write_at(&[9; 4096], 0)?;
    vol.flush()?;
    // A program would do its work here. Closing answers requests under way, and removes both sockets.
    assert!(socket.exists() && control.exists());
    stack.close()?;
    assert!(!socket.exists() && !control.exists());
    Ok(())
}
