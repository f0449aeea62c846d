//! A mounted log-structured file system whose server is killed under load: the next mount has everything that was
//! synchronised, and every snapshot.
//!
//! Three kills by default. `cargo xtask soak mount` does more: it sets the variables that are read here.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{sleep, spawn};
use std::time::Duration;

use esker_base::Stream;
use esker_testkit::SoakLength;

use crate::harness::{ESKER, Place, can_run, check_tool, text};

const WRITERS: u64 = 3;
/// Files of a writer.
const FILES: u64 = 5;
/// Blocks of a file at most.
const BLOCKS: usize = 48;
const BLOCK_BYTES: usize = 4096;
/// So small that the cleaner of the mount has work.
const DEVICE: &str = "size=64MiB direct=false";
/// A server lives between these many milliseconds under load.
const LIFE_MS: (u64, u64) = (5, 400);
/// In one of so many rounds on average a snapshot is made under load.
const SNAPSHOT_EVERY: u64 = 4;
/// Snapshots that are kept: the next one drops the oldest.
const SNAPSHOTS_MAX: usize = 2;

/// Versions of a block of a file. Version 0 is one that is not there.
#[derive(Clone, Copy, Default, Debug)]
struct Versions {
    durable: u64,
    sent: u64,
}

impl Versions {
    /// The version that is there, and no other may be there later.
    fn only(version: u64) -> Versions {
        Versions { durable: version, sent: version }
    }
}

type Files = Vec<[Versions; BLOCKS]>;

/// What may be there.
struct Book {
    files: Files,
    /// What may have been there at some time since a snapshot was begun.
    since: Files,
}

impl Book {
    fn note(&mut self, file: u64, note: impl Fn(usize, &mut Versions)) {
        let pairs = self.files[file as usize].iter_mut().zip(&mut self.since[file as usize]);
        for (block, (versions, since)) in pairs.enumerate() {
            note(block, versions);
            since.durable = since.durable.min(versions.durable);
            since.sent = since.sent.max(versions.sent);
        }
    }
}

/// The content of a block: its version, and bytes that belong to no other block and version.
fn content(file: u64, block: usize, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_BYTES];
    Stream::named(version, &format!("file {file} block {block}")).fill(&mut bytes);
    bytes[..8].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// A thread that changes files of its own until the server is gone.
struct Writer {
    at: PathBuf,
    number: u64,
    rng: Stream,
    book: Arc<Mutex<Book>>,
    versions: Arc<AtomicU64>,
}

impl Writer {
    fn path(&self, file: u64) -> PathBuf {
        path_of(&self.at, file)
    }

    fn work(mut self) {
        while self.step().is_ok() {}
    }

    fn step(&mut self) -> std::io::Result<()> {
        let (file, version) =
            (self.number * FILES + self.rng.below(FILES), self.versions.fetch_add(1, Ordering::Relaxed));
        match self.rng.below(8) {
            0 => self.remove(file),
            1 | 2 => self.replace(file, version),
            _ => self.overwrite(file, version),
        }
    }

    /// Notes what was sent of some blocks of a file.
    fn note(&self, file: u64, note: impl Fn(usize, &mut Versions)) {
        self.book.lock().unwrap().note(file, note);
    }

    /// Some blocks in place, now and then synchronised.
    fn overwrite(&mut self, file: u64, version: u64) -> std::io::Result<()> {
        let first = self.rng.below(BLOCKS as u64) as usize;
        let end = (first + 1 + self.rng.below(12) as usize).min(BLOCKS);
        self.note(file, |block, versions| {
            if (first..end).contains(&block) {
                versions.sent = version;
            }
        });
        let mut open = fs::File::options().create(true).truncate(false).write(true).open(self.path(file))?;
        open.seek(SeekFrom::Start((first * BLOCK_BYTES) as u64))?;
        let bytes: Vec<u8> = (first..end).flat_map(|block| content(file, block, version)).collect();
        open.write_all(&bytes)?;
        match self.rng.below(3) {
            0 => open.sync_all()?,
            1 => open.sync_data()?,
            _ => return Ok(()),
        }
        // The name is durable with the file.
        self.note(file, |_, versions| versions.durable = versions.sent);
        Ok(())
    }

