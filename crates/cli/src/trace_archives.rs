//! Archives of block traces: the parts of one trace, or one file; what else they hold is named in the refusal.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use esker_base::codec::Reader;
use esker_trace_block::unpacked;
use tar::{Archive, Entry};

use crate::trace_files::{NamedFile, part_number, without_packing};

/// Endings of archives, before that of a packing.
const ARCHIVES: [&str; 5] = [".tar", ".tgz", ".txz", ".tbz2", ".tzst"];

/// How files beside traces begin or end: they are passed over.
const BESIDE: [&str; 6] = ["readme", "license", "licence", "copying", "copyright", "octf.summary"];

/// Names in a message; of others, the number is told.
const NAMED_MAX: usize = 3;

/// Whether a file with this name is an archive that is looked into.
pub fn is_archive(name: &str) -> bool {
    let bare = without_packing(name);
    ARCHIVES.iter().any(|ending| bare.ends_with(ending))
}

/// The files of the trace in the archive at `path`: of `member` (a folder or file in it) if it is given, else the parts
/// of its only trace, or its only file. They are unpacked into scratch files that vanish.
///
/// # Errors
/// What the system refuses, and an archive that holds no trace or several.
pub fn open(path: &str, member: Option<&str>) -> io::Result<Vec<NamedFile>> {
    let input = unpacked(path, Box::new(File::open(path)?)).map_err(io::Error::other)?;
    let mut archive = Archive::new(input);
    let mut found = ArchiveContent::default();
    for entry in archive.entries()? {
        let mut entry = entry?;
        if entry.header().entry_type().is_file() {
            let name = entry.path()?.to_string_lossy().into_owned();
            let name = name.strip_prefix("./").unwrap_or(&name);
            match member.map(|member| member.trim_end_matches('/')) {
                None => found.add(name, &mut entry)?,
                Some(member) => found.add_member(name, member, &mut entry)?,
            }
        }
    }
    found.parts(path, member)
}

/// Names of files, for messages: the first ones, and how many there are.
#[derive(Default)]
pub struct Names {
    first: Vec<String>,
    count: usize,
}

impl Names {
    fn add(&mut self, name: String) {
        self.count += 1;
        if self.first.len() < NAMED_MAX {
            self.first.push(name.replace(char::is_control, "?"));
        }
    }
}

impl FromIterator<String> for Names {
    fn from_iter<I: IntoIterator<Item = String>>(names: I) -> Names {
        let mut all = Names::default();
        names.into_iter().for_each(|name| all.add(name));
        all
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.first.join(", "))?;
        match self.count - self.first.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// What an archive holds, as far as it was read.
#[derive(Default)]
struct ArchiveContent {
    /// The folders that hold parts of traces.
    folders: BTreeSet<String>,
    /// The parts in the first of them.
    parts: Vec<NamedFile>,
    /// The other files; the first one was unpacked.
    files: Names,
    file: Option<NamedFile>,
}

/// The folder and the last part of a path.
fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}

impl ArchiveContent {
    fn add(&mut self, name: &str, entry: &mut Entry<'_, impl Read>) -> io::Result<()> {
        let (folder, base) = split(name);
        let lower = base.to_ascii_lowercase();
        if part_number(base).is_some() {
            // Of several traces none will be read.
            if self.folders.is_empty() || self.folders.contains(folder) && self.folders.len() == 1 {
                self.parts.push((base.to_string(), scratch(entry)?));
            }
            self.folders.insert(folder.to_string());
        } else if !base.starts_with('.') && !BESIDE.iter().any(|word| lower.starts_with(word)) {
            if self.files.count == 0 && self.folders.is_empty() {
                self.file = Some((base.to_string(), scratch(entry)?));
            }
            self.files.add(name.to_string());
        }
        Ok(())
    }

    fn add_member(&mut self, name: &str, member: &str, entry: &mut Entry<'_, impl Read>) -> io::Result<()> {
        let (folder, base) = split(name);
        if name == member || folder == member && part_number(base).is_some() {
            self.folders.insert(folder.to_string());
            self.parts.push((base.to_string(), scratch(entry)?));
        }
        Ok(())
    }

