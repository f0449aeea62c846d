//! Names that the kernel makes up for what a process has open: they mean a descriptor, or the working directory, of the
//! process that uses them.

use super::parts::{At, Fd};
use super::{Call, Object};
use crate::name::PathBytes;
use crate::words::OpenFlags;

/// Where the kernel shows a process or thread to itself.
const OWN: [&[u8]; 2] = [b"/proc/self/", b"/proc/thread-self/"];
/// Names of the first descriptors.
const STANDARD: [&[u8]; 3] = [b"/dev/stdin", b"/dev/stdout", b"/dev/stderr"];

/// What such a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alias {
    Descriptor(Fd),
    WorkingDirectory,
    Root,
}

/// What the beginning of an absolute path stands for, and what comes behind it.
fn alias(path: &[u8]) -> Option<(Alias, &[u8])> {
    if let Some(number) = STANDARD.iter().position(|name| *name == path) {
        return Some((Alias::Descriptor(Fd(number as i32)), b""));
    }
    if let Some(name) = path.strip_prefix(b"/dev/fd/") {
        return descriptor(name);
    }
    let name = OWN.iter().find_map(|own| path.strip_prefix(*own))?;
    if let Some(number) = name.strip_prefix(b"fd/") {
        return descriptor(number);
    }
    let (first, rest) = first(name);
    match first {
        b"cwd" => Some((Alias::WorkingDirectory, rest)),
        b"root" => Some((Alias::Root, rest)),
        _ => None,
    }
}

/// A descriptor's number, as the kernel writes it.
fn descriptor(name: &[u8]) -> Option<(Alias, &[u8])> {
    let (number, rest) = first(name);
    let is_number = number == b"0" || number.first().is_some_and(|byte| (b'1'..=b'9').contains(byte));
    let number = std::str::from_utf8(number).ok().filter(|_| is_number)?.parse().ok()?;
    Some((Alias::Descriptor(Fd(number)), rest))
}

/// The first component, and what begins with the slash behind it.
fn first(name: &[u8]) -> (&[u8], &[u8]) {
    name.split_at(name.iter().position(|byte| *byte == b'/').unwrap_or(name.len()))
}

impl At {
    /// The descriptor that is meant itself: the path is a name for it, and `dir` is it. Only
    /// [`Call::resolve_aliases`] puts a directory before an absolute path.
    pub fn descriptor(&self) -> Option<Fd> {
        let is_alias = || matches!(alias(&self.path), Some((Alias::Descriptor(_), b"")));
        (self.dir != Fd::CWD && is_alias()).then_some(self.dir)
    }

    /// Resolves a name of a descriptor that is open, or of a directory, at the beginning of an absolute path; as a
    /// whole path only if such a link is followed.
    fn resolve_alias(&mut self, follow: bool, is_open: &dyn Fn(Fd) -> bool) {
        if self.path.first() != Some(&b'/') {
            return;
        }
        let (dir, path) = match alias(&self.path) {
            Some((Alias::Descriptor(fd), b"")) if follow && is_open(fd) => (fd, None),
            Some((Alias::Descriptor(fd), rest)) if !rest.is_empty() && is_open(fd) => (fd, Some(below(rest))),
            Some((Alias::WorkingDirectory, rest)) if follow || !rest.is_empty() => (Fd::CWD, Some(below(rest))),
            Some((Alias::Root, rest)) if !rest.is_empty() => (Fd::CWD, Some(PathBytes::from(rest))),
            _ => (Fd::CWD, None),
        };
        self.dir = dir;
        if let Some(path) = path {
            self.path = path;
        }
    }
}

/// The path below a directory.
fn below(rest: &[u8]) -> PathBytes {
    let names = rest.iter().position(|byte| *byte != b'/').map_or(&b"."[..], |at| &rest[at..]);
    PathBytes::from(names)
}

impl Call {
    /// Puts descriptors and working directories in the place of names for them (`/proc/self/fd/3`, `/dev/fd/3`,
    /// `/proc/self/cwd`), where the process has the descriptor open.
    pub fn resolve_aliases(&mut self, is_open: &dyn Fn(Fd) -> bool) {
        self.change_ats_and_links(&mut |at, follow| at.resolve_alias(follow, is_open));
    }

