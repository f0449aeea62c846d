//! Kinds of file systems that can be mounted. A new kind is one entry.

use std::path::Path;
use std::rc::Rc;

use esker_base::units::{GIB, parse_size};
use esker_block::Step;
use esker_fs_host::{HostFs, raise_descriptors};
use esker_lab_kit::machine::told_bytes;
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_vfs::{Call, FileSystem, Ram, RamConfig, SetAttr, Stamp};

use crate::failure::Failure;

/// A kind of file system.
pub struct FsKind {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// Whether it lies on a device.
    pub needs_device: bool,
    /// Words of `-o` that it takes.
    pub options: &'static [&'static str],
    open: fn(&Opening<'_>) -> Result<Rc<dyn FileSystem>, Failure>,
}

/// What a file system is opened with.
pub struct Opening<'a> {
    /// The world that it lives in.
    pub rt: &'a Rt,
    /// Memory for its answers.
    pub pool: &'a Pool,
    /// Words of `-o`, each with its value.
    pub options: &'a [(String, String)],
    /// User and group of this process.
    pub owner: (u32, u32),
}

/// Every kind.
pub const ALL: &[FsKind] = &[
    FsKind {
        name: "ram",
        summary: "files in the memory of the process, gone when it ends",
        needs_device: false,
        options: &["size", "uid", "gid", "mode"],
        open: open_ram,
    },
    FsKind {
        name: "host",
        summary: "a directory of this machine, which calls are passed through to",
        needs_device: false,
        options: &["dir"],
        open: open_host,
    },
];

/// The kind of that name.
///
/// # Errors
/// A usage error that names all kinds.
pub fn find(name: &str) -> Result<&'static FsKind, Failure> {
    let known = || ALL.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
    let found = ALL.iter().find(|kind| kind.name == name);
    found.ok_or_else(|| Failure::Usage(format!("there is no file system {name:?}; kinds: {}", known())))
}

impl FsKind {
    /// Opens a file system of this kind.
    ///
    /// # Errors
    /// Options that it does not take.
    pub fn open(&self, opening: &Opening<'_>) -> Result<Rc<dyn FileSystem>, Failure> {
        if let Some((word, _)) = opening.options.iter().find(|(word, _)| !self.options.contains(&&**word)) {
            let known = self.options.join(", ");
            return Err(Failure::Usage(format!(
                "-o {word} is no option of mounts, and none of {:?}, which takes {known}",
                self.name
            )));
        }
        (self.open)(opening)
    }
}

fn open_host(opening: &Opening<'_>) -> Result<Rc<dyn FileSystem>, Failure> {
    let Some((_, dir)) = opening.options.iter().rfind(|(word, _)| word == "dir") else {
        return Err(Failure::Usage("host passes calls through to a directory: add -o dir=PATH".to_string()));
    };
    raise_descriptors();
    Ok(Rc::new(HostFs::open(opening.rt, opening.pool, Path::new(dir))?))
}

/// Bytes of a file system in memory, unless it is told another number: half of the machine's, as tmpfs takes it.
fn half_of_memory() -> u64 {
    told_bytes("/proc/meminfo", "MemTotal").unwrap_or(BYTES_UNKNOWN) / 2
}

/// Memory of a machine that does not tell it.
const BYTES_UNKNOWN: u64 = 2 * GIB;

fn open_ram(opening: &Opening<'_>) -> Result<Rc<dyn FileSystem>, Failure> {
    let value = |word: &str| opening.options.iter().rfind(|(known, _)| known == word).map(|(_, value)| &**value);
    let number = |word: &str, radix: u32, default: u32| match value(word) {
        None => Ok(default),
        Some(text) => u32::from_str_radix(text, radix)
            .map_err(|_| Failure::Usage(format!("-o {word}={text}: write a number, octal for mode"))),
    };
    let bytes = match value("size") {
        None => half_of_memory(),
        Some(text) => {
            parse_size(text).map_err(|error| Failure::Usage(format!("-o size={text}: write {}", error.wanted())))?
        }
    };
    let (uid, gid) = (number("uid", 10, opening.owner.0)?, number("gid", 10, opening.owner.1)?);
    let mode = number("mode", 8, 0o755)?;
    let ram = Ram::new(RamConfig::sized(bytes), opening.pool.clone());
    let call = Call::at(Stamp(opening.rt.wall()));
    let now = Some(call.now);
    let root = SetAttr {
        mode: Some(mode as u16 & 0o7777),
        uid: Some(uid),
        gid: Some(gid),
        accessed: now,
        modified: now,
        ..SetAttr::default()
    };
    match ram.set_attr(call, ram.root(), root) {
        Step::Now(Ok(_)) => Ok(Rc::new(ram)),
        _ => unreachable!("a file system in memory has a root, and answers at once"),
    }
}
