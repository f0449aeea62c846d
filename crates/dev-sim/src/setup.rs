//! How a modelled device is set up: the parameters, manifest fields and checks that all models share.

use std::rc::Rc;

use esker_block::{Device, Kind, KindError, Limits, Make, OpKind, OpSet, Param, ParamType, StatInfo};

use crate::access::{self, Content};

/// How a device is set up, beside its numbers.
#[derive(Clone)]
pub struct Setup {
    /// Bytes that are used, from the first on.
    pub size: u64,
    /// Logical block in bytes.
    pub block: u32,
    /// Commands that the host may have in flight.
    pub depth: u32,
    /// Whether writes are acknowledged before they reach the medium.
    pub cache: bool,
    /// What is kept of the data.
    pub content: Content,
}

/// The parameter that limits the bytes used.
pub(crate) const SIZE: Param =
    Param::optional("size", ParamType::Size, "Bytes to use, from the first on; by default all.");

/// The parameter that chooses the logical block. It is also the unit at which a power cut tears writes: a device that
/// tears its own blocks would break what `Limits::atomic` promises.
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
    "`none`: payload is described and reads give zeroes; `memory`: written bytes are held in memory.",
);

/// The parameter that chooses the volatile write cache.
pub(crate) const CACHE: Param = Param::with_default(
    "cache",
    ParamType::Choice(&["on", "off"]),
    "on",
    "Acknowledges writes before they reach the medium; a power cut loses those that were not flushed.",
);

/// The parameter that chooses an entry of the catalogue among those of these `names`.
pub(crate) const fn profile(names: &'static [&'static str], default: &'static str) -> Param {
    Param::with_default(crate::catalogue::PROFILE, ParamType::Choice(names), default, "Device of the catalogue.")
}

/// The parameter for commands in flight.
pub(crate) const fn depth(default: &'static str, doc: &'static str) -> Param {
    Param::with_default("depth", ParamType::Count, default, doc)
}

/// The parameters of a [`crate::meter::Bill`].
pub(crate) const ACTIVE_W: Param = number("active_w", "Watts while active, instead of the profile's.");
pub(crate) const IDLE_W: Param = number("idle_w", "Watts while idle, instead of the profile's.");
pub(crate) const PRICE_USD: Param = number("price_usd", "Price, instead of the profile's.");

/// A number of the profile that may be given instead.
pub(crate) const fn number(name: &'static str, doc: &'static str) -> Param {
    Param::optional(name, ParamType::Number, doc)
}

/// A size of the profile that may be given instead.
pub(crate) const fn size(name: &'static str, doc: &'static str) -> Param {
    Param::optional(name, ParamType::Size, doc)
}

/// A span of the profile that may be given instead.
pub(crate) const fn span(name: &'static str, doc: &'static str) -> Param {
    Param::optional(name, ParamType::Span, doc)
}

/// A count of the profile that may be given instead.
pub(crate) const fn count(name: &'static str, doc: &'static str) -> Param {
    Param::optional(name, ParamType::Count, doc)
}

/// The manifest of a modelled device.
pub(crate) const fn kind(
    name: &'static str,
    summary: &'static str,
    params: &'static [Param],
    passes: &'static [OpKind],
    stats: &'static [StatInfo],
    build: fn(&Make<'_>) -> Result<Rc<dyn Device>, KindError>,
) -> Kind {
    // A modelled device works beside the CPU, so it costs nothing.
    Kind { stats, passes: OpSet::of(passes), ..Kind::device(name, summary, params, build) }
}

impl Setup {
    /// Limits of a device that is set up so.
    pub(crate) fn limits(&self) -> Limits {
        access::limits(self.size, self.block, self.cache, &self.content)
    }

    /// The setup that the arguments of `make` ask for, of a device of `capacity` bytes and at most `depth_max`
    /// commands.
    ///
    /// # Errors
    /// Values that do not fit, by name.
    pub(crate) fn of(make: &Make<'_>, kind: &Kind, capacity: u64, depth_max: u64) -> Result<Setup, KindError> {
        let args = make.args;
        let depth = args.int("depth");
        if !(1..=depth_max).contains(&depth) {
            return Err(KindError::Unfit(format!("{}: depth = {depth}; choose 1 to {depth_max}", kind.name)));
        }
        let block = block_of(make, kind)?;
        Ok(Setup {
            size: size_of(make, kind, capacity, block)?,
            block,
            depth: depth as u32,
            cache: args.text("cache") == "on",
            content: Content::of(make, block),
        })
    }
}

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
