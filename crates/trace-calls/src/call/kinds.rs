//! The list itself. A call's number is part of the formats: numbers are never reused, new calls take new ones. In
//! brackets stand its [`Roles`]: family, category, how its result is compared, effect.

use super::parts::{AsyncOp, AsyncQueue, At, Fd, Object, Status};
use super::roles::{Category, Compared, Effect, Family, Roles};
use crate::action::ThreadId;
use crate::name::{PathBytes, Word};
use crate::wire::{Decoder, Encoder, Field, Malformed, Part, PartMut};
use crate::words::*;

macro_rules! calls {
    ($( $(#[$doc:meta])* $variant:ident = $tag:literal $name:literal [
        $family:ident, $category:ident, $compared:ident, $effect:ident
    ] {
        $( $(#[$fdoc:meta])* $field:ident : $type:ty ),* $(,)?
    } )*) => {
        /// A call and its arguments.
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
        #[serde(tag = "call", rename_all = "snake_case")]
        pub enum Call {
            $( $(#[$doc])* #[allow(missing_docs, reason = "the call says what its arguments are")] $variant { $( $(#[$fdoc])* $field: $type ),* } ),*
        }

        impl Call {
            /// Number and name of every kind of call.
            pub const KINDS: &[(u8, &str)] = &[$( ($tag, $name) ),*];

            /// The number of its kind.
            pub fn tag(&self) -> u8 {
                match self { $( Call::$variant { .. } => $tag ),* }
            }

            /// The name of its kind.
            pub fn name(&self) -> &'static str {
                match self { $( Call::$variant { .. } => $name ),* }
            }
        }

        impl Call {
            /// What its kind is to those that read traces. Arguments may say otherwise: see [`Call::category`],
            /// [`Call::compared`] and [`Call::effect`].
            pub(super) const fn roles(&self) -> Roles {
                match self {
                    $( Call::$variant { .. } => Roles {
                        family: Family::$family,
                        category: Category::$category,
                        compared: Compared::$compared,
                        effect: Effect::$effect,
                    } ),*
                }
            }
        }

        impl Field for Call {
            #[allow(unused_variables, reason = "calls without arguments")]
            fn put(&self, to: &mut Encoder<'_>) {
                to.byte(self.tag());
                match self { $( Call::$variant { $( $field ),* } => { $( $field.put(to); )* } ),* }
            }

            fn get(from: &mut Decoder<'_>) -> Result<Call, Malformed> {
                match from.byte()? {
                    $( $tag => Ok(Call::$variant { $( $field: Field::get(from)? ),* }), )*
                    _ => Err(from.malformed("the number of no call")),
                }
            }

            fn render(&self, to: &mut String) {
                to.push_str(self.name());
                to.push('(');
                match self { $( Call::$variant { $( $field ),* } => {
                    $(
                        to.push_str(concat!(stringify!($field), "="));
                        $field.render(to);
                        to.push_str(", ");
                    )*
                } ),* }
                if to.ends_with(", ") {
                    to.truncate(to.len() - 2);
                }
                to.push(')');
            }

            #[allow(unused_variables, reason = "calls without arguments")]
            fn parts<'a>(&'a self, see: &mut dyn FnMut(Part<'a>)) {
                match self { $( Call::$variant { $( $field ),* } => { $( $field.parts(see); )* } ),* }
            }

            #[allow(unused_variables, reason = "calls without arguments")]
            fn parts_mut(&mut self, change: &mut dyn FnMut(PartMut<'_>)) {
                match self { $( Call::$variant { $( $field ),* } => { $( $field.parts_mut(change); )* } ),* }
            }
        }
    };
}

calls! {
    /// Opens a file; the result is its descriptor.
    Open = 1 "open" [Names, Open, Never, Opens] { at: At, flags: OpenFlags, mode: u16, resolve: ResolveFlags }
    /// Closes a descriptor.
    Close = 2 "close" [Descriptors, Close, Never, ChangesDescriptor] { fd: Fd }
    /// Closes descriptors `first` to `last`.
    CloseRange = 3 "close_range" [Descriptors, Close, Never, Changes] { first: u32, last: u32, flags: CloseRangeFlags }
    /// Doubles a descriptor at the lowest free number from `min` on: `dup` (`min` 0), `F_DUPFD`.
    Dup = 4 "dup" [Descriptors, Other, Never, LooksThrough] { fd: Fd, min: i32, cloexec: bool }
    /// Doubles a descriptor at `to`, which is closed first if it is open: `dup2`, `dup3` (which fails where both are
    /// the same).
    DupTo = 5 "dup2" [Descriptors, Other, Never, Changes] { fd: Fd, to: Fd, cloexec: bool, strict: bool }

    /// Reads at the descriptor's offset; `parts` buffers, 0 for a plain `read`.
    Read = 10 "read" [Data, Read, Exactly, MovesOffset] { fd: Fd, len: u64, parts: u32 }
    /// Writes at the descriptor's offset.
    Write = 11 "write" [Data, Write, Exactly, Changes] { fd: Fd, len: u64, parts: u32 }
    /// Reads at `offset`; -1 (of `preadv2`) is the descriptor's.
    Pread = 12 "pread" [Data, Read, Exactly, MovesOffset] {
        fd: Fd, offset: i64, len: u64, parts: u32, flags: ReadWriteFlags
    }
    /// Writes at `offset`; -1 (of `pwritev2`) is the descriptor's.
    Pwrite = 13 "pwrite" [Data, Write, Exactly, Changes] {
        fd: Fd, offset: i64, len: u64, parts: u32, flags: ReadWriteFlags
    }
    /// Moves the descriptor's offset; the result is the new one.
    Seek = 14 "lseek" [Data, Other, Exactly, MovesOffset] { fd: Fd, offset: i64, whence: Whence }
    /// Sets a file's size.
    Truncate = 15 "truncate" [Data, Allocation, Never, Changes] { file: Object, len: i64 }
    /// Allocates, or changes allocation.
    Allocate = 16 "fallocate" [Data, Allocation, Never, Changes] { fd: Fd, flags: FallocFlags, offset: i64, len: i64 }
    /// Tells about reads to come; the kernel keeps the advice with the descriptor.
    Advise = 17 "fadvise" [Data, Hints, Never, ChangesDescriptor] { fd: Fd, offset: i64, len: i64, advice: Advice }
    /// Reads into the page cache.
    ReadAhead = 18 "readahead" [Data, Hints, Never, LooksThrough] { fd: Fd, offset: i64, len: u64 }
    /// Makes a descriptor's file durable.
    Sync = 19 "fsync" [Data, Sync, Never, Changes] { fd: Fd, kind: SyncKind }
    /// Writes back a range.
    SyncRange = 20 "sync_file_range" [Data, Sync, Never, Changes] {
        fd: Fd, offset: i64, len: i64, flags: SyncRangeFlags
    }
    /// Writes back everything.
    SyncAll = 21 "sync" [Data, Sync, Never, Changes] {}
    /// Copies from file to descriptor; without `offset` from the descriptor's own.
    SendFile = 22 "sendfile" [Data, Copy, Exactly, Changes] { to: Fd, from: Fd, offset: Option<i64>, len: u64 }
    /// Copies between files.
    CopyRange = 23 "copy_file_range" [Data, Copy, Exactly, Changes] {
        from: Fd, from_offset: Option<i64>, to: Fd, to_offset: Option<i64>, len: u64
    }
    /// Moves between a pipe and a descriptor.
    Splice = 24 "splice" [Data, Copy, Exactly, Changes] {
        from: Fd, from_offset: Option<i64>, to: Fd, to_offset: Option<i64>, len: u64
    }
    /// Doubles what is in a pipe.
    Tee = 25 "tee" [Data, Copy, Exactly, Changes] { from: Fd, to: Fd, len: u64 }
    /// Shares extents: `FICLONE` (`len` 0 is all), `FICLONERANGE`.
    CloneRange = 26 "ficlone" [Data, Copy, Never, Changes] {
        from: Fd, to: Fd, from_offset: u64, to_offset: u64, len: u64
    }

    /// Asks for a file's metadata.
    Stat = 30 "stat" [Metadata, Stat, Never, Looks] { file: Object, seen: Option<Box<Status>> }
    /// Asks whether it may be used.
    Access = 31 "access" [Metadata, Stat, Never, Looks] { file: Object, mode: AccessMode }
    /// Reads a symbolic link.
    ReadLink = 32 "readlink" [Metadata, Directory, Exactly, Looks] { at: At, len: u64, seen_target: Option<PathBytes> }
    /// Sets permission bits.
    Chmod = 33 "chmod" [Metadata, Other, Never, Changes] { file: Object, mode: u16 }
    /// Sets owner and group; 2^32 - 1 leaves one as it is.
    Chown = 34 "chown" [Metadata, Other, Never, Changes] { file: Object, uid: u32, gid: u32 }
    /// Sets times, in ns since 1970; `None` leaves one as it is, `i64::MIN` means now.
    SetTimes = 35 "utimensat" [Metadata, Other, Never, Changes] {
        file: Object, accessed: Option<i64>, modified: Option<i64>
    }
    /// Asks for an extended attribute; `len` 0 asks for its size.
    GetXattr = 36 "getxattr" [Metadata, Attributes, Exactly, Looks] { file: Object, name: Word, len: u64 }
    /// Sets one.
    SetXattr = 37 "setxattr" [Metadata, Attributes, Never, Changes] {
        file: Object, name: Word, len: u64, flags: XattrFlags
    }
    /// Asks for the names of all; `len` 0 asks for their size.
    ListXattr = 38 "listxattr" [Metadata, Attributes, Never, Looks] { file: Object, len: u64 }
    /// Removes one.
    RemoveXattr = 39 "removexattr" [Metadata, Attributes, Never, Changes] { file: Object, name: Word }
    /// Asks for the file system's state.
    StatFs = 40 "statfs" [Metadata, Stat, Never, Looks] { file: Object }
    /// Asks for a file handle.
    NameToHandle = 41 "name_to_handle_at" [Metadata, Other, Never, Looks] { file: Object }
    /// Watches.
    Watch = 42 "inotify_add_watch" [Metadata, Other, Never, Changes] { queue: Fd, at: At, mask: u32 }
    /// Ends a watch.
    Unwatch = 43 "inotify_rm_watch" [Metadata, Other, Never, Changes] { queue: Fd, watch: i32 }

    /// Reads a directory.
    ReadDir = 50 "getdents" [Metadata, Directory, AtEnd, Changes] { fd: Fd, len: u64 }
    /// Changes the working directory.
    Chdir = 51 "chdir" [Processes, Other, Never, Changes] { file: Object }
    /// Makes a directory.
    Mkdir = 52 "mkdir" [Names, Names, Never, Changes] { at: At, mode: u16 }
    /// Makes a file, FIFO, socket or device.
    Mknod = 53 "mknod" [Names, Names, Never, Changes] { at: At, kind: FileKind, mode: u16, device: u64 }
    /// Makes a symbolic link.
    Symlink = 54 "symlink" [Names, Names, Never, Changes] { target: PathBytes, at: At }
    /// Gives a file one more name.
    Link = 55 "link" [Names, Names, Never, Changes] { from: Object, to: At }
    /// Removes a name.
    Unlink = 56 "unlink" [Names, Names, Never, Changes] { at: At }
    /// Removes a directory.
    Rmdir = 57 "rmdir" [Names, Names, Never, Changes] { at: At }
    /// Renames.
    Rename = 58 "rename" [Names, Names, Never, Changes] { from: At, to: At, flags: RenameFlags }
    /// Sets the mask of permission bits of new files.
    Umask = 59 "umask" [Processes, Other, Never, Changes] { mask: u16 }
    /// Changes the root directory.
    Chroot = 60 "chroot" [Processes, Other, Never, Changes] { at: At }

    /// Gets or sets a property of a descriptor.
    Fcntl = 70 "fcntl" [Descriptors, Other, Never, Changes] { fd: Fd, cmd: FcntlCmd, arg: i64 }
    /// Sets flags of the open file description: `F_SETFL`.
    SetFlags = 71 "fcntl_setfl" [Descriptors, Other, Never, Changes] { fd: Fd, flags: OpenFlags }
    /// Locks a whole file.
    Flock = 72 "flock" [Descriptors, Other, Never, Changes] { fd: Fd, kind: LockKind, wait: bool }
    /// Locks a range.
    RangeLock = 73 "fcntl_lock" [Descriptors, Other, Never, Changes] {
        fd: Fd, cmd: RecordLock, kind: LockKind, whence: Whence, start: i64, len: i64
    }
    /// Any other request to a driver or file system, by its symbolic name or number.
    Ioctl = 74 "ioctl" [Descriptors, Other, Never, Changes] { fd: Fd, request: Word }
    /// Maps memory; a descriptor of -1 is none. The result is the address.
    Map = 75 "mmap" [Maps, Other, Never, ChangesFile] { fd: Fd, address: u64, len: u64, offset: u64, flags: MapFlags }
    /// Ends a map.
    Unmap = 76 "munmap" [Maps, Other, Never, Changes] { address: u64, len: u64 }
    /// Moves or resizes a map; the result is its address.
    Remap = 77 "mremap" [Maps, Other, Never, Changes] { address: u64, len: u64, new_len: u64 }
    /// Writes a map back.
    MapSync = 78 "msync" [Maps, Sync, Never, Changes] { address: u64, len: u64, flags: MapSyncFlags }
    /// Tells about accesses to come.
    MapAdvise = 79 "madvise" [Maps, Hints, Never, Changes] { address: u64, len: u64, advice: MapAdvice }
    /// A part of a mapped file was touched. Compilers make it of [`Call::PageFault`] and [`Call::PageWrite`]; its
    /// descriptor is that of the map.
    MapTouch = 80 "map_touch" [Maps, Read, Never, Changes] { fd: Fd, offset: u64, len: u64, write: bool }
    /// An access to mapped memory that the kernel had to bring a file's page for; `address` is the page's.
    PageFault = 81 "page_fault" [Maps, Read, Never, Changes] { address: u64, len: u64 }
    /// The first write through a map to a page of a file that was clean; `address` is the page's. Later writes cost the
    /// medium nothing until the page is written back.
    PageWrite = 82 "page_write" [Maps, Write, Never, Changes] { address: u64, len: u64 }

    /// Makes a queue of asynchronous requests; `seen_queue` is it.
    AsyncSetup = 90 "io_setup" [Asynchronous, Other, Never, Changes] { depth: u32, seen_queue: AsyncQueue }
    /// Ends one.
    AsyncDestroy = 91 "io_destroy" [Asynchronous, Other, Never, Changes] { queue: AsyncQueue }
    /// Asks; the result is how many were taken. `wait` as `lio_listio` with `LIO_WAIT`.
    AsyncSubmit = 92 "io_submit" [Asynchronous, Asynchronous, Never, Changes] {
        queue: AsyncQueue, ops: Vec<AsyncOp>, wait: bool
    }
    /// Waits for at least `min` answers; `seen_keys` are those that came.
    AsyncReap = 93 "io_getevents" [Asynchronous, Asynchronous, Never, Changes] {
        queue: AsyncQueue, min: u32, max: u32, seen_keys: Vec<u64>
    }
    /// Asks for a request's state.
    AsyncError = 94 "aio_error" [Asynchronous, Other, Never, Changes] { key: u64 }
    /// Takes a request's result.
    AsyncReturn = 95 "aio_return" [Asynchronous, Asynchronous, Exactly, Changes] { key: u64 }
    /// Waits for one of several.
    AsyncSuspend = 96 "aio_suspend" [Asynchronous, Asynchronous, Never, Changes] { keys: Vec<u64> }
    /// Cancels one, or all of a descriptor.
    AsyncCancel = 97 "aio_cancel" [Asynchronous, Other, Never, Changes] { queue: AsyncQueue, fd: Fd, key: Option<u64> }
    /// Submits to an io_uring and waits, where the requests themselves were not seen.
    UringEnter = 98 "io_uring_enter" [Asynchronous, Asynchronous, Never, Changes] { ring: Fd, submit: u32, wait: u32 }
    /// Registers buffers, files or options with an io_uring.
    UringRegister = 99 "io_uring_register" [Asynchronous, Other, Never, Changes] { ring: Fd, operation: u32 }

    /// Makes a pipe.
    Pipe = 110 "pipe" [Descriptors, Other, Never, Changes] { seen_read: Fd, seen_write: Fd, flags: OpenFlags }
    /// Makes two connected sockets.
    SocketPair = 111 "socketpair" [Descriptors, Other, Never, Changes] {
        seen_first: Fd, seen_second: Fd, cloexec: bool
    }
    /// Makes a descriptor that is no file; the result is it. `from` is what it is made from (`accept`), or -1.
    MakeFd = 112 "make_fd" [Descriptors, Other, Never, Changes] {
        source: FdSource, from: Fd, name: Word, cloexec: bool
    }
    /// Uses a socket.
    Socket = 113 "socket_op" [Descriptors, Other, Never, Changes] { fd: Fd, op: SocketOp, len: u64 }
    /// Waits for readiness; a timeout of -1 ms is forever.
    Poll = 114 "poll" [Descriptors, Other, Never, Changes] { fds: Vec<Fd>, timeout_ms: i64 }
    /// Adds to or removes from an epoll set.
    EpollControl = 115 "epoll_ctl" [Descriptors, Other, Never, Changes] { set: Fd, fd: Fd, op: Word }
    /// Waits for one.
    EpollWait = 116 "epoll_wait" [Descriptors, Other, Never, Changes] { set: Fd, timeout_ms: i64 }
    /// Opens shared memory by name; the result is its descriptor.
    ShmOpen = 117 "shm_open" [Names, Open, Never, Changes] { name: PathBytes, flags: OpenFlags, mode: u16 }
    /// Removes its name.
    ShmUnlink = 118 "shm_unlink" [Names, Names, Never, Changes] { name: PathBytes }
    /// Receives descriptors through a socket.
    ReceiveFds = 119 "recvmsg" [Descriptors, Other, Never, Changes] { fd: Fd, len: u64, seen_fds: Vec<Fd> }
    /// Gives a Unix socket a name in the file system.
    Bind = 120 "bind" [Names, Names, Never, Changes] { fd: Fd, at: At, mode: u16 }

    /// Makes a thread or process: `clone`, `clone3`, `fork`, `vfork`. `child` is it, if it was traced.
    Clone = 130 "clone" [Processes, Other, Never, Changes] { flags: CloneFlags, child: Option<ThreadId> }
    /// Runs another program: other threads of the process end, descriptors marked so are closed.
    Exec = 131 "execve" [Processes, Open, Never, Changes] { file: Object }
    /// A thread ends; with `group` the process.
    Exit = 132 "exit" [Processes, Other, Never, Changes] { status: i32, group: bool }
    /// Takes tables of its own.
    Unshare = 133 "unshare" [Processes, Other, Never, Changes] { flags: CloneFlags }
    /// Waits for a child.
    Wait = 134 "wait" [Processes, Other, Never, Changes] { pid: i32 }
    /// A known call without a bearing on files, or an unknown one.
    Other = 135 "other" [Processes, Other, Never, Changes] { name: Word }
    /// Waits for a wake at an address as long as `value` is there; the result is 0 if it was woken. Without `shared`
    /// only threads of the process wake it. The end of a thread is a wake where its number was.
    FutexWait = 136 "futex_wait" [Processes, Other, Never, Looks] { address: u64, shared: bool, value: u32 }
    /// Wakes threads that wait at an address; the result is how many.
    FutexWake = 137 "futex_wake" [Processes, Other, Never, Looks] { address: u64, shared: bool }

    /// Pseudo: attributes of a file (`getattrlist`, `fgetattrlist`, `getattrlistat`).
    GetAttrList = 150 "getattrlist" [Mac, Stat, Never, Changes] { file: Object, len: u64 }
    /// Pseudo: sets them.
    SetAttrList = 151 "setattrlist" [Mac, Other, Never, Changes] { file: Object, len: u64 }
    /// Pseudo: entries of a directory with their attributes (`getdirentriesattr`, `getattrlistbulk`).
    GetDirEntriesAttr = 152 "getdirentriesattr" [Mac, Directory, Never, Changes] { fd: Fd, len: u64 }
    /// Pseudo: searches a volume.
    SearchFs = 153 "searchfs" [Mac, Other, Never, Changes] { file: Object }
    /// Pseudo: a request to the file system (`fsctl`, `ffsctl`).
    FsControl = 154 "fsctl" [Mac, Other, Never, Changes] { file: Object, request: Word }
    /// Pseudo: swaps the data of two files.
    ExchangeData = 155 "exchangedata" [Mac, Names, Never, Changes] { first: Object, second: Object }
    /// Pseudo: a hint of a Mac's `fcntl`.
    Hinted = 156 "fcntl_hint" [Mac, Hints, Never, Changes] { fd: Fd, hint: Hint, offset: i64, len: i64 }
    /// Pseudo: `F_PREALLOCATE` of a Mac's `fcntl`.
    Preallocate = 157 "fcntl_preallocate" [Mac, Allocation, Never, Changes] {
        fd: Fd, flags: FallocFlags, offset: i64, len: i64
    }
    /// Pseudo: metadata calls that no document describes.
    Undocumented = 158 "undocumented" [Mac, Other, Never, Changes] { file: Object, kind: Obscure }
    /// Pseudo: a copy of a file by its extents (`clonefile`, `fclonefileat`).
    CloneFile = 159 "clonefile" [Mac, Copy, Never, Changes] { from: Object, to: At }
    /// Pseudo: names of volumes (`getfsstat`).
    GetFsStat = 160 "getfsstat" [Mac, Other, Never, Changes] { len: u64 }
    /// Pseudo: the path of a file by its number (`fsgetpath`); `seen` is the path.
    FsGetPath = 161 "fsgetpath" [Mac, Other, Never, Changes] { seen: Option<PathBytes> }
    /// Pseudo: `getxattr` of a Mac at a position, with options.
    GetXattrAt = 162 "getxattr_at" [Mac, Attributes, Exactly, Changes] {
        file: Object, name: Word, len: u64, position: u32
    }
    /// Pseudo: `setxattr` of a Mac at a position, with options.
    SetXattrAt = 163 "setxattr_at" [Mac, Attributes, Never, Changes] {
        file: Object, name: Word, len: u64, position: u32, flags: XattrFlags
    }
}
