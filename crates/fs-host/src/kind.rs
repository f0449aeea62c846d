//! [`HostFs`] as one kind of file systems.

use std::path::Path;
use std::rc::Rc;

use esker_block::Step;
use esker_vfs::{FileSystem, FsKindError, FsOpened, Opening};

use crate::files::{HostFs, raise_descriptors};

/// Opens the directory that the option `dir` names.
///
/// # Errors
/// No such option, or a directory that does not open.
pub fn open(opening: &Opening<'_>) -> FsOpened {
    Step::Now(opened(opening).map(|fs| Rc::new(fs) as Rc<dyn FileSystem>))
}

fn opened(opening: &Opening<'_>) -> Result<HostFs, FsKindError> {
    let unusable = |text: String| FsKindError::Unusable(text);
    let dir = opening.value("dir");
    let dir = dir.ok_or_else(|| unusable("host passes calls through to a directory: add -o dir=PATH".to_string()))?;
    raise_descriptors();
    HostFs::open(opening.rt, opening.pool, Path::new(dir)).map_err(|error| unusable(error.to_string()))
}
