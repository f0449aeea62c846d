//! A [`Ram`] as one kind of file systems.

use std::rc::Rc;

use esker_base::units::parse_size;
use esker_block::Step;

use super::{Ram, RamConfig};
use crate::attr::SetAttr;
use crate::kind::{FsKindError, FsOpened, Opening};
use crate::system::FileSystem;
use crate::word::Call;

/// Opens an empty one. Its options are `size`, and `uid`, `gid` and `mode` of its root.
///
/// # Errors
/// A value that its option does not take.
pub fn open(opening: &Opening<'_>) -> FsOpened {
    Step::Now(opened(opening).map(|ram| Rc::new(ram) as Rc<dyn FileSystem>))
}

fn opened(opening: &Opening<'_>) -> Result<Ram, FsKindError> {
    let refused = |word: &str, value: &str, wanted: &str| {
        let (word, value, wanted) = (word.to_string(), value.to_string(), wanted.to_string());
        FsKindError::Value { word, value, wanted }
    };
    let number = |word: &str, radix: u32, default: u32| match opening.value(word) {
        None => Ok(default),
        Some(text) => u32::from_str_radix(text, radix).map_err(|_| refused(word, text, "a number, octal for mode")),
    };
    let bytes = match opening.value("size") {
        None => opening.memory,
        Some(text) => parse_size(text).map_err(|error| refused("size", text, &error.wanted()))?,
    };
    let (uid, gid) = (number("uid", 10, opening.owner.0)?, number("gid", 10, opening.owner.1)?);
    let mode = number("mode", 8, 0o755)?;
    let ram = Ram::new(RamConfig::sized(bytes), opening.pool.clone());
    let call = Call::at(opening.now);
    let now = Some(call.now);
    let root = SetAttr {
        mode: Some(mode as u16 & 0o7777),
        uid: Some(uid),
        gid: Some(gid),
        accessed: now,
        modified: now,
        ..SetAttr::default()
    };
    match ram.set_attr(call, ram.root(), root) {
        Step::Now(Ok(_)) => Ok(ram),
        Step::Now(Err(_)) | Step::After(..) | Step::Ticket(_) | Step::Later(_) => {
            unreachable!("a file system in memory has a root, and answers at once")
        }
    }
}
