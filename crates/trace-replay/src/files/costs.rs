//! CPU time of calls on file systems of ours.
//!
//! A call costs what its class was measured to take for no bytes, and more for each KiB that it moves. `esker
//! calibrate` measures the classes on this machine. Without such figures the ones below are charged.

use esker_base::Nanos;
use esker_trace_calls::Call;
use esker_trace_calls::words::OpenFlags;

/// Calls that cost about the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CostClass {
    /// `stat`, `access` and their like: a walk of a path.
    Stat,
    /// `open` of a file that is there.
    Open,
    /// `open` that may make a file.
    Create,
    /// `close`.
    Close,
    /// Reads, with page faults of maps.
    Read,
    /// Writes.
    Write,
    /// `lseek`, `dup`, `fcntl`, locks and advice: no walk and no bytes.
    Descriptor,
    /// `truncate` and `fallocate`.
    Truncate,
    /// `fsync` and its like, without what a device takes.
    Sync,
    /// A buffer of entries of a directory.
    List,
    /// `readlink`.
    Readlink,
    /// `chmod`, `chown`, `utimensat`.
    Attributes,
    /// Extended attributes.
    Xattr,
    /// `mkdir`, `mknod`.
    Mkdir,
    /// `link`.
    Link,
    /// `symlink`.
    Symlink,
    /// `unlink`, `rmdir`.
    Unlink,
    /// `rename`.
    Rename,
}

/// What calls of a class take.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CallCost {
    /// The class.
    pub class: CostClass,
    /// Nanoseconds of a call that moves no bytes.
    pub ns: f64,
    /// Nanoseconds for each KiB.
    pub ns_per_kib: f64,
}

/// What all classes take, and where that is known from.
#[derive(Clone, PartialEq, Debug)]
pub struct CallCosts {
    source: String,
    list: [CallCost; CostClass::ALL.len()],
}

/// Where the built-in figures come from.
const BUILT_IN: &str = "built-in figures of ram on another machine (`esker calibrate` measures this one)";

/// Of ram, by `esker calibrate` of a release build on 2026-11-27: AMD EPYC, 2 CPUs, otherwise idle.
const RAM: [(f64, f64); CostClass::ALL.len()] = [
    (454.1, 0.0),
    (661.1, 0.0),
    (1640.5, 0.0),
    (159.8, 0.0),
    (96.4, 32.9),
    (128.0, 38.3),
    (26.4, 0.0),
    (218.8, 0.0),
    (50.6, 0.0),
    (191.3, 14_665.0),
    (569.0, 0.0),
    (561.0, 0.0),
    (608.6, 0.0),
    (1585.1, 0.0),
    (1934.1, 0.0),
    (1592.1, 0.0),
    (1043.0, 0.0),
    (2203.4, 0.0),
];

impl CostClass {
    /// All classes.
    pub const ALL: [CostClass; 18] = [
        CostClass::Stat,
        CostClass::Open,
        CostClass::Create,
        CostClass::Close,
        CostClass::Read,
        CostClass::Write,
        CostClass::Descriptor,
        CostClass::Truncate,
        CostClass::Sync,
        CostClass::List,
        CostClass::Readlink,
        CostClass::Attributes,
        CostClass::Xattr,
        CostClass::Mkdir,
        CostClass::Link,
        CostClass::Symlink,
        CostClass::Unlink,
        CostClass::Rename,
    ];

