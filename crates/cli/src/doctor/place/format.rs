//! What stands on a medium: the format and its version, and whether this program reads it.

use std::io;
use std::path::Path;

use esker_block::{MediaCheck, ReadMedium};
use esker_framing::{SLOT, Superblock as _, slots, version_told};
use esker_fs_lfs::format::LfsSuperblock;
use esker_keyslots::KeySlots;

use super::super::finding::{Finding, Subject};
use crate::media::{ReadFile, checker};

const FORMAT: Subject = Subject { check: "format", verbs: &["serve", "attach", "mount", "check"] };
/// Where the superblock of NILFS2 lies, and its bytes.
const NILFS2: (u64, usize) = (1024, 1024);

/// What a file or block device holds.
pub fn check(medium: &Path) -> Finding {
    match ReadFile::open(medium).and_then(|file| judged(&file)) {
        Ok(finding) => finding,
        Err(error) => FORMAT.note(format!("unknown: {error}"), "run this command as a user that may read it"),
    }
}

/// What is said of a file that a stack names and nothing has made yet.
pub fn absent() -> Finding {
    FORMAT.ok("is not there yet")
}

fn judged(file: &ReadFile) -> io::Result<Finding> {
    if let Some(check) = checker(file)? {
        return Ok(of_layer(file, check));
    }
    if let Some(version) = version_told(&start(file), &KeySlots::MAGIC) {
        return Ok(compared("key slots", version.into(), KeySlots::VERSION.into()));
    }
    let mut bytes = vec![0; NILFS2.1];
    let lfs = file.read_at(NILFS2.0, &mut bytes).ok().and_then(|()| LfsSuperblock::parse(&bytes).ok());
    Ok(match lfs {
        Some(lfs) => compared("file systems of lfs (NILFS2)", lfs.revision, LfsSuperblock::REVISION),
        None => FORMAT.ok("holds nothing that `esker check` or a mount knows"),
    })
}

/// The bytes of the two slots with which most media begin, as far as they are there.
fn start(file: &ReadFile) -> Vec<u8> {
    let mut start = vec![0; file.size().min(2 * SLOT as u64) as usize];
    let is_read = file.read_at(0, &mut start).is_ok();
    if is_read { start } else { Vec::new() }
}

fn of_layer(file: &ReadFile, check: MediaCheck) -> Finding {
    let start = start(file);
    let told = |(magic, version): &([u8; 8], u16)| {
        let found = slots(&start).into_iter().find_map(|slot| version_told(slot, magic))?;
        Some((u32::from(found), u32::from(*version)))
    };
    match check.formats.iter().find_map(told) {
        Some((found, read)) => compared(check.media, found, read),
        None => FORMAT.note(
            format!("that of {}, of unknown version: no superblock is where it begins", check.media),
            "esker check tells what is damaged",
        ),
    }
}

/// By the version that was found, and the one that is read.
fn compared(media: &str, found: u32, read: u32) -> Finding {
    let said = format!("that of {media}, version {found}");
    match found.cmp(&read) {
        std::cmp::Ordering::Equal => FORMAT.ok(format!("{said}, which this esker reads")),
        std::cmp::Ordering::Less => FORMAT.missing(
            format!("{said}; this esker reads version {read}"),
            "move the data to a new medium with the esker that wrote it",
        ),
        std::cmp::Ordering::Greater => {
            FORMAT.missing(format!("{said}; this esker reads version {read}"), "use a newer esker")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use esker_base::units::MIB;
    use esker_framing::superblock::reseal;
    use esker_layer_mirror::superblock::Superblock;

    use super::super::super::finding::State;
    use super::*;

    /// What is found of these bytes.
    fn found(bytes: &[u8]) -> Finding {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        check(file.path())
    }

    fn member() -> Vec<u8> {
        let superblock = Superblock::new(9, 2, 64 << 10, 4096);
        [superblock.encode(0), vec![0; MIB as usize]].concat()
    }

    #[test]
    fn the_version_that_is_written_is_read_and_others_are_told_with_what_helps() {
        let of = |version: u16| {
            let mut member = member();
            member[8..10].copy_from_slice(&version.to_le_bytes());
            let length = usize::from(u16::from_le_bytes([member[10], member[11]]));
            reseal(&mut member[..length]);
            found(&member)
        };
        let ours = found(&member());
        assert_eq!(
            (ours.state, ours.found.as_str()),
            (State::Ok, "that of members of mirrors, version 2, which this esker reads")
        );
        let [older, newer] = [of(1), of(9)];
        assert_eq!((older.state, newer.state), (State::Missing, State::Missing));
        assert_eq!(older.found, "that of members of mirrors, version 1; this esker reads version 2");
        assert!(
            older.advice.unwrap().contains("the esker that wrote it") && newer.advice.unwrap() == "use a newer esker"
        );
    }

    #[test]
    fn what_no_layer_marked_is_told_as_such() {
        for bytes in [&b"text"[..], &[0; 70_000], &[]] {
            assert_eq!(found(bytes).found, "holds nothing that `esker check` or a mount knows");
        }
        assert_eq!(check(Path::new("/no/such/path")).state, State::Note);
    }
}
