//! Kinds of calls, as reports sum them up.

use esker_trace_calls::Call;

/// The category of a call.
pub fn category(call: &Call) -> &'static str {
    match call {
        Call::Sync { .. } | Call::SyncRange { .. } | Call::SyncAll {} | Call::MapSync { .. } => "fsync",
        Call::Read { .. } | Call::Pread { .. } | Call::MapTouch { write: false, .. } | Call::PageFault { .. } => "read",
        Call::Write { .. } | Call::Pwrite { .. } | Call::MapTouch { write: true, .. } => "write",
        Call::SendFile { .. }
        | Call::CopyRange { .. }
        | Call::Splice { .. }
        | Call::Tee { .. }
        | Call::CloneRange { .. }
        | Call::CloneFile { .. } => "copy",
        Call::Stat { .. } | Call::Access { .. } | Call::StatFs { .. } | Call::GetAttrList { .. } => "stat",
        Call::Open { .. } | Call::ShmOpen { .. } | Call::Exec { .. } => "open",
        Call::Close { .. } | Call::CloseRange { .. } => "close",
        Call::ReadDir { .. } | Call::GetDirEntriesAttr { .. } | Call::ReadLink { .. } => "directory",
        Call::Mkdir { .. }
        | Call::Mknod { .. }
        | Call::Symlink { .. }
        | Call::Link { .. }
        | Call::Unlink { .. }
        | Call::Rmdir { .. }
        | Call::Rename { .. }
        | Call::ExchangeData { .. }
        | Call::ShmUnlink { .. } => "names",
        Call::GetXattr { .. }
        | Call::SetXattr { .. }
        | Call::ListXattr { .. }
        | Call::RemoveXattr { .. }
        | Call::GetXattrAt { .. }
        | Call::SetXattrAt { .. } => "attributes",
        Call::AsyncSubmit { .. }
        | Call::AsyncReap { .. }
        | Call::AsyncReturn { .. }
        | Call::AsyncSuspend { .. }
        | Call::UringEnter { .. } => "asynchronous",
        Call::Truncate { .. } | Call::Allocate { .. } | Call::Preallocate { .. } => "allocation",
        Call::Advise { .. } | Call::ReadAhead { .. } | Call::Hinted { .. } | Call::MapAdvise { .. } => "hints",
        _ => "other",
    }
}
