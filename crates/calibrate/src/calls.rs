//! CPU time of calls on file systems of ours, as a process of `fs-posix` makes them.
//!
//! Every class of calls is made some thousand times, one after the other, on a file system in memory that is new in
//! each round. The difference between short and long transfers is the cost of their bytes.

use esker_base::{Errno, Nanos};
use esker_fs_posix::{Fd, Follow, OpenFlags, Process, Settings, Whence, World};
use esker_predict::PredictError;
use esker_predict::calibration::FsCallCost;
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::real::{Reactor, RealConfig};
use esker_trace_replay::files::costs::CostClass;
use esker_vfs::{Cred, Ram, RamConfig, Stamp, XattrSet};

use super::{Round, median, quantile, tenths};

/// The file system, as reports name it.
const FILE_SYSTEM: &str = "ram";
/// Its bytes.
const BYTES: u64 = 256 << 20;
/// Calls of each class in a round.
const CALLS: usize = 2000;
/// Transfers by which bytes are told apart from the call.
const SHORT: usize = 512;
const LONG: usize = 64 << 10;
/// Places of transfers in their file.
const PLACES: usize = 16;
const KIB: f64 = 1024.0;
/// Room for a buffer of entries.
const ENTRIES: usize = 32 << 10;

/// What each round measured, by class: nanoseconds of a call, and of a KiB.
#[derive(Default)]
pub(crate) struct CallBench(Vec<Vec<(f64, f64)>>);

impl CallBench {
    /// Steps of a round.
    pub(crate) const STEPS: usize = 1;

    /// Makes all calls once more.
    ///
    /// # Errors
    /// What the kernel refuses to the world that tells the time.
    pub(crate) fn round(&mut self, round: Round, watch: &mut dyn FnMut(&str)) -> Result<(), PredictError> {
        watch("calls");
        let world = Reactor::new(RealConfig::seeded(round.seed))?;
        let rt = world.rt();
        let all = || {
            let rt = rt.clone();
            Ok::<_, PredictError>(world.block_on(async move {
                // The file system has room for all of it, so that no call fails.
                Bench::new(rt).all().await.expect("calls on a file system in memory succeed")
            }))
        };
        self.0.push(round.sample(all)?);
        Ok(())
    }

    /// The median of all rounds, of each class.
    pub(crate) fn costs(&self) -> Vec<FsCallCost> {
        let cost = |(at, class): (usize, CostClass)| {
            let of = |part: fn(&(f64, f64)) -> f64| self.0.iter().map(move |round| part(&round[at]));
            let spread = |share| quantile(of(|cost| cost.0), share);
            FsCallCost {
                file_system: FILE_SYSTEM.to_string(),
                name: class.name().to_string(),
                ns: tenths(median(of(|cost| cost.0))),
                ns_per_kib: tenths(median(of(|cost| cost.1))),
                spread_ns: tenths((spread(0.75) - spread(0.25)) / 2.0),
            }
        };
        CostClass::ALL.into_iter().enumerate().map(cost).collect()
    }
}

/// A process on a new file system, and the names that it uses.
struct Bench {
    rt: Rt,
    process: Process,
    files: Vec<String>,
    others: Vec<String>,
}

/// Makes a call so often, and gives the nanoseconds of one.
macro_rules! timed {
    ($bench:expr, $at:ident => $call:expr) => {{
        let start = $bench.rt.now();
        for $at in 0..CALLS {
            $call;
        }
        each($bench.rt.now().since(start))
    }};
}

fn each(all: Nanos) -> f64 {
    all.0 as f64 / CALLS as f64
}

impl Bench {
    fn new(rt: Rt) -> Bench {
        let ram = Ram::new(RamConfig::sized(BYTES), Pool::default());
        let clock = rt.clone();
        let process =
            World::new(std::rc::Rc::new(ram), Settings::usual(), move || Stamp(clock.wall())).process(Cred::root());
        let names = |kind: &str| (0..CALLS).map(|at| format!("/some/tree/{kind}{at}")).collect();
        Bench { rt, process, files: names("file"), others: names("other") }
    }

    async fn all(&self) -> Result<Vec<(f64, f64)>, Errno> {
        self.process.mkdir("/some", 0o755).await?;
        self.process.mkdir("/some/tree", 0o755).await?;
        let opens = self.opens().await?;
        let names = self.names().await?;
        let bytes = self.bytes().await?;
        let of = |class: CostClass| {
            let rows = [&opens[..], &names, &bytes];
            let row = rows.into_iter().flatten().find(|(known, ..)| *known == class);
            row.map(|(_, ns, ns_per_kib)| (*ns, *ns_per_kib)).expect("every class is measured")
        };
        Ok(CostClass::ALL.into_iter().map(of).collect())
    }

