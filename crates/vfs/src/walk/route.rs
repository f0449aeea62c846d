//! The steps of a walk.

use std::borrow::Cow;

use esker_base::Errno;

use crate::access::may_search;
use crate::attr::{Attr, FileType};
use crate::change::Last;
use crate::word::{Cred, Name};

/// Most bytes of a path, and of the target of a symbolic link.
pub const PATH_BYTES_MAX: usize = 4095;
/// Most symbolic links that a walk follows.
pub const LINKS_MAX: u32 = 40;

/// A path during a walk: what remains of it, and the rules that hold for it.
pub struct Route<'a> {
    /// The path, or the target of the last link with what was behind the link.
    path: Cow<'a, [u8]>,
    /// Bytes of it that the walk has passed.
    passed: usize,
    links: u32,
    last: Last,
    /// Whether a link at the end is followed.
    follows_last: bool,
    /// Whether the component that was taken is the last one.
    is_last: bool,
    /// Whether a slash behind the last component asks for a directory.
    wants_directory: bool,
}

/// The next step of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn<'r> {
    /// The walk ends here.
    Arrived,
    /// To the directory that holds this one.
    Up,
    /// To the inode of this name.
    Down(Name<'r>),
}

impl<'a> Route<'a> {
    /// A walk of this path.
    ///
    /// # Errors
    /// `ENOENT` for an empty path, `ENAMETOOLONG`.
    pub fn new(path: &'a [u8], last: Last) -> Result<Route<'a>, Errno> {
        match path.len() {
            0 => return Err(Errno::ENOENT),
            1..=PATH_BYTES_MAX => {}
            _ => return Err(Errno::ENAMETOOLONG),
        }
        let follows_last = match last {
            Last::Target => true,
            Last::Itself | Last::Parent => path.ends_with(b"/"),
        };
        let path = Cow::Borrowed(path);
        Ok(Route { path, passed: 0, links: 0, last, follows_last, is_last: false, wants_directory: false })
    }

    /// Whether the walk begins at the root.
    pub fn is_absolute(&self) -> bool {
        self.path.starts_with(b"/")
    }

    /// The next step from the inode with these attributes.
    ///
    /// # Errors
    /// `ENOTDIR` and `EACCES` if it cannot be searched, `ENAMETOOLONG` and `EINVAL` if the next component is no name.
    pub fn turn(&mut self, cred: &Cred, here: &Attr) -> Result<Turn<'_>, Errno> {
        loop {
            let Some((start, end)) = component(&self.path, self.passed) else {
                let fits = !self.wants_directory || here.kind == FileType::Directory;
                return if fits { Ok(Turn::Arrived) } else { Err(Errno::ENOTDIR) };
            };
            may_search(cred, here)?;
            self.is_last = component(&self.path, end).is_none();
            if self.is_last && self.last == Last::Parent {
                return Ok(Turn::Arrived);
            }
            self.wants_directory |= self.is_last && end < self.path.len();
            self.passed = end;
            match &self.path[start..end] {
                b"." => {}
                b".." => return Ok(Turn::Up),
                name => return Name::new(name).map(Turn::Down),
            }
        }
    }

    /// Whether an inode of this kind, to which the last step led, has a target that the walk follows.
    pub fn follows(&self, kind: FileType) -> bool {
        kind == FileType::Symlink && (!self.is_last || self.follows_last)
    }

    /// Goes on with the target of a link, and then with what is behind the link. Answers whether it goes on at the
    /// root, not at the directory of the link.
    ///
    /// # Errors
    /// `ELOOP`; `ENOENT` for an empty target.
    pub fn follow(&mut self, target: &[u8]) -> Result<bool, Errno> {
        if self.links == LINKS_MAX {
            return Err(Errno::ELOOP);
        }
        if target.is_empty() {
            return Err(Errno::ENOENT);
        }
        self.links += 1;
        let behind = if self.is_last { &[] } else { &self.path[self.passed..] };
        self.path = Cow::Owned([target, behind].concat());
        self.passed = 0;
        Ok(self.is_absolute())
    }
}

/// The next component from `at` on: its first byte and the byte behind it.
fn component(path: &[u8], at: usize) -> Option<(usize, usize)> {
    let start = at + path[at..].iter().position(|byte| *byte != b'/')?;
    let end = path[start..].iter().position(|byte| *byte == b'/').map_or(path.len(), |len| start + len);
    Some((start, end))
}

/// The last component of a path: what [`Last::Parent`] leaves to its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Split<'a> {
    /// The component.
    pub tail: Tail<'a>,
    /// Whether a slash is behind it, so that it must be a directory.
    pub has_slash: bool,
}

/// What a path ends with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tail<'a> {
    /// Bytes to be made a [`Name`] behind the walk, whose errors come first.
    Name(&'a [u8]),
    /// ".".
    Dot,
    /// "..".
    DotDot,
    /// Nothing: the path is empty or only slashes.
    Nothing,
}

/// The last component of a path.
pub fn split(path: &[u8]) -> Split<'_> {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    let start = path[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let tail = match &path[start..end] {
        b"" => Tail::Nothing,
        b"." => Tail::Dot,
        b".." => Tail::DotDot,
        name => Tail::Name(name),
    };
    Split { tail, has_slash: end < path.len() }
}
