//! Trials in a folder, on files without a name: direct I/O, and clones of files.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{AtFlags, OFlags, StatxFlags};

use super::super::finding::{Finding, Subject};

const DIRECT: Subject = Subject { check: "direct I/O", verbs: &["serve", "attach", "init", "calibrate"] };
const CLONES: Subject = Subject { check: "reflink", verbs: &["freeze", "trace prepare", "trace replay"] };

/// Alignment where the kernel does not tell it, in bytes: that of devices of kind `file`.
const ALIGNMENT_UNKNOWN: usize = 4096;
/// Bytes of a file that is cloned: blocks of any file system divide it.
const CLONED: usize = 64 << 10;

pub fn check(folder: &Path) -> Vec<Finding> {
    let new = || tempfile::tempfile_in(folder);
    match new() {
        Ok(file) => vec![direct(try_direct(&file)), clones(new().and_then(|other| try_clone(file, &other)))],
        Err(error) => vec![untried(&DIRECT, &error), untried(&CLONES, &error)],
    }
}

fn untried(subject: &Subject, error: &io::Error) -> Finding {
    subject.note(format!("unknown: no file can be made there: {error}"), "name a directory that this user may write")
}

/// Writes a block past the page cache. Returns what the kernel says of the alignment, in bytes.
fn try_direct(file: &File) -> io::Result<Option<usize>> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT)?;
    let told = alignment(file);
    let bytes = told.unwrap_or(ALIGNMENT_UNKNOWN);
    let room = vec![0; 2 * bytes];
    let start = room.as_ptr().align_offset(bytes);
    let block = room.get(start..start.saturating_add(bytes)).ok_or(io::ErrorKind::Unsupported)?;
    file.write_all_at(block, 0)?;
    rustix::fs::fcntl_setfl(file, flags)?;
    Ok(told)
}

/// What offsets and memory must be multiples of, where the kernel tells it: a power of two, in bytes.
fn alignment(file: &File) -> Option<usize> {
    let stat = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let told = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN);
    let bytes = stat.stx_dio_offset_align.max(stat.stx_dio_mem_align) as usize;
    (told && bytes.is_power_of_two()).then_some(bytes)
}

fn direct(tried: io::Result<Option<usize>>) -> Finding {
    match tried {
        Ok(Some(bytes)) => DIRECT.ok(format!("works, in blocks of {bytes} bytes")),
        Ok(None) => DIRECT.ok(format!("works; its alignment is not told, so stacks take {ALIGNMENT_UNKNOWN} bytes")),
        Err(error) => DIRECT.note(
            format!("is refused: {error}"),
            "set direct = false on devices of kind file there, or name a directory on ext4, XFS or btrfs",
        ),
    }
}

fn try_clone(mut file: File, other: &File) -> io::Result<()> {
    file.write_all(&[7; CLONED])?;
    Ok(rustix::fs::ioctl_ficlone(other, &file)?)
}

fn clones(tried: io::Result<()>) -> Finding {
    match tried {
        Ok(()) => CLONES.ok("files can be cloned (cp --reflink)"),
        Err(error) => CLONES.note(
            format!("files cannot be cloned: {error}; snapshots of media are copies"),
            "keep images on XFS or btrfs, or leave --reflink=always out",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::finding::State;
    use super::*;

    #[test]
    fn what_a_file_system_refuses_is_told_with_what_to_do() {
        let refused = || io::Error::from(io::ErrorKind::InvalidInput);
        let found = direct(Err(refused()));
        assert!(found.state == State::Note && found.advice.unwrap().contains("direct = false"));
        assert_eq!(direct(Ok(Some(512))).found, "works, in blocks of 512 bytes");
        assert_eq!(direct(Ok(None)).state, State::Ok);
        let found = clones(Err(refused()));
        assert!(found.state == State::Note && found.advice.unwrap().contains("XFS"));
        assert_eq!(clones(Ok(())).state, State::Ok);
    }

    #[test]
    fn a_folder_in_which_nothing_can_be_made_is_told_once_for_each_trial() {
        let found = check(Path::new("/proc/self"));
        assert!(found.len() == 2 && found.iter().all(|found| found.state == State::Note), "{found:?}");
        assert!(found[0].found.contains("no file can be made there"), "{found:?}");
    }

    #[test]
    fn a_trial_has_one_outcome_each_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let found = check(folder.path());
        assert_eq!(found.iter().map(|found| found.check).collect::<Vec<_>>(), ["direct I/O", "reflink"]);
        assert!(found.iter().all(|found| found.state != State::Missing), "{found:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
