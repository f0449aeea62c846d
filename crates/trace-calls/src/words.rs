//! Flags and choices of calls, under portable names. Their bits and codes are Esker's own, are part of the `.etrace`
//! format, and never change their meaning.

use bitflags::bitflags;

/// A closed choice: each value has a code in files and the name that traces print.
macro_rules! choices {
    ($( $(#[$doc:meta])* $name:ident { $( $(#[$vdoc:meta])* $variant:ident = $code:literal $text:literal ),* $(,)? } )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $( $(#[$vdoc])* $variant ),* }

        impl $name {
            /// Every value.
            pub const ALL: &[$name] = &[$( $name::$variant ),*];

            /// The name that traces print.
            pub fn name(self) -> &'static str {
                match self { $( $name::$variant => $text ),* }
            }

            /// The value of that name.
            pub fn from_name(name: &str) -> Option<$name> {
                match name { $( $text => Some($name::$variant), )* _ => None }
            }

            /// The code in files.
            pub fn code(self) -> u8 {
                match self { $( $name::$variant => $code ),* }
            }

            /// The value of that code.
            pub fn from_code(code: u8) -> Option<$name> {
                match code { $( $code => Some($name::$variant), )* _ => None }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }
    )* };
}

pub(crate) use choices;

choices! {
    /// What a name leads to.
    FileKind {
        /// A regular file.
        Regular = 1 "S_IFREG",
        /// A directory.
        Directory = 2 "S_IFDIR",
        /// A symbolic link.
        Symlink = 3 "S_IFLNK",
        /// A character device.
        CharDevice = 4 "S_IFCHR",
        /// A block device.
        BlockDevice = 5 "S_IFBLK",
        /// A named pipe, or an end of an unnamed one.
        Fifo = 6 "S_IFIFO",
        /// A socket.
        Socket = 7 "S_IFSOCK",
        /// None of these: an anonymous inode, such as that of an epoll descriptor.
        Other = 8 "anon",
    }
    /// From where a seek counts.
    Whence {
        /// The start.
        Set = 1 "SEEK_SET",
        /// The current offset.
        Current = 2 "SEEK_CUR",
        /// The end.
        End = 3 "SEEK_END",
        /// The next data.
        Data = 4 "SEEK_DATA",
        /// The next hole.
        Hole = 5 "SEEK_HOLE",
    }
    /// What a program tells about its reads to come.
    Advice {
        /// Nothing special.
        Normal = 1 "POSIX_FADV_NORMAL",
        /// Random order.
        Random = 2 "POSIX_FADV_RANDOM",
        /// Ascending order.
        Sequential = 3 "POSIX_FADV_SEQUENTIAL",
        /// Soon.
        WillNeed = 4 "POSIX_FADV_WILLNEED",
        /// Not again.
        DontNeed = 5 "POSIX_FADV_DONTNEED",
        /// Once.
        NoReuse = 6 "POSIX_FADV_NOREUSE",
    }
    /// A whole-file or record lock.
    LockKind {
        /// Shared.
        Shared = 1 "LOCK_SH",
        /// Exclusive.
        Exclusive = 2 "LOCK_EX",
        /// Released.
        Unlock = 3 "LOCK_UN",
    }
    /// The record-lock commands of `fcntl`.
    RecordLock {
        /// Asks which lock is in the way.
        Get = 1 "F_GETLK",
        /// Fails at once if one is.
        Set = 2 "F_SETLK",
        /// Waits.
        SetWait = 3 "F_SETLKW",
        /// As `Get`, owned by the open file description.
        OfdGet = 4 "F_OFD_GETLK",
        /// As `Set`, owned by the open file description.
        OfdSet = 5 "F_OFD_SETLK",
        /// As `SetWait`, owned by the open file description.
        OfdSetWait = 6 "F_OFD_SETLKW",
    }
    /// Commands of `fcntl` that get or set a property of a descriptor.
    FcntlCmd {
        /// Flags of the descriptor.
        GetFd = 1 "F_GETFD",
        /// Sets them: argument 1 is close-on-exec.
        SetFd = 2 "F_SETFD",
        /// Flags of the open file description.
        GetFl = 3 "F_GETFL",
        /// Sets them: the argument is [`OpenFlags`].
        SetFl = 4 "F_SETFL",
        /// Capacity of a pipe.
        GetPipeSize = 5 "F_GETPIPE_SZ",
        /// Sets it.
        SetPipeSize = 6 "F_SETPIPE_SZ",
        /// Takes or gives a lease.
        SetLease = 7 "F_SETLEASE",
        /// Asks for a lease.
        GetLease = 8 "F_GETLEASE",
        /// Seals of a memory file.
        AddSeals = 9 "F_ADD_SEALS",
        /// Asks for them.
        GetSeals = 10 "F_GET_SEALS",
        /// Path of a descriptor (Mac).
        GetPath = 11 "F_GETPATH",
        /// Owner of signals.
        SetOwn = 12 "F_SETOWN",
        /// Asks for it.
        GetOwn = 13 "F_GETOWN",
        /// Any other.
        Other = 14 "F_OTHER",
    }
    /// What kind of thing a descriptor that is no file belongs to.
    FdSource {
        /// `eventfd`.
        Event = 1 "eventfd",
        /// `epoll_create`, `kqueue`.
        Poll = 2 "epoll_create",
        /// `timerfd_create`.
        Timer = 3 "timerfd_create",
        /// `signalfd`.
        Signal = 4 "signalfd",
        /// `inotify_init`, `fanotify_init`.
        Notify = 5 "inotify_init",
        /// `memfd_create`.
        Memory = 6 "memfd_create",
        /// `socket`.
        Socket = 7 "socket",
        /// `accept`.
        Accept = 8 "accept",
        /// `io_uring_setup`; see [`Call::ring`](crate::Call::ring).
        Uring = 9 "io_uring_setup",
        /// `pidfd_open`, `userfaultfd`, `perf_event_open` and the like.
        Other = 10 "anon_inode",
    }
    /// Calls on sockets that make no descriptor.
    SocketOp {
        /// Connects.
        Connect = 1 "connect",
        /// Binds.
        Bind = 2 "bind",
        /// Listens.
        Listen = 3 "listen",
        /// Sends.
        Send = 4 "sendto",
        /// Receives.
        Receive = 5 "recvfrom",
        /// Shuts down.
        Shutdown = 6 "shutdown",
        /// Gets or sets an option, or asks for a name.
        Option = 7 "setsockopt",
    }
    /// What an asynchronous request asks.
    AsyncKind {
        /// A read.
        Read = 1 "read",
        /// A write.
        Write = 2 "write",
        /// Durability of data and metadata.
        Sync = 3 "fsync",
        /// Durability of data.
        DataSync = 4 "fdatasync",
        /// A wait for readiness.
        Poll = 5 "poll",
        /// Anything else; the word in the request says what.
        Other = 6 "other",
    }
    /// What a program tells about mapped memory.
    MapAdvice {
        /// Nothing special.
        Normal = 1 "MADV_NORMAL",
        /// Random order.
        Random = 2 "MADV_RANDOM",
        /// Ascending order.
        Sequential = 3 "MADV_SEQUENTIAL",
        /// Soon.
        WillNeed = 4 "MADV_WILLNEED",
        /// Not again.
        DontNeed = 5 "MADV_DONTNEED",
        /// Any other.
        Other = 6 "MADV_OTHER",
    }
    /// Platform-specific hints that `fcntl` carries on a Mac.
    Hint {
        /// Reads soon: offset and length.
        ReadAdvise = 1 "F_RDADVISE",
        /// Read-ahead on or off: the length is 1 or 0.
        ReadAhead = 2 "F_RDAHEAD",
        /// Caching off or on: the length is 1 or 0.
        NoCache = 3 "F_NOCACHE",
    }
    /// Metadata calls of a Mac that no public document describes.
    Obscure {
        /// `stat_extended`, `lstat_extended`, `fstat_extended` and their 64-bit forms.
        StatExtended = 1 "stat_extended",
        /// `access_extended`.
        AccessExtended = 2 "access_extended",
        /// `chmod_extended`, `fchmod_extended`.
        ChmodExtended = 3 "chmod_extended",
    }
    /// How a call makes data durable.
    SyncKind {
        /// `fsync`: data and metadata; whether past the device's volatile cache is the platform's choice.
        Full = 1 "fsync",
        /// `fdatasync`: data, and metadata needed to read it.
        Data = 2 "fdatasync",
        /// `F_FULLFSYNC` of a Mac: past the device's volatile cache.
        Device = 3 "F_FULLFSYNC",
        /// `F_BARRIERFSYNC` of a Mac: ordered, not waited for.
        Barrier = 4 "F_BARRIERFSYNC",
        /// `syncfs`: the whole file system of a descriptor.
        FileSystem = 5 "syncfs",
    }
}

/// Sets of flags: serialised as text, known by the names that traces print.
macro_rules! flag_sets {
    ($( $(#[$doc:meta])* $name:ident { $( $(#[$($fdoc:tt)*])* $flag:ident = $bit:literal ),* $(,)? } )*) => { $(
        bitflags! {
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
            pub struct $name: u32 { $( $(#[$($fdoc)*])* const $flag = 1 << $bit; )* }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&self.text())
            }
        }

        impl $name {
            /// The set as text, `A | B`.
            pub fn text(self) -> String {
                let mut text = String::new();
                bitflags::parser::to_writer(&self, &mut text).expect("a string takes all");
                text
            }
        }
    )* };
}

flag_sets! {
    /// How a file is opened. `O_RDONLY`, `O_WRONLY` and `O_RDWR` are `READ`, `WRITE` and both; none of them with
    /// `O_PATH`.
    OpenFlags {
        /// May read.
        READ = 0,
        /// May write.
        WRITE = 1,
        /// Writes go to the end.
        O_APPEND = 2,
        /// Make it if absent.
        O_CREAT = 3,
        /// Fail if present.
        O_EXCL = 4,
        /// Cut to nothing.
        O_TRUNC = 5,
        /// Only a directory.
        O_DIRECTORY = 6,
        /// Fail at a symbolic link.
        O_NOFOLLOW = 7,
        /// Closed by exec.
        O_CLOEXEC = 8,
        /// Past the page cache.
        O_DIRECT = 9,
        /// Each write durable with its metadata.
        O_SYNC = 10,
        /// Each write's data durable.
        O_DSYNC = 11,
        /// Never wait.
        O_NONBLOCK = 12,
        /// A name only.
        O_PATH = 13,
        /// A file without a name, in the directory named.
        O_TMPFILE = 14,
        /// No access times.
        O_NOATIME = 15,
        /// No controlling terminal.
        O_NOCTTY = 16,
        /// Offsets above 2^31.
        O_LARGEFILE = 17,
        /// Signals when ready.
        O_ASYNC = 18,
        /// For events only (Mac).
        O_EVTONLY = 19,
        /// The link itself (Mac).
        O_SYMLINK = 20,
        /// With a shared lock (Mac).
        O_SHLOCK = 21,
        /// With an exclusive lock (Mac).
        O_EXLOCK = 22,
    }
    /// How `openat2` may resolve a path.
    ResolveFlags {
        /// Stay on one mount.
        RESOLVE_NO_XDEV = 0,
        /// No magic links.
        RESOLVE_NO_MAGICLINKS = 1,
        /// No symbolic links.
        RESOLVE_NO_SYMLINKS = 2,
        /// Stay below the directory.
        RESOLVE_BENEATH = 3,
        /// The directory is the root.
        RESOLVE_IN_ROOT = 4,
        /// Only from caches.
        RESOLVE_CACHED = 5,
    }
    /// How two names are exchanged or replaced.
    RenameFlags {
        /// Fail if the new name exists.
        RENAME_NOREPLACE = 0,
        /// Swap the two.
        RENAME_EXCHANGE = 1,
        /// Leave a whiteout.
        RENAME_WHITEOUT = 2,
    }
    /// What `access` asks for; none is existence.
    AccessMode {
        /// May read.
        R_OK = 0,
        /// May write.
        W_OK = 1,
        /// May execute.
        X_OK = 2,
    }
    /// How space is allocated.
    FallocFlags {
        /// The size stays.
        FALLOC_FL_KEEP_SIZE = 0,
        /// Makes a hole.
        FALLOC_FL_PUNCH_HOLE = 1,
        /// Cuts a range out.
        FALLOC_FL_COLLAPSE_RANGE = 2,
        /// Fills with zeros.
        FALLOC_FL_ZERO_RANGE = 3,
        /// Makes room.
        FALLOC_FL_INSERT_RANGE = 4,
        /// Ends sharing.
        FALLOC_FL_UNSHARE_RANGE = 5,
        /// All at once or not at all, contiguous first (Mac).
        F_ALLOCATECONTIG = 6,
        /// All or nothing (Mac).
        F_ALLOCATEALL = 7,
    }
    /// What `sync_file_range` waits for.
    SyncRangeFlags {
        /// Waits for writeback under way.
        SYNC_FILE_RANGE_WAIT_BEFORE = 0,
        /// Starts writeback.
        SYNC_FILE_RANGE_WRITE = 1,
        /// Waits for it.
        SYNC_FILE_RANGE_WAIT_AFTER = 2,
    }
    /// Per-call flags of `preadv2` and `pwritev2`.
    ReadWriteFlags {
        /// Each write's data durable.
        RWF_DSYNC = 0,
        /// High priority.
        RWF_HIPRI = 1,
        /// Each write durable.
        RWF_SYNC = 2,
        /// Never wait.
        RWF_NOWAIT = 3,
        /// To the end.
        RWF_APPEND = 4,
    }
    /// How an attribute is set.
    XattrFlags {
        /// Fail if present.
        XATTR_CREATE = 0,
        /// Fail if absent.
        XATTR_REPLACE = 1,
    }
    /// What a child shares with its parent, and that it shares the process.
    CloneFlags {
        /// The same process.
        CLONE_THREAD = 0,
        /// One table of descriptors.
        CLONE_FILES = 1,
        /// One working directory, root and umask.
        CLONE_FS = 2,
        /// One memory.
        CLONE_VM = 3,
        /// The parent waits until the child executes or exits.
        CLONE_VFORK = 4,
        /// The child has the parent's parent.
        CLONE_PARENT = 5,
    }
    /// How memory is mapped.
    MapFlags {
        /// Readable.
        PROT_READ = 0,
        /// Writable.
        PROT_WRITE = 1,
        /// Executable.
        PROT_EXEC = 2,
        /// Writes reach the file.
        MAP_SHARED = 3,
        /// Writes stay private.
        MAP_PRIVATE = 4,
        /// No file behind it.
        MAP_ANONYMOUS = 5,
        /// At this address.
        MAP_FIXED = 6,
        /// Pages are read at once.
        MAP_POPULATE = 7,
    }
    /// How a map is made durable.
    MapSyncFlags {
        /// Later.
        MS_ASYNC = 0,
        /// Now.
        MS_SYNC = 1,
        /// Other maps are told.
        MS_INVALIDATE = 2,
    }
    /// How a range of descriptors is closed.
    CloseRangeFlags {
        /// From a table of its own.
        CLOSE_RANGE_UNSHARE = 0,
        /// Only marked for exec.
        CLOSE_RANGE_CLOEXEC = 1,
    }
}