    /// A new file under the name of the old one.
    fn replace(&mut self, file: u64, version: u64) -> std::io::Result<()> {
        let length = 1 + self.rng.below(BLOCKS as u64) as usize;
        let new = self.at.join(format!("new-{}", self.number));
        let mut open = fs::File::create(&new)?;
        let bytes: Vec<u8> = (0..length).flat_map(|block| content(file, block, version)).collect();
        open.write_all(&bytes)?;
        open.sync_all()?;
        // Until the rename is durable either file may be there; blocks behind its end may be absent.
        self.note(file, |block, versions| {
            versions.sent = versions.sent.max(if block < length { version } else { 0 });
            versions.durable = if block < length { versions.durable } else { 0 };
        });
        fs::rename(&new, self.path(file))?;
        fs::File::open(&self.at)?.sync_all()?;
        self.note(file, |block, versions| *versions = Versions::only(if block < length { version } else { 0 }));
        Ok(())
    }

    fn remove(&mut self, file: u64) -> std::io::Result<()> {
        self.note(file, |_, versions| versions.durable = 0);
        match fs::remove_file(self.path(file)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            done => done?,
        }
        fs::File::open(&self.at)?.sync_all()?;
        self.note(file, |_, versions| *versions = Versions::only(0));
        Ok(())
    }
}

fn path_of(at: &Path, file: u64) -> PathBuf {
    at.join(format!("file-{file}"))
}

/// The versions of a file's blocks, each of which must be one that the book allows.
fn judge(at: &Path, file: u64, allowed: &[Versions; BLOCKS], what: &str) -> [Versions; BLOCKS] {
    let mut bytes = Vec::new();
    match fs::File::open(path_of(at, file)) {
        Ok(mut open) => drop(open.read_to_end(&mut bytes).unwrap()),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{what}: {error}"),
    }
    assert_eq!(bytes.len() % BLOCK_BYTES, 0, "{what}: file {file} has a part of a block");
    let mut found = [Versions::default(); BLOCKS];
    for (block, (versions, found)) in allowed.iter().zip(&mut found).enumerate() {
        let bytes = bytes.chunks(BLOCK_BYTES).nth(block).unwrap_or_default();
        // A hole has no version either.
        let version = bytes.first_chunk().map_or(0, |head| u64::from_le_bytes(*head));
        let is_allowed = (versions.durable..=versions.sent.max(versions.durable)).contains(&version);
        assert!(is_allowed, "{what}: block {block} of file {file} has version {version} of {versions:?}");
        let is_whole =
            if version == 0 { bytes.iter().all(|byte| *byte == 0) } else { bytes == content(file, block, version) };
        assert!(is_whole, "{what}: block {block} of file {file} is no whole version {version}");
        *found = Versions::only(version);
    }
    found
}

/// What must be in a snapshot.
struct Snapshot {
    number: String,
    files: Files,
}

/// Makes a snapshot while writers work. None: the server was killed meanwhile.
fn snapshot(control: &str, book: &Mutex<Book>) -> Option<Snapshot> {
    {
        let mut book = book.lock().unwrap();
        book.since = book.files.clone();
    }
    let output =
        Command::new(ESKER).args(["lfs", "snapshot", "--mount", "lfs", "--control", control]).output().unwrap();
    let files = book.lock().unwrap().since.clone();
    let number = String::from_utf8(output.stdout).unwrap().trim().to_string();
    output.status.success().then_some(Snapshot { number, files })
}

struct Round<'a> {
    place: &'a Place,
    at: PathBuf,
    disk: String,
    rng: Stream,
}

