//! The files of a block trace: one, those of all CPUs, a folder of them, or an archive.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::Path;

use esker_blktrace::unpacked;
use tar::Archive;

/// How the files of traces with one for each CPU or queue are called before their number.
const PART_NAMES: [&str; 2] = [".blktrace.", "octf.trace."];

/// Endings of packed files.
const PACKINGS: [&str; 4] = [".gz", ".xz", ".bz2", ".zst"];

/// Endings of archives, before that of a packing.
const ARCHIVES: [&str; 5] = [".tar", ".tgz", ".txz", ".tbz2", ".tzst"];

/// One file, and its name in messages.
pub type Part = (String, File);

/// The files of the trace at `path`: those of a folder, the file's siblings for other CPUs, the files in an archive
/// (unpacked into scratch files that vanish), or just the file.
///
/// # Errors
/// What the system refuses, and an archive or folder without a trace.
pub fn open(path: &str) -> io::Result<Vec<Part>> {
    if fs::metadata(path)?.is_dir() {
        return some(in_folder(Path::new(path), |_| true)?);
    }
    let bare = without_packing(path);
    if ARCHIVES.iter().any(|ending| bare.ends_with(ending)) {
        return some(in_archive(path)?);
    }
    let name = Path::new(path).file_name().and_then(|n| n.to_str()).unwrap_or_default();
    match part_number(name) {
        Some((stem, _)) if name.contains(".blktrace.") => {
            let folder = Path::new(path).parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            some(in_folder(folder, |other| part_number(other).is_some_and(|(s, _)| s == stem))?)
        }
        _ => Ok(vec![(path.to_string(), File::open(path)?)]),
    }
}

fn some(parts: Vec<Part>) -> io::Result<Vec<Part>> {
    let none = "holds no file called NAME.blktrace.CPU or octf.trace.QUEUE; give a trace";
    if parts.is_empty() { Err(io::Error::other(none)) } else { Ok(parts) }
}

fn without_packing(name: &str) -> &str {
    PACKINGS.iter().find_map(|packing| name.strip_suffix(packing)).unwrap_or(name)
}

/// What the parts of a trace have in common in their names, and the number of this one.
fn part_number(name: &str) -> Option<(&str, u32)> {
    let (stem, number) = without_packing(name).rsplit_once('.')?;
    let is_part = PART_NAMES.iter().any(|part| name.contains(part));
    Some((stem, number.parse().ok()?)).filter(|_| is_part)
}

/// The parts in a folder, in order of their numbers.
fn in_folder(folder: &Path, wanted: impl Fn(&str) -> bool) -> io::Result<Vec<Part>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some((_, number)) = part_number(&name).filter(|_| wanted(&name)) {
            found.push((number, name, entry.path()));
        }
    }
    found.sort();
    found.into_iter().map(|(_, name, path)| Ok((name, File::open(path)?))).collect()
}

/// The files in an archive: the parts of a trace if it holds any, else its only file.
fn in_archive(path: &str) -> io::Result<Vec<Part>> {
    let input = unpacked(path, Box::new(File::open(path)?)).map_err(io::Error::other)?;
    let mut found = Vec::new();
    for entry in Archive::new(input).entries()? {
        let mut entry = entry?;
        let name = entry.path()?.to_string_lossy().into_owned();
        let base = name.rsplit('/').next().unwrap_or(&name).to_string();
        if entry.header().entry_type().is_file() && (part_number(&base).is_some() || found.is_empty()) {
            found.push((base, scratch(&mut entry)?));
        }
    }
    if found.iter().any(|(name, _)| part_number(name).is_some()) {
        found.retain(|(name, _)| part_number(name).is_some());
    }
    Ok(found)
}

/// A file without a name that holds what `input` yields.
fn scratch(input: &mut impl Read) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    io::copy(input, &mut file)?;
    file.rewind()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_known_by_their_names() {
        assert_eq!(part_number("sda.blktrace.3"), Some(("sda.blktrace", 3)));
        assert_eq!(part_number("octf.trace.10.zst"), Some(("octf.trace", 10)));
        assert_eq!(part_number("octf.summary"), None);
        assert_eq!(part_number("web.load.1"), None);
    }

    #[test]
    fn an_archive_gives_its_parts_or_its_only_file() {
        let folder = tempfile::tempdir().expect("scratch");
        let path = folder.path().join("t.tar");
        let archive = |files: &[(&str, &str)]| {
            let mut builder = tar::Builder::new(File::create(&path).expect("scratch"));
            for (name, text) in files {
                let mut header = tar::Header::new_gnu();
                header.set_size(text.len() as u64);
                header.set_mode(0o644);
                builder.append_data(&mut header, name, text.as_bytes()).expect("scratch");
            }
            builder.finish().expect("scratch");
            open(path.to_str().expect("a plain name")).map(|parts| {
                let read = |(name, mut file): Part| {
                    let mut text = String::new();
                    file.read_to_string(&mut text).expect("scratch");
                    format!("{name}={text}")
                };
                parts.into_iter().map(read).collect::<Vec<_>>()
            })
        };
        let parts = [("d/octf.summary", "{}"), ("d/octf.trace.0", "a"), ("d/octf.trace.1", "b")];
        assert_eq!(archive(&parts).expect("parts"), ["octf.trace.0=a", "octf.trace.1=b"]);
        assert_eq!(archive(&[("2018100101", "csv")]).expect("a file"), ["2018100101=csv"]);
        assert!(archive(&[]).expect_err("nothing").to_string().contains("holds no file"));
    }
}
