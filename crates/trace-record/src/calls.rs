//! Which system calls are recorded, what of a process's memory is read with each, and which call of a trace each is.
//!
//! Numbers and layouts are those of x86-64.

pub mod bits;
mod data;
mod descriptors;
mod paths;
pub(crate) mod processes;
pub(crate) mod requests;

use esker_trace_calls::words::FileKind;
use esker_trace_calls::{At, Call, Fd, Object, PathBytes, Status, WarningKind};

/// Bytes of a text that are kept, its end included: what the kernel takes as a path.
pub const TEXT_MAX: u32 = 4096;
/// Bytes of an array that are kept.
pub const ARRAY_MAX: u32 = 4096;
/// Bytes that are kept of what a pointer in an array points to: a control block of the kernel's asynchronous requests.
pub const BLOCK_BYTES: u16 = 64;
/// Pieces of memory that are read at one end of a call.
pub const ITEMS_MAX: usize = 3;

/// A piece of memory that an argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The argument, from 0.
    pub arg: usize,
    /// How much is read there.
    pub what: Extent,
}

/// How much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Up to the first zero byte.
    Text,
    /// So many bytes.
    Bytes(u16),
    /// As many times `size` bytes as another argument says.
    Array {
        /// Bytes of an element.
        size: u16,
        /// The argument that counts them.
        count: usize,
    },
    /// As many times so many bytes as the call returned.
    Returned(u16),
    /// As many pointers as another argument says: each is kept, with [`BLOCK_BYTES`] of what it points to behind it.
    Pointers {
        /// The argument that counts them.
        count: usize,
    },
}

/// A system call that is recorded.
#[derive(Debug)]
pub struct Spec {
    /// Its number.
    pub number: u32,
    /// Its name, after `SYS_`.
    symbol: &'static str,
    /// What is read when it begins.
    pub entry: &'static [Item],
    /// What is read when it has succeeded.
    pub exit: &'static [Item],
    /// Not recorded if this argument, as a signed 32-bit number, is below zero.
    pub unless_negative: Option<usize>,
    decode: fn(&Raw<'_>) -> Decoded,
}

impl Spec {
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.symbol.trim_start_matches("SYS_")
    }
}

type Decoded = Result<Call, WarningKind>;

/// One call as it was seen.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    /// Which.
    pub spec: &'static Spec,
    /// Its arguments.
    pub args: [u64; 6],
    /// What was read for `spec.entry`.
    pub entry: [Option<&'a [u8]>; ITEMS_MAX],
    /// What was read for `spec.exit`.
    pub exit: [Option<&'a [u8]>; ITEMS_MAX],
    /// What it returned; errors are negative.
    pub result: Option<i64>,
}

/// All calls that are recorded.
pub fn all() -> impl Iterator<Item = &'static Spec> {
    [paths::CALLS, data::CALLS, descriptors::CALLS, processes::CALLS].into_iter().flatten()
}

/// Specifications by number of the call.
pub fn by_number() -> Vec<Option<&'static Spec>> {
    let mut table = vec![None; all().map(|spec| spec.number as usize + 1).max().unwrap_or(0)];
    all().for_each(|spec| table[spec.number as usize] = Some(spec));
    table
}

const fn text(arg: usize) -> Item {
    Item { arg, what: Extent::Text }
}

const fn bytes(arg: usize, len: u16) -> Item {
    Item { arg, what: Extent::Bytes(len) }
}

const fn array(arg: usize, size: u16, count: usize) -> Item {
    Item { arg, what: Extent::Array { size, count } }
}

const fn pointers(arg: usize, count: usize) -> Item {
    Item { arg, what: Extent::Pointers { count } }
}

const fn returned(arg: usize, size: u16) -> Item {
    Item { arg, what: Extent::Returned(size) }
}

