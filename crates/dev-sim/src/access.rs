//! What models and their devices have in common: the access that a model times, and the content behind it.

use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::{Bio, Buf, Done, Extent, ExtentState, Kind, KindError, Limits, Make, Op, Param, ParamType, Reply};

use crate::media::Media;

/// A read or write as the medium sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Bytes of the device.
    pub range: ByteRange,
    /// Whether it changes the medium.
    pub write: bool,
}

/// Whether a device keeps bytes.
#[derive(Clone)]
pub enum Content {
    /// None: reads come back described, as zeroes.
    None,
    /// All that was written, in memory.
    Memory(Rc<Media>),
}

/// The parameter that chooses the logical block. It is also the unit at which a power cut tears writes: a device that
/// tears its own blocks would break what [`Limits::atomic`] promises.
pub(crate) const BLOCK: Param = Param::with_default(
    "block",
    ParamType::Size,
    "4096",
    "Logical block, a power of two from 512 to 64KiB; a power cut tears writes at it.",
);

/// The parameter that chooses [`Content`].
pub(crate) const CONTENT: Param = Param::with_default(
    "content",
    ParamType::Choice(&["none", "memory"]),
    "none",
    "Keep no bytes (payload is described, reads give zeroes) or keep what is written in memory.",
);

/// The parameter that chooses the volatile write cache.
pub(crate) const CACHE: Param = Param::with_default(
    "cache",
    ParamType::Choice(&["on", "off"]),
    "on",
    "Acknowledge writes before they reach the medium; a power cut loses what was not flushed.",
);

impl Content {
    /// Content as the arguments of `make` ask for; new media tear at `unit` bytes.
    pub(crate) fn of(make: &Make<'_>, unit: u32) -> Content {
        match make.args.text("content") {
            "memory" => Content::Memory(Rc::new(Media::new(u64::from(unit)))),
            _ => Content::None,
        }
    }

    /// Whether payload may be described.
    pub(crate) fn is_described(&self) -> bool {
        matches!(self, Content::None)
    }

    /// Applies a write, zeroing or discarding as unsettled and returns its number.
    #[inline]
    pub(crate) fn apply(&self, bio: &Bio) -> u64 {
        match self {
            Content::None => 0,
            Content::Memory(media) if matches!(bio.op, Op::Zero | Op::Discard) => media.zero(bio.range),
            Content::Memory(media) => media.write(bio.range, &bio.buf),
        }
    }

    /// Says that writes up to number `write` reached the medium in `range`.
    #[inline]
    pub(crate) fn settle(&self, range: ByteRange, write: u64) {
        if let Content::Memory(media) = self {
            media.settle(range, write);
        }
    }

    /// The successful answer to a read, write, flush or zeroing whose time has come.
    pub(crate) fn answer(&self, bio: Bio) -> Done {
        if bio.op != Op::Read {
            return bio.ok();
        }
        let mut buf = bio.buf;
        match self {
            Content::Memory(media) => media.read(bio.range.start(), &mut buf),
            Content::None if buf.is_described() => buf = Buf::described(buf.len(), 0),
            // The caller's own memory: what its last user left must not show through.
            Content::None => fill_with_zeroes(&mut buf),
        }
        Done { result: Ok(Reply::Empty), buf }
    }

    /// The answer to an extent query.
    pub(crate) fn extents(&self, bio: Bio) -> Done {
        let extents = match self {
            Content::None => vec![Extent { len: bio.range.len(), state: ExtentState::Data }],
            Content::Memory(media) => media.extents(bio.range),
        };
        Done { result: Ok(Reply::Extents(extents.into())), buf: bio.buf }
    }
}

fn fill_with_zeroes(buf: &mut Buf) {
    const ZEROES: [u8; 4096] = [0; 4096];
    let len = buf.len();
    (0..len).step_by(ZEROES.len()).for_each(|at| buf.fill(at, &ZEROES[..ZEROES.len().min(len - at)]));
}

/// Limits common to all models.
pub(crate) fn limits(size: u64, block: u32, cache: bool, content: &Content) -> Limits {
    let mut limits = Limits::plain(size, block);
    limits.volatile_cache = cache;
    limits.described = content.is_described();
    limits
}

/// The `block` argument.
pub(crate) fn block_of(make: &Make<'_>, kind: &Kind) -> Result<u32, KindError> {
    let block = make.args.int("block");
    if !block.is_power_of_two() || !(512..=65_536).contains(&block) {
        let text =
            format!("{}: block = {block} is no power of two from 512 to 65536; drives have 512 or 4096", kind.name);
        return Err(KindError::Unfit(text));
    }
    Ok(block as u32)
}

/// The `size` argument, or all whole blocks of a device of `capacity` bytes.
pub(crate) fn size_of(make: &Make<'_>, kind: &Kind, capacity: u64, block: u32) -> Result<u64, KindError> {
    let capacity = capacity - capacity % u64::from(block);
    let size = make.args.int_opt("size").unwrap_or(capacity);
    if size == 0 || size > capacity || !size.is_multiple_of(u64::from(block)) {
        let text = format!(
            "{}: size {size} must be a multiple of {block} and at most {capacity}, the size of the modelled device; \
             choose another size, profile or capacity",
            kind.name
        );
        return Err(KindError::Unfit(text));
    }
    Ok(size)
}
