//! What the harness judges: kinds of file systems.

use std::cell::RefCell;
use std::rc::Rc;

use esker_block::Device;
use esker_block::step::LocalFuture;
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_vfs::{Abilities, FileSystem, Promise, Ram, RamConfig};

use super::whole::{Whole, WholeConfig};

/// What opening one gives: the file system, or why it is refused.
pub type Opened = LocalFuture<Result<Rc<dyn FileSystem>, String>>;

/// A kind of file system, on devices of one size.
pub trait Subject {
    /// What reports call it.
    fn name(&self) -> String;

    /// Bytes of its devices.
    fn size(&self) -> u64;

    /// The limits of the oracle that it is compared with. Where both count room alike, they also run out of it alike.
    fn limits(&self) -> RamConfig;

    /// What is held to it after a crash. [`Promise::None`]: nothing of it survives, and only its answers are judged.
    fn promise(&self) -> Promise;

    /// Whether it notices changed bytes of its medium.
    fn has_sums(&self) -> bool;

    /// What it can. Calls that need more are left out of scripts.
    fn can(&self) -> Abilities {
        Ram::new(self.limits(), Pool::default()).about().can
    }

    /// Makes an empty one on a device.
    fn make(&self, rt: Rt, device: Rc<dyn Device>) -> LocalFuture<Result<(), String>>;

    /// Opens the one on a device.
    fn open(&self, rt: Rt, device: Rc<dyn Device>) -> Opened;
}

/// [`Whole`] on devices of a size.
pub struct WholeSubject {
    /// Bytes of its devices.
    pub size: u64,
    /// How it behaves.
    pub config: WholeConfig,
}

impl WholeSubject {
    /// On devices so small that all states of most crashes are tried.
    pub fn small(config: WholeConfig) -> Rc<dyn Subject> {
        Rc::new(WholeSubject { size: 320 << 10, config })
    }
}

impl Subject for WholeSubject {
    fn name(&self) -> String {
        match self.config.flaw {
            None => format!("whole with an image after {} changes", self.config.changes_max),
            Some(flaw) => format!("whole with the flaw {flaw:?}"),
        }
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn limits(&self) -> RamConfig {
        Whole::limits(self.size)
    }

    fn promise(&self) -> Promise {
        if self.config.changes_max == 1 { Promise::Linear } else { Promise::Prefix }
    }

    fn has_sums(&self) -> bool {
        true
    }

    fn make(&self, rt: Rt, device: Rc<dyn Device>) -> LocalFuture<Result<(), String>> {
        Box::pin(async move { Whole::make(&rt, device).await.map_err(|error| error.to_string()) })
    }

    fn open(&self, rt: Rt, device: Rc<dyn Device>) -> Opened {
        let config = self.config;
        Box::pin(async move {
            let whole = Whole::open(&rt, device, config).await.map_err(|error| error.to_string())?;
            Ok(Rc::new(whole) as Rc<dyn FileSystem>)
        })
    }
}

/// [`Ram`], which ignores its devices. It is judged by its answers alone.
pub struct RamSubject {
    limits: RamConfig,
    made: RefCell<Ram>,
}

impl RamSubject {
    /// Of these limits.
    pub fn of(limits: RamConfig) -> Rc<dyn Subject> {
        Rc::new(RamSubject { limits, made: RefCell::new(Ram::new(limits, Pool::default())) })
    }
}

impl Subject for RamSubject {
    fn name(&self) -> String {
        "ram".to_string()
    }

    fn size(&self) -> u64 {
        4096
    }

    fn limits(&self) -> RamConfig {
        self.limits
    }

    fn promise(&self) -> Promise {
        Promise::None
    }

    fn has_sums(&self) -> bool {
        false
    }

    fn make(&self, _: Rt, _: Rc<dyn Device>) -> LocalFuture<Result<(), String>> {
        *self.made.borrow_mut() = Ram::new(self.limits, Pool::default());
        Box::pin(async { Ok(()) })
    }

    fn open(&self, _: Rt, _: Rc<dyn Device>) -> Opened {
        let ram = self.made.borrow().clone();
        Box::pin(async move { Ok(Rc::new(ram) as Rc<dyn FileSystem>) })
    }
}
