//! What is attached on this machine: one directory for each attachment, whose lock is held by the process that serves
//! it.
//!
//! A process that died leaves its directory, a mount whose files fail, and loop devices over them. What the kernel
//! knows counts, not what was written down: an attachment lives as long as its lock is held, and its devices are those
//! whose files lie in its mount.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the directory of what is attached on this machine"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::attached::Disk;
use crate::isolated::{self, IsolatedCallError};
use crate::users::Machine;

const LOCK: &str = "lock";
const RECORD: &str = "attachment.json";
const MOUNT: &str = "files";
const CONTROL: &str = "esker.ctl";

/// Pauses while another process may only be looking at a lock.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Where attachments are noted down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registry {
    dir: PathBuf,
}

/// Why attachments cannot be noted down, found or cleaned up.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// A name that no directory can have.
    #[error(
        "{0:?} cannot name an attachment: use 1 to 100 letters, digits, and . _ - inside; --name gives another name"
    )]
    Name(String),
    /// Another process has it.
    #[error("\"{0}\" is attached already; `esker attach --list` shows it, and --name gives a second one another name")]
    Taken(String),
    /// Nothing of that name.
    #[error("nothing is attached as {0:?}; `esker attach --list` shows names and devices")]
    Unknown(String),
    /// A directory or file.
    #[error("{path}: {source}{}", advice(source))]
    Files {
        /// Which.
        path: String,
        /// The kernel's words.
        source: io::Error,
    },
    /// Something that a dead process left.
    #[error("what \"{name}\" left cannot be cleaned up: {why}")]
    Remains {
        /// The attachment.
        name: String,
        /// What stands in the way.
        why: IsolatedCallError,
    },
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "; attaching takes root, and --run-dir names another directory"
        }
        _ => "",
    }
}

/// What a living attachment writes down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its process.
    pub pid: u32,
    /// Its stack, as it was named.
    pub stack: String,
    /// Its control socket.
    pub control: PathBuf,
    /// Its devices.
    pub disks: Vec<RecordedDisk>,
}

/// One device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedDisk {
    /// The export.
    pub export: String,
    /// The device.
    pub device: PathBuf,
    /// Bytes.
    pub size: u64,
    /// Whether changes are refused.
    pub read_only: bool,
}

impl From<Disk> for RecordedDisk {
    fn from(Disk { export, path, size, read_only, .. }: Disk) -> RecordedDisk {
        RecordedDisk { export, device: path, size, read_only }
    }
}

/// One attachment, as found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Whether its process lives.
    pub alive: bool,
    /// What it wrote down, once it was ready.
    pub record: Option<Record>,
    /// Loop devices over its files, as the kernel knows them.
    pub devices: Vec<PathBuf>,
    #[serde(skip)]
    dir: PathBuf,
}

/// The right to a name. Gone when it is dropped, with all that was noted under it.
#[derive(Debug)]
pub struct Claim {
    dir: PathBuf,
    _lock: File,
    /// What was left by a process that died, and is cleaned up now.
    pub cleaned: Option<Entry>,
}

impl Registry {
    /// The registry in `dir`, which need not exist yet.
    pub fn new(dir: PathBuf) -> Registry {
        Registry { dir }
    }

    /// Where an attachment's log goes that has no terminal.
    ///
    /// # Errors
    /// [`RegistryError::Name`], and a directory that cannot be made.
    pub fn log(&self, name: &str) -> Result<PathBuf, RegistryError> {
        self.place(name)?;
        at(&self.dir, fs::create_dir_all(&self.dir))?;
        Ok(self.dir.join(format!("{name}.log")))
    }

