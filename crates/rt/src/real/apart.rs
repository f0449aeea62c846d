//! Errands: blocking calls that this very process may have to answer, such as opening a file that it serves.
//!
//! A thread that waits for such an answer cannot be ended once the answer was promised, and while it lives, every
//! descriptor of its process stays open. A process killed at that moment would hang for ever: the kernel would wait for
//! an answer from a server whose descriptor never closes. So an errand runs on a thread with a table of descriptors of
//! its own, empty but for the standard ones.

use std::io;
use std::thread;

/// What is to be done, with texts in and a text out, so that no descriptor can cross over: an `Errand` must use none
/// but those that it opens (and the standard ones). It must not wake tasks of a world: that takes a descriptor too.
pub type Errand = fn(&[String]) -> Result<String, String>;

/// The first descriptor that is not a standard one.
const FIRST_OWN: libc::c_uint = 3;

/// Runs an errand and waits for it. Blocking: call it on a worker.
///
/// # Errors
/// What the errand says, or why its thread could not be made or set apart.
pub fn run_apart(errand: Errand, words: Vec<String>) -> Result<String, String> {
    let body = move || {
        leave_descriptors()
            .map_err(|e| format!("a thread cannot be set apart from this process's descriptors: {e}"))?;
        errand(&words)
    };
    let thread = thread::Builder::new().name("esker-errand".to_string()).spawn(body);
    let thread = thread.map_err(|e| format!("no thread for an errand: {e}"))?;
    thread.join().unwrap_or_else(|_| Err("an errand panicked; its message is above".to_string()))
}

/// Gives this thread a table of descriptors of its own, without those that it shared until now.
fn leave_descriptors() -> io::Result<()> {
    // SAFETY: this thread was made for one errand. Nothing that owns or borrows a descriptor was moved to it: an
    // `Errand` is a plain function that is given texts and gives one back.
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
            Err(error) => Err(error.to_string()),
        };
        let words = vec![ours.as_raw_fd().to_string()];
        let seen = run_apart(open, words.clone()).unwrap_err();
        assert!(seen.contains("No such file"), "{seen}");
        assert!(open(&words).unwrap().ends_with("/status"), "our own is still open");
    }

    #[test]
    fn an_errand_brings_its_answer_and_a_panic_is_told() {
        assert_eq!(run_apart(|words| Ok(words.join("+")), vec!["a".into(), "b".into()]), Ok("a+b".to_string()));
        assert!(run_apart(|_| panic!("on purpose"), Vec::new()).unwrap_err().contains("panicked"));
    }
}
