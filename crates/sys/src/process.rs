//! Memory of other processes: advice about it, and what their page tables hold. Blocking calls that change no byte of
//! it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use zerocopy::{FromZeros, Immutable, IntoBytes};

/// What the kernel is told about a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// It is not used now: its access bits are cleared, with the translation caches of all CPUs. Of a part of a huge
    /// page: that is split.
    Cold,
    /// Make huge pages of it now.
    Collapse,
    /// Its pages may be shared with equal ones (KSM); huge pages are split for that. A process can say so of itself
    /// only.
    Mergeable,
    /// They may no longer, and those that are become private again.
    Unmergeable,
}

impl Advice {
    /// `MADV_*` of `asm-generic/mman-common.h`.
    fn number(self) -> libc::c_int {
        match self {
            Advice::Cold => 20,
            Advice::Collapse => 25,
            Advice::Mergeable => 12,
            Advice::Unmergeable => 13,
        }
    }
}

/// A process, held so that its number cannot come to mean another one.
#[derive(Debug)]
pub struct Process {
    fd: OwnedFd,
}

impl Process {
    /// Takes hold of a process.
    ///
    /// # Errors
    /// The kernel's: `ESRCH` if there is none.
    pub fn open(pid: u32) -> io::Result<Process> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
        Ok(Process { fd: pidfd_open(pid, PidfdFlags::empty())? })
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }

    /// Advises the kernel about `len` bytes from address `start` of its memory (process_madvise(2)). Returns how many
    /// bytes it has taken. Success does not mean that there are huge pages afterwards: look.
    ///
    /// # Errors
    /// The kernel's.
    pub fn advise(&self, start: u64, len: u64, advice: Advice) -> io::Result<u64> {
        let part = libc::iovec { iov_base: start as usize as *mut libc::c_void, iov_len: len as usize };
        let fd = self.fd.as_raw_fd();
        // SAFETY: the one vector outlives the call; its address belongs to the other process and is only a number here.
        // No advice changes the content of memory, in this process as little as in others.
        let taken = unsafe { libc::syscall(libc::SYS_process_madvise, fd, &raw const part, 1, advice.number(), 0) };
        match taken {
            -1 => Err(io::Error::last_os_error()),
            taken => Ok(taken as u64),
        }
    }
}

/// Properties of pages, as bits: `PAGE_IS_*` of `linux/fs.h`.
pub mod page_is {
    /// In memory.
    pub const PRESENT: u64 = 1 << 3;
    /// In swap.
    pub const SWAPPED: u64 = 1 << 4;
    /// The page of zeroes that all processes share.
    pub const ZERO: u64 = 1 << 5;
    /// Mapped as part of a huge page.
    pub const HUGE: u64 = 1 << 6;
}

/// Bytes of one entry of a page table, and of the page that it describes.
const ENTRY: u64 = 8;
const PAGE: u64 = 4096;

/// `PAGEMAP_SCAN` of `linux/fs.h`.
const SCAN: libc::Ioctl = 0xC060_6610_u32 as libc::Ioctl;

/// A run of pages with equal properties.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PageRun {
    /// Address of the first byte.
    pub start: u64,
    /// Address after the last one.
    pub end: u64,
    /// [`page_is::PRESENT`] and [`page_is::HUGE`], no others.
    pub is: u64,
}

/// `struct pm_scan_arg`.
#[derive(FromZeros, IntoBytes, Immutable)]
#[repr(C)]
struct ScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

const _: () = assert!(size_of::<ScanArg>() == 96 && size_of::<PageRun>() == 24);

/// Which pages are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Only pages that are one of these.
    pub any: u64,
    /// No page that is one of these.
    pub none: u64,
}

/// The page table of a process.
#[derive(Debug)]
pub struct PageTable {
    file: File,
}