    /// Takes a name, and cleans up what a dead process left under it.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub fn claim(&self, name: &str) -> Result<Claim, RegistryError> {
        let dir = self.place(name)?;
        at(&dir, fs::create_dir_all(&dir))?;
        let lock = lock_soon(&dir)?.ok_or_else(|| RegistryError::Taken(name.to_string()))?;
        let remains = self.entry(name, &Machine::look())?.filter(|entry| entry.record.is_some() || entry.has_devices());
        if let Some(entry) = &remains {
            entry.release()?;
        }
        let mount = dir.join(MOUNT);
        isolated::unmount_now(&mount).map_err(|why| RegistryError::Remains { name: name.to_string(), why })?;
        at(&mount, fs::create_dir_all(&mount))?;
        Ok(Claim { dir, _lock: lock, cleaned: remains })
    }

    /// All attachments, alive and dead, by name.
    ///
    /// # Errors
    /// A directory that cannot be read; none at all is no error.
    pub fn list(&self) -> Result<Vec<Entry>, RegistryError> {
        let found = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            other => at(&self.dir, other)?,
        };
        let machine = Machine::look();
        let mut names: Vec<String> = found.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        let entries = names.iter().map(|name| self.entry(name, &machine));
        entries.filter_map(Result::transpose).collect()
    }

    /// The attachment of that name, or with that device.
    ///
    /// # Errors
    /// [`RegistryError::Unknown`], and as for [`Registry::list`].
    pub fn find(&self, what: &str) -> Result<Entry, RegistryError> {
        let is_it = |entry: &Entry| entry.name == what || entry.devices.iter().any(|device| device == Path::new(what));
        self.list()?.into_iter().find(is_it).ok_or_else(|| RegistryError::Unknown(what.to_string()))
    }

    fn entry(&self, name: &str, machine: &Machine) -> Result<Option<Entry>, RegistryError> {
        let Ok(dir) = self.place(name) else { return Ok(None) };
        if !dir.join(LOCK).exists() {
            return Ok(None);
        }
        let alive = lock(&dir)?.is_none();
        let record = fs::read(dir.join(RECORD)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let devices = machine.over(&dir.join(MOUNT));
        Ok(Some(Entry { name: name.to_string(), alive, record, devices, dir }))
    }

    fn place(&self, name: &str) -> Result<PathBuf, RegistryError> {
        let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let is_name = (1..=100).contains(&name.len()) && name.chars().all(known) && !name.starts_with(['.', '-']);
        match is_name {
            true => Ok(self.dir.join(name)),
            false => Err(RegistryError::Name(name.to_string())),
        }
    }
}

impl Entry {
    fn has_devices(&self) -> bool {
        !self.devices.is_empty()
    }

    /// Where the file system with its files is mounted.
    pub fn mount(&self) -> PathBuf {
        self.dir.join(MOUNT)
    }

    /// The users of its devices, in words: each blocks a detach.
    pub fn users(&self) -> Vec<String> {
        let machine = Machine::look();
        self.devices.iter().flat_map(|device| machine.users(device)).collect()
    }

    /// Cleans up behind a dead process. A device that is still in use is gone when its last user leaves it.
    ///
    /// # Errors
    /// [`RegistryError::Taken`] if the process lives, and what stands in the way.
    pub fn clean(&self) -> Result<(), RegistryError> {
        let _held = lock_soon(&self.dir)?.ok_or_else(|| RegistryError::Taken(self.name.clone()))?;
        self.release()?;
        remove(&self.dir);
        Ok(())
    }

    /// Lets the devices go, and then the files.
    fn release(&self) -> Result<(), RegistryError> {
        let released = self.devices.iter().try_for_each(|device| isolated::clear(device));
        let done = released.and_then(|()| isolated::unmount_now(&self.mount()));
        done.map_err(|why| RegistryError::Remains { name: self.name.clone(), why })
    }
}

impl Claim {
    /// Where the files are to be mounted.
    pub fn mount(&self) -> PathBuf {
        self.dir.join(MOUNT)
    }

    /// Where the control socket is to be.
    pub fn control(&self) -> PathBuf {
        self.dir.join(CONTROL)
    }

