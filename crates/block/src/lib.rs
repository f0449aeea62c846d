//! The block interface: what a request is, what a device answers, what an extension may do, how a kind describes
//! itself.
//!
//! Invariant: does no I/O and knows no kind. It has no policy, and nothing here knows which devices or layers exist.
//!
//! Reading order: [`bio`] (requests and answers), [`buf`] (their payload), [`limits`] (what a device can do), [`step`]
//! (now or later), [`device`], [`ext`] (extensions), [`flight`],
//! [`locks`], [`latch`] and [`partial`] (what several of them need), [`kind`] (manifests and parameters), [`meter`] (counts and latencies), [`changes`] (which bytes were changed),
//! [`check`] (checkers of media),
//! [`store`] (bytes of media in memory), [`conformance`] (what every device must pass).

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

pub mod bio;
pub mod buf;
pub mod changes;
pub mod check;
pub mod conformance;
pub mod created;
pub mod device;
pub mod env;
pub mod ext;
pub mod flight;
pub mod kind;
pub mod latch;
pub mod limits;
pub mod locks;
pub mod meter;
pub mod partial;
pub mod split;
pub mod step;
pub mod store;

pub use bio::{Bio, BioError, Class, Done, Extent, ExtentState, Flags, Op, OpKind, RangeOp, Reply, Tag, VolumeId};
pub use buf::Buf;
pub use changes::ChangeMap;
pub use check::{Fact, Media, MediaCheck, MediaVerdict, ReadMedium};
pub use created::Created;
pub use device::{Device, Origin, Stat, StatInfo, Usage};
pub use env::Env;
pub use ext::{
    Below, Ctx, Enter, Extension, Flow, LayerHandle, Mark, OpenContext, OrderInfo, OrderLeft, Orders, Route, Sizing,
    WorkPermit,
};
pub use kind::{
    Args, Arity, Build, Durability, Ends, Follows, Kind, KindError, Layer, Make, Medium, Param, ParamType, Role,
    Routes, Upper, Value, Worlds,
};
pub use latch::{Latch, Trouble};
pub use limits::{Limits, OpSet, Support};
pub use meter::{Meter, OpReading, Reading};
pub use step::Step;
