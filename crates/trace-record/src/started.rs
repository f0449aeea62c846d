//! What is there when recording begins: processes, threads, descriptors.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;

use esker_trace_calls::words::{FileKind, OpenFlags};
use esker_trace_calls::{Fd, Inherited, PathBytes, ProcessId, Word};

use crate::assemble::{Assembler, Sink};
use crate::calls::{bits, kind_of_mode};

/// Numbers of a process' threads.
///
/// # Errors
/// If it is not there, or may not be read.
pub(crate) fn threads(pid: u32) -> io::Result<Vec<u32>> {
    let numbers =
        fs::read_dir(format!("/proc/{pid}/task"))?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(numbers.collect())
}

/// The process with all its threads and open descriptors. Where something cannot be read, it is left empty.
///
/// # Errors
/// If there is no such process.
pub(crate) fn announce(pid: u32, assembler: &mut Assembler, sink: &mut impl Sink) -> io::Result<ProcessId> {
    let threads = threads(pid)?;
    let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
    let cwd = PathBytes::from(cwd.as_os_str().as_bytes());
    let process = assembler.add_process(pid, cwd, umask(pid), sink);
    for tid in threads {
        let name = fs::read(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
        assembler.add_thread(tid, pid, Word::from(name.trim_ascii_end()), sink);
    }
    for inherited in descriptors(pid, process)? {
        assembler.add_descriptor(pid, &inherited, sink);
    }
    Ok(process)
}

fn umask(pid: u32) -> u16 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| u16::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
}

fn descriptors(pid: u32, process: ProcessId) -> io::Result<Vec<Inherited>> {
    let names =
        fs::read_dir(format!("/proc/{pid}/fd"))?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<i32> = names.collect();
    numbers.sort_unstable();
    let mut found = Vec::new();
    for fd in numbers {
        found.extend(descriptor(pid, process, fd));
    }
    number_groups(pid, &mut found);
    Ok(found)
}

fn descriptor(pid: u32, process: ProcessId, fd: i32) -> Option<Inherited> {
    let link = format!("/proc/{pid}/fd/{fd}");
    let target = fs::read_link(&link).ok()?;
    let kind = fs::metadata(&link).ok().map_or(FileKind::Other, |metadata| {
        use std::os::unix::fs::MetadataExt;
        kind_of_mode(metadata.mode())
    });
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let flags = field("flags:").and_then(|flags| u64::from_str_radix(flags, 8).ok()).unwrap_or(0);
    let offset = field("pos:").and_then(|at| at.parse().ok()).unwrap_or(0);
    let bytes = target.as_os_str().as_bytes();
    let path = bytes.starts_with(b"/").then(|| PathBytes::from(bytes));
    Some(Inherited { process, fd: Fd(fd), kind, path, flags: bits::open_flags(flags), offset, group: 0 })
}

/// Descriptors that lead to one open file description have one number. The kernel tells of two whether they do.
fn number_groups(pid: u32, found: &mut [Inherited]) {
    let mut group = 0;
    for at in 0..found.len() {
        let same = |other: &Inherited| {
            let alike = other.path == found[at].path
                && other.flags | OpenFlags::O_CLOEXEC == found[at].flags | OpenFlags::O_CLOEXEC;
            alike && other.offset == found[at].offset && is_same_description(pid, other.fd, found[at].fd)
        };
        let Some(first) = found[..at].iter().position(same) else { continue };
        if found[first].group == 0 {
            group += 1;
            found[first].group = group;
        }
        found[at].group = found[first].group;
    }
}

/// `fdinfo` of descriptors of one open file description is equal; of pipes and terminals, their inode says more than
/// that.
fn is_same_description(pid: u32, one: Fd, other: Fd) -> bool {
    let info = |fd: Fd| fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", fd.0)).ok();
    let link = |fd: Fd| fs::read_link(format!("/proc/{pid}/fd/{}", fd.0)).ok();
    info(one).is_some() && info(one) == info(other) && link(one) == link(other)
}
