//! The process and the folder in which scripts are played.
//!
//! A script is given rights, an umask, a working directory and a root of its own, all of which belong to a whole
//! process. So it is played in a process that does nothing else. The superuser's has the folder as its root. Another
//! user's has none, and must not play what would lead out of the folder: [`obstacle`].

use std::path::Path;

use esker_fs_posix::script::{Object, ScriptOp, Word};
use rustix::fs::Mode;

/// The umask with which a script begins.
const UMASK: u32 = 0o022;

/// Makes a folder the working directory of this process, and its root if the process is the superuser's.
///
/// # Errors
/// Why the kernel refuses.
pub fn enter(folder: &Path) -> std::io::Result<()> {
    rustix::process::umask(Mode::from_raw_mode(UMASK));
    match rustix::process::geteuid().is_root() {
        true => {
            rustix::process::chroot(folder)?;
            rustix::process::chdir("/")?;
        }
        false => rustix::process::chdir(folder)?,
    }
    Ok(())
}

/// Why a process whose root is not the folder cannot play a call, if it cannot.
pub fn obstacle(op: &ScriptOp) -> Option<&'static str> {
    if matches!(op, ScriptOp::Become(_)) {
        return Some("only the superuser takes the rights of users");
    }
    paths(op).into_iter().flatten().find_map(|path| match &path.0[..] {
        [b'/', ..] => Some("only the superuser has the folder of the script as its root, where absolute paths begin"),
        path if path.split(|byte| *byte == b'/').any(|part| part == b"..") => {
            Some("only the superuser has the folder of the script as its root, which \"..\" does not leave")
        }
        _ => None,
    })
}

/// The paths of a call, the target of a symbolic link included.
fn paths(op: &ScriptOp) -> [Option<&Word>; 2] {
    match op {
        ScriptOp::Open(_, path, ..)
        | ScriptOp::Mkdir(path, _)
        | ScriptOp::Mknod(path, ..)
        | ScriptOp::Readlink(path)
        | ScriptOp::Unlink(path)
        | ScriptOp::Rmdir(path)
        | ScriptOp::Access(path, _) => [Some(path), None],
        ScriptOp::Symlink(one, other) | ScriptOp::Rename(one, other, _) => [Some(one), Some(other)],
        ScriptOp::Link(old, new, _) => [path_of(old), Some(new)],
        ScriptOp::Truncate(object, _)
        | ScriptOp::Stat(object, _)
        | ScriptOp::Chmod(object, _)
        | ScriptOp::Chown(object, ..)
        | ScriptOp::Times(object, ..)
        | ScriptOp::Xattr(object, ..)
        | ScriptOp::List(object)
        | ScriptOp::Chdir(object) => [path_of(object), None],
        ScriptOp::Close(_)
        | ScriptOp::Dup(..)
        | ScriptOp::Read(..)
        | ScriptOp::Write(..)
        | ScriptOp::Seek(..)
        | ScriptOp::Allocate(..)
        | ScriptOp::Copy(..)
        | ScriptOp::Clone(..)
        | ScriptOp::Sync(_)
        | ScriptOp::Umask(_)
        | ScriptOp::Become(_) => [None, None],
    }
}

fn path_of(object: &Object) -> Option<&Word> {
    match object {
        Object::Path(path) => Some(path),
        Object::Held(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use esker_fs_posix::script::ScriptLine;

    use super::*;

    fn why(line: &str) -> Option<&'static str> {
        let read = ScriptLine::read(line).expect("a call");
        obstacle(&read[0].op)
    }

    #[test]
    fn what_would_lead_out_of_the_folder_takes_the_superuser() {
        for line in ["mkdir /A 0755", "rename A /B replace", "symlink /etc A", "link A /B", "chdir /", "list /"] {
            assert!(why(line).is_some_and(|why| why.contains("absolute")), "{line}");
        }
        for line in ["stat ../A", "unlink A/../../B", "symlink .. A", "truncate A/.. 0", "open #0 .. path 0"] {
            assert!(why(line).is_some_and(|why| why.contains("\"..\"")), "{line}");
        }
        assert!(why("become 0").is_some());
        for line in ["mkdir A 0755", "stat ...", "symlink A/B C", "rename A..B ..C replace", "read #0 5", "umask 0"] {
            assert_eq!(why(line), None, "{line}");
        }
    }
}
