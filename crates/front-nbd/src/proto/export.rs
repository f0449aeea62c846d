//! What a server offers: named exports with a size, block sizes and abilities.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::context::{Context, Contexts};
use super::reply::{Form, Terms};
use super::wire::{MAX_MIN_BLOCK, MAX_PAYLOAD, MAX_STRING, flag};

/// Longest name of an export in bytes (the protocol's advice for portability).
pub const MAX_NAME: usize = 256;

/// One export as its clients see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportInfo {
    /// The name in a client's URI; at most [`MAX_NAME`] bytes.
    pub name: String,
    /// A line for people; may be empty.
    pub description: String,
    /// Bytes; a multiple of `min_block`.
    pub size: u64,
    /// Offsets and lengths of requests are multiples of it. A power of two, 1 to 65536.
    pub min_block: u32,
    /// The size from which aligned requests are efficient. A power of two, at least 512 and `min_block`.
    pub preferred_block: u32,
    /// Writes are refused.
    pub read_only: bool,
    /// Seeks are dear.
    pub rotational: bool,
    /// `NBD_CMD_TRIM` does something.
    pub trim: bool,
    /// `NBD_CMD_WRITE_ZEROES` is accepted.
    pub write_zeroes: bool,
    /// Zeroing is never slower than writing.
    pub fast_zero: bool,
    /// `NBD_CMD_CACHE` makes later reads faster; otherwise it is refused.
    pub cache: bool,
    /// Clients may change its size.
    pub resizable: bool,
    /// Kinds of status that are known.
    pub contexts: Contexts,
}

/// An export that breaks the protocol's rules, and which.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// Nothing to serve.
    #[error("no export was given; a server needs at least one")]
    None,
    /// A bad name.
    #[error("export {name:?}: a name has at most {MAX_NAME} bytes and no NUL; shorten it")]
    Name {
        /// The name.
        name: String,
    },
    /// Two exports of one name.
    #[error("export {name:?} is given twice; rename one of them")]
    Twice {
        /// The name.
        name: String,
    },
    /// A bad description.
    #[error("export {name:?}: its description has more than {MAX_STRING} bytes or a NUL")]
    Description {
        /// The export's name.
        name: String,
    },
    /// Bad block sizes.
    #[error(
        "export {name:?}: block sizes {min_block} (minimum) and {preferred_block} (preferred) must be powers of two, \
         the first at most {MAX_MIN_BLOCK}, the second at least 512 and the first, at most {MAX_PAYLOAD}; \
         put `align block=4096` above the device"
    )]
    Blocks {
        /// The export's name.
        name: String,
        /// The minimum block size.
        min_block: u32,
        /// The preferred block size.
        preferred_block: u32,
    },
    /// A size with a partial block.
    #[error("export {name:?}: size {size} is not a multiple of its block size {min_block}")]
    Size {
        /// The export's name.
        name: String,
        /// The size in bytes.
        size: u64,
        /// The minimum block size.
        min_block: u32,
    },
}

impl ExportInfo {
    /// A writable export of `size` bytes in blocks of `min_block` bytes that can do all that needs no device support.
    pub fn new(name: &str, size: u64, min_block: u32) -> ExportInfo {
        ExportInfo {
            name: name.to_string(),
            description: String::new(),
            size,
            min_block,
            preferred_block: min_block.max(4096),
            read_only: false,
            rotational: false,
            trim: true,
            write_zeroes: true,
            fast_zero: false,
            cache: false,
            resizable: false,
            contexts: Contexts::default().with(Context::Allocation),
        }
    }

    /// The transmission flags under this negotiation. Several connections are always safe: they share one device.
    pub fn flags(&self, terms: Terms) -> u16 {
        let bits = [
            (self.read_only, flag::READ_ONLY),
            (self.rotational, flag::ROTATIONAL),
            (self.takes_trim(), flag::SEND_TRIM),
            (self.takes_zeroes(), flag::SEND_WRITE_ZEROES),
            (self.takes_fast_zero(), flag::SEND_FAST_ZERO),
            (self.cache, flag::SEND_CACHE),
            (self.resizable && !self.read_only, flag::SEND_RESIZE),
            (terms.form != Form::Simple, flag::SEND_DF),
            (terms.form == Form::Extended && !self.contexts.is_empty(), flag::BLOCK_STATUS_PAYLOAD),
        ];
        let always = flag::HAS_FLAGS | flag::SEND_FLUSH | flag::SEND_FUA | flag::CAN_MULTI_CONN;
        bits.iter().filter(|(on, _)| *on).fold(always, |flags, (_, bit)| flags | bit)
    }

    /// Whether a trim may be asked for.
    pub fn takes_trim(&self) -> bool {
        self.trim && !self.read_only
    }

    /// Whether a write of zeroes may be asked for.
    pub fn takes_zeroes(&self) -> bool {
        self.write_zeroes && !self.read_only
    }

    /// Whether a fast write of zeroes may be asked for.
    pub fn takes_fast_zero(&self) -> bool {
        self.fast_zero && self.takes_zeroes()
    }

    fn check(&self) -> Result<(), ExportError> {
        let name = || self.name.clone();
        let (min, preferred) = (self.min_block, self.preferred_block);
        if self.name.len() > MAX_NAME || self.name.contains('\0') {
            return Err(ExportError::Name { name: name() });
        }
        if self.description.len() > MAX_STRING || self.description.contains('\0') {
            return Err(ExportError::Description { name: name() });
        }
        let fits = min <= MAX_MIN_BLOCK && preferred >= min.max(512) && preferred <= MAX_PAYLOAD;
        if !(min.is_power_of_two() && preferred.is_power_of_two() && fits) {
            return Err(ExportError::Blocks { name: name(), min_block: min, preferred_block: preferred });
        }
        if !self.size.is_multiple_of(u64::from(min)) {
            return Err(ExportError::Size { name: name(), size: self.size, min_block: min });
        }
        Ok(())
    }
}

/// The checked list of a server's exports. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Exports(Arc<[ExportInfo]>);

impl Exports {
    /// Checks each export and that no name is given twice.
    pub fn new(list: Vec<ExportInfo>) -> Result<Exports, ExportError> {
        if list.is_empty() {
            return Err(ExportError::None);
        }
        let mut names = BTreeSet::new();
        for export in &list {
            export.check()?;
            if !names.insert(&export.name) {
                return Err(ExportError::Twice { name: export.name.clone() });
            }
        }
        Ok(Exports(list.into()))
    }

    /// The index of `name`; the empty name means the first export unless one is named so.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|e| e.name == name).or(name.is_empty().then_some(0))
    }

    /// The exports in order.
    pub fn list(&self) -> &[ExportInfo] {
        &self.0
    }

    /// Notes that an export has this size now.
    pub(crate) fn note_read_only(&mut self, index: usize) {
        if !self.0[index].read_only {
            let info = &mut Arc::make_mut(&mut self.0)[index];
            info.read_only = true;
            info.contexts = info.contexts.iter().filter(|context| *context != Context::Written).collect();
        }
    }

    pub(crate) fn note_size(&mut self, index: usize, bytes: u64) {
        if self.0[index].size != bytes {
            Arc::make_mut(&mut self.0)[index].size = bytes;
        }
    }
}
