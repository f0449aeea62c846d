//! Mappings of files that another process may shorten. A page behind the end of a file has no memory, and touching it
//! is answered with the signal SIGBUS, which ends the process. In a range that a [`FaultGuard`] watches, the signal's
//! handler puts zeroes in the place of the whole range instead, and notes it. The access goes on with zeroes, and the
//! owner of the range looks afterwards.
//!
//! Everything in the handler is async-signal-safe: it reads and writes atomics and calls mmap(2). Faults elsewhere go
//! to the handler that was there before.

use std::io;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

/// Ranges that can be watched at a time.
const SLOTS: usize = 2048;

/// Reasons for SIGBUS at an access: no memory behind an address, and memory that is broken (`asm-generic/siginfo.h`).
const BUS_ADRERR: libc::c_int = 2;
const BUS_MCEERR_AR: libc::c_int = 4;

/// What a slot is, in the low bits of its state; the bits above count how often it was taken.
const FREE: usize = 0;
const TAKEN: usize = 1;
const WATCHED: usize = 2;
const PHASES: usize = 4;

struct Slot {
    state: AtomicUsize,
    start: AtomicUsize,
    len: AtomicUsize,
    lost: AtomicBool,
}

static ALL: [Slot; SLOTS] = [const {
    Slot {
        state: AtomicUsize::new(FREE),
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        lost: AtomicBool::new(false),
    }
}; SLOTS];

/// Watches a range of memory until dropped.
#[derive(Debug)]
pub struct FaultGuard {
    slot: usize,
}

impl FaultGuard {
    /// Watches `len` bytes from `start` on, the first byte of a mapping.
    ///
    /// # Errors
    /// `OutOfMemory` if too many ranges are watched; the kernel's if the signal cannot be caught.
    ///
    /// # Safety
    /// For as long as this lives, the range, rounded up to whole pages, is mapped and belongs to the caller. All its
    /// bytes may change at any access to it, as those of memory that is shared with another process: no reference to
    /// them exists.
    pub unsafe fn new(start: *mut u8, len: usize) -> io::Result<FaultGuard> {
        install()?;
        let free = |slot: &Slot| {
            let state = slot.state.load(Ordering::Relaxed);
            let taken = state.wrapping_add(PHASES) & !(PHASES - 1) | TAKEN;
            let is_free = state & (PHASES - 1) == FREE;
            is_free && slot.state.compare_exchange(state, taken, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let number = ALL.iter().position(free).ok_or(io::ErrorKind::OutOfMemory)?;
        let slot = &ALL[number];
        // A handler that read the slot before never takes these values for those of the last owner.
        fence(Ordering::Release);
        slot.start.store(start as usize, Ordering::Relaxed);
        slot.len.store(len, Ordering::Relaxed);
        slot.lost.store(false, Ordering::Relaxed);
        slot.set_phase(WATCHED);
        Ok(FaultGuard { slot: number })
    }

    /// Whether the memory was lost: since then, all of it is zeroes and what was written since, and no other process
    /// sees it.
    pub fn is_lost(&self) -> bool {
        ALL[self.slot].lost.load(Ordering::Acquire)
    }
}

impl Drop for FaultGuard {
    fn drop(&mut self) {
        ALL[self.slot].set_phase(FREE);
    }
}

impl Slot {
    /// Only the owner of a taken slot calls this.
    fn set_phase(&self, phase: usize) {
        let state = self.state.load(Ordering::Relaxed);
        self.state.store(state & !(PHASES - 1) | phase, Ordering::Release);
    }

    /// The range, if it holds this address.
    fn range_with(&self, address: usize) -> Option<(usize, usize)> {
        let state = self.state.load(Ordering::Acquire);
        let (start, len) = (self.start.load(Ordering::Relaxed), self.len.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        // Both are of one owner if the slot did not change hands meanwhile.
        let is_whole = state & (PHASES - 1) == WATCHED && self.state.load(Ordering::Relaxed) == state;
        (is_whole && address.checked_sub(start).is_some_and(|at| at < len)).then_some((start, len))
    }
}

/// What was done with the signal before.
static BEFORE: OnceLock<Option<libc::sigaction>> = OnceLock::new();
static INSTALLED: OnceLock<bool> = OnceLock::new();

/// Catches the signal, once for the process.
fn install() -> io::Result<()> {
    let before = BEFORE.get_or_init(|| {
        // SAFETY: an action of zeroes is one, and the call fills it.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            (libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut before) == 0).then_some(before)
        }
    });
    let is_caught = INSTALLED.get_or_init(|| {
        // SAFETY: the action is whole: a handler that takes three arguments, as its flags say, an empty set of blocked
        // signals. The handler keeps to what a handler may do.
        before.is_some()
            && unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handle as *const () as usize;
                // On the stack that the standard library gives threads for signals, as a fault may be for want of
                // stack.
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigemptyset(&raw mut action.sa_mask);
                libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) == 0
            }
    });
    if *is_caught { Ok(()) } else { Err(io::Error::other("SIGBUS cannot be caught")) }
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a whole description; for these reasons it has an address.
    let (reason, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    if matches!(reason, BUS_ADRERR | BUS_MCEERR_AR) && replace(address) {
        return;
    }
    // SAFETY: the arguments are those of this call.
    unsafe { pass_on(signal, info, context) };
}

/// Puts zeroes in the place of the range that holds this address, if one is watched.
fn replace(address: usize) -> bool {
    let mut found = None;
    for slot in &ALL {
        if let Some(range) = slot.range_with(address) {
            slot.lost.store(true, Ordering::Release);
            found = Some(range);
        }
    }
    let Some((start, len)) = found else { return false };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the range is mapped and belongs to the owner of its guard, which lives, because the fault is an access to
    // it. The owner has said that all its bytes may change, and that no reference to them exists.
    let mapped = unsafe { libc::mmap(start as *mut libc::c_void, len, protection, flags, -1, 0) };
    mapped != libc::MAP_FAILED
}

/// Does what would have been done without the guards.
///
/// # Safety
/// The arguments are those of a handler's call.
unsafe fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = BEFORE.get().copied().flatten();
    if let Some(before) = before.filter(|before| before.sa_flags & libc::SA_SIGINFO != 0) {
        type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
        // SAFETY: the flag says that it is the address of such a function.
        let handler: Handler = unsafe { std::mem::transmute(before.sa_sigaction) };
        return handler(signal, info, context);
    }
    // The access is done again when this returns, and ends the process.
    // SAFETY: the default action is one.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    use super::*;