    /// Notes down that everything is ready.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn record(&self, record: &Record) -> Result<(), RegistryError> {
        let (path, fresh) = (self.dir.join(RECORD), self.dir.join("fresh"));
        let text = serde_json::to_vec_pretty(record).expect("a record holds only texts and numbers");
        at(&path, fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, &path)))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        remove(&self.dir);
    }
}

/// Removes what was noted down, the lock last: no other process may take the name before. Nothing that was not made
/// here is touched, so that a mount that could not be taken away stays as it is.
fn remove(dir: &Path) {
    for name in [RECORD, CONTROL] {
        // Not there is as good as removed.
        let _gone = fs::remove_file(dir.join(name));
    }
    let _kept = fs::remove_dir(dir.join(MOUNT)).and_then(|()| fs::remove_file(dir.join(LOCK)));
    let _kept = fs::remove_dir(dir);
}

/// The lock of a directory. None: a living process holds it.
fn lock(dir: &Path) -> Result<Option<File>, RegistryError> {
    let path = dir.join(LOCK);
    let file = at(&path, OpenOptions::new().create(true).truncate(false).write(true).open(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(source)) => Err(RegistryError::Files { path: path.display().to_string(), source }),
    }
}

/// The same; a process that only looks holds it for an instant, and this waits for it.
fn lock_soon(dir: &Path) -> Result<Option<File>, RegistryError> {
    for _ in 0..LOCK_TRIES {
        if let Some(file) = lock(dir)? {
            return Ok(Some(file));
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    lock(dir)
}

fn at<T>(path: &Path, result: io::Result<T>) -> Result<T, RegistryError> {
    result.map_err(|source| RegistryError::Files { path: path.display().to_string(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record { pid: 7, stack: "vol.toml".into(), control: "ctl".into(), disks: Vec::new() }
    }

    #[test]
    fn a_name_belongs_to_one_living_process_and_is_free_when_it_has_gone() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::new(dir.path().join("run"));
        assert!(registry.list().unwrap().is_empty());
        let claim = registry.claim("vol").unwrap();
        assert!(matches!(registry.claim("vol"), Err(RegistryError::Taken(name)) if name == "vol"));
        let starting = registry.find("vol").unwrap();
        assert!(starting.alive && starting.record.is_none());
        claim.record(&record()).unwrap();
        assert_eq!(registry.find("vol").unwrap().record, Some(record()));
        assert!(matches!(registry.find("vol").unwrap().clean(), Err(RegistryError::Taken(_))));
        drop(claim);
        assert!(registry.list().unwrap().is_empty());
        assert!(matches!(registry.find("vol"), Err(RegistryError::Unknown(_))));
        assert!(registry.claim("vol").unwrap().cleaned.is_none());
    }

    #[test]
    fn what_a_dead_process_left_is_shown_and_cleaned_up() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::new(dir.path().to_path_buf());
        let die = || {
            let claim = registry.claim("vol").unwrap();
            claim.record(&record()).unwrap();
            let Claim { dir, _lock, .. } = &claim;
            let (record, lock) = (dir.join(RECORD), dir.join(LOCK));
            let left = fs::read(&record).unwrap();
            let place = dir.clone();
            drop(claim);
            fs::create_dir_all(place.join(MOUNT)).unwrap();
            fs::write(lock, "").unwrap();
            fs::write(record, left).unwrap();
        };
        die();
        let entry = registry.find("vol").unwrap();
        assert!(!entry.alive && entry.record.is_some());
        entry.clean().unwrap();
        assert!(registry.list().unwrap().is_empty() && !dir.path().join("vol").exists());
        die();
        let claim = registry.claim("vol").unwrap();
        assert_eq!(claim.cleaned.as_ref().map(|entry| entry.name.as_str()), Some("vol"));
    }

    #[test]
    fn names_stay_inside_the_directory() {
        let registry = Registry::new("nowhere".into());
        for name in ["", ".", "..", "a/b", "-x", "a b", &"x".repeat(101)] {
            assert!(matches!(registry.log(name), Err(RegistryError::Name(_))), "{name:?}");
        }
    }
}
