//! What is recorded: a whole device, or a partition of one.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use esker_base::units::SECTOR;
use rustix::fs::{major, minor};

/// Where the kernel tells of block devices by their numbers.
const DEVICES: &str = "/sys/dev/block";

/// A partition, in the kernel's sectors of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its own major and minor number.
    pub number: (u32, u32),
    /// The first sector on the disk.
    pub start: u64,
    /// How many there are.
    pub sectors: u64,
}

/// A block device of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// As the user calls it.
    pub name: String,
    /// Major and minor number of the disk.
    pub disk: (u32, u32),
    /// The partition, if it is one.
    pub part: Option<Part>,
    /// Bytes.
    pub size: u64,
    /// Whether its driver takes requests from the kernel's queues. Others take what programs send as it is.
    pub has_queues: bool,
}

/// No device that can be recorded.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// Nothing is there.
    #[error("{0}: there is no such device; `lsblk -p` lists those of this machine")]
    Absent(String),
    /// It may not be looked at.
    #[error("{0}: cannot be looked at: {1}")]
    Unseen(String, #[source] io::Error),
    /// It is a file.
    #[error("{0}: is no block device, but lies on a file system; record the device below it{1}")]
    OnFileSystem(String, String),
    /// It is something else.
    #[error("{0}: is no block device; `lsblk -p` lists those of this machine")]
    Other(String),
    /// The kernel tells nothing of it.
    #[error("{0}: the kernel tells nothing of it: {1}; a container needs /sys of its host")]
    Untold(String, #[source] io::Error),
}

impl BlockDevice {
    /// The device at a path.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn find(path: &Path) -> Result<BlockDevice, DeviceError> {
        let name = path.display().to_string();
        let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => DeviceError::Absent(name.clone()),
            _ => DeviceError::Unseen(name.clone(), error),
        })?;
        let kind = metadata.file_type();
        if kind.is_file() || kind.is_dir() {
            let below = below(metadata.dev()).map_or(String::new(), |device| format!(", {device}"));
            return Err(DeviceError::OnFileSystem(name, below));
        }
        if !kind.is_block_device() {
            return Err(DeviceError::Other(name));
        }
        told(&name, numbers(metadata.rdev())).map_err(|error| DeviceError::Untold(name, error))
    }

    /// Major and minor number of what is recorded.
    pub fn number(&self) -> (u32, u32) {
        self.part.map_or(self.disk, |part| part.number)
    }

    /// Whether a file, or a file in a directory, lies on this disk: its own writes would be recorded.
    pub fn holds(&self, file: &Path) -> bool {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let Ok(metadata) = std::fs::metadata(folder) else { return false };
        let number = numbers(metadata.dev());
        told("", number).is_ok_and(|other| other.disk == self.disk && self.part.is_none_or(|_| self.number() == number))
    }
}

fn numbers(device: u64) -> (u32, u32) {
    (major(device), minor(device))
}

fn folder((major, minor): (u32, u32)) -> PathBuf {
    Path::new(DEVICES).join(format!("{major}:{minor}"))
}

/// The device on which a file system lies, if it is one.
fn below(device: u64) -> Option<String> {
    let text = std::fs::read_to_string(folder(numbers(device)).join("uevent")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("DEVNAME=")).map(|name| format!("/dev/{name}"))
}

/// What the kernel tells of a device.
fn told(name: &str, number: (u32, u32)) -> io::Result<BlockDevice> {
    let own = folder(number);
    let count = |file: &str| parsed(&std::fs::read_to_string(own.join(file))?, |text| text.parse::<u64>().ok());
    let sectors = count("size")?;
    let (disk, part, of_disk) = match own.join("partition").exists() {
        false => (number, None, own.clone()),
        true => {
            // The link leads to the partition's folder, which lies in that of its disk.
            let disk = std::fs::read_to_string(own.join("../dev"))?;
            let part = Part { number, start: count("start")?, sectors };
            (parsed(&disk, pair)?, Some(part), own.join(".."))
        }
    };
    let has_queues = of_disk.join("mq").exists();
    let size = sectors.saturating_mul(SECTOR);
    Ok(BlockDevice { name: name.to_string(), disk, part, size, has_queues })
}

fn parsed<T>(text: &str, parse: impl FnOnce(&str) -> Option<T>) -> io::Result<T> {
    parse(text.trim()).ok_or_else(|| io::Error::other(format!("\"{}\" is not understood", text.trim())))
}

fn pair(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(path: &Path) -> String {
        BlockDevice::find(path).expect_err("no block device").to_string()
    }

    #[test]
    fn what_is_no_block_device_is_refused_with_what_to_do() {
        let folder = tempfile::tempdir().expect("scratch");
        let file = folder.path().join("disk.img");
        std::fs::write(&file, "x").expect("scratch");
        assert!(refusal(&file).contains("lies on a file system; record the device below it"));
        assert!(refusal(folder.path()).contains("lies on a file system"));
        assert!(refusal(&folder.path().join("none")).ends_with("lists those of this machine"));
        assert!(refusal(Path::new("/dev/null")).contains("is no block device; `lsblk"));
    }

    #[test]
    fn numbers_of_the_kernel_are_read() {
        assert_eq!(parsed("259:3\n", pair).expect("two numbers"), (259, 3));
        assert!(parsed("259", pair).is_err_and(|error| error.to_string().contains("\"259\" is not understood")));
    }
}
