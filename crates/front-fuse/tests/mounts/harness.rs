//! A mounted file system, in memory or of a directory, served by a thread of the test.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use esker_base::Nanos;
use esker_front_fuse::{CacheMode, MountOptions, MountSetup, Mounted, Transport, unmount};
use esker_fs_host::HostFs;
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::sync::{Either, race};
use esker_vfs::{Change, FileSystem, Ram, RamConfig};

use crate::late::Late;

/// Bytes of the file system.
pub const BYTES: u64 = 64 << 20;

pub const MODES: [CacheMode; 3] = [CacheMode::Through, CacheMode::WriteBack, CacheMode::None];

/// Requests by the names of their operations.
pub type Requests = BTreeMap<&'static str, u64>;

/// The transports on which the test can be run here; says loudly what is missing for the others.
pub fn transports() -> Vec<Transport> {
    let reason = match fs::metadata("/dev/fuse") {
        Err(error) => Some(format!("/dev/fuse: {error}")),
        Ok(_) if !rustix::process::geteuid().is_root() => Some("it takes root".to_string()),
        Ok(_) => None,
    };
    if let Some(reason) = &reason {
        esker_skip::skip(esker_skip::Ability::Attach, reason);
        return Vec::new();
    }
    match esker_skip::has_fuse_ring() {
        true => vec![Transport::Device, Transport::Uring],
        false => vec![Transport::Device],
    }
}

fn reactor(transport: Transport) -> Reactor {
    Reactor::new(RealConfig { commands: transport == Transport::Uring, ..RealConfig::seeded(1) }).unwrap()
}

/// Makes the file system, in memory or of a directory.
type Make = fn(&Rt, &Late, &Path) -> Rc<dyn FileSystem>;

enum Ask {
    Requests(Sender<Requests>),
    /// Whether calls wait at the gate from now on.
    Shut(bool, Sender<()>),
    /// Others have changed something; told when the kernel has dropped it.
    Change(Change, Sender<()>),
    /// The server ends, whatever is mounted.
    Leave,
    Stop,
}

/// A mount. Taken away when dropped.
pub struct Mount {
    pub at: PathBuf,
    /// What lies below, if it passes calls through.
    pub below: PathBuf,
    is_unmounted: Cell<bool>,
    dir: Option<tempfile::TempDir>,
    asks: Sender<Ask>,
    server: Option<JoinHandle<()>>,
}

impl Mount {
    /// Mounts a file system in memory.
    pub fn new(transport: Transport, cache: CacheMode) -> Mount {
        Mount::over(transport, cache, |_, late, _| Rc::new(late.ram.clone()))
    }

    /// The same, which answers no call at once.
    pub fn late(transport: Transport, cache: CacheMode) -> Mount {
        Mount::over(transport, cache, |_, late, _| Rc::new(late.clone()))
    }

    /// Mounts a directory, through which calls pass.
    pub fn host(transport: Transport, cache: CacheMode) -> Mount {
        Mount::over(transport, cache, |rt, _, below| Rc::new(HostFs::open(rt, &Pool::default(), below).unwrap()))
    }

    fn over(transport: Transport, cache: CacheMode, make: Make) -> Mount {
        println!("{transport:?}, {cache:?}");
        let dir = tempfile::tempdir().unwrap();
        let [at, below] = ["at", "below"].map(|name| fs::canonicalize(dir.path()).unwrap().join(name));
        [&at, &below].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
        let (asks, asked) = channel();
        let (tell, told) = channel();
        let setup = MountSetup { at: at.clone(), cache, transport, options: options(), issuer: 7 };
        let folder = below.clone();
        let server = thread::spawn(move || {
            let reactor = reactor(transport);
            reactor.block_on(serve(reactor.rt(), setup, (make, folder), tell, asked));
        });
        told.recv().expect("it is mounted");
        Mount { at, below, is_unmounted: Cell::new(false), dir: Some(dir), asks, server: Some(server) }
    }

    /// Ends the mount, and leaves what lay below.
    pub fn ended(mut self) -> tempfile::TempDir {
        self.dir.take().expect("a mount ends once")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }

    pub fn requests(&self) -> Requests {
        let (tell, told) = channel();
        self.asks.send(Ask::Requests(tell)).unwrap();
        told.recv().unwrap()
    }

    /// From now on calls of a file system that is late wait at its gate, or no longer.
    pub fn shut(&self, is_shut: bool) {
        let (tell, told) = channel();
        self.asks.send(Ask::Shut(is_shut, tell)).unwrap();
        // A server that has ended answers no call.
        let _ended = told.recv();
    }