    /// Makes the files that later calls are about.
    async fn opens(&self) -> Result<Vec<(CostClass, f64, f64)>, Errno> {
        let (process, flags) = (&self.process, OpenFlags::RDWR | OpenFlags::CREAT);
        let create = timed!(self, at => process.open(&*self.files[at], flags, 0o644).await?);
        let close = timed!(self, at => process.close(Fd(at as u32)).await?);
        let open = timed!(self, at => process.open(&*self.files[at], OpenFlags::RDONLY, 0).await?);
        for at in 0..CALLS {
            process.close(Fd(at as u32)).await?;
        }
        let stat = timed!(self, at => process.stat(&*self.files[at], Follow::Links).await?);
        let modes = [0o600, 0o644];
        let attributes = timed!(self, at => process.chmod(&*self.files[at], modes[at % 2], Follow::Links).await?);
        let value = [7; 20];
        let xattr = timed!(
            self,
            at => process.set_xattr(&*self.files[at], b"user.a", &value, XattrSet::Any, Follow::Links).await?
        );
        let costs = [
            (CostClass::Create, create),
            (CostClass::Close, close),
            (CostClass::Open, open),
            (CostClass::Stat, stat),
            (CostClass::Attributes, attributes),
            (CostClass::Xattr, xattr),
        ];
        Ok(costs.map(|(class, ns)| (class, ns, 0.0)).to_vec())
    }

    async fn names(&self) -> Result<Vec<(CostClass, f64, f64)>, Errno> {
        let (process, files, others) = (&self.process, &self.files, &self.others);
        let link = timed!(self, at => process.link(&*files[at], &*others[at], Follow::Nothing).await?);
        let unlink = timed!(self, at => process.unlink(&*files[at]).await?);
        let how = esker_vfs::Rename::Replace;
        let rename = timed!(self, at => process.rename(&*others[at], &*files[at], how).await?);
        let symlink = timed!(self, at => process.symlink(files[at].as_bytes(), &*others[at]).await?);
        let readlink = timed!(self, at => process.readlink(&*others[at]).await?);
        for other in others {
            process.unlink(&**other).await?;
        }
        let mkdir = timed!(self, at => process.mkdir(&*others[at], 0o755).await?);
        let costs = [
            (CostClass::Link, link),
            (CostClass::Unlink, unlink),
            (CostClass::Rename, rename),
            (CostClass::Symlink, symlink),
            (CostClass::Readlink, readlink),
            (CostClass::Mkdir, mkdir),
        ];
        Ok(costs.map(|(class, ns)| (class, ns, 0.0)).to_vec())
    }

    async fn bytes(&self) -> Result<Vec<(CostClass, f64, f64)>, Errno> {
        let process = &self.process;
        let fd = process.open(&*self.files[0], OpenFlags::RDWR, 0).await?;
        let mut buffer = vec![3; LONG];
        let place = |at: usize| (at % PLACES * LONG) as i64;
        // The first ones make the file's pages.
        for at in 0..PLACES {
            process.pwrite(fd, &buffer, place(at)).await?;
        }
        let short = timed!(self, at => process.pwrite(fd, &buffer[..SHORT], place(at)).await?);
        let long = timed!(self, at => process.pwrite(fd, &buffer, place(at)).await?);
        let write = by_length(CostClass::Write, short, long);
        let short = timed!(self, at => process.pread(fd, &mut buffer[..SHORT], place(at)).await?);
        let long = timed!(self, at => process.pread(fd, &mut buffer, place(at)).await?);
        let read = by_length(CostClass::Read, short, long);
        let descriptor = timed!(self, at => process.seek(fd, at as i64, Whence::Set).await?);
        let sync = timed!(self, _at => process.fsync(fd).await?);
        let small = process.open(&*self.files[1], OpenFlags::RDWR, 0).await?;
        let truncate = timed!(self, at => process.truncate(small, (at % 2 * 4096) as i64).await?);
        let list = self.list().await?;
        Ok(vec![
            write,
            read,
            (CostClass::Descriptor, descriptor, 0.0),
            (CostClass::Sync, sync, 0.0),
            (CostClass::Truncate, truncate, 0.0),
            list,
        ])
    }

    /// An empty directory tells the call, a full one its entries.
    async fn list(&self) -> Result<(CostClass, f64, f64), Errno> {
        let process = &self.process;
        let empty = process.open(&*self.others[0], OpenFlags::DIRECTORY, 0).await?;
        process.seek(empty, 2, Whence::Set).await?;
        let ns = timed!(self, _at => process.list(empty, ENTRIES).await?);
        let full = process.open("/some/tree", OpenFlags::DIRECTORY, 0).await?;
        let (start, mut bytes, mut calls) = (self.rt.now(), 0, 0);
        loop {
            let entries = process.list(full, ENTRIES).await?;
            calls += 1;
            bytes += entries.iter().map(|entry| entry.name.len() + 20).sum::<usize>();
            if entries.is_empty() {
                break;
            }
        }
        let all = self.rt.now().since(start).0 as f64;
        Ok((CostClass::List, ns, (all - ns * f64::from(calls)).max(0.0) / (bytes as f64 / KIB)))
    }
}

/// The cost of a call and of each KiB from those of two lengths.
fn by_length(class: CostClass, short: f64, long: f64) -> (CostClass, f64, f64) {
    let ns_per_kib = ((long - short) / ((LONG - SHORT) as f64 / KIB)).max(0.0);
    (class, (short - ns_per_kib * SHORT as f64 / KIB).max(0.0), ns_per_kib)
}
