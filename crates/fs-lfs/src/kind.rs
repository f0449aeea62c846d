//! [`LfsReader`] as one kind of file systems.

use std::rc::Rc;

use esker_block::Step;
use esker_vfs::{FileSystem, FsKindError, FsOpened, Opening};

use crate::read::LfsReader;

/// Opens the file system of a checkpoint: the latest, unless the option `checkpoint` names another.
///
/// # Errors
/// No device, a value that is no number, and an image that cannot be read.
pub fn open(opening: &Opening<'_>) -> FsOpened {
    let Some(device) = opening.device.clone() else { return Step::Now(Err(FsKindError::NoDevice("lfs"))) };
    let checkpoint = match opening.value("checkpoint").map(|text| (text, text.parse())) {
        None => None,
        Some((_, Ok(number))) => Some(number),
        Some((text, Err(_))) => {
            let (word, value, wanted) = ("checkpoint".to_string(), text.to_string(), "a number".to_string());
            return Step::Now(Err(FsKindError::Value { word, value, wanted }));
        }
    };
    let rt = opening.rt.clone();
    Step::later(async move {
        let opened = LfsReader::open(&rt, device, checkpoint).await;
        opened.map(|fs| Rc::new(fs) as Rc<dyn FileSystem>).map_err(|error| FsKindError::Unusable(error.to_string()))
    })
}
