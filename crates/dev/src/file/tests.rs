//! Files on both backends: the suite, the errors of opening, the latch.

use std::os::unix::fs::symlink;

use esker_base::Stream;
use esker_block::conformance::{self, Options};
use esker_block::{Bio, BioError, Buf};
use esker_rt::mem::Pool;
use esker_rt::real::{Backend, Reactor, RealConfig};
use esker_rt::{Rt, Sim, SimConfig};
use tempfile::TempDir;

use super::*;
use crate::tests::build;
use crate::{file, raw};

/// A medium that was there before.
fn there() -> Came {
    Came { path: PathBuf::new(), made: false, always: false }
}

/// A folder on a file system that does direct I/O, unlike some temporary ones.
fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap()
}

fn text_of(dir: &TempDir, name: &str) -> String {
    dir.path().join(name).display().to_string()
}

fn reactor(backend: Backend) -> Reactor {
    Reactor::new(RealConfig { backend, ..RealConfig::seeded(1) }).unwrap()
}

/// The error of building a `file` device.
fn refused(args: &[(&str, &str)]) -> String {
    let reactor = reactor(Backend::Auto);
    build(&reactor.rt(), &file::KIND, args).err().unwrap_or_else(|| panic!("{args:?} must be refused")).to_string()
}

#[track_caller]
fn check_refused(args: &[(&str, &str)], texts: &[&str]) {
    let error = refused(args);
    assert!(texts.iter().all(|text| error.contains(text)), "{error:?} should say {texts:?}");
}

#[test]
fn files_pass_the_suite_direct_and_cached_on_both_backends() {
    for backend in [Backend::Uring, Backend::Threads] {
        for direct in ["true", "false"] {
            let dir = folder();
            let path = text_of(&dir, "disk");
            let args = [("path", path.as_str()), ("size", "8MiB"), ("direct", direct)];
            let options = Options { batches: 100, ..Options::leaf(3) };
            let report = conformance::check_real(backend, |rt| build(rt, &file::KIND, &args).unwrap(), options);
            assert!(report.answered.iter().sum::<u64>() > 100, "{report:?}");
        }
    }
}

#[test]
fn a_file_whose_text_gives_no_size_can_be_resized_and_others_keep_theirs() {
    let dir = folder();
    let path = text_of(&dir, "disk");
    let reactor = reactor(Backend::Auto);
    let fixed = build(&reactor.rt(), &file::KIND, &[("path", &path), ("size", "64KiB")]).unwrap();
    assert!(!fixed.can_resize());
    let (fixed, refused) = reactor.block_on(async move {
        let refused = fixed.resize(128 << 10).await;
        (fixed, refused.unwrap_err().to_string())
    });
    assert!(refused.contains("keeps the size that the stack text gives it"), "{refused}");
    drop(fixed);
    let file = build(&reactor.rt(), &file::KIND, &[("path", &path)]).unwrap();
    assert!(file.can_resize());
    let read = reactor.block_on(async move {
        let ones = || Buf::from_bytes(&Pool::default(), &[1; 4096]);
        assert!(file.submit(Bio::write(60 << 10, ones())).await.result.is_ok());
        file.resize(32 << 10).await.unwrap();
        assert_eq!(file.size(), 32 << 10);
        file.resize(1 << 20).await.unwrap();
        assert_eq!(file.size(), 1 << 20);
        assert!(file.submit(Bio::write(1020 << 10, ones())).await.result.is_ok());
        let read = Bio::read(60 << 10, Buf::unique(&Pool::default(), 4096));
        file.submit(read).await.buf.to_vec()
    });
    assert_eq!(read, [0; 4096], "what was cut off does not come back");
    assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 20);
}

