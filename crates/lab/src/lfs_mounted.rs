//! `lfs` on a modelled disk in virtual time, mounted within the process, for the experiments on its counters.
//!
//! The disk holds content in memory. A layer counts what the disk gets. Virtual time knows the disk and no CPU.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::units::MIB;
use esker_base::{Errno, Nanos, Time};
use esker_block::Buf;
use esker_fs_lfs::check::Counted;
use esker_fs_lfs::cleaner::config::{Recent, Share, StepLimits};
use esker_fs_lfs::{CleanerConfig, Lfs, LfsConfig, LfsControl, LfsError, MkfsConfig, check, mkfs};
use esker_fs_posix::{Settings, World};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_stack::Export;
use esker_trace_nfs::ProcessTarget;
use esker_vfs::{At, Call, Cred, Entry, FileSystem, Name, New, NewKind, Remove, Stamp, Sync, Write};

use esker_lab_kit::rig::vol;
use esker_lab_kit::{LabError, Rig};

/// Bytes of a block.
pub(crate) const BLOCK: u64 = 4096;
/// Nanoseconds since 1970 at which worlds begin.
pub(crate) const EPOCH: i64 = 1_800_000_000_000_000_000;

/// Pause of a cleaner where segments enough are clean, or none can be cleaned.
const PAUSE: Nanos = Nanos::millis(100);

/// A wait in the world of the file system.
pub(crate) type Sleeping = std::pin::Pin<Box<dyn Future<Output = ()>>>;

/// What a file system is made on.
#[derive(Clone, Copy)]
pub(crate) struct Disk {
    /// The model, with its parameters but size and content.
    pub(crate) model: &'static str,
    pub(crate) bytes: u64,
    /// Bytes of a segment; `None`: as usual.
    pub(crate) segment_bytes: Option<u64>,
}

/// A mount.
pub(crate) struct Mounted {
    pub(crate) fs: Lfs,
    pub(crate) rt: Rt,
    vol: Export,
    pool: Pool,
}