    /// The name in calibration files.
    pub fn name(self) -> &'static str {
        match self {
            CostClass::Stat => "stat",
            CostClass::Open => "open",
            CostClass::Create => "create",
            CostClass::Close => "close",
            CostClass::Read => "read",
            CostClass::Write => "write",
            CostClass::Descriptor => "descriptor",
            CostClass::Truncate => "truncate",
            CostClass::Sync => "sync",
            CostClass::List => "list",
            CostClass::Readlink => "readlink",
            CostClass::Attributes => "attributes",
            CostClass::Xattr => "xattr",
            CostClass::Mkdir => "mkdir",
            CostClass::Link => "link",
            CostClass::Symlink => "symlink",
            CostClass::Unlink => "unlink",
            CostClass::Rename => "rename",
        }
    }

    /// The class of a call. What costs about nothing on a file system counts as a call on a descriptor.
    pub fn of(call: &Call) -> CostClass {
        match call {
            Call::Open { flags, .. } | Call::ShmOpen { flags, .. } => {
                let makes = flags.intersects(OpenFlags::O_CREAT | OpenFlags::O_TMPFILE);
                if makes { CostClass::Create } else { CostClass::Open }
            }
            Call::Exec { .. } => CostClass::Open,
            Call::Close { .. } | Call::CloseRange { .. } => CostClass::Close,
            Call::Stat { .. }
            | Call::Access { .. }
            | Call::StatFs { .. }
            | Call::NameToHandle { .. }
            | Call::Watch { .. }
            | Call::Chdir { .. }
            | Call::GetAttrList { .. }
            | Call::SearchFs { .. }
            | Call::FsControl { .. }
            | Call::FsGetPath { .. }
            | Call::Undocumented { .. } => CostClass::Stat,
            Call::MapTouch { write: true, .. } | Call::Write { .. } | Call::Pwrite { .. } => CostClass::Write,
            Call::SendFile { .. }
            | Call::CopyRange { .. }
            | Call::Splice { .. }
            | Call::CloneRange { .. }
            | Call::CloneFile { .. } => CostClass::Write,
            Call::Read { .. } | Call::Pread { .. } | Call::MapTouch { .. } => CostClass::Read,
            Call::Truncate { .. } | Call::Allocate { .. } | Call::Preallocate { .. } => CostClass::Truncate,
            Call::Sync { .. } | Call::SyncRange { .. } | Call::SyncAll { .. } | Call::MapSync { .. } => CostClass::Sync,
            Call::ReadDir { .. } | Call::GetDirEntriesAttr { .. } => CostClass::List,
            Call::ReadLink { .. } => CostClass::Readlink,
            Call::Chmod { .. } | Call::Chown { .. } | Call::SetTimes { .. } | Call::SetAttrList { .. } => {
                CostClass::Attributes
            }
            Call::GetXattr { .. }
            | Call::SetXattr { .. }
            | Call::ListXattr { .. }
            | Call::RemoveXattr { .. }
            | Call::GetXattrAt { .. }
            | Call::SetXattrAt { .. } => CostClass::Xattr,
            Call::Mkdir { .. } | Call::Mknod { .. } | Call::Bind { .. } => CostClass::Mkdir,
            Call::Link { .. } => CostClass::Link,
            Call::Symlink { .. } => CostClass::Symlink,
            Call::Unlink { .. } | Call::Rmdir { .. } | Call::ShmUnlink { .. } => CostClass::Unlink,
            Call::Rename { .. } | Call::ExchangeData { .. } => CostClass::Rename,
            _ => CostClass::Descriptor,
        }
    }
}

impl CallCosts {
    /// Those that are built in.
    pub fn built_in() -> CallCosts {
        let cost = |at: usize| CallCost { class: CostClass::ALL[at], ns: RAM[at].0, ns_per_kib: RAM[at].1 };
        CallCosts { source: BUILT_IN.to_string(), list: std::array::from_fn(cost) }
    }

    /// Those that were measured, by the names of their classes; a class that is missing has its built-in cost.
    pub fn measured<'a>(source: &str, rows: impl Iterator<Item = (&'a str, f64, f64)>) -> CallCosts {
        let mut costs = CallCosts { source: source.to_string(), ..CallCosts::built_in() };
        for (name, ns, ns_per_kib) in rows {
            if let Some(cost) = costs.list.iter_mut().find(|cost| cost.class.name() == name) {
                (cost.ns, cost.ns_per_kib) = (ns, ns_per_kib);
            }
        }
        costs
    }

    /// No time at all, for tests of results.
    pub fn none() -> CallCosts {
        let mut costs = CallCosts { source: "none".to_string(), ..CallCosts::built_in() };
        costs.list.iter_mut().for_each(|cost| (cost.ns, cost.ns_per_kib) = (0.0, 0.0));
        costs
    }

    /// Where they come from, for people.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// CPU time of a call that moves so many bytes.
    pub fn of(&self, call: &Call, bytes: u64) -> Nanos {
        let cost = &self.list[CostClass::of(call) as usize];
        Nanos((cost.ns + cost.ns_per_kib * bytes as f64 / 1024.0).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_trace_calls::Fd;

    #[test]
    fn a_class_stands_at_its_number_and_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<&str> = CostClass::ALL.iter().map(|class| class.name()).collect();
        assert_eq!(names.len(), CostClass::ALL.len());
        for (at, class) in CostClass::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, at);
            assert_eq!(CallCosts::built_in().list[at].class, class);
        }
    }

    #[test]
    fn a_call_costs_its_class_and_its_bytes() {
        let costs = CallCosts::measured("here", [("read", 100.0, 8.0), ("unknown", 1.0, 1.0)].into_iter());
        let read = Call::Read { fd: Fd(3), len: 4096, parts: 0 };
        assert_eq!([costs.of(&read, 0), costs.of(&read, 4096)], [Nanos(100), Nanos(132)]);
        assert_eq!(costs.of(&Call::Umask { mask: 0 }, 0), CallCosts::built_in().of(&Call::Umask { mask: 0 }, 0));
        assert_eq!(CallCosts::none().of(&read, 1 << 20), Nanos::ZERO);
    }
}