    const LEN: usize = 64 << 10;

    /// A file of `LEN` bytes that are 7, mapped.
    fn mapped() -> (std::fs::File, *mut u8) {
        let file = tempfile::tempfile().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[7; LEN], 0).unwrap();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses an address at which nothing is.
        let start = unsafe { libc::mmap(ptr::null_mut(), LEN, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        assert_ne!(start, libc::MAP_FAILED);
        (file, start.cast())
    }

    fn at(start: *mut u8, offset: usize) -> u8 {
        assert!(offset < LEN);
        // SAFETY: the byte is in a mapping that stays until the end of the test.
        unsafe { start.add(offset).read_volatile() }
    }

    fn put(start: *mut u8, offset: usize, byte: u8) {
        assert!(offset < LEN);
        // SAFETY: as above, and it is writable.
        unsafe { start.add(offset).write_volatile(byte) }
    }

    #[test]
    fn a_file_that_is_shortened_reads_as_zeroes_and_is_told_of() {
        let (file, start) = mapped();
        let (other, other_start) = mapped();
        // SAFETY: both mappings stay until the end of the test and are read and written as volatile bytes only.
        let guards = unsafe { [start, start, other_start].map(|start| FaultGuard::new(start, LEN).unwrap()) };
        file.set_len(4096).unwrap();
        assert_eq!((at(start, 0), guards[0].is_lost()), (7, false), "what is left is read");
        assert_eq!(at(start, LEN - 1), 0);
        assert_eq!(guards.each_ref().map(FaultGuard::is_lost), [true, true, false], "all guards of the range know");
        put(start, 8192, 9);
        assert_eq!((at(start, 8192), at(start, 0)), (9, 0), "it is the process' own memory now");
        assert_eq!(at(other_start, LEN - 1), 7);
        other.set_len(0).unwrap();
        put(other_start, 0, 1);
        assert!(guards[2].is_lost());
        drop(guards);
        // SAFETY: as above.
        let again = unsafe { FaultGuard::new(start, LEN).unwrap() };
        assert!(!again.is_lost(), "a slot that was used before begins anew");
    }

    /// Plays its own child.
    #[test]
    fn a_fault_elsewhere_ends_the_process_as_ever() {
        const CHILD: &str = "ESKER_TEST_CHILD_OF_FAULT";
        if std::env::var_os(CHILD).is_some() {
            let ((file, start), (_watched, other)) = (mapped(), mapped());
            // SAFETY: the mapping stays until the end of the process.
            let _guard = unsafe { FaultGuard::new(other, LEN).unwrap() };
            file.set_len(0).unwrap();
            at(start, 0);
            return;
        }
        let name = "real::fault_guard::tests::a_fault_elsewhere_ends_the_process_as_ever";
        let this = std::env::current_exe().unwrap();
        let mut command = Command::new("sh");
        // Without a core in the folder of the tests.
        command.args(["-c", "ulimit -c 0; exec \"$0\" \"$@\""]).arg(this).args(["--exact", name]).env(CHILD, "1");
        let ended = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert_eq!(ended.signal(), Some(libc::SIGBUS));
    }

    #[test]
    fn no_more_ranges_are_watched_than_there_are_slots() {
        let (_file, start) = mapped();
        // SAFETY: the mapping stays until the end of the test.
        let guards: Vec<_> = (0..=SLOTS).map_while(|_| unsafe { FaultGuard::new(start, LEN).ok() }).collect();
        assert!(guards.len() <= SLOTS && guards.len() > SLOTS / 2, "{}", guards.len());
    }
}
