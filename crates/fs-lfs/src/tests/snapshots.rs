//! Counters of live blocks beside snapshots: each rule against brute force (items 36 to 44 of the list of acceptance).

mod crashes;
mod history;
mod recounts;
mod rules;

use std::rc::Rc;

use esker_base::units::KIB;
use esker_base::{Errno, Nanos};
use esker_block::{Buf, Device};
use esker_dev::Media;
use esker_rt::Rt;
use esker_vfs::{At, Call, Entry, FileSystem, Name, New, NewKind, Remove, Stamp, Sync, Write};

use super::{config, made};
use crate::check::Counted;
use crate::{Lfs, LfsConfig, MkfsConfig, SnapshotCounting, check};

/// How a mount counts by a rule.
fn by(snapshots: SnapshotCounting) -> LfsConfig {
    LfsConfig { snapshots, ..LfsConfig::usual() }
}

fn blank(size: u64, block_bytes: u32, segment_kib: u64) -> Rc<Media> {
    let segment_bytes = Some(segment_kib * KIB);
    made(size, MkfsConfig { live_counters: true, segment_bytes, ..config(block_bytes) }).unwrap()
}

/// A mount, and the calls of these tests on it.
struct Mount {
    rt: Rt,
    fs: Lfs,
    /// Seconds since the file system was made.
    now: i64,
}

impl Mount {
    async fn of(rt: &Rt, media: &Rc<Media>, config: LfsConfig) -> Mount {
        Mount::over(rt, super::device(rt, media), config).await
    }

    async fn over(rt: &Rt, device: Rc<dyn Device>, config: LfsConfig) -> Mount {
        let now = Stamp(super::MADE as i64 * 1_000_000_000);
        let fs = Lfs::open_with(rt, device, now, config).await.unwrap_or_else(|error| panic!("{error}"));
        Mount { rt: rt.clone(), fs, now: 1 }
    }

    fn call(&self) -> Call {
        Call::at(Stamp((super::MADE as i64 + self.now) * 1_000_000_000))
    }

    async fn file(&self, name: &str) -> Result<Entry, Errno> {
        let named = Name::new(name.as_bytes()).unwrap();
        match self.fs.lookup(self.call(), self.fs.root(), named).await {
            Err(Errno::ENOENT) => {
                let new = New { what: NewKind::File, mode: 0o644, uid: 0, gid: 0 };
                self.fs.create(self.call(), self.fs.root(), Some(named), new).await
            }
            found => found,
        }
    }

    async fn write(&self, name: &str, at: u64, len: u64, fill: u8) -> Result<(), Errno> {
        let entry = self.file(name).await?;
        let data = Buf::from_bytes(&Default::default(), &vec![fill; len as usize]);
        let written = self.fs.write(self.call(), entry.ino, At::Offset(at), data, Write::default()).await;
        self.fs.forget(entry.ino, 1);
        written.map(drop)
    }

    async fn remove(&self, name: &str) -> Result<(), Errno> {
        self.fs.remove(self.call(), self.fs.root(), Name::new(name.as_bytes()).unwrap(), Remove::File).await
    }

    async fn sync(&self) {
        self.fs.sync(self.call(), Sync::All).await.unwrap();
    }

    async fn ask(&self, words: &str) -> Result<String, Errno> {
        self.fs.ask(&words.split(' ').map(str::to_string).collect::<Vec<_>>()).await
    }

    /// Keeps the state as it is: its number.
    async fn snapshot(&self) -> u64 {
        self.ask("snapshot").await.unwrap().parse().unwrap()
    }

    async fn undo(&self, number: u64) {
        self.ask(&format!("checkpoint {number}")).await.unwrap();
    }

    fn is_scanning(&self) -> bool {
        self.fs.stats().iter().any(|stat| stat.name == "scanning" && stat.value > 0.0)
    }

    /// Waits for the end of the background scan, which may find no room to go on. Answers whether it ended.
    async fn has_settled(&self) -> bool {
        let begun = self.rt.now();
        while self.is_scanning() && self.rt.now().since(begun) < Nanos::secs(60) {
            self.rt.sleep(Nanos::millis(5)).await;
        }
        !self.is_scanning()
    }

    async fn settle(&self) {
        assert!(self.has_settled().await, "the scan ends");
    }

    async fn close(self) {
        self.fs.close().await.unwrap();
    }

    /// Live blocks of each segment in use, as its counter has them.
    async fn counters(&self) -> Vec<(u64, u64, u64)> {
        let told = self.ask("segments").await.unwrap();
        let row = |line: &str| {
            let cells: Vec<&str> = line.split(' ').collect();
            [0, 3, 6].map(|column| cells[column].parse::<u64>().unwrap())
        };
        told.lines().map(row).map(|[segment, live, changed]| (segment, live, changed)).collect()
    }
}

/// What brute force counts on a sound medium.
async fn counted(rt: &Rt, media: &Rc<Media>) -> Counted {
    let found = check(rt, super::device(rt, media)).await.unwrap();
    assert!(found.is_clean(), "{:#?}", found.findings);
    found.counted
}
