//! Flags of calls, with the numbers of Linux's generic table.

use bitflags::bitflags;

bitflags! {
    /// How a file is opened.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct OpenFlags: u32 {
        /// `O_WRONLY`. Without this and [`RDWR`](OpenFlags::RDWR) the file is opened for reading.
        const WRONLY = 0o1;
        /// `O_RDWR`.
        const RDWR = 0o2;
        /// `O_CREAT`: make the file if it is not there.
        const CREAT = 0o100;
        /// `O_EXCL`: with `CREAT`, fail if it is there; with `TMPFILE`, never link it.
        const EXCL = 0o200;
        /// `O_TRUNC`: cut it to no bytes.
        const TRUNC = 0o1000;
        /// `O_APPEND`: every write goes to the end.
        const APPEND = 0o2000;
        /// `O_NONBLOCK`. Files never block, so it only is kept.
        const NONBLOCK = 0o4000;
        /// `O_DSYNC`: a write answers when its bytes are durable.
        const DSYNC = 0o10_000;
        /// `O_DIRECT`: bytes pass caches by.
        const DIRECT = 0o40_000;
        /// `O_DIRECTORY`: fail unless it is a directory.
        const DIRECTORY = 0o200_000;
        /// `O_NOFOLLOW`: do not follow a symbolic link at the end of the path.
        const NOFOLLOW = 0o400_000;
        /// `O_NOATIME`, which takes the owner. Reads leave the time of access to the file system.
        const NOATIME = 0o1_000_000;
        /// `O_CLOEXEC`: exec closes the descriptor.
        const CLOEXEC = 0o2_000_000;
        /// `O_SYNC`, which holds `DSYNC`.
        const SYNC = 0o4_010_000;
        /// `O_PATH`: a place in the tree, neither read nor written.
        const PATH = 0o10_000_000;
        /// `O_TMPFILE`, which holds `DIRECTORY`: a file without a name.
        const TMPFILE = 0o20_200_000;
    }
}

impl OpenFlags {
    /// `O_RDONLY`: no flag.
    pub const RDONLY: OpenFlags = OpenFlags::empty();
    /// Both bits of the access mode.
    pub const ACCESS: OpenFlags = OpenFlags::WRONLY.union(OpenFlags::RDWR);
    /// What `F_SETFL` changes.
    pub const STATUS: OpenFlags =
        OpenFlags::APPEND.union(OpenFlags::NONBLOCK).union(OpenFlags::DIRECT).union(OpenFlags::NOATIME);
    /// What `O_PATH` leaves of the other flags.
    pub const WITH_PATH: OpenFlags =
        OpenFlags::PATH.union(OpenFlags::DIRECTORY).union(OpenFlags::NOFOLLOW).union(OpenFlags::CLOEXEC);

    /// Whether bytes are read.
    pub fn reads(self) -> bool {
        !self.intersects(OpenFlags::WRONLY | OpenFlags::PATH)
    }

    /// Whether bytes are written.
    pub fn writes(self) -> bool {
        let access = self & OpenFlags::ACCESS;
        !self.contains(OpenFlags::PATH) && (access == OpenFlags::WRONLY || access == OpenFlags::RDWR)
    }
}

bitflags! {
    /// What `access(2)` asks for.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Access: u16 {
        /// `X_OK`: to execute, or to search a directory.
        const EXECUTE = 1;
        /// `W_OK`.
        const WRITE = 2;
        /// `R_OK`.
        const READ = 4;
    }
}

bitflags! {
    /// `mode` of `fallocate(2)`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Fallocate: u32 {
        /// The size stays.
        const KEEP_SIZE = 0x01;
        /// A hole; only with `KEEP_SIZE`.
        const PUNCH_HOLE = 0x02;
        /// The range is cut out. Not there.
        const COLLAPSE_RANGE = 0x08;
        /// Zeroes.
        const ZERO_RANGE = 0x10;
        /// A hole is put in. Not there.
        const INSERT_RANGE = 0x20;
        /// Shared blocks become own ones. Not there.
        const UNSHARE_RANGE = 0x40;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_modes_are_a_number_not_bits() {
        let both = |flags: OpenFlags| (flags.reads(), flags.writes());
        assert_eq!(both(OpenFlags::RDONLY), (true, false));
        assert_eq!(both(OpenFlags::WRONLY), (false, true));
        assert_eq!(both(OpenFlags::RDWR | OpenFlags::TRUNC), (true, true));
        assert_eq!(both(OpenFlags::ACCESS), (false, false), "the kernel opens 3 for requests to drivers alone");
        assert_eq!(both(OpenFlags::PATH | OpenFlags::RDWR), (false, false));
    }
}
