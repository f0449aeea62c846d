//! A mounted file system, in memory or of a directory, served by a thread of the test.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use esker_base::Nanos;
use esker_front_fuse::{CacheMode, MountOptions, MountSetup, Mounted, unmount};
use esker_fs_host::HostFs;
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::real::{Reactor, RealConfig};
use esker_vfs::{FileSystem, Ram, RamConfig};

use crate::late::Late;

/// Bytes of the file system.
pub const BYTES: u64 = 64 << 20;

pub const MODES: [CacheMode; 3] = [CacheMode::Through, CacheMode::WriteBack, CacheMode::None];

/// Requests by the names of their operations.
pub type Requests = BTreeMap<&'static str, u64>;

/// Whether the test can be run here; says loudly what is missing if not.
pub fn can_run() -> bool {
    let reason = match fs::metadata("/dev/fuse") {
        Err(error) => Some(format!("/dev/fuse: {error}")),
        Ok(_) if !rustix::process::geteuid().is_root() => Some("it takes root".to_string()),
        Ok(_) => None,
    };
    if let Some(reason) = &reason {
        esker_skip::skip(esker_skip::Ability::Attach, reason);
    }
    reason.is_none()
}

/// Makes the file system, in memory or of a directory.
type Make = fn(&Rt, Ram, &Path) -> Rc<dyn FileSystem>;

enum Ask {
    Requests(Sender<Requests>),
    Stop,
}

/// A mount. Taken away when dropped.
pub struct Mount {
    pub at: PathBuf,
    /// What lies below, if it passes calls through.
    pub below: PathBuf,
    dir: Option<tempfile::TempDir>,
    asks: Sender<Ask>,
    server: Option<JoinHandle<()>>,
}

impl Mount {
    /// Mounts a file system in memory.
    pub fn new(cache: CacheMode) -> Mount {
        Mount::over(cache, |_, ram, _| Rc::new(ram))
    }

    /// The same, which answers no call at once.
    pub fn late(cache: CacheMode) -> Mount {
        Mount::over(cache, |rt, ram, _| Rc::new(Late::new(rt, ram)))
    }

    /// Mounts a directory, through which calls pass.
    pub fn host(cache: CacheMode) -> Mount {
        Mount::over(cache, |rt, _, below| Rc::new(HostFs::open(rt, &Pool::default(), below).unwrap()))
    }

    fn over(cache: CacheMode, make: Make) -> Mount {
        let dir = tempfile::tempdir().unwrap();
        let [at, below] = ["at", "below"].map(|name| fs::canonicalize(dir.path()).unwrap().join(name));
        [&at, &below].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
        let (asks, asked) = channel();
        let (tell, told) = channel();
        let setup = MountSetup { at: at.clone(), cache, options: options(), issuer: 7 };
        let folder = below.clone();
        let server = thread::spawn(move || {
            let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
            reactor.block_on(serve(reactor.rt(), setup, (make, folder), tell, asked));
        });
        told.recv().expect("it is mounted");
        Mount { at, below, dir: Some(dir), asks, server: Some(server) }
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

impl Drop for Mount {
    fn drop(&mut self) {
        if thread::panicking() {
            // The test's own files may still be open.
            let _lazily = unmount(&self.at, true);
        } else {
            unmount(&self.at, false).expect("the test has closed its files");
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
    let fs = make(&rt, ram.clone(), &below);
    let mounted = Mounted::start(&rt, &pool, fs.clone(), &setup).unwrap();
    tell.send(()).unwrap();
    let rt_own = rt.clone();
    let of = mounted.clone();
    rt.spawn_detached("asks", async move {
        loop {
            match asked.try_recv() {
                Ok(Ask::Requests(tell)) => tell.send(of.requests()).unwrap(),
                Ok(Ask::Stop) => return,
                Err(_) => rt_own.sleep(Nanos::micros(200)).await,
            }
        }
    });
    mounted.ended().await;
    ram.digest().expect("it is whole behind the mount");
    fs.close().await.unwrap();
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