#[test]
fn a_created_file_is_sparse_and_serves_again_with_its_data() {
    let dir = folder();
    let path = text_of(&dir, "disk");
    let reactor = reactor(Backend::Auto);
    let first = build(&reactor.rt(), &file::KIND, &[("path", &path), ("size", "1GiB")]).unwrap();
    let payload = Buf::from_bytes(&Pool::default(), &[7; 4096]);
    let written = reactor.block_on(async move { first.submit(Bio::write(8192, payload).fua()).await });
    assert!(written.result.is_ok());
    let again = build(&reactor.rt(), &file::KIND, &[("path", &path)]).unwrap();
    assert_eq!(again.limits().size, 1 << 30);
    let read = Bio::read(8192, Buf::unique(&Pool::default(), 4096));
    let read = reactor.block_on(async move { again.submit(read).await });
    assert_eq!(read.buf.to_vec(), [7; 4096]);
    use std::os::unix::fs::MetadataExt;
    assert!(fs::metadata(&path).unwrap().blocks() * 512 < 1 << 20, "the rest takes no space");
}

#[test]
fn what_cannot_be_served_is_refused_with_the_way_out() {
    let dir = folder();
    let (missing, deep) = (text_of(&dir, "missing"), text_of(&dir, "no/such/folder"));
    check_refused(&[("path", &missing)], &[&missing, "does not exist", "give size"]);
    check_refused(&[("path", &deep), ("size", "1MiB")], &["cannot be created", "No such file"]);
    check_refused(&[("path", &missing), ("size", "1MiB"), ("read_only", "true")], &["creates nothing"]);
    check_refused(&[("path", &dir.path().display().to_string())], &["is a directory"]);
    check_refused(&[("path", "/dev/null")], &["is not a regular file"]);
    fs::write(dir.path().join("plain"), b"text").unwrap();
    check_refused(&[("path", &text_of(&dir, "plain/inside"))], &["Not a directory"]);
    check_refused(&[("path", &missing), ("size", "1MiB"), ("depth", "0")], &["depth = 0 is not from 1 to 4096"]);
    symlink("loop", dir.path().join("loop")).unwrap();
    check_refused(&[("path", &text_of(&dir, "loop")), ("size", "1MiB")], &["symbolic links"]);
    assert!(!dir.path().join("missing").exists());
}

#[test]
fn an_existing_file_is_never_changed_by_a_failed_start() {
    let dir = folder();
    let path = text_of(&dir, "precious");
    let mut bytes = vec![0; 5000];
    Stream::seeded(1).fill(&mut bytes);
    fs::write(&path, &bytes).unwrap();
    check_refused(&[("path", &path), ("size", "1MiB")], &["has 5000 bytes, not size = 1048576", "leave size out"]);
    check_refused(&[("path", &path)], &["size = 5000 is not a positive multiple"]);
    assert_eq!(fs::read(&path).unwrap(), bytes);
    fs::write(&path, b"").unwrap();
    check_refused(&[("path", &path)], &["is empty"]);
    assert!(fs::exists(&path).unwrap());
}

#[test]
fn a_file_of_a_size_that_fits_no_block_is_not_left_behind() {
    let dir = folder();
    let path = text_of(&dir, "odd");
    check_refused(&[("path", &path), ("size", "1000")], &["size = 1000 is not a positive multiple"]);
    check_refused(&[("path", &path), ("size", "16777215TiB")], &["cannot be given size"]);
    assert!(!fs::exists(&path).unwrap());
}

#[test]
fn one_file_is_served_once() {
    let dir = folder();
    let path = text_of(&dir, "disk");
    let reactor = reactor(Backend::Auto);
    let args = [("path", path.as_str()), ("size", "1MiB")];
    let first = build(&reactor.rt(), &file::KIND, &args).unwrap();
    check_refused(&args, &["another program serves this file"]);
    check_refused(&[("path", &path), ("read_only", "true")], &["another program serves this file"]);
    drop(first);
    assert!(build(&reactor.rt(), &file::KIND, &args).is_ok());
}

