//! Callers that are interrupted, changes by others, and ends of mounts, while calls wait and while none does.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use esker_base::ByteRange;
use esker_front_fuse::{CacheMode, unmount};
use esker_vfs::{Change, Ino, Name};

use crate::harness::{Mount, transports};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A program that reads an open file to its end.
fn reader(file: File) -> Child {
    Command::new("cat").stdin(file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("cat(1) starts")
}

/// Waits until a program has ended. True: well.
fn ended(child: &mut Child) -> bool {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("it can be asked") {
            return status.success();
        }
        assert!(start.elapsed() < PATIENCE, "a program waits on");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_reader_that_is_interrupted_ends_although_its_answer_waits() {
    for transport in transports() {
        let mount = Mount::late(transport, CacheMode::None);
        fs::write(mount.path("f"), [7; 5000]).unwrap();
        // Opened before, because an open is not given up.
        let files = [(); 4].map(|()| File::open(mount.path("f")).unwrap());
        mount.shut(true);
        let before = mount.requests().values().sum::<u64>();
        let mut readers = files.map(reader);
        // Each reads, or looks at attributes first.
        mount.wait_until(|asked| asked.values().sum::<u64>() >= before + 4);
        for reader in &mut readers {
            let pid = rustix::process::Pid::from_child(reader);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
            assert!(!ended(reader), "it ended by the signal");
        }
        mount.shut(false);
        assert_eq!(fs::read(mount.path("f")).unwrap(), [7; 5000]);
    }
}

#[test]
fn requests_beyond_the_entries_of_a_ring_wait_their_turn() {
    const READERS: usize = 60;
    for transport in transports() {
        let mount = Mount::late(transport, CacheMode::None);
        fs::write(mount.path("f"), [7; 5000]).unwrap();
        let file = File::open(mount.path("f")).unwrap();
        mount.shut(true);
        thread::scope(|scope| {
            let read = |at: usize| {
                let mut bytes = [0; 10];
                file.read_exact_at(&mut bytes, at as u64).unwrap();
                assert_eq!(bytes, [7; 10]);
            };
            let readers: Vec<_> = (0..READERS).map(|at| scope.spawn(move || read(at))).collect();
            mount.wait_for("READ", 8);
            thread::sleep(Duration::from_millis(50));
            mount.shut(false);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
    }
}

#[test]
fn the_kernel_drops_what_others_changed() {
    for transport in transports() {
        let mount = Mount::late(transport, CacheMode::Through);
        fs::write(mount.path("f"), [7; 10_000]).unwrap();
        let look = || {
            fs::metadata(mount.path("f")).unwrap();
            assert_eq!(fs::read(mount.path("f")).unwrap().len(), 10_000);
        };
        look();
        look();
        assert!(mount.requests_of(look).is_empty());
        let ino = Ino(fs::metadata(mount.path("f")).unwrap().ino());
        mount.changed_by_others(Change::Range(ino, ByteRange::new(0, 10_000).unwrap()));
        assert!(mount.requests_of(look).contains_key("READ"));
        let root = Ino(fs::metadata(&mount.at).unwrap().ino());
        mount.changed_by_others(Change::Name(root, Name::new(b"f").unwrap().to_buf()));
        assert!(mount.requests_of(look).contains_key("LOOKUP"));
    }
}

#[test]
fn what_waits_at_a_lazy_unmount_is_still_answered() {
    for transport in transports() {
        let mount = Mount::late(transport, CacheMode::None);
        fs::write(mount.path("f"), [7; 5000]).unwrap();
        let file = File::open(mount.path("f")).unwrap();
        mount.shut(true);
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut bytes = [0; 5000];
                file.read_exact_at(&mut bytes, 0).unwrap();
                bytes
            });
            mount.wait_for("READ", 1);
            unmount(&mount.at, true).unwrap();
            mount.shut(false);
            assert_eq!(reader.join().unwrap(), [7; 5000]);
        });
        mount.is_gone();
    }
}

#[test]
fn an_aborted_connection_fails_its_calls_and_ends_its_server() {
    for transport in transports() {
        let mount = Mount::late(transport, CacheMode::None);
        fs::write(mount.path("f"), [7; 5000]).unwrap();
        let minor = rustix::fs::minor(fs::metadata(&mount.at).unwrap().dev());
        let control = Control::mounted();
        let file = File::open(mount.path("f")).unwrap();
        mount.shut(true);
        thread::scope(|scope| {
            let reader = scope.spawn(|| file.read_exact_at(&mut [0; 10], 0).unwrap_err());
            mount.wait_for("READ", 1);
            fs::write(control.0.path().join(minor.to_string()).join("abort"), "1").unwrap();
            // ECONNABORTED, for a call that waited.
            assert_eq!(reader.join().unwrap().raw_os_error(), Some(103));
        });
        assert_eq!(fs::metadata(mount.path("new")).unwrap_err().raw_os_error(), Some(107), "ENOTCONN");
        mount.shut(false);
    }
}

#[test]
fn a_reactor_that_goes_takes_its_mount_with_it() {
    for transport in transports() {
        let mount = Mount::new(transport, CacheMode::None);
        fs::write(mount.path("f"), [7; 5000]).unwrap();
        mount.leave();
        let start = Instant::now();
        // ENOTCONN. A call that is on its way when the server goes may hear ECONNABORTED.
        while fs::metadata(mount.path("new")).unwrap_err().raw_os_error() != Some(107) {
            assert!(start.elapsed() < PATIENCE);
        }
    }
}

/// The kernel's control files of its FUSE connections.
struct Control(tempfile::TempDir);

impl Control {
    fn mounted() -> Control {
        let folder = tempfile::tempdir().unwrap();
        let done = Command::new("mount").args(["-t", "fusectl", "none"]).arg(folder.path()).status().unwrap();
        assert!(done.success());
        Control(folder)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // The directory cannot be removed otherwise.
        let _unmounted = Command::new("umount").arg(self.0.path()).status();
    }
}
