//! A tree as lines of text: what a shell in a guest tells of the same tree with `find`, `stat` and `gzip`.

use esker_base::Errno;
use esker_vfs::{Attr, Call, Cookie, Entry, FileSystem, FileType, Listing, NameBuf};

/// Files of this many bytes or more have no sum.
pub const SUMMED_BYTES: u64 = 50_000_000;
const LISTING_BYTES: usize = 64 << 10;
const READ_BYTES: u64 = 1 << 20;

/// One line for each name. It has path, mode in hexadecimal, owner, group, links, bytes, numbers of a device and
/// seconds of the last change of bytes. Last comes the target of a link, or the CRC-32 of a file. The lines are sorted.
///
/// # Errors
/// Those of the file system.
pub async fn rows(fs: &dyn FileSystem, call: Call) -> Result<Vec<String>, Errno> {
    let root = fs.pin(call, fs.root()).await?;
    let mut rows = vec![row(fs, call, ".", &root).await?];
    let mut open = vec![(".".to_string(), root)];
    while let Some((path, dir)) = open.pop() {
        for (name, entry) in entries(fs, call, &dir).await? {
            let path = format!("{path}/{}", String::from_utf8_lossy(name.name().bytes()));
            rows.push(row(fs, call, &path, &entry).await?);
            if entry.attr.kind == FileType::Directory {
                open.push((path, entry));
            } else {
                fs.forget(entry.ino, 1);
            }
        }
        fs.forget(dir.ino, 1);
    }
    rows.sort();
    Ok(rows)
}

async fn entries(fs: &dyn FileSystem, call: Call, dir: &Entry) -> Result<Vec<(NameBuf, Entry)>, Errno> {
    let (mut found, mut from) = (Vec::new(), Cookie::BEGINNING);
    let mut listing = Listing::new(LISTING_BYTES, 32, 8).with_entries();
    loop {
        listing = fs.list(call, dir.ino, from, listing).await?;
        if listing.is_empty() {
            return Ok(found);
        }
        for row in listing.rows() {
            from = row.next;
            found.push((row.name.to_buf(), row.entry.expect("this listing wants entries")));
        }
        listing.clear();
    }
}

async fn row(fs: &dyn FileSystem, call: Call, path: &str, entry: &Entry) -> Result<String, Errno> {
    let Attr { uid, gid, links, size, device, modified, .. } = entry.attr;
    let mode = kind_bits(entry.attr.kind) | entry.attr.mode;
    let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xf_ff00);
    let seconds = modified.0.div_euclid(1_000_000_000);
    let last = match entry.attr.kind {
        FileType::Symlink => String::from_utf8_lossy(&fs.target(call, entry.ino).await?).into_owned(),
        FileType::File if size < SUMMED_BYTES => sum(fs, call, entry).await?,
        _ => "-".to_string(),
    };
    Ok(format!("{path}|{mode:x}|{uid}|{gid}|{links}|{size}|{major:x}:{minor:x}|{seconds}|{last}"))
}

fn kind_bits(kind: FileType) -> u16 {
    match kind {
        FileType::Fifo => 0o010_000,
        FileType::CharDevice => 0o020_000,
        FileType::Directory => 0o040_000,
        FileType::BlockDevice => 0o060_000,
        FileType::File => 0o100_000,
        FileType::Symlink => 0o120_000,
        FileType::Socket => 0o140_000,
    }
}

/// The CRC-32 at the end of what `gzip` makes of the file, as it lies there.
async fn sum(fs: &dyn FileSystem, call: Call, entry: &Entry) -> Result<String, Errno> {
    let (mut hasher, mut at) = (crc32fast::Hasher::new(), 0);
    while at < entry.attr.size {
        let bytes = fs.read(call, entry.ino, at, READ_BYTES.min(entry.attr.size - at) as usize).await?.to_vec();
        hasher.update(&bytes);
        at += bytes.len().max(1) as u64;
    }
    Ok(hasher.finalize().to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What a guest told on its console: trees between `LIST NAME` and `END NAME`, and tables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GuestTold(pub String);

impl GuestTold {
    /// The lines between two lines that are these.
    pub fn between(&self, from: &str, to: &str) -> Vec<&str> {
        let lines = self.0.lines().map(str::trim_end);
        lines.skip_while(|line| *line != from).skip(1).take_while(|line| *line != to).collect()
    }

    /// What it told of a tree, sorted. A tree that it did not tell of has no line.
    pub fn rows(&self, which: &str) -> Vec<String> {
        let lines = self.between(&format!("LIST {which}"), &format!("END {which}"));
        let mut rows: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix("ROW ")).map(str::to_string).collect();
        rows.sort();
        rows
    }

    /// The first columns of a table between two lines.
    pub fn table(&self, from: &str, to: &str, count: usize) -> Vec<Vec<String>> {
        columns(&self.between(from, to).join("\n"), count)
    }
}

/// The first columns of a table, without its head.
pub fn columns(table: &str, count: usize) -> Vec<Vec<String>> {
    let lines = table.lines().skip(1).filter(|line| !line.trim().is_empty());
    lines.map(|line| line.split_whitespace().take(count).map(str::to_string).collect()).collect()
}
