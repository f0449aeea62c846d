//! Files that are written, overwritten, appended to, cut, renamed and removed, beside a model of what they hold.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use esker_base::Stream;

use super::{Outcome, at};

/// Files at most.
const FILES: u64 = 40;
/// Bytes of a file at most, as written at once.
const WRITE_MAX: u64 = 192 << 10;
/// Bytes of a file, after which it is written anew.
const FILE_MAX: usize = 1 << 20;

/// One step.
#[derive(Debug)]
enum Step {
    Write { file: u64, at: u64, bytes: Vec<u8> },
    Cut { file: u64, len: u64 },
    Rename { from: u64, to: u64 },
    Remove { file: u64 },
    Sync { file: u64 },
}

/// The steps that a seed stands for, and what the files hold after them.
struct Plan {
    random: Stream,
    files: BTreeMap<u64, Vec<u8>>,
}

impl Plan {
    fn new(seed: u64) -> Plan {
        Plan { random: Stream::named(seed, "tree"), files: BTreeMap::new() }
    }

    fn next(&mut self) -> Step {
        let file = self.random.below(FILES);
        let len = self.files.get(&file).map_or(0, Vec::len) as u64;
        match self.random.below(16) {
            0 if len > 0 => Step::Cut { file, len: self.random.below(len + 1) },
            1 if len > 0 => Step::Rename { from: file, to: self.random.below(FILES) },
            2 if len > 0 => Step::Remove { file },
            3 | 4 if len > 0 => Step::Sync { file },
            // Beyond the end on purpose, now and then: that leaves a hole.
            5 => {
                let hole = self.random.below(64 << 10);
                self.write(file, len + hole)
            }
            6..=8 => self.write(file, len),
            _ => {
                let at = self.random.below(len + 1);
                self.write(file, at)
            }
        }
    }

    fn write(&mut self, file: u64, at: u64) -> Step {
        let at = if at as usize > FILE_MAX { 0 } else { at };
        let mut bytes = vec![0; 1 + self.random.below(WRITE_MAX) as usize];
        self.random.fill(&mut bytes);
        Step::Write { file, at, bytes }
    }

    /// Notes what `step` does.
    fn note(&mut self, step: &Step) {
        match step {
            Step::Write { file, at, bytes } => {
                let content = self.files.entry(*file).or_default();
                let (at, end) = (*at as usize, *at as usize + bytes.len());
                content.resize(content.len().max(end), 0);
                content[at..end].copy_from_slice(bytes);
            }
            Step::Cut { file, len } => self.files.entry(*file).or_default().truncate(*len as usize),
            Step::Rename { from, to } => {
                let content = self.files.remove(from).unwrap_or_default();
                self.files.insert(*to, content);
            }
            Step::Remove { file } => drop(self.files.remove(file)),
            Step::Sync { .. } => {}
        }
    }
}

fn path(dir: &Path, file: u64) -> PathBuf {
    dir.join(format!("d{}", file % 4)).join(format!("f{file}"))
}

fn perform(dir: &Path, step: &Step) -> std::io::Result<()> {
    let open = |file: u64| OpenOptions::new().create(true).truncate(false).write(true).open(path(dir, file));
    match step {
        Step::Write { file, at, bytes } => open(*file)?.write_all_at(bytes, *at),
        Step::Cut { file, len } => open(*file)?.set_len(*len),
        Step::Rename { from, to } => fs::rename(path(dir, *from), path(dir, *to)),
        Step::Remove { file } => fs::remove_file(path(dir, *file)),
        Step::Sync { file } => File::open(path(dir, *file))?.sync_all(),
    }
}

/// Makes `steps` steps in the new directory `dir`, and syncs every file and directory.
///
/// # Errors
/// The system's, with the step.
pub fn write(dir: &Path, seed: u64, steps: u64, progress: &mut dyn FnMut(u64)) -> Outcome<()> {
    for part in 0..4 {
        let part = dir.join(format!("d{part}"));
        fs::create_dir_all(&part).map_err(at(part.display()))?;
    }
    let mut plan = Plan::new(seed);
    for number in 1..=steps {
        let step = plan.next();
        perform(dir, &step).map_err(|error| format!("{}, step {number}: {error}", dir.display()))?;
        plan.note(&step);
        progress(number);
    }
    for file in plan.files.keys() {
        File::open(path(dir, *file)).and_then(|file| file.sync_all()).map_err(at(dir.display()))?;
    }
    for part in (0..4).map(|part| dir.join(format!("d{part}"))).chain([dir.to_path_buf()]) {
        File::open(&part).and_then(|part| part.sync_all()).map_err(at(part.display()))?;
    }
    Ok(())
}

/// Compares what [`write`] wrote: the same files, nothing more, byte for byte. Gives the bytes that were compared.
///
/// # Errors
/// The first difference, or the system's.
pub fn verify(dir: &Path, seed: u64, steps: u64) -> Outcome<u64> {
    let mut plan = Plan::new(seed);
    for _ in 0..steps {
        let step = plan.next();
        plan.note(&step);
    }
    let mut expected = plan.files;
    let mut compared = 0;
    for part in 0..4 {
        let part = dir.join(format!("d{part}"));
        for entry in fs::read_dir(&part).map_err(at(part.display()))? {
            let found = entry.map_err(at(part.display()))?.path();
            let name = found.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let number = name.strip_prefix('f').and_then(|number| number.parse::<u64>().ok());
            let content = number.and_then(|number| expected.remove(&number));
            let content = content.ok_or_else(|| format!("{}: should not be there", found.display()))?;
            let bytes = fs::read(&found).map_err(at(found.display()))?;
            if bytes != content {
                return Err(difference(&found, &bytes, &content));
            }
            compared += bytes.len() as u64;
        }
    }
    match expected.keys().next() {
        Some(lost) => Err(format!("{}: is lost", path(dir, *lost).display())),
        None => Ok(compared),
    }
}

fn difference(path: &Path, found: &[u8], expected: &[u8]) -> String {
    let first = found.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(found.len().min(expected.len()));
    let (has, should) = (found.len(), expected.len());
    format!("{}: {has} bytes, {should} expected; the first difference is at byte {first}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_verified_and_every_damage_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), 5, 200, &mut |_| {}).unwrap();
        assert!(verify(dir.path(), 5, 200).unwrap() > 1 << 20);
        assert!(verify(dir.path(), 6, 200).is_err());
        let some = fs::read_dir(dir.path().join("d1")).unwrap().next().unwrap().unwrap().path();
        let content = fs::read(&some).unwrap();
        let mut changed = content.clone();
        changed[content.len() / 2] ^= 1;
        fs::write(&some, changed).unwrap();
        let told = verify(dir.path(), 5, 200).unwrap_err();
        assert!(told.contains(&format!("byte {}", content.len() / 2)), "{told}");
        fs::remove_file(&some).unwrap();
        assert!(verify(dir.path(), 5, 200).unwrap_err().contains("is lost"));
        fs::write(&some, content).unwrap();
        fs::write(dir.path().join("d1/stray"), b"x").unwrap();
        assert!(verify(dir.path(), 5, 200).unwrap_err().contains("should not be there"));
    }
}