#[test]
fn a_read_only_file_reads_and_refuses_changes() {
    let dir = folder();
    let path = text_of(&dir, "disk");
    fs::write(&path, vec![3; 8192]).unwrap();
    let reactor = reactor(Backend::Auto);
    let device = build(&reactor.rt(), &file::KIND, &[("path", &path), ("read_only", "true")]).unwrap();
    let (written, read, flushed) = reactor.block_on(async move {
        let pool = Pool::default();
        let written = device.submit(Bio::write(0, Buf::zeroed(&pool, 4096))).await;
        let read = device.submit(Bio::read(4096, Buf::unique(&pool, 4096))).await;
        (written, read, device.submit(Bio::flush()).await)
    });
    assert!(matches!(written.result, Err(BioError::ReadOnly(name)) if *name == *path));
    assert_eq!((written.buf.len(), read.buf.to_vec()), (4096, vec![3; 4096]));
    assert!(flushed.result.is_ok());
}

/// A file that another program cuts: reads behind its new end fail and say so; the rest is read.
#[test]
fn a_file_that_was_cut_fails_reads_with_the_place() {
    let dir = folder();
    let path = text_of(&dir, "disk");
    let reactor = reactor(Backend::Auto);
    let device = build(&reactor.rt(), &file::KIND, &[("path", &path), ("size", "64KiB")]).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(12288).unwrap();
    let read = move |at, len| {
        let device = device.clone();
        async move { device.submit(Bio::read(at, Buf::unique(&Pool::default(), len))).await }
    };
    let short = reactor.block_on(read(8192, 8192));
    let error = short.result.unwrap_err().to_string();
    assert!(error.contains("read of 8192 bytes at 8192") && error.contains("byte 12288"), "{error}");
    assert_eq!(short.buf.len(), 8192);
}

/// A disk over a character device.
fn disk_over(rt: &Rt, pool: &Pool, path: &str, forces: bool) -> Disk {
    let mode = OpenMode { read_only: false, direct: false, create_new: false, exclusive: false };
    let file = File::open(&rt.kernel().unwrap(), Path::new(path), mode).unwrap();
    let limits = disk::limits(1 << 20, 512, false);
    Disk::new(
        rt,
        pool,
        Opened {
            name: path.into(),
            file,
            beneath: None,
            limits,
            depth: 1,
            holes: false,
            forces,
            resizable: false,
            allocated: false,
        },
        there(),
    )
}

/// Writes to /dev/full fail for lack of space like those to a full file system.
async fn write_to_full(rt: Rt) -> (Vec<BioError>, bool, usize) {
    let pool = Pool::default();
    let disk = disk_over(&rt, &pool, "/dev/full", false);
    let write = || Bio::write(4096, Buf::zeroed(&pool, 1024));
    let first = disk.submit(write()).await;
    let len = first.buf.len();
    let mut errors = vec![first.result.unwrap_err()];
    for bio in [write(), Bio::flush(), Bio::zero(0, 512), Bio::discard(0, 512)] {
        errors.push(disk.submit(bio).await.result.unwrap_err());
    }
    let read = disk.submit(Bio::read(0, Buf::unique(&pool, 512))).await;
    (errors, read.result.is_ok(), len)
}

#[test]
fn a_full_medium_answers_no_space_to_writes_and_latches_after_a_flush_that_failed() {
    for backend in [Backend::Uring, Backend::Threads] {
        let reactor = reactor(backend);
        let (errors, reads, len) = reactor.block_on(write_to_full(reactor.rt()));
        let no_space =
            |e: &BioError| matches!(e, BioError::NoSpace(text) if text.contains("write of 1024 bytes at 4096"));
        assert!(errors[..2].iter().all(no_space), "{errors:?}");
        // A character device cannot be synced.
        assert!(matches!(&errors[2], BioError::Io(text) if text.contains("flush: Invalid argument")), "{errors:?}");
        let latched = |e: &BioError| matches!(e, BioError::Latched(text) if text.contains("a flush failed"));
        assert!(errors[3..].iter().all(latched), "{errors:?}");
        assert_eq!((reads, len), (true, 1024), "reads go on, buffers come back");
    }
}

/// The error of a write with force unit access, if it fails.
fn forced_write(backend: Backend, path: &'static str, forces: bool) -> Option<String> {
    let (reactor, pool) = (reactor(backend), Pool::default());
    let disk = disk_over(&reactor.rt(), &pool, path, forces);
    let write = move |fua: bool| {
        let bio = Bio::write(4096, Buf::zeroed(&pool, 1024));
        disk.submit(if fua { bio.fua() } else { bio })
    };
    reactor.block_on(async move {
        if path == "/dev/null" {
            assert!(write(false).await.result.is_ok(), "a write without it syncs nothing");
        }
        write(true).await.result.err().map(|e| e.to_string())
    })
}

