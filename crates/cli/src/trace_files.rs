//! The files of a block trace: one, those of all CPUs, a folder of them, or an archive.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::trace_archives::{self, Names, is_archive};

/// How files of traces with one for each CPU or queue are called before their number.
const PART_NAMES: [&str; 2] = [".blktrace.", "octf.trace."];

/// Endings of packed files.
const PACKINGS: [&str; 4] = [".gz", ".xz", ".bz2", ".zst"];

/// Folders below the one that was named that are looked into.
const DEPTH_MAX: usize = 2;

/// One file, and its name in messages.
pub type NamedFile = (String, File);

/// The files of the trace at `path`: those of a folder, the file's siblings for other CPUs, the files in an archive
/// (unpacked into scratch files that vanish), or just the file. `ARCHIVE:NAME` is a folder or file in an archive.
///
/// # Errors
/// What the system refuses, and an archive or folder that holds no trace or several.
pub fn open(path: &str) -> io::Result<Vec<NamedFile>> {
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(e) => {
            let member = path.split_once(':').filter(|(archive, _)| is_archive(archive) && Path::new(archive).exists());
            return member.map_or(Err(e), |(archive, member)| trace_archives::open(archive, Some(member)));
        }
    };
    if meta.is_dir() {
        return in_folder(Path::new(path));
    }
    if is_archive(path) {
        return trace_archives::open(path, None);
    }
    let name = Path::new(path).file_name().and_then(|n| n.to_str()).unwrap_or_default();
    match part_number(name) {
        Some((stem, _)) if name.contains(".blktrace.") => {
            let folder = Path::new(path).parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            opened(parts_in(folder, |other| part_number(other).is_some_and(|(s, _)| s == stem))?)
        }
        _ => {
            let mut file = File::open(path)?;
            // Of a pipe, nothing may be taken.
            if meta.is_file() {
                trace_archives::refuse_zip(&mut file)?;
            }
            Ok(vec![(path.to_string(), file)])
        }
    }
}

/// The name of a file before it was packed.
pub fn without_packing(name: &str) -> &str {
    PACKINGS.iter().find_map(|packing| name.strip_suffix(packing)).unwrap_or(name)
}

/// What the parts of a trace have in common in their names, and the number of this one.
pub fn part_number(name: &str) -> Option<(&str, u32)> {
    let (stem, number) = without_packing(name).rsplit_once('.')?;
    let is_part = PART_NAMES.iter().any(|part| name.contains(part));
    Some((stem, number.parse().ok()?)).filter(|_| is_part)
}

/// A part by its number, its name and where it is.
type NumberedFile = (u32, String, PathBuf);

/// The parts of the trace in a folder, or of the only one in the folders below it.
fn in_folder(folder: &Path) -> io::Result<Vec<NamedFile>> {
    let mut traces = BTreeMap::new();
    search(folder, DEPTH_MAX, &mut traces)?;
    let names: Names = traces.keys().map(|folder| folder.display().to_string()).collect();
    let mut traces = traces.into_values();
    match (traces.next(), traces.next()) {
        (Some(parts), None) => opened(parts),
        (None, _) => {
            let none = "holds no file called NAME.blktrace.CPU or octf.trace.QUEUE; name a trace, or a file in it";
            Err(io::Error::other(none))
        }
        _ => Err(io::Error::other(format!("holds several traces, in {names}; name one or several of these folders"))),
    }
}

/// Finds the folders that hold parts, each with its parts; below such a folder nothing is looked for.
fn search(folder: &Path, depth: usize, traces: &mut BTreeMap<PathBuf, Vec<NumberedFile>>) -> io::Result<()> {
    let parts = parts_in(folder, |_| true)?;
    if !parts.is_empty() {
        traces.insert(folder.to_path_buf(), parts);
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A link may lead back.
        if depth > 0 && entry.file_type()?.is_dir() {
            search(&entry.path(), depth - 1, traces)?;
        }
    }
    Ok(())
}