/// A call whose arguments say all, or that memory is read for at its beginning, at its beginning and end.
const fn call(
    number: i64,
    symbol: &'static str,
    entry: &'static [Item],
    exit: &'static [Item],
    decode: fn(&Raw<'_>) -> Decoded,
) -> Spec {
    Spec { number: number as u32, symbol, entry, exit, unless_negative: None, decode }
}

/// A row of a table of calls: number, what is read at the beginning and the end, and what call of a trace it is.
macro_rules! row {
    ($number:ident, [$($entry:expr),*], [$($exit:expr),*], $decode:expr) => {
        $crate::calls::call(libc::$number, stringify!($number), &[$($entry),*], &[$($exit),*], $decode)
    };
    ($number:ident, [$($entry:expr),*], $decode:expr) => {
        $crate::calls::row!($number, [$($entry),*], [], $decode)
    };
}
use row;

/// `AT_` flags of calls that take a directory and a path.
const SYMLINK_NOFOLLOW: u64 = libc::AT_SYMLINK_NOFOLLOW as u64;
const SYMLINK_FOLLOW: u64 = libc::AT_SYMLINK_FOLLOW as u64;
const EMPTY_PATH: u64 = libc::AT_EMPTY_PATH as u64;

impl<'a> Raw<'a> {
    /// The call of a trace, or why it is none: its path was not read, or its arguments are none of it.
    ///
    /// # Errors
    /// What is counted.
    pub fn decode(&self) -> Decoded {
        (self.spec.decode)(self)
    }

    fn arg(&self, arg: usize) -> u64 {
        self.args[arg]
    }

    fn int(&self, arg: usize) -> i32 {
        self.args[arg] as i32
    }

    fn fd(&self, arg: usize) -> Fd {
        Fd(self.int(arg))
    }

    fn mode(&self, arg: usize) -> u16 {
        (self.args[arg] & 0o7777) as u16
    }

    fn succeeded(&self) -> bool {
        self.result.is_some_and(|result| result >= 0)
    }

    fn bytes(&self, arg: usize) -> Option<&'a [u8]> {
        let at = self.spec.entry.iter().position(|item| item.arg == arg)?;
        self.entry[at]
    }

    fn seen(&self, arg: usize) -> Option<&'a [u8]> {
        let at = self.spec.exit.iter().position(|item| item.arg == arg)?;
        self.exit[at].filter(|_| self.succeeded())
    }

    /// A text that was read. One that was not read to its end makes the call one that cannot be replayed, as one that
    /// was not given does: programs ask so whether the kernel knows a call.
    fn text(&self, arg: usize) -> Result<&'a [u8], WarningKind> {
        let none = if self.args[arg] == 0 { WarningKind::BadArguments } else { WarningKind::CutPath };
        let bytes = self.bytes(arg).ok_or(none)?;
        bytes.strip_suffix(&[0]).ok_or(WarningKind::CutPath)
    }

    /// A path that starts in the working directory.
    fn path(&self, arg: usize) -> Result<At, WarningKind> {
        Ok(At::cwd(PathBytes::from(self.text(arg)?)))
    }

    /// A path that starts in the directory of another argument.
    fn at(&self, dir: usize, path: usize) -> Result<At, WarningKind> {
        Ok(At { dir: self.fd(dir), path: PathBytes::from(self.text(path)?) })
    }

    /// What a path alone leads to.
    fn object(&self, path: usize, follow: bool) -> Result<Object, WarningKind> {
        Ok(Object::Path { at: self.path(path)?, follow })
    }

    /// What directory, path and flags lead to: the directory itself, if the path is empty and may be.
    fn object_at(&self, dir: usize, path: usize, flags: u64, follow: bool) -> Result<Object, WarningKind> {
        if flags & EMPTY_PATH != 0 && (self.arg(path) == 0 || self.text(path)?.is_empty()) {
            return Ok(match self.fd(dir) {
                Fd::CWD => Object::Path { at: At::cwd("."), follow: true },
                fd => Object::Fd(fd),
            });
        }
        Ok(Object::Path { at: self.at(dir, path)?, follow })
    }
}

/// Numbers in memory; `None` where it is too short.
fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|bytes| u16::from_le_bytes(bytes.try_into().expect("two bytes")))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    u64_at(bytes, at).map(|number| number as i64)
}

/// Bytes of `struct stat` up to and with the size.
const STAT_BYTES: u16 = 56;
/// Bytes of `struct statx` up to and with the device.
const STATX_BYTES: u16 = 144;

fn status_of_stat(bytes: &[u8]) -> Option<Status> {
    let mode = u32_at(bytes, 24)?;
    Some(Status {
        kind: kind_of_mode(mode),
        mode: (mode & 0o7777) as u16,
        size: u64_at(bytes, 48)?,
        links: u64_at(bytes, 16)? as u32,
        device: u64_at(bytes, 0)?,
        inode: u64_at(bytes, 8)?,
    })
}

fn status_of_statx(bytes: &[u8]) -> Option<Status> {
    let mode = u32::from(u16_at(bytes, 28)?);
    let (major, minor) = (u32_at(bytes, 136)?, u32_at(bytes, 140)?);
    Some(Status {
        kind: kind_of_mode(mode),
        mode: (mode & 0o7777) as u16,
        size: u64_at(bytes, 40)?,
        links: u32_at(bytes, 16)?,
        device: rustix::fs::makedev(major, minor),
        inode: u64_at(bytes, 32)?,
    })
}

/// The type in `st_mode`.
pub fn kind_of_mode(mode: u32) -> FileKind {
    match mode & libc::S_IFMT {
        libc::S_IFREG => FileKind::Regular,
        libc::S_IFDIR => FileKind::Directory,
        libc::S_IFLNK => FileKind::Symlink,
        libc::S_IFCHR => FileKind::CharDevice,
        libc::S_IFBLK => FileKind::BlockDevice,
        libc::S_IFIFO => FileKind::Fifo,
        libc::S_IFSOCK => FileKind::Socket,
        _ => FileKind::Other,
    }
}

#[cfg(test)]
mod tests;
