//! File systems mounted through our FUSE server, which a thread of this program runs: one in memory, and one that
//! passes calls through to a directory.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use esker_base::Nanos;
use esker_front_fuse::{CacheMode, MountOptions, MountSetup, Mounted, Transport, unmount};
use esker_fs_host::{HostFs, raise_descriptors};
use esker_lab_kit::{Lab, LabError, peer};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::real::{Reactor, RealConfig};
use esker_vfs::{FileSystem, Ram, RamConfig};
use tempfile::TempDir;

/// How often the server looks for a question of the experiment.
const LOOK: Nanos = Nanos::millis(1);

/// What the experiment asks of the server: how many requests came so far.
type Asks = Sender<Sender<u64>>;

/// A mount. Dropping it takes it away.
pub(crate) struct OwnMount {
    at: PathBuf,
    _folder: TempDir,
    asks: Option<Asks>,
    server: Option<JoinHandle<Result<(), String>>>,
}

fn fault(what: impl ToString) -> LabError {
    peer::fault("a mount", what)
}

impl OwnMount {
    /// Mounts an empty file system in memory, of `bytes`.
    pub(crate) fn of_ram(
        lab: &Lab<'_>,
        cache: CacheMode,
        transport: Transport,
        bytes: u64,
    ) -> Result<OwnMount, LabError> {
        let open = move |_: &Rt, pool: &Pool| Ok(Rc::new(Ram::new(RamConfig::sized(bytes), pool.clone())) as _);
        OwnMount::new(lab, (cache, transport), open)
    }

    /// Mounts a directory, which calls are passed through to.
    pub(crate) fn of_directory(lab: &Lab<'_>, cache: CacheMode, directory: &Path) -> Result<OwnMount, LabError> {
        let directory = directory.to_owned();
        raise_descriptors();
        OwnMount::new(lab, (cache, Transport::Device), move |rt, pool| {
            let fs = HostFs::open(rt, pool, &directory).map_err(|error| error.to_string())?;
            Ok(Rc::new(fs))
        })
    }

    fn new(
        lab: &Lab<'_>,
        (cache, transport): (CacheMode, Transport),
        open: impl FnOnce(&Rt, &Pool) -> Result<Rc<dyn FileSystem>, String> + Send + 'static,
    ) -> Result<OwnMount, LabError> {
        let folder = lab.folder()?;
        let at = folder.path().canonicalize().map_err(fault)?;
        let setup = MountSetup { at: at.clone(), cache, transport, options: options(), issuer: 1 };
        let ((asks, asked), (tell, told)) = (channel(), channel());
        let server = std::thread::spawn(move || {
            let reactor = Reactor::new(RealConfig { commands: transport == Transport::Uring, ..RealConfig::seeded(1) });
            let reactor = reactor.map_err(|error| error.to_string())?;
            let pool = Pool::default();
            let fs = open(&reactor.rt(), &pool)?;
            reactor.block_on(serve(reactor.rt(), (fs, pool), setup, tell, asked))
        });
        let mount = OwnMount { at, _folder: folder, asks: Some(asks), server: Some(server) };
        match told.recv() {
            Ok(()) => Ok(mount),
            Err(_) => Err(fault("the kernel refuses it; it takes root and /dev/fuse")),
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.at
    }

    /// Requests of the kernel so far, without those that give inodes back.
    pub(crate) fn requests(&self) -> Result<u64, LabError> {
        let (tell, told) = channel();
        let ended = || fault("the server has ended");
        self.asks.as_ref().ok_or_else(ended)?.send(tell).map_err(|_| ended())?;
        told.recv().map_err(|_| ended())
    }
}

impl Drop for OwnMount {
    fn drop(&mut self) {
        // The experiment has closed its files; after an error it may not have.
        let _gone = unmount(&self.at, false).or_else(|_| unmount(&self.at, true));
        self.asks = None;
        if let Some(server) = self.server.take() {
            let _ended = server.join();
        }
    }
}

fn options() -> MountOptions {
    MountOptions {
        source: "esker-lab".to_string(),
        read_only: false,
        exec: false,
        suid: false,
        dev: false,
        allow_other: false,
        check_permissions: true,
    }
}

async fn serve(
    rt: Rt,
    (fs, pool): (Rc<dyn FileSystem>, Pool),
    setup: MountSetup,
    tell: Sender<()>,
    asked: Receiver<Sender<u64>>,
) -> Result<(), String> {
    let mounted = Mounted::start(&rt, &pool, fs, &setup).map_err(|error| error.to_string())?;
    let (of, clock) = (mounted.clone(), rt.clone());
    rt.spawn_detached("questions", async move {
        loop {
            match asked.try_recv() {
                Ok(tell) => {
                    let counted = of.requests().into_iter().filter(|(name, _)| !name.contains("FORGET"));
                    let _told = tell.send(counted.map(|(_, count)| count).sum());
                }
                Err(std::sync::mpsc::TryRecvError::Empty) => clock.sleep(LOOK).await,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return,
            }
        }
    });
    let _told = tell.send(());
    mounted.ended().await;
    Ok(())
}
