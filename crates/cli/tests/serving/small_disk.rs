//! A file system that is soon full.

use std::ffi::CStr;
use std::fs;
use std::path::{Path, PathBuf};

use esker_testkit::{Ability, skip};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// A file system in memory with little space; gone when dropped.
pub struct SmallDisk(pub PathBuf);

impl SmallDisk {
    /// Mounts it at `small` in `dir`; `None` if this machine does not let tests mount.
    pub fn mount(dir: &Path, options: &CStr) -> Option<SmallDisk> {
        let at = dir.join("small");
        fs::create_dir(&at).unwrap();
        match mount(c"tmpfs", &at, c"tmpfs", MountFlags::empty(), options) {
            Ok(()) => Some(SmallDisk(at)),
            Err(error) => {
                skip(Ability::Attach, format_args!("no mount: {error}"));
                None
            }
        }
    }

    /// Takes all space that is left.
    pub fn fill(&self) {
        let full = fs::write(self.0.join("filler"), vec![1; 12 << 20]).unwrap_err();
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    }

    /// Gives it back.
    pub fn empty(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // It goes with the machine at the latest.
        let _gone = unmount(&self.0, UnmountFlags::DETACH);
    }
}
