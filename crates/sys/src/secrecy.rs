//! Keys of this process: out of its environment, and out of core dumps.

use std::ffi::{CStr, CString};
use std::io;

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Takes the value of an environment variable and wipes it where it stands, so that neither `/proc/PID/environ` nor a
/// later call shows it. None if there is no such variable or if it is empty, as it is when it was taken.
///
/// Nothing else may read or set this variable at the same time.
pub fn take_variable(name: &str) -> Option<Vec<u8>> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name ends with a zero byte. Nothing in this program sets or removes variables, so that the text stays
    // where it is for as long as the process lives.
    let found = unsafe { libc::getenv(name.as_ptr()) };
    if found.is_null() {
        return None;
    }
    // SAFETY: what getenv(3) gives ends with a zero byte; see above for how long it stays.
    let value = unsafe { CStr::from_ptr(found) }.to_bytes().to_vec();
    for at in 0..value.len() {
        // SAFETY: the byte is in the text, before its end, in memory of the process that the kernel maps writable. The
        // text gets shorter and keeps its end, so that a thread that looks for another variable finds whole texts.
        unsafe { found.add(at).write_volatile(0) };
    }
    Some(value).filter(|value| !value.is_empty())
}

/// From now on no fault and no debugger of the same user writes or reads the memory of this process: `PR_SET_DUMPABLE`
/// and `RLIMIT_CORE` of it are 0. Files of it below `/proc` belong to root then.
///
/// # Errors
/// The kernel's.
pub fn forbid_dumps() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_taken_once_and_leaves_nothing_behind() {
        // Cargo gives it to every program that it starts, and nothing here reads it.
        let (name, value) = ("CARGO_PKG_NAME", "esker-sys");
        let shown = || {
            let all = std::fs::read("/proc/self/environ").unwrap();
            all.split(|byte| *byte == 0).any(|text| text == format!("{name}={value}").as_bytes())
        };
        assert!(shown(), "cargo names the package");
        assert_eq!(take_variable(name).as_deref(), Some(value.as_bytes()));
        assert!(!shown());
        assert_eq!((take_variable(name), take_variable("NO_SUCH_VARIABLE"), take_variable("A\0B")), (None, None, None));
    }
}
