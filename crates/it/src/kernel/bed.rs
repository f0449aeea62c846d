//! A fresh file system of the kernel, and an empty root directory in it for each script.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

use rustix::fs::{Mode, OFlags};

/// File systems that `Ram` is held against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are those of the kernel")]
pub enum System {
    Ext4,
    Xfs,
    Btrfs,
    Tmpfs,
}

impl System {
    /// Those on devices, of which a power cut leaves something.
    pub const DURABLE: [System; 3] = [System::Ext4, System::Xfs, System::Btrfs];

    /// All of them.
    pub const ALL: [System; 4] = [System::Ext4, System::Xfs, System::Btrfs, System::Tmpfs];

    /// The name by which the kernel mounts it.
    pub fn name(self) -> &'static str {
        match self {
            System::Ext4 => "ext4",
            System::Xfs => "xfs",
            System::Btrfs => "btrfs",
            System::Tmpfs => "tmpfs",
        }
    }

    /// The file system of a name.
    pub fn named(name: &str) -> Option<System> {
        System::ALL.into_iter().find(|system| system.name() == name)
    }

    /// What makes one, before the path of the image, and the bytes of the image; tmpfs has none.
    fn make(self) -> Option<(&'static [&'static str], u64)> {
        const EXT: &str = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        match self {
            System::Ext4 => Some((&["mkfs.ext4", "-q", "-F", "-b", "4096", "-N", "8192", "-E", EXT], 128 << 20)),
            System::Xfs => Some((&["mkfs.xfs", "-q", "-K", "-f"], 320 << 20)),
            System::Btrfs => Some((&["mkfs.btrfs", "-q", "-K", "-f"], 192 << 20)),
            System::Tmpfs => None,
        }
    }

    /// The same for the smallest one, of which many images are looked at.
    pub(super) fn make_small(self) -> Option<(&'static [&'static str], u64)> {
        match self {
            System::Ext4 => Some((&["mkfs.ext4", "-q", "-b", "1024", "-J", "size=1"], 16 << 20)),
            System::Btrfs => Some((&["mkfs.btrfs", "-q", "-K", "-f", "--mixed"], 32 << 20)),
            System::Xfs | System::Tmpfs => self.make(),
        }
    }

    /// Bytes that a device must write whole: no power cut tears them.
    ///
    /// The superblock of ext4 has 1 KiB and one checksum. Where a cut leaves half of it, ext4 refuses to mount.
    pub(super) fn whole(self) -> u32 {
        if self == System::Ext4 { 1024 } else { 512 }
    }

    /// The program or driver that this machine lacks.
    pub fn missing(self) -> Option<String> {
        let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        if !known.split_whitespace().any(|word| word == self.name()) {
            return Some(format!("the kernel has no {}", self.name()));
        }
        let program = self.make()?.0[0];
        let found = ["/sbin", "/usr/sbin", "/bin", "/usr/bin"].iter().any(|dir| Path::new(dir).join(program).exists());
        if found { None } else { Some(format!("{program} is not installed")) }
    }
}

/// A mounted file system, which ends with the namespace of this process.
#[derive(Debug)]
pub struct Bed {
    base: OwnedFd,
}

impl Bed {
    /// Makes and mounts one. The process must have a namespace of its own for mounts.
    ///
    /// # Panics
    /// If it cannot.
    pub fn new(system: System, folder: &Path) -> Bed {
        hard_links_are_protected();
        let at = folder.join("mounted");
        fs::create_dir(&at).expect("a scratch folder");
        let mut mount = Command::new("mount");
        match system.make() {
            Some((words, bytes)) => {
                let image = folder.join("image");
                fs::File::create(&image).and_then(|file| file.set_len(bytes)).expect("an image");
                run(Command::new(words[0]).args(&words[1..]).arg(&image));
                // Such a loop device goes with its mount, also if this process is killed.
                mount.args(["-o", "loop,nodev"]).arg(&image).arg(&at);
            }
            None => {
                mount.args(["-t", "tmpfs", "-o", "nodev,size=256m", "none"]).arg(&at);
            }
        }
        run(&mut mount);
        let base = rustix::fs::open(&at, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("it is mounted");
        Bed { base }
    }

    /// Does something whose root and working directory are an empty directory of the file system.
    ///
    /// # Panics
    /// If this process may not change its root.
    pub fn in_a_tree<T>(&self, play: impl FnOnce() -> T) -> T {
        const TREE: &str = "tree";
        rustix::process::umask(Mode::from_raw_mode(0o022));
        self.enter(".");
        rustix::fs::mkdirat(&self.base, TREE, Mode::from_raw_mode(0o755)).expect("room for a tree");
        self.enter(TREE);
        let answer = play();
        self.enter(".");
        fs::remove_dir_all(TREE).expect("a tree can be removed");
        answer
    }

    fn enter(&self, path: &str) {
        rustix::process::fchdir(&self.base).expect("the file system is there");
        rustix::process::chroot(path).expect("root may do that");
        rustix::process::chdir("/").expect("so is its root");
    }
}

/// Runs a program that must succeed.
pub(super) fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// `fs.protected_hardlinks` of this machine.
pub fn hard_links_are_protected() -> bool {
    use std::sync::OnceLock;
    // Read before the first change of the root directory hides it.
    static PROTECTED: OnceLock<bool> = OnceLock::new();
    *PROTECTED
        .get_or_init(|| fs::read_to_string("/proc/sys/fs/protected_hardlinks").is_ok_and(|text| text.trim() == "1"))
}