impl Round<'_> {
    fn on(&self) -> [&str; 2] {
        ["--on", &self.disk]
    }

    /// Mounts, judges what is there, and loads it until its server is killed.
    fn run(&mut self, book: &Arc<Mutex<Book>>, versions: &Arc<AtomicU64>, what: &str) -> Option<Snapshot> {
        let control = self.place.path("lfs.ctl");
        let cache = ["through", "writeback", "none"][self.rng.below(3) as usize];
        let moved = ["cleaner=greedy,moved=apart", "cleaner=adaptive", "cleaner=cost-benefit,snapshots=all"];
        let options = moved[self.rng.below(3) as usize];
        let args = [&self.on()[..], &["--cache", cache, "-o", options, "--control", text(&control)]].concat();
        let mut server = self.place.mount_kind("lfs", &self.at, &args);
        let known = book.lock().unwrap().files.clone();
        let found = (0..).zip(&known).map(|(file, allowed)| judge(&self.at, file, allowed, what)).collect();
        book.lock().unwrap().files = found;
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let rng = Stream::seeded(self.rng.below(u64::MAX));
                let writer =
                    Writer { at: self.at.clone(), number, rng, book: book.clone(), versions: versions.clone() };
                spawn(move || writer.work())
            })
            .collect();
        let wanted = self.rng.below(SNAPSHOT_EVERY) == 0;
        let (asked, known) = (text(&control).to_string(), book.clone());
        let maker = wanted.then(|| spawn(move || snapshot(&asked, &known)));
        sleep(Duration::from_millis(LIFE_MS.0 + self.rng.below(LIFE_MS.1 - LIFE_MS.0)));
        server.kill();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let made = maker.and_then(|maker| maker.join().unwrap());
        check_tool(ESKER, &["umount", text(&self.at)]);
        made
    }

    /// The medium is sound, and each snapshot is there as it was.
    fn check(&self, snapshots: &[Snapshot], what: &str) {
        let checked = check_tool(ESKER, &[&["fs", "check", "lfs"][..], &self.on()].concat());
        // Notes may tell of synchronised data that the next mount brings forward.
        assert!(checked.lines().any(|line| line.starts_with("clean: ")), "{what}: {checked}");
        for snapshot in snapshots {
            let option = format!("checkpoint={}", snapshot.number);
            let mut server = self.place.mount_kind("lfs", &self.at, &[&self.on()[..], &["-o", &option]].concat());
            for (file, allowed) in (0..).zip(&snapshot.files) {
                judge(&self.at, file, allowed, &format!("{what}, snapshot {}", snapshot.number));
            }
            check_tool(ESKER, &["umount", text(&self.at)]);
            server.end();
        }
    }
}

#[test]
fn what_was_synchronised_on_an_lfs_survives_kills_of_its_server() {
    if !can_run(&[]) {
        return;
    }
    let SoakLength { times, seed } = SoakLength::told(3);
    println!("ESKER_KILL_TIMES={times} ESKER_KILL_SEED={seed}");
    let place = Place::new();
    let disk = format!("disk = file path={} {DEVICE} @", text(&place.path("lfs.img")));
    let mut round =
        Round { at: place.directory("mnt"), place: &place, disk, rng: Stream::named(seed, "kills of mounts") };
    check_tool(ESKER, &[&["fs", "mkfs", "lfs", "--live-counters", "--segment", "512KiB"][..], &round.on()].concat());
    let files = vec![[Versions::default(); BLOCKS]; (WRITERS * FILES) as usize];
    let book = Arc::new(Mutex::new(Book { since: files.clone(), files }));
    let versions = Arc::new(AtomicU64::new(1));
    let mut snapshots: Vec<Snapshot> = Vec::new();
    for kill in 1..=times {
        let what = format!("kill {kill}");
        snapshots.extend(round.run(&book, &versions, &what));
        round.check(&snapshots, &what);
        if snapshots.len() > SNAPSHOTS_MAX {
            let dropped = snapshots.remove(0);
            check_tool(ESKER, &[&["lfs", "snapshot", &dropped.number, "--undo"][..], &round.on()].concat());
        }
    }
    // The last kill is judged as the others were.
    round.run(&book, &versions, "the end");
    let sent = versions.load(Ordering::Relaxed);
    println!("{times} kills, {sent} changes");
    assert!(sent > times * 5, "the load made only {sent} changes");
}
