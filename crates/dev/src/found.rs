//! Names what a file or block device holds, from samples of it, before a program overwrites it.
//!
//! Nothing here proves a device to be empty: beyond its ends only a few places are looked at. What looks empty may hold
//! data.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use esker_base::units::{KIB, MIB};

/// A file or block device and what was found on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedMedium {
    /// Its bytes.
    pub size: u64,
    /// What it holds, in words; empty if all that was looked at is zero.
    pub holds: Vec<String>,
}

/// A signature: where it lies, its bytes, whose it is.
type Signature = (u64, &'static [u8], &'static str);

/// As `libblkid` knows them.
const SIGNATURES: &[Signature] = &[
    (510, b"\x55\xaa", "a boot sector or partition table"),
    (512, b"EFI PART", "a GUID partition table"),
    (4096, b"EFI PART", "a GUID partition table"),
    (1080, b"\x53\xef", "an ext2, ext3 or ext4 file system"),
    (0, b"\x89EskMir\n", "a member of a mirror of esker"),
    (0, b"\x89EskVol\n", "a volume of esker"),
    (0, b"\x89EskDed\n", "a deduplicated volume of esker"),
    (0, b"\x89EskOff\n", "an off-loading log of esker"),
    (0, b"XFSB", "an XFS file system"),
    (65_600, b"_BHRfS_M", "a Btrfs file system"),
    (1024, b"\x10\x20\xf5\xf2", "an F2FS file system"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (54, b"FAT", "a FAT file system"),
    (82, b"FAT32", "a FAT file system"),
    (32_769, b"CD001", "an ISO 9660 file system"),
    (0, b"hsqs", "a SquashFS file system"),
    (0, b"LUKS\xba\xbe", "a LUKS volume"),
    (512, b"LABELONE", "a physical volume of LVM"),
    (4096, b"\xfc\x4e\x2b\xa9", "a member of a RAID"),
    (4086, b"SWAPSPACE2", "swap space"),
];

/// Bytes that are looked at on each end, and in each place between.
const END: u64 = MIB;
const PLACE: u64 = 64 * KIB;
/// Places between the ends.
const PLACES: u64 = 64;

/// Looks at the block device `path`, which is only read.
///
/// # Errors
/// What the kernel refuses; `InvalidInput` if it is no block device.
pub fn found(path: &Path) -> io::Result<ProbedMedium> {
    if !fs::metadata(path)?.file_type().is_block_device() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a block device"));
    }
    found_in(path)
}

/// The same for a file or block device.
///
/// # Errors
/// What the kernel refuses.
pub fn found_in(path: &Path) -> io::Result<ProbedMedium> {
    let file = File::open(path)?;
    let size = io::Seek::seek(&mut &file, io::SeekFrom::End(0))?;
    let mut holds: Vec<String> = partitions(path).into_iter().map(|name| format!("partition {name}")).collect();
    holds.extend(contents(size, |at, bytes| file.read_exact_at(bytes, at))?);
    Ok(ProbedMedium { size, holds })
}

/// Whether nothing but zeroes was found on a file or block device.
pub(crate) fn is_blank(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    let size = io::Seek::seek(&mut &file, io::SeekFrom::End(0))?;
    Ok(contents(size, |at, bytes| file.read_exact_at(bytes, at))?.is_empty())
}

/// The partitions of a device that the kernel knows.
fn partitions(path: &Path) -> Vec<String> {
    let real = fs::canonicalize(path).unwrap_or_default();
    let folder = Path::new("/sys/class/block").join(real.file_name().unwrap_or_default());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let parts = entries.filter(|entry| entry.path().join("partition").exists());
    let mut names: Vec<String> = parts.map(|part| part.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// What the bytes say that `read` brings.
fn contents(size: u64, read: impl Fn(u64, &mut [u8]) -> io::Result<()>) -> io::Result<Vec<String>> {
    let piece = |at: u64, len: u64| {
        let mut bytes = vec![0; len as usize];
        read(at, &mut bytes).map(|()| bytes)
    };
    let head = piece(0, END.min(size))?;
    let mut holds: Vec<String> = Vec::new();
    for (at, bytes, whose) in SIGNATURES {
        let is_there = head.get(*at as usize..*at as usize + bytes.len()) == Some(*bytes);
        if is_there && !holds.iter().any(|held| held == whose) {
            holds.push(whose.to_string());
        }
    }
    if !holds.is_empty() {
        return Ok(holds);
    }
    let tail = size.saturating_sub(END);
    let between = (1..=PLACES).map(|place| (size / (PLACES + 1) * place, PLACE));
    for (at, len) in [(0, END), (tail, END)].into_iter().chain(between) {
        let bytes = piece(at, len.min(size - at))?;
        if let Some(first) = bytes.iter().position(|byte| *byte != 0) {
            holds.push(format!("data of unknown kind (byte {} is not zero)", at + first as u64));
            break;
        }
    }
    Ok(holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 64 * MIB;

    fn of(places: &[(u64, &[u8])]) -> Vec<String> {
        let mut device = vec![0; SIZE as usize];
        for (at, bytes) in places {
            device[*at as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        contents(SIZE, |at, bytes| {
            bytes.copy_from_slice(&device[at as usize..][..bytes.len()]);
            Ok(())
        })
        .unwrap()
    }

    #[test]
    fn signatures_are_told_by_name_and_each_once() {
        assert_eq!(of(&[(1080, b"\x53\xef")]), ["an ext2, ext3 or ext4 file system"]);
        assert_eq!(
            of(&[(510, b"\x55\xaa"), (512, b"EFI PART"), (4096, b"EFI PART")]),
            ["a boot sector or partition table", "a GUID partition table"]
        );
    }

    #[test]
    fn other_data_is_noticed_at_both_ends_and_now_and_then_between() {
        let last = format!("data of unknown kind (byte {} is not zero)", SIZE - 1);
        assert_eq!(of(&[(SIZE - 1, b"x")]), [last]);
        assert_eq!(of(&[(7, b"x"), (SIZE - 1, b"x")]), ["data of unknown kind (byte 7 is not zero)"]);
        let between = SIZE / (PLACES + 1) * 40;
        assert!(of(&[(between, b"x")])[0].contains(&between.to_string()));
        assert!(of(&[]).is_empty());
    }

    #[test]
    fn a_device_smaller_than_a_place_is_looked_at_whole() {
        let tiny = contents(512, |at, bytes| {
            assert!(at + bytes.len() as u64 <= 512);
            bytes.fill(0);
            Ok(())
        });
        assert!(tiny.unwrap().is_empty());
    }

    #[test]
    fn what_is_no_block_device_is_refused() {
        let error = found(Path::new("/proc/self/exe")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
