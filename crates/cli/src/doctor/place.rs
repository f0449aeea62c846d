//! The paths that the user names: what their file system and the block device beneath can do.

mod beneath;
mod format;
mod trials;

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use esker_base::units::size_human;
use esker_stack::Spec;
use rustix::fs::{major, minor};

use super::finding::{Finding, Subject};
use super::machine::Machine;
use crate::failure::Failure;
use crate::stack_text::StackText;

const SPACE: Subject = Subject { check: "free space", verbs: &["serve", "calibrate", "trace prepare", "trace replay"] };
/// Free bytes from which nothing is said: a few times the file that `esker calibrate --scratch` makes.
const SPACE_MIN: u64 = 1 << 30;
/// A longer file is no stack text.
const STACK_BYTES_MAX: u64 = 1 << 20;
/// The parameter with which devices of a stack name their file or block device.
const PATH: &str = "path";

/// A path that was named.
pub struct Place {
    /// As the user wrote it.
    named: String,
    kind: PlaceKind,
    medium: Option<Medium>,
}

/// What was named in the place.
enum Medium {
    /// A file or block device.
    There(PathBuf),
    /// A file that a stack makes when it is opened.
    NotYet,
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
    /// The place of a path; of a stack, given as a file or as text, those of its devices.
    ///
    /// # Errors
    /// What is wrong with a path or with a text.
    pub fn all(named: &str) -> Result<Vec<Place>, Failure> {
        let usage = |error: PlaceError| Failure::Usage(error.to_string());
        let devices = match stack(named)? {
            None => return Ok(vec![Place::of(Path::new(named)).map_err(usage)?]),
            Some(spec) => spec.devices,
        };
        let paths = devices.into_iter().filter_map(|device| device.args.get(PATH).cloned());
        paths.map(|path| Place::of_device(Path::new(&path)).map_err(usage)).collect()
    }

    /// What a device of a stack names, which need not be there yet.
    fn of_device(path: &Path) -> Result<Place, PlaceError> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match path.exists() {
            true => Place::of(path),
            false => Place::of(folder).map(|place| Place {
                named: path.display().to_string(),
                medium: Some(Medium::NotYet),
                ..place
            }),
        }
    }

    /// Looks at what a path is. A file stands for its directory; the current directory is told by its whole path.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn of(path: &Path) -> Result<Place, PlaceError> {
        let named = path.display().to_string();
        let unseen = |error| PlaceError::Unseen(named.clone(), error);
        let real = fs::canonicalize(path).map_err(unseen)?;
        let about = fs::metadata(&real).map_err(unseen)?;
        let medium = (!about.is_dir()).then(|| Medium::There(real.clone()));
        let kind = match about.file_type() {
            kind if kind.is_dir() => PlaceKind::Folder(real.clone()),
            kind if kind.is_file() => PlaceKind::Folder(real.parent().unwrap_or(Path::new("/")).to_path_buf()),
            kind if kind.is_block_device() => PlaceKind::Device(major(about.rdev()), minor(about.rdev())),
            _ => return Err(PlaceError::Other(named)),
        };
        Ok(Place { named: if named == "." { real.display().to_string() } else { named }, kind, medium })
    }

    /// All that is found of it.
    pub fn check(&self, machine: &Machine) -> Vec<Finding> {
        let mut found = match &self.kind {
            PlaceKind::Folder(folder) => {
                let mut found = trials::check(folder);
                found.push(beneath::of_folder(machine, folder));
                found.push(space(folder));
                found
            }
            PlaceKind::Device(major, minor) => beneath::of_device(machine, &format!("{major}:{minor}"), &self.named),
        };
        found.extend(self.medium.as_ref().map(|medium| match medium {
            Medium::There(path) => format::check(path),
            Medium::NotYet => format::absent(),
        }));
        found.into_iter().map(|finding| finding.at(&self.named)).collect()
    }
}

/// The stack that an argument is, or that its file holds; `None` if it names something else.
fn stack(named: &str) -> Result<Option<Spec>, Failure> {
    let (file, text) = (Path::new(named), StackText::of(named.to_string()));
    if !file.exists() && text.file().is_none() {
        return Ok(Some(Spec::parse(text.name(), &text.read()?)?));
    }
    let is_short = file.metadata().is_ok_and(|found| found.is_file() && found.len() <= STACK_BYTES_MAX);
    let spec =
        is_short.then(|| fs::read_to_string(file).ok().and_then(|text| Spec::parse(named, &text).ok())).flatten();
    // Files of settings look alike: a stack names a kind that is known.
    let is_known = |kind: &str| esker_kinds::ALL.iter().any(|known| known.name == kind);
    Ok(spec.filter(|spec| spec.devices.iter().any(|device| is_known(&device.kind))))
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
        assert_eq!(checks, ["direct I/O", "reflink", "write cache", "free space", "format"]);
        assert!(found.iter().all(|found| found.path.as_deref() == file.to_str()), "{found:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_stack_stands_for_the_files_of_its_devices() {
        let folder = tempfile::tempdir().unwrap();
        let [there, later, file] = ["a.img", "b.img", "stack.toml"].map(|name| folder.path().join(name));
        fs::write(&there, "x").unwrap();
        let text = format!(
            "a = file path={}; b = file path={} size=1MiB; m = memory size=1MiB; v = mirror on a, b @",
            there.display(),
            later.display()
        );
        fs::write(&file, &text).unwrap();
        for named in [text.as_str(), file.to_str().unwrap()] {
            let places = Place::all(named).unwrap();
            let found: Vec<Finding> = places.iter().flat_map(|place| place.check(&Made::of(&[]))).collect();
            let formats = found.iter().filter(|found| found.check == "format");
            let told: Vec<(Option<&str>, &str)> =
                formats.map(|found| (found.path.as_deref(), found.found.as_str())).collect();
            let nothing = "holds nothing that `esker check` or a mount knows";
            assert_eq!(told, [(there.to_str(), nothing), (later.to_str(), "is not there yet")]);
        }
        let names = |named: &str| Place::all(named).unwrap().into_iter().map(|place| place.named).collect::<Vec<_>>();
        assert_eq!(names(there.to_str().unwrap()), [there.to_str().unwrap()]);
        assert!(matches!(Place::all("v = ="), Err(Failure::Error(_))), "a text that is wrong is told");
        let settings = folder.path().join("settings");
        fs::write(&settings, "colour = blue\n").unwrap();
        assert_eq!(names(settings.to_str().unwrap()), [settings.to_str().unwrap()]);
        let gone = format!("a = file path={}/none/a.img size=1MiB @", folder.path().display());
        assert!(matches!(Place::all(&gone), Err(Failure::Usage(text)) if text.contains("/none: No such file")));
    }

    #[test]
    fn little_room_is_a_note() {
        assert_eq!([room(2 << 30, 1 << 40), room(0, 0)].map(|found| found.state), [State::Ok; 2]);
        let little = room(5 << 20, 1 << 40);
        assert!(little.state == State::Note && little.found.starts_with("5.0 MiB of 1.0 TiB"), "{little:?}");
        assert_eq!(space(Path::new("/no/such/path")).state, State::Note);
    }
}