impl PageTable {
    /// Opens it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(pid: u32) -> io::Result<PageTable> {
        Ok(PageTable { file: File::open(format!("/proc/{pid}/pagemap"))? })
    }

    /// Runs of wanted pages from address `start` up to `end`, at most as many as `runs` has room for. Returns them and
    /// the address up to which was looked.
    ///
    /// # Errors
    /// The kernel's: `ENOTTY` before Linux 6.7.
    pub fn scan<'a>(
        &self,
        (start, end): (u64, u64),
        wanted: Wanted,
        runs: &'a mut [PageRun],
    ) -> io::Result<(&'a [PageRun], u64)> {
        // What else a page is would part runs, and for whether it is a file's the kernel goes to each page: twice the
        // time.
        let told = page_is::PRESENT | page_is::HUGE;
        let mut arg = ScanArg::new_zeroed();
        arg.size = size_of::<ScanArg>() as u64;
        (arg.start, arg.end) = (start, end);
        (arg.vec, arg.vec_len) = (runs.as_mut_ptr() as usize as u64, runs.len() as u64);
        (arg.category_inverted, arg.category_mask) = (wanted.none, wanted.none);
        (arg.category_anyof_mask, arg.return_mask) = (wanted.any, told);
        let fd = self.file.as_fd().as_raw_fd();
        // SAFETY: the argument has the layout that the request takes and outlives the call; its vector is `runs`, which
        // is borrowed for as long, `vec_len` is its length, and any bits are a valid `PageRun`. No flag asks for a
        // change of any page.
        let found = unsafe { libc::ioctl(fd, SCAN, &raw mut arg) };
        match found {
            -1 => Err(io::Error::last_os_error()),
            found => Ok((&runs[..found as usize], arg.walk_end)),
        }
    }

    /// The number of the page of physical memory behind each of `count` pages from address `start`; nothing where there
    /// is none, or if the user may not know.
    ///
    /// # Errors
    /// The kernel's.
    pub fn frames(&self, start: u64, count: usize) -> io::Result<Vec<Option<u64>>> {
        let mut bytes = vec![0; count * ENTRY as usize];
        self.file.read_exact_at(&mut bytes, start / PAGE * ENTRY)?;
        let entry = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("chunks are entries"));
        let frame = |entry: u64| (entry >> 63 == 1).then_some(entry & ((1 << 55) - 1)).filter(|frame| *frame != 0);
        Ok(bytes.chunks_exact(ENTRY as usize).map(|bytes| frame(entry(bytes))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUGE: u64 = 2 << 20;

    /// Memory of this process that holds two whole regions, with the address of the first.
    fn memory() -> (Vec<u8>, u64, usize) {
        let memory = vec![0u8; 3 * HUGE as usize];
        let start = (memory.as_ptr() as usize as u64).next_multiple_of(HUGE);
        let offset = (start - memory.as_ptr() as usize as u64) as usize;
        (memory, start, offset)
    }

    fn runs_of(start: u64, len: u64) -> Vec<(u64, u64, bool)> {
        let table = PageTable::open(std::process::id()).unwrap();
        let mut room = [PageRun::default(); 64];
        let wanted = Wanted { any: page_is::PRESENT, none: page_is::ZERO };
        let (runs, walked) = table.scan((start, start + len), wanted, &mut room).unwrap();
        assert_eq!(walked, start + len);
        runs.iter()
            .map(|run| ((run.start - start) / PAGE, (run.end - start) / PAGE, run.is & page_is::HUGE != 0))
            .collect()
    }

    #[test]
    fn a_region_is_collapsed_and_split_and_its_bytes_stay() {
        let (mut memory, start, offset) = memory();
        for page in 0..10 {
            memory[offset + page * 2 * 4096] = page as u8 + 1;
        }
        let process = Process::open(std::process::id()).unwrap();
        assert!(!process.has_ended());
        let before = runs_of(start, HUGE);
        if before.len() != 10 {
            esker_skip::skip(esker_skip::Ability::HugePages, format_args!("faults take huge pages here: {before:?}"));
            return;
        }
        assert_eq!(before[1], (2, 3, false));
        if let Err(error) = process.advise(start, HUGE, Advice::Collapse) {
            esker_skip::skip(esker_skip::Ability::HugePages, format_args!("no huge page can be had here: {error}"));
            return;
        }
        assert_eq!(runs_of(start, HUGE), [(0, 512, true)]);
        process.advise(start, PAGE, Advice::Cold).unwrap();
        assert!(runs_of(start, HUGE).iter().all(|(.., huge)| !huge));
        assert!((0..10).all(|page| memory[offset + page * 2 * 4096] == page as u8 + 1));
    }

    #[test]
    fn nobody_is_not_found() {
        let error = Process::open(u32::MAX).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
    }
}
