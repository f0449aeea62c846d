//! From paths to inodes.

use std::rc::Rc;

use esker_base::Errno;
use esker_vfs::access::Wanted;
use esker_vfs::walk::{Route, Split, Tail, Turn};
use esker_vfs::{Attr, Entry, FileFlags, FileType, Ino, Last, Name, New, NewKind, SetAttr, access, split};

use crate::file::{Fd, File};
use crate::flags::Access;
use crate::process::Process;
use crate::world::{Pin, World};

/// What a call is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Where<'a> {
    /// A path, from the working directory on.
    Path(&'a [u8]),
    /// A path, from the directory of a descriptor on, as calls ending in `at` take it.
    At(Fd, &'a [u8]),
    /// An open file, as calls beginning with `f` take it: `EBADF` for a mere place (`O_PATH`).
    Fd(Fd),
    /// The inode of a descriptor (`AT_EMPTY_PATH`), which may be a mere place.
    Itself(Fd),
}

impl<'a> From<&'a [u8]> for Where<'a> {
    fn from(path: &'a [u8]) -> Where<'a> {
        Where::Path(path)
    }
}

impl<'a> From<&'a str> for Where<'a> {
    fn from(path: &'a str) -> Where<'a> {
        Where::Path(path.as_bytes())
    }
}

impl From<Fd> for Where<'_> {
    fn from(fd: Fd) -> Self {
        Where::Fd(fd)
    }
}

impl<'a> Where<'a> {
    /// The same, where a mere place will do.
    pub(crate) fn of_places(self) -> Where<'a> {
        match self {
            Where::Fd(fd) => Where::Itself(fd),
            Where::Path(_) | Where::At(..) | Where::Itself(_) => self,
        }
    }

    /// The path; an empty one of a descriptor.
    pub(crate) fn path(self) -> &'a [u8] {
        match self {
            Where::Path(path) | Where::At(_, path) => path,
            Where::Fd(_) | Where::Itself(_) => b"",
        }
    }
}

/// What a symbolic link at the end of a path means.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Follow {
    /// What it leads to.
    Links,
    /// Itself.
    Nothing,
}

/// A pinned inode.
pub(crate) enum Node {
    /// By a pin of its own.
    Own(Pin),
    /// By one that others use too.
    Shared(Rc<Pin>),
    /// By an open file.
    Open(Rc<File>),
}

impl Node {
    pub(crate) fn ino(&self) -> Ino {
        match self {
            Node::Own(pin) => pin.ino(),
            Node::Shared(pin) => pin.ino(),
            Node::Open(file) => file.ino(),
        }
    }

    /// Its pin, to be kept.
    pub(crate) fn shared(self) -> Rc<Pin> {
        match self {
            Node::Own(pin) => Rc::new(pin),
            Node::Shared(pin) => pin,
            Node::Open(file) => file.pin().clone(),
        }
    }

    /// Whether a file without a name may get one.
    pub(crate) fn is_linkable(&self) -> bool {
        match self {
            Node::Own(_) | Node::Shared(_) => true,
            Node::Open(file) => file.linkable,
        }
    }
}

/// An inode at the end of a path.
pub(crate) struct Reached {
    pub(crate) node: Node,
    pub(crate) attr: Attr,
}

/// The last component of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LastName<'a> {
    /// To be made a [`Name`] when it is looked up: errors of other walks come first.
    Name(&'a [u8]),
    Dot,
    DotDot,
    /// The path has slashes only.
    Root,
}

/// A name in its directory, which may have no such name.
pub(crate) struct Named<'a> {
    pub(crate) dir: Node,
    pub(crate) attr: Attr,
    pub(crate) last: LastName<'a>,
    /// Whether slashes follow.
    pub(crate) slash: bool,
}

impl<'a> Named<'a> {
    /// The name.
    ///
    /// # Errors
    /// `otherwise` if the path ends with none; `ENOENT` if the directory was removed; `ENAMETOOLONG`.
    pub(crate) fn name(&self, otherwise: Errno) -> Result<Name<'a>, Errno> {
        match self.last {
            LastName::Name(_) if self.attr.links == 0 => Err(Errno::ENOENT),
            LastName::Name(name) => Name::new(name),
            LastName::Dot | LastName::DotDot | LastName::Root => Err(otherwise),
        }
    }
}