/// The parts in a folder, in order of their numbers.
fn parts_in(folder: &Path, wanted: impl Fn(&str) -> bool) -> io::Result<Vec<NumberedFile>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some((_, number)) = part_number(&name).filter(|_| wanted(&name)) {
            found.push((number, name, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

fn opened(parts: Vec<NumberedFile>) -> io::Result<Vec<NamedFile>> {
    parts.into_iter().map(|(_, name, path)| Ok((name, File::open(path)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// The files of a trace as `NAME=TEXT`, or the refusal.
    fn texts(path: &Path) -> Result<Vec<String>, String> {
        let read = |(name, mut file): NamedFile| {
            let mut text = String::new();
            file.read_to_string(&mut text).expect("scratch");
            format!("{name}={text}")
        };
        let parts = open(path.to_str().expect("a plain name")).map_err(|e| e.to_string())?;
        Ok(parts.into_iter().map(read).collect())
    }

    fn tar(path: &Path, files: &[(&str, &str)]) {
        let mut builder = tar::Builder::new(File::create(path).expect("scratch"));
        for (name, text) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, name, text.as_bytes()).expect("scratch");
        }
        builder.finish().expect("scratch");
    }

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
            tar(&path, files);
            texts(&path)
        };
        let parts = [("d/octf.summary", "{}"), ("d/octf.trace.10", "b"), ("d/octf.trace.9", "a")];
        assert_eq!(archive(&parts), Ok(vec!["octf.trace.9=a".into(), "octf.trace.10=b".into()]));
        assert_eq!(archive(&[("2018100101", "csv")]), Ok(vec!["2018100101=csv".into()]));
        assert_eq!(archive(&[("README.md", "x"), ("a.csv", "y"), ("._a.csv", "")]), Ok(vec!["a.csv=y".into()]));
        assert_eq!(archive(&[]), Err("holds no file that could be a trace".into()));
    }

    #[test]
    fn an_archive_of_several_files_is_refused_by_their_names_and_one_can_be_chosen() {
        let folder = tempfile::tempdir().expect("scratch");
        let path = folder.path().join("t.tar");
        tar(&path, &[("a.csv", "1"), ("d/b.csv", "2"), ("c.csv", "3"), ("e\n.csv", "4"), ("f.csv", "5")]);
        let name = path.display();
        let expected = format!(
            "holds several files, a.csv, d/b.csv, c.csv and 2 more; unpack it and name one or several, or one as {name}:FILE"
        );
        assert_eq!(texts(&path), Err(expected));
        let member = |member: &str| texts(Path::new(&format!("{name}:{member}")));
        assert_eq!(member("d/b.csv"), Ok(vec!["b.csv=2".into()]));
        assert_eq!(member("b.csv"), Err("holds no trace b.csv".into()));
        assert!(texts(&folder.path().join("none.tar:a.csv")).is_err_and(|e| e.contains("No such file")));
    }

    #[test]
    fn an_archive_of_several_traces_of_parts_is_refused_by_their_folders_and_one_can_be_chosen() {
        let folder = tempfile::tempdir().expect("scratch");
        let path = folder.path().join("t.tar");
        tar(&path, &[("./x/a/octf.trace.0", "1"), ("./x/b/octf.trace.0", "2"), ("./x/a/octf.trace.1", "3")]);
        let name = path.display();
        assert_eq!(texts(&path), Err(format!("holds several traces, in x/a, x/b; name one as {name}:FOLDER")));
        let member = |member: &str| texts(Path::new(&format!("{name}:{member}")));
        assert_eq!(member("x/a/"), Ok(vec!["octf.trace.0=1".into(), "octf.trace.1=3".into()]));
        assert_eq!(member("x/b/octf.trace.0"), Ok(vec!["octf.trace.0=2".into()]));
        assert_eq!(member("x"), Err("holds no trace x".into()));
    }

    #[test]
    fn a_folder_gives_the_parts_of_the_only_trace_in_it_or_below_it() {
        let folder = tempfile::tempdir().expect("scratch");
        let put = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("below the folder")).expect("scratch");
            fs::write(path, text).expect("scratch");
        };
        assert!(texts(folder.path()).is_err_and(|e| e.starts_with("holds no file called NAME.blktrace.CPU")));
        put("run/1/sda.blktrace.0", "a");
        put("run/1/sda.blktrace.1", "b");
        put("run/notes", "c");
        assert_eq!(texts(folder.path()), Ok(vec!["sda.blktrace.0=a".into(), "sda.blktrace.1=b".into()]));
        put("run/2/sda.blktrace.0", "d");
        let e = texts(folder.path()).expect_err("two traces");
        assert!(
            e.starts_with("holds several traces, in ") && e.contains("run/1, ") && e.contains("run/2; name"),
            "{e}"
        );
    }

    #[test]
    fn a_zip_archive_is_refused_by_the_names_in_it() {
        let folder = tempfile::tempdir().expect("scratch");
        let path = folder.path().join("t.bin");
        let zip = |names: &[&str]| {
            let mut directory = Vec::new();
            for name in names {
                directory.extend_from_slice(b"PK\x01\x02");
                directory.extend_from_slice(&[0; 24]);
                directory.extend_from_slice(&(name.len() as u16).to_le_bytes());
                directory.extend_from_slice(&[0; 16]);
                directory.extend_from_slice(name.as_bytes());
            }
            let mut bytes = b"PK\x03\x04 and what is packed".to_vec();
            let at = bytes.len() as u32;
            bytes.extend_from_slice(&directory);
            bytes.extend_from_slice(b"PK\x05\x06\0\0\0\0\0\0\0\0");
            bytes.extend_from_slice(&(directory.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&at.to_le_bytes());
            bytes.extend_from_slice(&[0; 2]);
            File::create(&path).and_then(|mut file| file.write_all(&bytes)).expect("scratch");
            texts(&path).expect_err("a zip archive")
        };
        assert_eq!(zip(&["d/", "d/a.csv"]), "is a zip archive of d/a.csv; unpack it and name the file in it");
        assert_eq!(
            zip(&["a.csv", "b.csv", "c.csv", "e.csv"]),
            "is a zip archive of a.csv, b.csv, c.csv and 1 more; unpack it and name one or several of its files"
        );
        fs::write(&path, b"PK\x03\x04").expect("scratch");
        assert_eq!(texts(&path), Err("is a zip archive; unpack it and name the file in it".into()));
    }
}