    /// Ends the server while it is mounted, and waits for that.
    pub fn leave(&self) {
        self.asks.send(Ask::Leave).unwrap();
        let start = Instant::now();
        while !self.server.as_ref().unwrap().is_finished() {
            assert!(start.elapsed() < Duration::from_secs(20));
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// The test has unmounted it.
    pub fn is_gone(&self) {
        self.is_unmounted.set(true);
    }

    /// Waits until so many requests of an operation came.
    pub fn wait_for(&self, name: &'static str, count: u64) {
        self.wait_until(|asked| asked.get(name).copied().unwrap_or(0) >= count);
    }

    /// Waits until requests came that are enough.
    pub fn wait_until(&self, is_enough: impl Fn(&Requests) -> bool) {
        let start = Instant::now();
        while !is_enough(&self.requests()) {
            assert!(start.elapsed() < Duration::from_secs(20), "{:?}", self.requests());
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Tells the kernel what others have changed, and waits until it has dropped it.
    pub fn changed_by_others(&self, change: Change) {
        let (tell, told) = channel();
        self.asks.send(Ask::Change(change, tell)).unwrap();
        told.recv().unwrap();
    }

    /// The requests that something causes, without those that the kernel sends when it likes.
    pub fn requests_of(&self, act: impl FnOnce()) -> Requests {
        let before = self.requests();
        act();
        let mut after = self.requests();
        after.iter_mut().for_each(|(name, count)| *count -= before.get(name).copied().unwrap_or(0));
        after.retain(|name, count| *count > 0 && !name.contains("FORGET"));
        after
    }
}

impl Mount {
    /// Unmounts. A child that another test starts has our files until it runs its program, so it may take a moment.
    fn unmount(&self) {
        let start = Instant::now();
        while let Err(error) = unmount(&self.at, false) {
            assert!(start.elapsed() < Duration::from_secs(5), "the test has closed its files: {error}");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if thread::panicking() {
            // The test's own files may still be open, and calls may wait.
            let _opened = self.asks.send(Ask::Shut(false, channel().0));
            let _lazily = unmount(&self.at, true);
        } else if !self.is_unmounted.get() {
            self.unmount();
        }
        let _stopped = self.asks.send(Ask::Stop);
        if let Some(Err(error)) = self.server.take().map(JoinHandle::join)
            && !thread::panicking()
        {
            std::panic::resume_unwind(error);
        }
    }
}

fn options() -> MountOptions {
    MountOptions {
        source: "test".to_string(),
        read_only: false,
        exec: true,
        suid: true,
        dev: true,
        allow_other: true,
        check_permissions: true,
    }
}

async fn serve(rt: Rt, setup: MountSetup, (make, below): (Make, PathBuf), tell: Sender<()>, asked: Receiver<Ask>) {
    let pool = Pool::default();
    let ram = Ram::new(RamConfig::sized(BYTES), pool.clone());
    let late = Late::new(&rt, ram.clone());
    let fs = make(&rt, &late, &below);
    let mounted = Mounted::start(&rt, &pool, fs.clone(), &setup).unwrap();
    tell.send(()).unwrap();
    let asks = rt.spawn("asks", answer_asks(rt.clone(), mounted.clone(), late, asked));
    if let Either::Left(true) = race(asks, mounted.ended()).await {
        return;
    }
    mounted.ended().await;
    assert_eq!(mounted.requests_by_ring() > 0, setup.transport == Transport::Uring, "{:?}", mounted.requests());
    ram.digest().expect("it is whole behind the mount");
    fs.close().await.unwrap();
}

/// Answers what the test asks. True: the server must end at once.
async fn answer_asks(rt: Rt, mounted: Rc<Mounted>, late: Late, asked: Receiver<Ask>) -> bool {
    loop {
        match asked.try_recv() {
            Ok(Ask::Requests(tell)) => tell.send(mounted.requests()).unwrap(),
            Ok(Ask::Shut(is_shut, tell)) => {
                late.is_shut.set(is_shut);
                // A test that failed does not listen.
                let _heard = tell.send(());
            }
            Ok(Ask::Change(change, tell)) => {
                let hearer = late.hearer.borrow().clone().expect("the session listens");
                hearer(change).await;
                tell.send(()).unwrap();
            }
            Ok(Ask::Leave) => return true,
            Ok(Ask::Stop) => return false,
            Err(_) => rt.sleep(Nanos::micros(200)).await,
        }
    }
}

/// Runs a program to its end, which must be a good one, and returns what it printed.
pub fn run(program: &str, args: &[&str], dir: &Path) -> String {
    let output = std::process::Command::new("timeout")
        .args(["--kill-after=2", "60", program])
        .args(args)
        .current_dir(dir)
        .output()
        .expect("timeout(1) starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {args:?}: {}\n{out}{err}", output.status);
    out.into_owned()
}