/// Walks.
impl Process {
    /// The inode that a call is about.
    ///
    /// # Errors
    /// Those of a walk; `EBADF`.
    pub(crate) async fn reach(&self, at: Where<'_>, follow: Follow) -> Result<Reached, Errno> {
        let file = match at {
            Where::Path(_) | Where::At(..) => return self.reach_from(&self.start(at)?, at.path(), follow).await,
            Where::Fd(fd) => self.file(fd)?,
            Where::Itself(fd) => self.place(fd)?,
        };
        let attr = self.0.world.0.files.attr(self.call(), file.ino()).await?;
        Ok(Reached { node: Node::Open(file), attr })
    }

    /// The inode at the end of a path.
    ///
    /// # Errors
    /// Those of a walk.
    pub(crate) async fn reach_from(&self, start: &Node, path: &[u8], follow: Follow) -> Result<Reached, Errno> {
        let last = if follow == Follow::Links { Last::Target } else { Last::Itself };
        self.walk(start, path, last).await
    }

    async fn walk(&self, start: &Node, path: &[u8], last: Last) -> Result<Reached, Errno> {
        let (world, cred, root) = (&self.0.world, self.cred(), self.root());
        if root.ino() != world.0.files.root() {
            return self.walk_below(&root, start, path, last).await;
        }
        let entry = esker_vfs::walk(&*world.0.files, self.call(), &cred, start.ino(), path, last).await?;
        Ok(world.reached(entry))
    }

    /// A walk that never leaves another root directory than the file system's.
    async fn walk_below(&self, root: &Pin, start: &Node, path: &[u8], last: Last) -> Result<Reached, Errno> {
        let (world, cred, call) = (&self.0.world, self.cred(), self.call());
        let files = &world.0.files;
        let mut route = Route::new(path, last)?;
        let first = if route.is_absolute() { root.ino() } else { start.ino() };
        let mut here = world.reached(files.pin(call, first).await?);
        loop {
            let next = match route.turn(&cred, &here.attr)? {
                Turn::Arrived => return Ok(here),
                Turn::Up if here.node.ino() == root.ino() => continue,
                Turn::Up => files.parent(call, here.node.ino()).await?,
                Turn::Down(name) => files.lookup(call, here.node.ino(), name).await?,
            };
            let next = world.reached(next);
            if !route.follows(next.attr.kind) {
                here = next;
                continue;
            }
            let target = files.target(call, next.node.ino()).await?;
            if route.follow(&target)? {
                here = world.reached(files.pin(call, root.ino()).await?);
            }
        }
    }

