//! Attributes.

use esker_base::Errno;

use super::state::{Body, State};
use crate::access::kill_privileges;
use crate::attr::{Attr, FileFlags, SetAttr, mode};
use crate::word::{Ino, Stamp};

/// Flags that are kept.
const FLAGS: u32 =
    FileFlags::SYNC.0 | FileFlags::IMMUTABLE.0 | FileFlags::APPEND.0 | FileFlags::NODUMP.0 | FileFlags::NOATIME.0;

impl State {
    /// Sets attributes, all in one change.
    pub(super) fn set_attr(&mut self, now: Stamp, ino: Ino, set: SetAttr) -> Result<Attr, Errno> {
        self.node(ino)?;
        if set.flags.is_some_and(|flags| flags.0 & !FLAGS != 0) {
            return Err(Errno::EOPNOTSUPP);
        }
        if let Some(size) = set.size {
            self.pages(ino, Errno::EINVAL)?;
            self.set_size(now, ino, size)?;
        }
        if set == SetAttr::default() {
            return Ok(*self.attr(ino));
        }
        let node = self.known_mut(ino);
        node.change(now);
        let attr = &mut node.attr;
        attr.mode = set.mode.map_or(attr.mode, |bits| bits & mode::ALL);
        attr.uid = set.uid.unwrap_or(attr.uid);
        attr.gid = set.gid.unwrap_or(attr.gid);
        attr.flags = set.flags.unwrap_or(attr.flags);
        attr.accessed = set.accessed.unwrap_or(attr.accessed);
        attr.modified = set.modified.unwrap_or(attr.modified);
        if set.kill_privileges {
            self.kill_privileges(ino);
        }
        Ok(*self.attr(ino))
    }

    /// Sets the size of a file. It never takes room.
    fn set_size(&mut self, now: Stamp, ino: Ino, size: u64) -> Result<(), Errno> {
        if size > self.config.size_max {
            return Err(Errno::EFBIG);
        }
        self.known_pages_mut(ino).cut(size);
        let node = self.known_mut(ino);
        node.attr.size = size;
        node.modify(now);
        self.settle(ino);
        Ok(())
    }

    /// Takes the privileges of a program away.
    pub(super) fn kill_privileges(&mut self, ino: Ino) {
        let node = self.known_mut(ino);
        if matches!(node.body, Body::File(_)) {
            node.attr.mode = kill_privileges(node.attr.mode);
            node.xattrs.kill_privileges();
            self.settle(ino);
        }
    }
}