    /// Shows each path that starts somewhere to `change`, with whether a link at its end is followed.
    pub fn change_ats_and_links(&mut self, change: &mut dyn FnMut(&mut At, bool)) {
        // No call follows more than its first path.
        let mut follows = self.follows();
        self.change_ats(&mut |at| change(at, std::mem::take(&mut follows)));
    }

    /// Whether a link at the end of its first path is followed.
    fn follows(&self) -> bool {
        match self {
            Call::Open { flags, .. } => {
                !flags.contains(OpenFlags::O_NOFOLLOW) && !flags.contains(OpenFlags::O_CREAT | OpenFlags::O_EXCL)
            }
            Call::Watch { .. } | Call::Chroot { .. } => true,
            Call::Stat { file, .. }
            | Call::Access { file, .. }
            | Call::StatFs { file }
            | Call::NameToHandle { file }
            | Call::Chmod { file, .. }
            | Call::Chown { file, .. }
            | Call::SetTimes { file, .. }
            | Call::GetXattr { file, .. }
            | Call::SetXattr { file, .. }
            | Call::ListXattr { file, .. }
            | Call::RemoveXattr { file, .. }
            | Call::Truncate { file, .. }
            | Call::Chdir { file }
            | Call::Exec { file }
            | Call::Link { from: file, .. } => matches!(file, Object::Path { follow: true, .. }),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(path: &str, follow: bool) -> (Fd, String) {
        let mut at = At { dir: Fd(9), path: PathBytes::from(path) };
        at.resolve_alias(follow, &|fd| fd != Fd(4));
        (at.dir, at.path.to_string())
    }

    #[test]
    fn names_of_descriptors_become_them() {
        let check = |path, follow, dir, now: &str| assert_eq!(resolved(path, follow), (dir, now.to_string()), "{path}");
        let cwd = Fd::CWD;
        for path in ["/proc/self/fd/3", "/proc/thread-self/fd/3", "/dev/fd/3"] {
            check(path, true, Fd(3), path);
            check(path, false, cwd, path);
        }
        check("/dev/stdout", true, Fd(1), "/dev/stdout");
        check("/proc/self/fd/3/d/x", false, Fd(3), "d/x");
        check("/proc/self/fd/3//", false, Fd(3), ".");
        check("/proc/self/cwd/x", false, cwd, "x");
        check("/proc/self/cwd", true, cwd, ".");
        check("/proc/self/root/x", false, cwd, "/x");
        // A descriptor that is not open, and names that are none of these.
        for path in ["/proc/self/fd/4", "/proc/self/fd/4/x", "/proc/self/fd/03", "/proc/self/fd", "/proc/self/exe"] {
            check(path, true, cwd, path);
        }
        check("/proc/self/cwd", false, cwd, "/proc/self/cwd");
        check("x/proc/self/fd/3", true, Fd(9), "x/proc/self/fd/3");
    }

    #[test]
    fn only_an_alias_behind_a_directory_is_a_descriptor() {
        let at = |dir, path: &str| At { dir, path: PathBytes::from(path) }.descriptor();
        assert_eq!(at(Fd(7), "/proc/self/fd/3"), Some(Fd(7)));
        assert_eq!(at(Fd::CWD, "/proc/self/fd/3"), None);
        assert_eq!(at(Fd(7), "/f"), None);
        assert_eq!(at(Fd(7), "f"), None);
    }

    #[test]
    fn what_is_not_followed_keeps_its_name() {
        let path = || At::cwd("/proc/self/fd/3");
        let changed = |mut call: Call| {
            let mut any = false;
            call.resolve_aliases(&|_| true);
            call.change_ats(&mut |at| any |= at.descriptor().is_some());
            any
        };
        let open = |flags| Call::Open { at: path(), flags, mode: 0, resolve: Default::default() };
        assert!(changed(open(OpenFlags::READ)));
        assert!(!changed(open(OpenFlags::READ | OpenFlags::O_NOFOLLOW)));
        assert!(!changed(open(OpenFlags::WRITE | OpenFlags::O_CREAT | OpenFlags::O_EXCL)));
        let stat = |follow| Call::Stat { file: Object::Path { at: path(), follow }, seen: None };
        assert_eq!([changed(stat(true)), changed(stat(false))], [true, false]);
        assert!(!changed(Call::Unlink { at: path() }));
    }
}