impl Mounted {
    /// Makes a file system on a new disk of so many bytes, mounts it and does `work` on it.
    pub(crate) fn run<T: 'static>(
        seed: u64,
        bytes: u64,
        config: LfsConfig,
        work: impl AsyncFnOnce(Mounted) -> Result<T, LabError> + 'static,
    ) -> Result<T, LabError> {
        Mounted::on(seed, Disk { model: "disk-model", bytes, segment_bytes: None }, config, work)
    }

    /// The same on any model.
    pub(crate) fn on<T: 'static>(
        seed: u64,
        disk: Disk,
        config: LfsConfig,
        work: impl AsyncFnOnce(Mounted) -> Result<T, LabError> + 'static,
    ) -> Result<T, LabError> {
        let Disk { model, bytes, segment_bytes } = disk;
        let rig = Rig::simulated(seed, &format!("vol = {model} content=memory size={bytes} | stats"))?;
        let (vol, rt) = (vol(&rig.stack), rig.world.rt());
        rig.world.block_on(async move {
            let now = Stamp(EPOCH);
            let made = MkfsConfig { live_counters: true, segment_bytes, ..MkfsConfig::usual(now) };
            mkfs(&rt, Rc::new(vol.clone()), &made).await.map_err(broken)?;
            let fs = Lfs::open_with(&rt, Rc::new(vol.clone()), now, config).await.map_err(broken)?;
            work(Mounted { fs, rt, vol, pool: Pool::default() }).await
        })
    }

    fn call(&self) -> Call {
        let since = self.rt.now().since(Time::ZERO).0;
        Call::at(Stamp(EPOCH + since as i64))
    }

    /// Writes bytes of a file, which may be new.
    pub(crate) async fn write(&self, name: &str, at: u64, len: u64) -> Result<(), LabError> {
        let entry = self.entry(name).await?;
        for from in (at..at + len).step_by(MIB as usize) {
            let mut data = Buf::unique(&self.pool, MIB.min(at + len - from) as usize);
            data.bytes_mut().expect("just made unique")[..8].copy_from_slice(&from.to_le_bytes());
            let written = self.fs.write(self.call(), entry.ino, At::Offset(from), data, Write::default()).await;
            written.map_err(failed)?;
        }
        self.fs.forget(entry.ino, 1);
        Ok(())
    }

    async fn entry(&self, name: &str) -> Result<Entry, LabError> {
        let named = Name::new(name.as_bytes()).expect("the experiment's own name");
        match self.fs.lookup(self.call(), self.fs.root(), named).await {
            Err(Errno::ENOENT) => {
                let new = New { what: NewKind::File, mode: 0o644, uid: 0, gid: 0 };
                self.fs.create(self.call(), self.fs.root(), Some(named), new).await.map_err(failed)
            }
            found => found.map_err(failed),
        }
    }

    pub(crate) async fn remove(&self, name: &str) -> Result<(), LabError> {
        let name = Name::new(name.as_bytes()).expect("the experiment's own name");
        self.fs.remove(self.call(), self.fs.root(), name, Remove::File).await.map_err(failed)
    }

    pub(crate) async fn sync(&self) -> Result<(), LabError> {
        self.fs.sync(self.call(), Sync::All).await.map_err(failed)
    }

    /// What the file system answers to words.
    pub(crate) async fn ask(&self, words: &str) -> Result<String, LabError> {
        let words: Vec<String> = words.split(' ').map(str::to_string).collect();
        self.fs.ask(&words).await.map_err(failed)
    }

    /// A figure that the file system tells of itself.
    pub(crate) fn stat(&self, name: &str) -> f64 {
        self.fs.stats().iter().find(|stat| stat.name == name).expect("the file system tells it").value
    }

    /// Waits for the end of the background scan. Answers the most bytes of metadata that were in memory.
    pub(crate) async fn settle(&self) -> f64 {
        let mut peak = self.stat("metadata_bytes");
        while self.stat("scanning") > 0.0 {
            self.rt.sleep(Nanos::millis(1)).await;
            peak = peak.max(self.stat("metadata_bytes"));
        }
        peak
    }

    /// A process on the file system, as the target of a replay. `clock` has the time of its calls.
    pub(crate) fn target(&self, clock: &Rc<Cell<i64>>) -> ProcessTarget<impl FnMut(Nanos) -> Sleeping + use<>> {
        let (rt, clock) = (self.rt.clone(), clock.clone());
        let world = World::new(Rc::new(self.fs.clone()), Settings::usual(), move || Stamp(clock.get()));
        ProcessTarget::new(world.process(Cred::root()), move |span| {
            let rt = rt.clone();
            Box::pin(async move { rt.sleep(span).await }) as Sleeping
        })
    }

    /// Live share of each segment that was written.
    pub(crate) async fn live_shares(&self) -> Result<Vec<f64>, LabError> {
        let control = self.fs.control();
        let totals = control.totals().await.map_err(LabError::data)?;
        let (mut shares, mut from) = (Vec::new(), 0);
        while from < totals.segments {
            let infos = control.segments(from).await.map_err(LabError::data)?;
            from += infos.len() as u64;
            let used = infos.iter().filter(|info| info.blocks > 0);
            shares.extend(used.filter_map(|info| info.live.map(|live| f64::from(live.live) / f64::from(info.room))));
        }
        Ok(shares)
    }

    /// Seconds since the world began.
    pub(crate) fn seconds(&self) -> f64 {
        self.rt.now().since(Time::ZERO).0 as f64 / 1e9
    }

    /// Blocks that the disk was given.
    pub(crate) fn blocks_written(&self) -> f64 {
        let parts = self.vol.stack().stats();
        let part = parts.iter().find(|part| part.kind == "stats").expect("the stack has one");
        let bytes = part.stats.iter().find(|stat| stat.name == "write_bytes");
        bytes.map_or(0.0, |stat| stat.value) / BLOCK as f64
    }

    /// Unmounts, and counts by brute force.
    pub(crate) async fn counted(self) -> Result<Counted, LabError> {
        self.fs.close().await.map_err(failed)?;
        self.found().await
    }

    /// Counts by brute force what the last checkpoint has.
    pub(crate) async fn found(&self) -> Result<Counted, LabError> {
        let found = check(&self.rt, Rc::new(self.vol.clone())).await.map_err(broken)?;
        match found.is_clean() {
            true => Ok(found.counted),
            false => Err(LabError::data(format!("the check finds {:?}", found.findings))),
        }
    }
}

/// Settings of the thesis on NILFS2: those of NILFS2, but for a shorter interval.
pub(crate) fn cleaner_config(policy: &str) -> CleanerConfig {
    let limits =
        |segments, percent| StepLimits { segments, interval: Nanos::ZERO, min_reclaimable: Share::Percent(percent) };
    CleanerConfig {
        policy: policy.to_string(),
        check_interval: PAUSE,
        retry_interval: PAUSE,
        relaxed: limits(2, 10.0),
        pressed: limits(4, 1.0),
        avoid_recent: Recent::Off,
        ..CleanerConfig::usual()
    }
}

fn failed(error: Errno) -> LabError {
    LabError::data(format!("a call on lfs failed: {error}"))
}

fn broken(error: LfsError) -> LabError {
    LabError::data(error)
}
