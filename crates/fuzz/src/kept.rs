//! Inputs in files: what coverage-guided runs found, kept small, in `corpus/TARGET` beside this crate's sources.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::target::Target;

/// Where the inputs that are kept for `target` lie.
fn folder(target: Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name())
}

/// The inputs that are kept for `target`, by the names of their files; none if it has no folder.
///
/// # Errors
/// Its folder cannot be read.
pub fn read(target: Target) -> io::Result<Vec<Vec<u8>>> {
    let mut paths = match fs::read_dir(folder(target)) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    paths.sort();
    paths.into_iter().map(fs::read).collect()
}

/// Writes the sound and the kept inputs of `target` to a folder of its name in `dir`.
///
/// # Errors
/// A file cannot be read or written.
pub fn export(target: Target, dir: &Path) -> io::Result<()> {
    let dir = dir.join(target.name());
    fs::create_dir_all(&dir)?;
    for (nr, input) in target.corpus().into_iter().chain(read(target)?).enumerate() {
        fs::write(dir.join(format!("seed-{nr:03}")), input)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::judge;

    #[test]
    fn every_kept_input_keeps_the_promises() {
        let mut judged = 0;
        for target in Target::ALL.into_iter().filter(|target| *target != Target::Canary) {
            for (nr, input) in read(target).unwrap().iter().enumerate() {
                judge(target, input).unwrap_or_else(|what| panic!("{} input {nr}: {what}", target.name()));
                judged += 1;
            }
        }
        assert!(judged > 100, "only {judged} inputs are kept");
    }

    #[test]
    fn every_folder_of_kept_inputs_has_a_target() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        let names: Vec<String> = Target::ALL.into_iter().map(Target::name).collect();
        for entry in fs::read_dir(corpus).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(names.contains(&name), "no target is called {name}");
        }
    }

    #[test]
    fn an_export_holds_the_sound_inputs() {
        let dir = tempfile::tempdir().unwrap();
        export(Target::Canary, dir.path()).unwrap();
        assert_eq!(fs::read(dir.path().join("canary/seed-000")).unwrap(), b"a canary sings");
    }
}
