//! One file system that is open and mounted, until its mount is gone and it is closed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use esker_base::Errno;
use esker_block::{Device, Stat};
use esker_front_fuse::{
    Alive, CacheMode, MountError, MountOptionError, MountOptions, MountPointError, MountSetup, Mounted, Transport,
    owner,
};
use esker_rt::mem::Pool;
use esker_rt::sync::Notify;
use esker_rt::{Level, Rt};
use esker_stack::{KernelCache, Unusable};
use esker_vfs::{Call, FileSystem, FsKind, FsKindError, Opening, Stamp, Sync};

/// What is mounted where, and how.
#[derive(Debug, Clone)]
pub struct MountOrder {
    /// The kind of file system.
    pub kind: &'static FsKind,
    /// The directory, as [`mount_point`](esker_front_fuse::mount_point) gives it.
    pub at: PathBuf,
    /// What the kernel keeps.
    pub cache: KernelCache,
    /// How requests come. [`Transport::Uring`] takes a reactor that takes commands.
    pub transport: Transport,
    /// Options of the mount.
    pub options: MountOptions,
    /// Options of the kind, each with its value.
    pub rest: Vec<(String, String)>,
    /// Bytes of a file system in memory, unless an option says.
    pub memory: u64,
    /// [`Tag::issuer`](esker_block::Tag::issuer) of its requests.
    pub issuer: u32,
}

/// Why a file system is not mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountedFsError {
    /// It cannot be opened.
    #[error(transparent)]
    Kind(#[from] FsKindError),
    /// Options of the mount.
    #[error(transparent)]
    Options(#[from] MountOptionError),
    /// The directory cannot be mounted on.
    #[error(transparent)]
    Place(#[from] MountPointError),
    /// It is not mounted.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// Its directory and that of another mount of one server lie in each other.
    #[error("{at} lies in the directory of mount \"{other}\", or holds it; name a directory beside it", at = at.display())]
    Nested {
        /// The directory.
        at: PathBuf,
        /// The other mount.
        other: String,
    },
    /// What is below it cannot be used.
    #[error(transparent)]
    Below(Unusable),
}

/// A file system that is open and mounted. When the mount is gone, whatever removed it, the file system is closed.
pub struct MountedFs {
    rt: Rt,
    fs: Rc<dyn FileSystem>,
    mounted: Rc<Mounted>,
    /// What closing it gave, once it is closed.
    closed: Cell<Option<Result<(), Errno>>>,
    end: Notify,
    alive: RefCell<Option<Alive>>,
}

impl MountedFs {
    /// Opens a file system, on `device` if its kind lies on one, and mounts it. Requests are answered from then on, as
    /// far as the world turns.
    ///
    /// # Errors
    /// [`MountedFsError`]; what was opened is closed then.
    pub async fn start(
        rt: &Rt,
        pool: &Pool,
        order: &MountOrder,
        device: Option<Rc<dyn Device>>,
    ) -> Result<Rc<MountedFs>, MountedFsError> {
        order.options.check_rights()?;
        let MountOrder { kind, rest, memory, .. } = order;
        let now = Stamp(rt.wall());
        let opening = Opening { rt, pool, options: rest, owner: owner(), now, memory: *memory, device };
        let opened = kind.open(&opening);
        drop(opening);
        let fs = opened.await?;
        let (at, options) = (order.at.clone(), order.options.clone());
        let (cache, transport) = (cache_mode(order.cache), order.transport);
        let setup = MountSetup { at, cache, transport, options, issuer: order.issuer };
        let mounted = match Mounted::start(rt, pool, fs.clone(), &setup) {
            Ok(mounted) => mounted,
            Err(error) => {
                // It has changed nothing that closing could lose.
                let _closed = fs.close().await;
                return Err(error.into());
            }
        };
        let alive = RefCell::new(mounted.say_alive());
        let (closed, end) = (Cell::new(None), Notify::default());
        let own = Rc::new(MountedFs { rt: rt.clone(), fs, mounted, closed, end, alive });
        let held = own.clone();
        rt.spawn_detached("mount-end", async move { held.close_when_gone().await });
        Ok(own)
    }

    async fn close_when_gone(&self) {
        self.mounted.ended().await;
        for (name, count) in self.requests() {
            self.rt.log(Level::Debug, format_args!("{count} requests {name}"));
        }
        self.rt.log(Level::Debug, format_args!("{} requests came by io_uring", self.mounted.requests_by_ring()));
        self.closed.set(Some(self.fs.close().await));
        self.alive.take();
        self.end.notify_all();
    }

    /// What `esker umount` waits for: by itself until the file system is closed, else until this is dropped.
    pub fn take_alive(&self) -> Option<Alive> {
        self.alive.take()
    }

    /// Waits until the mount is gone and the file system closed.
    ///
    /// # Errors
    /// What closing it gave: not everything may be durable.
    pub async fn ended(&self) -> Result<(), Errno> {
        self.end.wait_until(|| self.closed.get().is_some()).await;
        self.closed.get().unwrap_or(Ok(()))
    }

    /// What closing it gave; none as long as it is not closed.
    pub fn closed(&self) -> Option<Result<(), Errno>> {
        self.closed.get()
    }

    /// Unmounts: what is in use is out of the tree at once, and served until its last user leaves. Then the file system
    /// is closed.
    ///
    /// # Errors
    /// As for [`MountedFs::ended`].
    pub async fn stop(&self) -> Result<(), Errno> {
        if self.closed.get().is_none() {
            self.mounted.stop().await;
        }
        self.ended().await
    }

    /// Makes what reached the file system durable.
    ///
    /// # Errors
    /// The file system's.
    pub async fn sync(&self) -> Result<(), Errno> {
        if self.closed.get().is_some() {
            return Ok(());
        }
        self.fs.sync(Call::at(Stamp(self.rt.wall())), Sync::All).await
    }

    /// Has the file system do what words of its kind ask for.
    ///
    /// # Errors
    /// The file system's; `EIO` once it is closed.
    pub async fn ask(&self, words: &[String]) -> Result<String, Errno> {
        if self.closed.get().is_some() {
            return Err(Errno::EIO);
        }
        self.fs.ask(words).await
    }

    /// Requests of the kernel so far, by the names of their operations.
    pub fn requests(&self) -> BTreeMap<&'static str, u64> {
        self.mounted.requests()
    }

    /// Counters of the file system.
    pub fn stats(&self) -> Vec<Stat> {
        self.fs.stats()
    }
}

fn cache_mode(cache: KernelCache) -> CacheMode {
    match cache {
        KernelCache::Through => CacheMode::Through,
        KernelCache::WriteBack => CacheMode::WriteBack,
        KernelCache::None => CacheMode::None,
    }
}
