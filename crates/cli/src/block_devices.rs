//! What a user is told about a block device before it is measured, and why it may not be.

use std::io;
use std::path::Path;

use esker_base::units::size_human;
use esker_dev::found::{ProbedMedium, found};
use esker_front_fuse::users_of;

/// Why a device is not measured.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// It cannot be looked at.
    #[error("{0}: cannot be measured: {1}; --device takes a block device that this user may open")]
    Unknown(String, io::Error),
    /// A program uses it.
    #[error("{0}: is in use: {1}; stop that, or measure a file on its file system with --scratch DIR")]
    Used(String, String),
    /// It holds something.
    #[error(
        "{0}: {1} that hold {2}; --overwrite would destroy that, anywhere on the device. Leave --overwrite out to read \
         only, or add --force if no program needs it"
    )]
    Holds(String, String, String),
}

/// Makes sure that a device may be measured and says what will become of it. A device in use is refused even if forced;
/// one that holds something is refused if it would be overwritten, unless forced.
///
/// # Errors
/// Why it is refused.
pub fn look_at(path: &Path, overwrite: bool, force: bool) -> Result<String, DeviceError> {
    let name = path.display().to_string();
    let what = found(path).map_err(|error| DeviceError::Unknown(name.clone(), error))?;
    let users = users_of(path);
    if !users.is_empty() {
        return Err(DeviceError::Used(name, users.join("; ")));
    }
    judged(name, &what, overwrite, force)
}

fn judged(name: String, what: &ProbedMedium, overwrite: bool, force: bool) -> Result<String, DeviceError> {
    let (size, holds) = (size_human(what.size), what.holds.join(", "));
    match (overwrite, what.holds.is_empty(), force) {
        (false, true, _) => {
            Ok(format!("{name}: {size}, found empty; it is only read. --overwrite measures its writes too"))
        }
        (false, false, _) => Ok(format!("{name}: {size} that hold {holds}; it is only read")),
        (true, true, _) => Ok(format!("{name}: {size}, found empty; blocks anywhere on it are overwritten")),
        (true, false, true) => Ok(format!("{name}: {size} that hold {holds}; blocks anywhere on it are overwritten")),
        (true, false, false) => Err(DeviceError::Holds(name, size, holds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(holds: &[&str], overwrite: bool, force: bool) -> Result<String, String> {
        let what = ProbedMedium { size: 3 << 30, holds: holds.iter().map(ToString::to_string).collect() };
        judged("/dev/x".to_string(), &what, overwrite, force).map_err(|error| error.to_string())
    }

    #[test]
    fn a_device_that_holds_something_is_overwritten_only_by_force() {
        let held = ["partition x1", "a GUID partition table"];
        assert!(told(&held, false, false).unwrap().contains("it is only read"));
        assert!(told(&held, false, true).unwrap().contains("it is only read"), "force alone writes nothing");
        let refused = told(&held, true, false).unwrap_err();
        assert!(refused.contains("partition x1, a GUID partition table") && refused.contains("--force"), "{refused}");
        let forced = told(&held, true, true).unwrap();
        assert!(forced.contains("partition x1") && forced.contains("overwritten"), "{forced}");
    }

    #[test]
    fn an_empty_device_is_overwritten_only_when_asked() {
        assert!(told(&[], false, false).unwrap().contains("it is only read"));
        assert!(told(&[], true, false).unwrap().contains("blocks anywhere on it are overwritten"));
    }
}
