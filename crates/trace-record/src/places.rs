//! Where paths lead to: the working directories and open directories of traced processes, as far as calls tell.
//!
//! Only for finding files of which the snapshot does not know yet, and for warnings of maps; what is wrong here is
//! missing there, and nothing else.

use std::collections::BTreeMap;

use esker_trace_calls::{At, Call, Fd, Object, Outcome, PathBytes};

/// Of one process. That processes may share them is not modelled: what one changes later, the other does not see.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    cwd: Vec<u8>,
    fds: BTreeMap<Fd, Vec<u8>>,
}

impl Places {
    /// A process that works in a directory.
    pub(crate) fn new(cwd: &PathBytes) -> Places {
        Places { cwd: cwd.to_vec(), fds: BTreeMap::new() }
    }

    /// A descriptor leads there.
    pub(crate) fn open(&mut self, fd: Fd, path: &[u8]) {
        self.fds.insert(fd, path.to_vec());
    }

    /// Where a descriptor leads, if that is known.
    pub(crate) fn path(&self, fd: Fd) -> Option<&[u8]> {
        self.fds.get(&fd).map(Vec::as_slice)
    }

    /// Whether a descriptor is known to be of a file by its path, not of a device or of memory that processes share.
    pub(crate) fn is_file(&self, fd: Fd) -> bool {
        self.fds.get(&fd).is_some_and(|path| !path.starts_with(b"/dev/"))
    }

    /// The absolute path behind a directory and a path; `None` where the directory is not known.
    pub(crate) fn absolute(&self, at: &At) -> Option<Vec<u8>> {
        if at.path.starts_with(b"/") {
            return Some(at.path.to_vec());
        }
        let base = match at.dir {
            Fd::CWD => &self.cwd,
            dir => self.fds.get(&dir)?,
        };
        (base.starts_with(b"/")).then(|| join(base, &at.path))
    }

    /// What a call changes. Paths are kept as `resolve` gives them, so that those of a walk up and down do not grow.
    pub(crate) fn follow(&mut self, call: &Call, outcome: Outcome, resolve: impl FnOnce(&[u8]) -> Vec<u8>) {
        let Some(value) = outcome.value() else { return };
        match call {
            Call::Open { at, .. } => match self.absolute(at) {
                Some(path) => drop(self.fds.insert(Fd(value as i32), resolve(&path))),
                None => drop(self.fds.remove(&Fd(value as i32))),
            },
            Call::Close { fd } => drop(self.fds.remove(fd)),
            Call::CloseRange { first, last, .. } => self.fds.retain(|fd, _| !(*first..=*last).contains(&(fd.0 as u32))),
            Call::Dup { fd, .. } | Call::DupTo { fd, .. } => match self.fds.get(fd).cloned() {
                Some(path) => drop(self.fds.insert(Fd(value as i32), path)),
                None => drop(self.fds.remove(&Fd(value as i32))),
            },
            Call::Chdir { file: Object::Fd(fd) } => self.cwd = self.fds.get(fd).cloned().unwrap_or_default(),
            Call::Chdir { file: Object::Path { at, .. } } => {
                self.cwd = self.absolute(at).map(|path| resolve(&path)).unwrap_or_default();
            }
            _ => {}
        }
    }
}

/// A path below a directory, both kept as they are.
pub(crate) fn join(base: &[u8], path: &[u8]) -> Vec<u8> {
    let mut whole = base.to_vec();
    if !path.is_empty() {
        if !whole.ends_with(b"/") {
            whole.push(b'/');
        }
        whole.extend_from_slice(path);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_trace_calls::words::{OpenFlags, ResolveFlags};

    fn open(dir: Fd, path: &str) -> Call {
        let flags = OpenFlags::READ;
        Call::Open { at: At { dir, path: PathBytes::from(path) }, flags, mode: 0, resolve: ResolveFlags::empty() }
    }

    fn follow(places: &mut Places, call: &Call, outcome: Outcome) {
        places.follow(call, outcome, <[u8]>::to_vec);
    }

    #[test]
    fn what_is_open_is_known_by_the_path_to_which_its_name_led() {
        let mut places = Places::new(&PathBytes::from("/home"));
        places.follow(&open(Fd::CWD, "link/../a"), Outcome::Done(3), |path| {
            assert_eq!(path, b"/home/link/../a");
            b"/elsewhere/a".to_vec()
        });
        let up = At { dir: Fd(3), path: PathBytes::from("..") };
        assert_eq!(places.absolute(&up).as_deref(), Some(&b"/elsewhere/a/.."[..]));
    }

    #[test]
    fn paths_start_where_their_directory_is_open() {
        let mut places = Places::new(&PathBytes::from("/home"));
        follow(&mut places, &open(Fd::CWD, "a"), Outcome::Done(3));
        follow(&mut places, &open(Fd(3), "b"), Outcome::Done(4));
        let at = |dir, path: &str| At { dir, path: PathBytes::from(path) };
        assert_eq!(places.absolute(&at(Fd(4), "c")).as_deref(), Some(&b"/home/a/b/c"[..]));
        follow(&mut places, &Call::Chdir { file: Object::Fd(Fd(3)) }, Outcome::Done(0));
        assert_eq!(places.absolute(&at(Fd::CWD, "d")).as_deref(), Some(&b"/home/a/d"[..]));
        follow(&mut places, &Call::Close { fd: Fd(4) }, Outcome::Done(0));
        assert_eq!(places.absolute(&at(Fd(4), "c")), None);
        assert_eq!(places.absolute(&at(Fd(9), "/abs")).as_deref(), Some(&b"/abs"[..]));
    }
}