    /// The directory of the last name of a path.
    ///
    /// # Errors
    /// Those of a walk; `EBADF`; `ENOENT` for an open file.
    pub(crate) async fn parent<'a>(&self, at: Where<'a>) -> Result<Named<'a>, Errno> {
        self.parent_from(&self.start(at)?, at.path()).await
    }

    /// The same, with a directory that relative paths begin at.
    pub(crate) async fn parent_from<'a>(&self, start: &Node, path: &'a [u8]) -> Result<Named<'a>, Errno> {
        let dir = self.walk(start, path, Last::Parent).await?;
        let Split { tail, has_slash } = split(path);
        let last = match tail {
            Tail::Name(name) => LastName::Name(name),
            Tail::Dot => LastName::Dot,
            Tail::DotDot => LastName::DotDot,
            Tail::Nothing => LastName::Root,
        };
        Ok(Named { dir: dir.node, attr: dir.attr, last, slash: has_slash })
    }

    /// Where a path begins.
    ///
    /// # Errors
    /// `EBADF`; `ENOTDIR` for a descriptor that is no directory, unless the path begins at the root.
    pub(crate) fn start(&self, at: Where<'_>) -> Result<Node, Errno> {
        match at {
            _ if at.path().starts_with(b"/") => Ok(Node::Shared(self.root())),
            Where::Path(_) => Ok(Node::Shared(self.cwd())),
            Where::At(_, b"") | Where::Fd(_) | Where::Itself(_) => Err(Errno::ENOENT),
            Where::At(fd, _) => {
                let file = self.place(fd)?;
                if file.kind == FileType::Directory { Ok(Node::Open(file)) } else { Err(Errno::ENOTDIR) }
            }
        }
    }

    /// What a name of a directory leads to, if it is there.
    ///
    /// # Errors
    /// The file system's.
    pub(crate) async fn child(&self, dir: &Node, name: Name<'_>) -> Result<Option<Reached>, Errno> {
        let world = &self.0.world;
        match world.0.files.lookup(self.call(), dir.ino(), name).await {
            Ok(entry) => Ok(Some(world.reached(entry))),
            Err(Errno::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes an inode with the owner and mode that rights and umask give it.
    ///
    /// # Errors
    /// The file system's.
    pub(crate) async fn make(
        &self,
        dir: &Node,
        attr: &Attr,
        name: Option<Name<'_>>,
        what: NewKind<'_>,
        mode: u16,
    ) -> Result<Reached, Errno> {
        let world = &self.0.world;
        let umask = if matches!(what, NewKind::Symlink(_)) { 0 } else { self.0.umask.get() };
        let kind = match what {
            NewKind::File => FileType::File,
            NewKind::Directory => FileType::Directory,
            NewKind::Symlink(_) => FileType::Symlink,
            NewKind::Node(kind, _) => kind,
        };
        let owner = access::new_owner(&self.cred(), attr, kind, mode & !umask);
        let new = New { what, mode: owner.mode, uid: owner.uid, gid: owner.gid };
        let entry = world.0.files.create(self.call(), dir.ino(), name, new).await?;
        Ok(world.reached(entry))
    }
}

impl World {
    /// An inode that the file system gave out.
    fn reached(&self, entry: Entry) -> Reached {
        Reached { node: Node::Own(self.pinned(entry.ino)), attr: entry.attr }
    }
}

/// Rights.
impl Process {
    /// # Errors
    /// `EACCES`; `EPERM` for writes to what is immutable.
    pub(crate) fn may(&self, attr: &Attr, wanted: Access) -> Result<(), Errno> {
        let bits = [(Access::READ, Wanted::READ), (Access::WRITE, Wanted::WRITE), (Access::EXECUTE, Wanted::EXECUTE)];
        let asked = bits.into_iter().filter(|(bit, _)| wanted.contains(*bit)).map(|(_, word)| word);
        match asked.reduce(Wanted::and) {
            Some(asked) => access::may(&self.0.cred.borrow(), attr, asked),
            None => Ok(()),
        }
    }

    /// # Errors
    /// `EACCES`, `EPERM`.
    pub(crate) fn may_remove(&self, dir: &Attr, victim: &Attr) -> Result<(), Errno> {
        access::may_remove(&self.0.cred.borrow(), dir, victim)
    }

    /// The change as it is to be made.
    ///
    /// # Errors
    /// `EPERM`.
    pub(crate) fn may_set(&self, attr: &Attr, set: SetAttr) -> Result<SetAttr, Errno> {
        access::may_set(&self.0.cred.borrow(), attr, set)
    }

    /// Whether the caller owns an inode, or is above owners.
    pub(crate) fn owns(&self, attr: &Attr) -> bool {
        let cred = self.0.cred.borrow();
        cred.privileged || cred.uid == attr.uid
    }

    /// # Errors
    /// `EPERM` for another's file that the caller could not read and write, or that would give it rights.
    pub(crate) fn may_link(&self, attr: &Attr) -> Result<(), Errno> {
        match access::may_link(&self.0.cred.borrow(), attr) {
            Err(error) if self.0.world.0.settings.hard_links_protected && !is_fixed(attr) => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Whether the inode gets no names, and loses none.
pub(crate) fn is_fixed(attr: &Attr) -> bool {
    attr.flags.has(FileFlags::IMMUTABLE) || attr.flags.has(FileFlags::APPEND)
}