#[test]
fn a_forced_write_is_written_and_then_synced() {
    for backend in [Backend::Uring, Backend::Threads] {
        // What is written to /dev/null succeeds, but it cannot be synced; nothing can be written to /dev/full.
        let [null, full] = ["/dev/null", "/dev/full"].map(|path| forced_write(backend, path, false).unwrap());
        assert!(null.contains("flush: Invalid argument"), "{null}");
        assert!(full.contains("write of 1024 bytes at 4096"), "the write comes first: {full}");
    }
}

#[test]
fn a_block_device_writes_and_syncs_in_one_call() {
    let dir = folder();
    let path = text_of(&dir, "disk");
    fs::write(&path, [0; 64 << 10]).unwrap();
    for (backend, byte) in [(Backend::Uring, 7), (Backend::Threads, 8)] {
        let (reactor, pool) = (reactor(backend), Pool::default());
        let disk = disk_over(&reactor.rt(), &pool, &path, true);
        let write = Bio::write(4096, Buf::from_bytes(&pool, &[byte; 1024])).fua();
        let done = reactor.block_on(async move { disk.submit(write).await });
        assert_eq!((done.result.is_ok(), done.buf.to_vec()), (true, vec![byte; 1024]));
        assert_eq!(fs::read(&path).unwrap()[4096..5121], [&[byte; 1024][..], &[0]].concat());
        let full = forced_write(backend, "/dev/full", true).unwrap();
        assert!(full.contains("write of 1024 bytes at 4096"), "{full}");
    }
    // No second operation follows, which /dev/null would refuse.
    assert_eq!(forced_write(Backend::Uring, "/dev/null", true), None);
}

#[test]
fn zeroing_without_support_writes_zeroes() {
    let dir = folder();
    let path = dir.path().join("disk");
    fs::write(&path, vec![9; 3 << 20]).unwrap();
    let reactor = reactor(Backend::Auto);
    let rt = reactor.rt();
    let mode = OpenMode { read_only: false, direct: true, create_new: false, exclusive: false };
    let file = File::open(&rt.kernel().unwrap(), &path, mode).unwrap();
    let limits = disk::limits(3 << 20, 4096, false);
    let disk = Disk::new(
        &rt,
        &Pool::default(),
        Opened {
            name: "d".into(),
            file,
            beneath: None,
            limits,
            depth: 1,
            holes: true,
            forces: false,
            resizable: false,
            allocated: false,
        },
        there(),
    );
    let (start, len) = (4096, (2 << 20) + 8192);
    let range = esker_base::ByteRange::new(start, len).unwrap();
    reactor.block_on(async move { disk.shared.write_zeroes(range).await }).unwrap();
    let bytes = fs::read(&path).unwrap();
    let zeroes = bytes.iter().position(|b| *b == 0).unwrap()..=bytes.iter().rposition(|b| *b == 0).unwrap();
    assert_eq!(zeroes, start as usize..=(start + len) as usize - 1);
}

#[test]
fn block_devices_and_virtual_time_are_told_apart() {
    let dir = folder();
    let path = text_of(&dir, "plain");
    fs::write(&path, vec![0; 4096]).unwrap();
    let reactor = reactor(Backend::Auto);
    let raw = |path: &str| build(&reactor.rt(), &raw::KIND, &[("path", path)]).err().unwrap().to_string();
    assert!(raw(&path).contains("use kind = \"file\""));
    assert!(raw("/dev/null").contains("is not a block device"));
    assert!(raw(&text_of(&dir, "missing")).contains("No such file"));
    let sim = Sim::new(SimConfig::seeded(1));
    let error = build(&sim.rt(), &file::KIND, &[("path", &path)]).err().unwrap().to_string();
    assert!(error.contains("virtual time"), "{error}");
}
