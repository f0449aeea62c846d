//! The paths that the user names: what their file system and the block device beneath can do.

mod beneath;
mod trials;

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use esker_base::units::size_human;
use rustix::fs::{major, minor};

use super::finding::{Finding, Subject};
use super::machine::Machine;

const SPACE: Subject = Subject { check: "free space", verbs: &["serve", "calibrate", "trace prepare", "trace replay"] };
/// Free bytes from which nothing is said: a few times the file that `esker calibrate --scratch` makes.
const SPACE_MIN: u64 = 1 << 30;

/// A path that was named.
pub struct Place {
    /// As the user wrote it.
    named: String,
    kind: PlaceKind,
}

enum PlaceKind {
    /// A folder in which files can be made.
    Folder(PathBuf),
    /// A block device, by its numbers.
    Device(u32, u32),
}

/// A path that cannot be examined.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// It is not there, or may not be looked at.
    #[error("{0}: {1}; name a directory, a file or a block device")]
    Unseen(String, std::io::Error),
    /// It holds no files.
    #[error("{0}: is no directory, file or block device")]
    Other(String),
}

impl Place {
    /// Looks at what a path is. A file stands for its directory; the current directory is told by its whole path.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn of(path: &Path) -> Result<Place, PlaceError> {
        let named = path.display().to_string();
        let unseen = |error| PlaceError::Unseen(named.clone(), error);
        let real = fs::canonicalize(path).map_err(unseen)?;
        let about = fs::metadata(&real).map_err(unseen)?;
        let kind = match about.file_type() {
            kind if kind.is_dir() => PlaceKind::Folder(real.clone()),
            kind if kind.is_file() => PlaceKind::Folder(real.parent().unwrap_or(Path::new("/")).to_path_buf()),
            kind if kind.is_block_device() => PlaceKind::Device(major(about.rdev()), minor(about.rdev())),
            _ => return Err(PlaceError::Other(named)),
        };
        Ok(Place { named: if named == "." { real.display().to_string() } else { named }, kind })
    }

    /// All that is found of it.
    pub fn check(&self, machine: &Machine) -> Vec<Finding> {
        let found = match &self.kind {
            PlaceKind::Folder(folder) => {
                let mut found = trials::check(folder);
                found.push(beneath::of_folder(machine, folder));
                found.push(space(folder));
                found
            }
            PlaceKind::Device(major, minor) => beneath::of_device(machine, &format!("{major}:{minor}"), &self.named),
        };
        found.into_iter().map(|finding| finding.at(&self.named)).collect()
    }
}

fn space(folder: &Path) -> Finding {
    match rustix::fs::statvfs(folder) {
        Ok(stat) => room(stat.f_bavail.saturating_mul(stat.f_frsize), stat.f_blocks.saturating_mul(stat.f_frsize)),
        Err(error) => SPACE.note(format!("unknown: {error}"), "name another directory"),
    }
}

/// By free bytes and all bytes.
fn room(free: u64, all: u64) -> Finding {
    match (free >= SPACE_MIN, all) {
        (_, 0) => SPACE.ok("the file system has no bound"),
        (true, _) => SPACE.ok(format!("{} of {}", size_human(free), size_human(all))),
        (false, _) => SPACE.note(
            format!("{} of {}: a full device fails the writes of a stack", size_human(free), size_human(all)),
            "delete files there, or name another directory",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::super::machine::testing::Made;
    use super::*;

    #[test]
    fn a_path_that_is_not_there_or_holds_no_files_is_refused() {
        let told = |path: &str| Place::of(Path::new(path)).map(|place| place.named).map_err(|error| error.to_string());
        assert!(told("/no/such/path").unwrap_err().contains("/no/such/path: No such file or directory"));
        assert!(told("/dev/null").unwrap_err().contains("is no directory, file or block device"));
    }

    #[test]
    fn a_file_stands_for_its_directory_and_nothing_is_left_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disk.img");
        fs::write(&file, "x").unwrap();
        let found = Place::of(&file).unwrap().check(&Made::of(&[]));
        let checks: Vec<&str> = found.iter().map(|found| found.check).collect();
        assert_eq!(checks, ["direct I/O", "reflink", "write cache", "free space"]);
        assert!(found.iter().all(|found| found.path.as_deref() == file.to_str()), "{found:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn little_room_is_a_note() {
        assert_eq!([room(2 << 30, 1 << 40), room(0, 0)].map(|found| found.state), [State::Ok; 2]);
        let little = room(5 << 20, 1 << 40);
        assert!(little.state == State::Note && little.found.starts_with("5.0 MiB of 1.0 TiB"), "{little:?}");
        assert_eq!(space(Path::new("/no/such/path")).state, State::Note);
    }
}
