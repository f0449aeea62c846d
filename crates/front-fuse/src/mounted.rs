//! File systems of ours that are mounted on this machine, from the mount to its end.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;

use esker_base::Nanos;
use esker_rt::mem::Pool;
use esker_rt::sync::{Either, Notify, race};
use esker_rt::{Level, Rt};
use esker_vfs::FileSystem;

use crate::alive::Alive;
use crate::busy::{self, Mount};
use crate::isolated;
use crate::mounting::{self, MountError, MountOptions};
use crate::proto::abi::opcode;
use crate::serve::{CacheMode, PAGE, ServeConfig, Session};
use crate::transport::Transport;
use crate::wire::Channel;

/// Largest payload of one request in bytes: what the kernel sends at most.
const TRANSFER_MAX: u32 = 1 << 20;

/// After this time the log names what is waited for.
const PATIENCE: Nanos = Nanos::secs(2);

/// Largest payload of one request in bytes, whole pages, for devices that take at least so many.
pub(crate) fn transfer_limit(least: Option<u32>) -> u32 {
    least.unwrap_or(TRANSFER_MAX).min(TRANSFER_MAX) / PAGE * PAGE
}

/// A session that answers until its mount is gone.
pub(crate) struct Serving {
    pub session: Rc<Session>,
    ended: Cell<bool>,
    end: Notify,
}

impl Serving {
    /// Answers the requests of a mount from now on.
    ///
    /// # Errors
    /// In virtual time, where there is no kernel.
    pub(crate) fn start(
        rt: &Rt,
        pool: &Pool,
        fd: OwnedFd,
        fs: Rc<dyn FileSystem>,
        config: ServeConfig,
    ) -> io::Result<Rc<Serving>> {
        let session = Rc::new(Session::new(rt, pool, Channel::new(rt, fd)?, fs, config));
        let serving = Rc::new(Serving { session, ended: Cell::new(false), end: Notify::default() });
        let at_work = serving.clone();
        rt.spawn_detached("fuse", async move {
            at_work.session.clone().serve().await;
            at_work.ended.set(true);
            at_work.end.notify_all();
        });
        Ok(serving)
    }

    /// Waits until the mount is gone.
    pub(crate) async fn ended(&self) {
        self.end.wait_until(|| self.ended.get()).await;
    }
}

/// Where and how a file system is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountSetup {
    /// The directory, as an absolute path.
    pub at: PathBuf,
    /// What the kernel keeps.
    pub cache: CacheMode,
    /// How its requests come.
    pub transport: Transport,
    /// Options of the mount.
    pub options: MountOptions,
    /// [`Tag::issuer`](esker_block::Tag::issuer) of its requests: tells mounts apart.
    pub issuer: u32,
}

/// A file system that is mounted.
pub struct Mounted {
    rt: Rt,
    at: PathBuf,
    /// What the kernel calls it, as far as its list of mounts could be read.
    mount: Option<Mount>,
    serving: Rc<Serving>,
}

impl Mounted {
    /// Mounts a file system. Requests are answered from then on, as far as the world turns. Its owner closes it when
    /// the mount has [ended](Mounted::ended).
    ///
    /// # Errors
    /// [`MountError`].
    pub fn start(rt: &Rt, pool: &Pool, fs: Rc<dyn FileSystem>, setup: &MountSetup) -> Result<Rc<Mounted>, MountError> {
        let ring = setup.transport.ring(&rt.kernel()?, transfer_limit(None))?;
        let transfer_max = ring.map_or(transfer_limit(None), |ring| ring.transfer_max);
        let fd = mounting::mount(&setup.at, transfer_max, &setup.options)?;
        let config = ServeConfig { cache: setup.cache, transfer_max, issuer: setup.issuer, ring };
        let serving = Serving::start(rt, pool, fd, fs, config)?;
        let mount = busy::mount_at(&setup.at);
        Ok(Rc::new(Mounted { rt: rt.clone(), at: setup.at.clone(), mount, serving }))
    }

    /// Says that its server lives, until that is dropped: `esker umount` waits for it. None, with a line in the log,
    /// where that cannot be said.
    pub fn say_alive(&self) -> Option<Alive> {
        let said = Alive::say(self.mount.as_ref()?);
        if let Err(error) = &said {
            self.rt.log(Level::Warn, format_args!("`esker umount` cannot wait for this process: {error}"));
        }
        said.ok()
    }

    /// Requests of the kernel so far, by the names of their operations.
    pub fn requests(&self) -> BTreeMap<&'static str, u64> {
        let counts = self.serving.session.requests();
        counts.into_iter().filter_map(|(number, count)| Some((opcode::name(number)?, count))).collect()
    }

    /// Those of them that came by the ring.
    pub fn requests_by_ring(&self) -> u64 {
        self.serving.session.by_ring.get()
    }

    /// Waits until the mount is gone, whatever removed it.
    pub async fn ended(&self) {
        self.serving.ended().await;
    }

    /// Whether it is in the tree: after a lazy unmount another file system may be mounted there.
    fn is_in_tree(&self) -> bool {
        let Some(own) = &self.mount else { return true };
        busy::mount_at(&self.at).is_some_and(|now| now.device == own.device)
    }

    /// Unmounts. What is in use is out of the tree at once, and gone when its last user leaves it, which is waited for:
    /// requests are answered until then.
    pub async fn stop(&self) {
        if self.is_in_tree()
            && let Err(error) = isolated::leave(&self.rt, &self.at).await
        {
            self.rt.log(Level::Error, format_args!("{error}"));
        }
        let mut ended = std::pin::pin!(self.ended());
        if let Either::Right(()) = race(ended.as_mut(), self.rt.sleep(PATIENCE)).await {
            let users = busy::users_of_tree(&self.at).join("; ");
            let users = if users.is_empty() { "a program has a file of it open" } else { &users };
            let at = self.at.display();
            self.rt.log(Level::Warn, format_args!("{at} is still in use: {users}; a second signal ends this process"));
            ended.await;
        }
    }
}
