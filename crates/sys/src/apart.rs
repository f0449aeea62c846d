//! Errands: blocking calls that this very process may have to answer, such as opening a file that it serves.
//!
//! A thread that waits for such an answer cannot be ended once the answer was promised, and while it lives, every
//! descriptor of its process stays open. A process killed at that moment would hang for ever: the kernel would wait for
//! an answer from a server whose descriptor never closes. So an errand runs on a thread with a table of descriptors of
//! its own, empty but for the standard ones.

use std::io;
use std::thread;

/// What is to be done. Texts go in, a text or an error number comes out, so that no descriptor can cross over. An
/// `IsolatedCall` must use no descriptors but those that it opens (and the standard ones). It must not wake tasks of a
/// world: that takes a descriptor too.
pub type IsolatedCall = fn(&[String]) -> Result<String, i32>;

/// The first descriptor that is not a standard one.
const FIRST_OWN: libc::c_uint = 3;

/// What may cross to a thread that has other descriptors.
///
/// # Safety
/// No value of the type, and nothing that it leads to, owns or borrows a descriptor, neither when it crosses nor later:
/// there the same number is no file, or another one.
pub unsafe trait NoDescriptors: Send + 'static {}

/// Runs an errand and waits for it. Blocking: call it on a worker.
///
/// # Errors
/// The errand's error number, or why its thread could not be made or set apart.
pub fn run_isolated(errand: IsolatedCall, words: Vec<String>) -> io::Result<String> {
    in_own_table(move || errand(&words))?.map_err(io::Error::from_raw_os_error)
}

/// The number of an error, which may leave an errand; that of any failure for one that has none.
pub fn error_number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// Runs work that calls on descriptors as a program with a single thread does: in a table of its own, the kernel need
/// not count the users of one. It begins with none but the standard ones, and what it opens must not leave it.
/// Blocking, as [`run_isolated`]; the work must not wake tasks of a world either.
///
/// # Errors
/// Why its thread could not be made or set apart, or that it panicked.
pub fn work_apart<W: NoDescriptors>(work: fn(W), with: W) -> io::Result<()> {
    in_own_table(move || work(with))
}

fn in_own_table<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> io::Result<R> {
    let body = move || {
        leave_descriptors().map_err(|e| {
            io::Error::other(format!("a thread cannot be set apart from this process's descriptors: {e}"))
        })?;
        Ok(work())
    };
    let thread = thread::Builder::new().name("esker-errand".to_string()).spawn(body)?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("an errand panicked; its message is above")))
}

/// Gives this thread a table of descriptors of its own, without those that it shared until now.
fn leave_descriptors() -> io::Result<()> {
    // SAFETY: this thread was made for one call. Nothing that owns or borrows a descriptor was moved to it: an
    // `IsolatedCall` is a plain function that is given texts and gives a text or a number back; other work is one too,
    // and is given what says that it has none.
    let result = unsafe {
        libc::syscall(libc::SYS_close_range, FIRST_OWN, libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE as libc::c_uint)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn an_errand_sees_no_descriptor_of_its_process_and_leaves_them_alone() {
        let ours = std::fs::File::open("/proc/self/status").unwrap();
        let open = |words: &[String]| match std::fs::read_link(format!("/proc/thread-self/fd/{}", words[0])) {
            Ok(path) => Ok(path.display().to_string()),
            Err(error) => Err(error_number(&error)),
        };
        let words = vec![ours.as_raw_fd().to_string()];
        let seen = run_isolated(open, words.clone()).unwrap_err().to_string();
        assert!(seen.contains("No such file"), "{seen}");
        assert!(open(&words).unwrap().ends_with("/status"), "our own is still open");
    }

    #[test]
    fn an_errand_brings_its_answer_and_a_panic_is_told() {
        assert_eq!(run_isolated(|words| Ok(words.join("+")), vec!["a".into(), "b".into()]).unwrap(), "a+b");
        assert!(run_isolated(|_| panic!("on purpose"), Vec::new()).unwrap_err().to_string().contains("panicked"));
    }

    #[test]
    fn work_in_a_table_of_its_own_leaves_nothing_open_here() {
        struct Paths(Vec<String>, std::sync::mpsc::Sender<usize>);
        // SAFETY: texts, and a channel for numbers.
        unsafe impl NoDescriptors for Paths {}
        let work = |Paths(paths, opened): Paths| {
            let open: Vec<_> = paths.iter().map(|path| std::fs::File::open(path).unwrap()).collect();
            let first = open.iter().map(AsRawFd::as_raw_fd).min().unwrap();
            assert_eq!(first, FIRST_OWN as i32, "nothing of this process is there");
            opened.send(open.len()).unwrap();
        };
        let (sender, receiver) = std::sync::mpsc::channel();
        work_apart(work, Paths(vec!["/proc/self/status".into(); 3], sender)).unwrap();
        assert_eq!(receiver.recv(), Ok(3));
    }
}
