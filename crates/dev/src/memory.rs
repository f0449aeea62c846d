//! Kind `memory`: a device whose bytes are in memory.

use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{
    Bio, BioError, Device, Done, Kind, KindError, Limits, Make, Op, OpKind, Param, ParamType, Reply, Stat, StatInfo,
    Step,
};
use esker_rt::Rt;

use crate::media::Media;

const STATS: &[StatInfo] = &[StatInfo::of("held_bytes", "Bytes of memory that hold data.")];

const PARAMS: &[Param] = &[
    Param::required("size", ParamType::Size, "Size of the device, a multiple of `block`."),
    Param::with_default("block", ParamType::Size, "512", "Logical block, a power of two from 512 to 64KiB."),
    Param::with_default(
        "defer",
        ParamType::Choice(&["never", "always"]),
        "never",
        "`always`: no answer comes at once, as from a real device; finds code that relies on immediate answers.",
    ),
    Param::with_default(
        "latency",
        ParamType::Span,
        "0",
        "With `defer = \"always\"`: time of each answer; `0` lets every other ready task run first.",
    ),
];

/// The manifest.
pub static KIND: Kind = Kind {
    stats: STATS,
    needs_bytes: true,
    cost: Nanos(150),
    ..Kind::device("memory", "Holds its bytes in memory: sparse, and lost when the process ends.", PARAMS, build)
};

fn build(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let (size, block) = (make.args.int("size"), make.args.int("block"));
    check_geometry(size, block)?;
    let latency = make.args.span("latency");
    let defer = match make.args.text("defer") {
        "always" => Defer::Always(latency),
        _ if latency != Nanos::ZERO => {
            let text = "latency without defer = \"always\" has no effect; set defer, or leave latency out";
            return Err(KindError::Unfit(text.to_string()));
        }
        _ => Defer::Never,
    };
    Ok(Rc::new(MemoryDevice::over(make.rt, Media::new(size), block as u32, defer)))
}

/// Checks a size and a block that a stack file gives.
pub(crate) fn check_geometry(size: u64, block: u64) -> Result<(), KindError> {
    if !block.is_power_of_two() || !(512..=65_536).contains(&block) {
        return Err(KindError::Unfit(format!("block = {block} is not a power of two from 512 to 65536")));
    }
    if size == 0 || !size.is_multiple_of(block) {
        let down = size - size % block;
        let near = if down == 0 { block } else { down };
        let text =
            format!("size = {size} is not a positive multiple of the block of {block} bytes; the nearest is {near}");
        return Err(KindError::Unfit(text));
    }
    Ok(())
}

/// When a memory device answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defer {
    /// At once.
    Never,
    /// After this span; zero still lets every other ready task run first.
    Always(Nanos),
}

/// A device over a [`Media`]. A request that waits takes effect when it is answered, so a killed world loses it whole.
#[derive(Debug)]
pub struct MemoryDevice {
    rt: Rt,
    media: Rc<Media>,
    limits: Limits,
    defer: Defer,
}

impl MemoryDevice {
    /// A device over bytes that may outlive it and its world.
    ///
    /// # Panics
    /// If the media's size is not a multiple of `block`.
    pub fn over(rt: &Rt, media: Rc<Media>, block: u32, defer: Defer) -> MemoryDevice {
        assert!(media.size().is_multiple_of(u64::from(block)), "{} bytes in blocks of {block}", media.size());
        MemoryDevice { rt: rt.clone(), limits: Limits::plain(media.size(), block), media, defer }
    }

    /// Its bytes.
    pub fn media(&self) -> &Rc<Media> {
        &self.media
    }
}

impl Device for MemoryDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let Defer::Always(latency) = self.defer else { return Step::Now(perform(&self.media, bio)) };
        let (rt, media) = (self.rt.clone(), self.media.clone());
        Step::later(async move {
            match latency {
                Nanos::ZERO => rt.yield_now().await,
                _ => rt.sleep(latency).await,
            }
            perform(&media, bio)
        })
    }

    fn stats(&self) -> Vec<Stat> {
        vec![Stat { name: "held_bytes", value: self.media.held() as f64 }]
    }
}

/// Does one request on a medium, at once.
pub fn perform(media: &Media, mut bio: Bio) -> Done {
    match &bio.op {
        Op::Read => media.read(bio.range.start(), &mut bio.buf),
        Op::Write => media.write(bio.range.start(), &bio.buf),
        Op::Flush => {}
        Op::Zero => media.zero(bio.range, bio.flags.no_unmap),
        Op::Discard => media.zero(bio.range, false),
        Op::Extents => return Done { result: Ok(Reply::Extents(media.extents(bio.range))), buf: bio.buf },
        Op::Ranges(ops) => {
            let kind = ops.first().map_or(OpKind::Clone, |op| op.kind());
            return bio.fail(BioError::Unsupported(kind));
        }
    }
    bio.ok()
}
