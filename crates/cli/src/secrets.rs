//! Keys in files and in the environment: those that stack texts refer to (`file:PATH` and `env:NAME`), and that of TLS.
//! Nothing here shows a byte of them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use esker_rt::{Secret, SecretSource};
use esker_sys::key_memory::{KeyBytes, wipe_stack};
use esker_sys::secrecy::{forbid_dumps, take_variable};
use rustix::fs::OFlags;

/// More than any key of a layer has; what is longer is a mistake, such as a disk in the place of its key.
const BYTES_MAX: u64 = 4096;

/// Keys that were taken out of the environment, by variable: several worlds of one process may ask for one of them.
static TAKEN: Mutex<BTreeMap<String, KeyBytes>> = Mutex::new(BTreeMap::new());

/// Reads keys from files and from the environment. Before the first byte of one is read, core dumps of this process are
/// off.
pub fn source() -> SecretSource {
    Box::new(|reference| {
        let (scheme, place) = reference.split_once(':').unwrap_or_default();
        let read = match scheme {
            "file" => from_file,
            "env" => from_environment,
            _ => return Err(io::Error::other("a key is named file:PATH or env:NAME")),
        };
        let secret = read(place);
        wipe_stack();
        secret.map_err(io::Error::other)
    })
}

fn from_file(path: &str) -> Result<Secret, String> {
    read_private(Path::new(path), BYTES_MAX).map(Secret::new)
}

/// Reads a key of at most `bytes_max` bytes. Only its owner may read a key, and only a regular file has an owner that
/// matters.
///
/// # Errors
/// Why it is not read, beginning with a verb.
pub fn read_private(path: &Path, bytes_max: u64) -> Result<Vec<u8>, String> {
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    // Without it, the call waits at a named pipe until another program opens the other end.
    let without_waiting = OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(without_waiting).open(path).map_err(unreadable)?;
    let about = file.metadata().map_err(unreadable)?;
    if !about.is_file() {
        return Err("is no regular file".to_string());
    }
    if about.mode() & 0o077 != 0 {
        let mode = about.mode() & 0o777;
        return Err(format!("may be used by others than its owner (mode {mode:o}); chmod 600 it"));
    }
    if about.len() > bytes_max {
        return Err(format!("has {} bytes, which is no key", about.len()));
    }
    keep_out_of_dumps()?;
    // As much as there may be: a vector that grows leaves copies of a key behind.
    let mut bytes = Vec::with_capacity(bytes_max as usize);
    file.take(bytes_max).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

fn from_environment(name: &str) -> Result<Secret, String> {
    keep_out_of_dumps()?;
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(value) = take_variable(name) {
        taken.insert(name.to_string(), KeyBytes::new(value));
    }
    let value = taken.get(name).ok_or("there is no such environment variable, or it is empty")?;
    Ok(Secret::new(value.to_vec()))
}

fn keep_out_of_dumps() -> Result<(), String> {
    forbid_dumps().map_err(|error| format!("is not read, because core dumps cannot be turned off: {error}"))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn refused(reference: &str, why: &str) {
        let error = source()(reference).unwrap_err().to_string();
        assert!(error.contains(why), "{reference}: \"{error}\" should say \"{why}\"");
    }

    #[test]
    fn a_key_comes_from_a_file_that_only_its_owner_may_use() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, [7; 64]).unwrap();
        let reference = format!("file:{}", path.display());
        for (mode, is_fine) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(source()(&reference).is_ok(), is_fine, "{mode:o}");
        }
        refused(&reference, "chmod 600");
        refused(&format!("file:{}", dir.path().display()), "no regular file");
        refused("file:no/such/key", "cannot be read");
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        refused(&format!("file:{}", pipe.display()), "no regular file");
        std::fs::write(&path, [7; 5000]).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        refused(&reference, "5000 bytes, which is no key");
    }

    #[test]
    fn a_key_comes_from_a_variable_that_exists() {
        // Cargo gives it to every program that it starts, and nothing here reads it.
        let name = "CARGO_PKG_NAME";
        for world in ["the first", "a second"] {
            let secret = source()(&format!("env:{name}")).unwrap();
            assert_eq!(secret.bytes(), b"esker-cli", "{world}");
            assert_eq!(std::env::var(name).unwrap(), "", "{world}");
        }
        refused("env:THERE_IS_NO_SUCH_KEY", "no such environment variable");
        refused("vault:x", "file:PATH or env:NAME");
    }
}