    fn parts(mut self, path: &str, member: Option<&str>) -> io::Result<Vec<NamedFile>> {
        self.parts.sort_by_key(|(name, _)| part_number(name).map(|(_, number)| number));
        let (folders, files) = (Names::from_iter(self.folders), self.files);
        let why = match (folders.count, files.count, member) {
            (1, ..) => return Ok(self.parts),
            (0, 1, _) => return Ok(self.file.into_iter().collect()),
            (0, _, Some(member)) => format!("holds no trace {member}"),
            (0, 0, None) => "holds no file that could be a trace".to_string(),
            (0, ..) => {
                format!("holds several files, {files}; unpack it and name one or several, or one as {path}:FILE")
            }
            _ => format!("holds several traces, in {folders}; name one as {path}:FOLDER"),
        };
        Err(io::Error::other(why))
    }
}

/// A file without a name that holds what `input` yields.
fn scratch(input: &mut impl Read) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    io::copy(input, &mut file)?;
    file.rewind()?;
    Ok(file)
}

/// How a zip archive begins, how an entry of its directory does, and the directory's end.
const ZIP: &[u8] = b"PK\x03\x04";
const ZIP_ENTRY: u32 = u32::from_le_bytes(*b"PK\x01\x02");
const ZIP_END: &[u8] = b"PK\x05\x06";

/// The end of a zip archive's directory: its fixed part, and with the longest comment.
const ZIP_END_BYTES: usize = 22;
const ZIP_TAIL_MAX: u64 = (64 << 10) + ZIP_END_BYTES as u64;

/// The most that is read of a directory.
const ZIP_DIRECTORY_MAX: u64 = 1 << 20;

/// That `file` is no zip archive; its place is at the beginning afterwards.
///
/// # Errors
/// What the system refuses, and a zip archive, with the names of its files.
pub fn refuse_zip(file: &mut File) -> io::Result<()> {
    let mut mark = Vec::new();
    file.by_ref().take(ZIP.len() as u64).read_to_end(&mut mark)?;
    file.rewind()?;
    if mark != ZIP {
        return Ok(());
    }
    let names = zip_names(file)?;
    let of = if names.count == 0 { String::new() } else { format!(" of {names}") };
    let which = if names.count > 1 { "name one or several of its files" } else { "name the file in it" };
    Err(io::Error::other(format!("is a zip archive{of}; unpack it and {which}")))
}

/// The names in the directory of a zip archive, as far as it can be read.
fn zip_names(file: &mut File) -> io::Result<Names> {
    let len = file.seek(SeekFrom::End(0))?;
    let tail = bytes_at(file, len.saturating_sub(ZIP_TAIL_MAX), ZIP_TAIL_MAX)?;
    let end = tail.windows(ZIP_END.len()).rposition(|window| window == ZIP_END);
    let Some((at, size)) = end.and_then(|end| zip_directory(&tail[end..])) else { return Ok(Names::default()) };
    let directory = bytes_at(file, at, size.min(ZIP_DIRECTORY_MAX))?;
    let mut reader = Reader::new(&directory);
    Ok(std::iter::from_fn(|| zip_entry(&mut reader)).filter(|name| !name.ends_with('/')).collect())
}

/// Offset and length of the directory, by its end.
fn zip_directory(end: &[u8]) -> Option<(u64, u64)> {
    let mut reader = Reader::new(end);
    reader.take(12).ok()?;
    let (size, at) = (reader.le_u32().ok()?, reader.le_u32().ok()?);
    Some((u64::from(at), u64::from(size)))
}

/// The name of the next entry, or `None` at the end of the directory.
fn zip_entry(reader: &mut Reader<'_>) -> Option<String> {
    let mark = reader.le_u32().ok()?;
    reader.take(24).ok()?;
    let [name, extra, comment] = [reader.le_u16().ok()?, reader.le_u16().ok()?, reader.le_u16().ok()?];
    reader.take(12).ok()?;
    let text = String::from_utf8_lossy(reader.take(usize::from(name)).ok()?).into_owned();
    reader.take(usize::from(extra) + usize::from(comment)).ok()?;
    (mark == ZIP_ENTRY).then_some(text)
}

fn bytes_at(file: &mut File, at: u64, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(at))?;
    file.by_ref().take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}
