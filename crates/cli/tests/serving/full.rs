//! A volume on a file whose file system is full: it fails the write, opens, is read, and goes on when there is space.

use std::process::Output;

use crate::harness::{Server, check_esker, check_tool, tool};
use crate::small_disk::SmallDisk;

const STACK: &str = "f = file path=DIR/small/f.img size=64MiB direct=false; \
                     vol = logvol size=16MiB segment=1MiB checkpoint_interval=4MiB on f; export vol = vol nbd=unix:DIR/sock";

fn qemu_io(server: &Server, command: &str) -> Output {
    tool("qemu-io", &["-f", "raw", "-c", command, &server.uris[0]]).output().expect("qemu-io runs")
}

fn check_done(server: &Server, command: &str) {
    check_tool("qemu-io", &["-f", "raw", "-c", command, &server.uris[0]]);
}

fn check_full(server: &Server, command: &str) {
    let output = qemu_io(server, command);
    let told = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("No space left on device"), "{command}: {told}");
}

#[test]
fn a_volume_on_a_full_file_system_is_read_opened_and_goes_on_when_there_is_space() {
    let dir = tempfile::tempdir().unwrap();
    let Some(small) = SmallDisk::mount(dir.path(), c"size=12m") else { return };
    let mut server = Server::start(dir.path(), STACK, &[]);
    check_done(&server, "write -P 1 0 4m");
    check_done(&server, "flush");
    small.fill();
    check_full(&server, "write -P 2 4m 1m");
    check_done(&server, "read -P 1 0 4m");
    let status = check_esker(&["status", "--control", &server.control], 1);
    assert!(status.contains("the device below has no space"), "{status}");
    server.kill();
    drop(server);
    let server = Server::start(dir.path(), STACK, &[]);
    check_done(&server, "read -P 1 0 4m");
    check_full(&server, "write -P 2 4m 1m");
    check_done(&server, "discard 0 1m");
    check_done(&server, "read -P 0 0 1m");
    small.empty();
    check_done(&server, "write -P 3 4m 1m");
    server.check_status();
    server.stop();
    let image = small.0.join("f.img").display().to_string();
    check_esker(&["check", &image], 0);
    let server = Server::start(dir.path(), STACK, &[]);
    check_done(&server, "read -P 0 0 1m");
    check_done(&server, "read -P 1 1m 3m");
    check_done(&server, "read -P 3 4m 1m");
    server.stop();
}
