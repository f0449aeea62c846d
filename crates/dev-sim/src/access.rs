//! What a model times, and the content behind it.

use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::{Bio, Buf, Done, Extent, ExtentState, Limits, Make, Op, Reply, Stat};

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
    pub(crate) fn mark_stable(&self, range: ByteRange, write: u64) {
        if let Content::Memory(media) = self {
            media.mark_stable(range, write);
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

/// Statistics from names and values.
pub(crate) fn stats<const N: usize>(values: [(&'static str, f64); N]) -> Vec<Stat> {
    values.into_iter().map(|(name, value)| Stat { name, value }).collect()
}
