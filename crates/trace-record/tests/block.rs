//! Requests to a loop device are recorded as a known load sends them.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests use block devices of their own")]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use esker_skip::{Ability, skip};
use esker_sys::loop_device::{LoopSetup, clear, configure};
use esker_trace_block::{Format, Op, Source, TraceReader};
use esker_trace_record::block::{BlockDevice, BlockError, BlockRecorded, BlockSettings, record_block};

const BLOCK: u64 = 4096;
/// Bytes of the disk, and where its one partition lies.
const SIZE: u64 = 16 << 20;
const PART: (u64, u64) = (1 << 20, 8 << 20);

/// A loop device over a file of its own; detached when dropped.
struct Disk {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Drop for Disk {
    fn drop(&mut self) {
        clear(&self.path).expect("nothing uses it");
    }
}

impl Disk {
    /// `None`, loudly, without loop devices.
    fn attach() -> Option<Disk> {
        let folder = tempfile::tempdir().expect("scratch");
        let file = folder.path().join("disk.img");
        File::create(&file).and_then(|image| image.set_len(SIZE)).expect("scratch");
        match configure(&file, LoopSetup { block: 512, read_only: false, partitions: true }) {
            Ok(path) => Some(Disk { path, _folder: folder }),
            Err(error) => {
                skip(Ability::Attach, format_args!("loop devices: {error}"));
                None
            }
        }
    }

    /// Makes its one partition: few kernels of test machines read tables. `None`, loudly, if it does not appear.
    fn part(&self) -> Option<PathBuf> {
        let [start, sectors] = [PART.0 / 512, PART.1 / 512].map(|count| count.to_string());
        let added = Command::new("addpart").arg(&self.path).args(["1", &start, &sectors]).status();
        let path = PathBuf::from(format!("{}p1", self.path.display()));
        if !added.is_ok_and(|status| status.success()) || !path.exists() {
            skip(Ability::Attach, format_args!("{}: addpart of util-linux makes no such device", path.display()));
            return None;
        }
        Some(path)
    }
}

/// Direct requests: each call is one. The buffer begins at a whole block.
fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(path).expect("the device is there")
}

fn with_block<T>(act: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut room = vec![7; 2 * BLOCK as usize];
    let start = room.as_ptr().align_offset(BLOCK as usize);
    act(&mut room[start..][..BLOCK as usize])
}

fn write(device: &File, block: u64) {
    with_block(|bytes| device.write_all_at(bytes, block * BLOCK)).expect("it is written");
}

fn read(device: &File, block: u64) {
    with_block(|bytes| device.read_exact_at(bytes, block * BLOCK)).expect("it is read");
}

/// Operation, first block and blocks.
type Request = (Op, u64, u64);

/// What this process asked of a device meanwhile; `None`, loudly, without BPF.
fn recorded(device: &Path, load: impl FnOnce()) -> Option<(Vec<Request>, BlockRecorded)> {
    let settings = BlockSettings {
        span: None,
        bytes_max: None,
        ring_bytes: 1 << 20,
        stop: Default::default(),
        ready: Default::default(),
    };
    let found = BlockDevice::find(device).expect("it is a block device");
    let mut trace = Vec::new();
    let recorded = thread::scope(|scope| {
        let recording = scope.spawn(|| record_block(&found, &settings, &mut trace, |_| ()));
        while !settings.ready.load(Ordering::Acquire) && !recording.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        if !recording.is_finished() {
            load();
        }
        settings.stop.store(true, Ordering::Relaxed);
        recording.join().expect("it does not panic")
    });
    let recorded = match recorded {
        Err(error @ BlockError::Programs(_)) => {
            skip(Ability::Bpf, error);
            return None;
        }
        recorded => recorded.expect("memory takes all"),
    };
    let mut reader = TraceReader::from_bytes(trace, Format::Blktrace).expect("it is a trace");
    let mut requests = Vec::new();
    while let Some(record) = reader.next_record().expect("it is whole") {
        if record.who == std::process::id() {
            requests.push((record.op, record.offset / BLOCK, record.len / BLOCK));
        }
    }
    let (major, minor) = found.number();
    assert_eq!(reader.volumes(), [format!("{major},{minor}")]);
    assert!(reader.report().is_clean(), "{}", reader.report());
    Some((requests, recorded))
}

#[test]
fn a_known_load_on_a_loop_device_is_recorded_request_by_request() {
    let Some(disk) = Disk::attach() else { return };
    let device = open(&disk.path);
    let blocks: Vec<u64> = (0..64).map(|at| at * 37 % 1024).collect();
    let load = || {
        blocks.iter().for_each(|block| write(&device, *block));
        device.sync_all().expect("it is flushed");
        blocks.iter().rev().for_each(|block| read(&device, *block));
        // From the program of this name, so that the process is another one.
        let discarded = Command::new("blkdiscard").args(["--offset=0", "--length=65536"]).arg(&disk.path).status();
        assert!(discarded.expect("util-linux is there").success());
    };
    let Some((requests, recorded)) = recorded(&disk.path, load) else { return };
    let mut expected: Vec<Request> = blocks.iter().map(|block| (Op::Write, *block, 1)).collect();
    expected.push((Op::Flush, 0, 0));
    expected.extend(blocks.iter().rev().map(|block| (Op::Read, *block, 1)));
    assert_eq!(requests, expected);
    let queued = recorded.tally.queued;
    assert!(queued.discards >= 1, "{queued:?}");
    assert!(recorded.tally.completed >= 128, "{:?}", recorded.tally);
    assert_eq!((recorded.tally.failed, recorded.far.lost), (0, 0));
}

#[test]
fn a_partition_is_recorded_by_its_own_places_however_its_requests_come() {
    let Some(disk) = Disk::attach() else { return };
    let Some(path) = disk.part() else { return };
    let (whole, part) = (open(&disk.path), open(&path));
    let (first, behind) = (PART.0 / BLOCK, (PART.0 + PART.1) / BLOCK);
    let load = || {
        write(&part, 5);
        write(&whole, first - 1);
        write(&whole, first + 6);
        write(&whole, behind);
        read(&part, PART.1 / BLOCK - 1);
        whole.sync_all().expect("it is flushed");
        part.sync_all().expect("it is flushed");
    };
    let Some((requests, _)) = recorded(&path, load) else { return };
    let last = PART.1 / BLOCK - 1;
    assert_eq!(requests, [(Op::Write, 5, 1), (Op::Write, 6, 1), (Op::Read, last, 1), (Op::Flush, 0, 0)]);
}
