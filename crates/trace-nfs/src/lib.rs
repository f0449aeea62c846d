//! Text traces of NFS servers: a reader, a replay into a directory or a file system of ours, and a generator. Beside it
//! the simulator of hot and cold files, which fills a file system through the same trait.
//!
//! Invariant: opens no file but below the directory that it is given; exceeds no limit of memory, whatever a trace
//! says. No input makes it panic.
//!
//! Each line of a trace is one packet. The transaction table pairs requests with successful replies. The player keeps
//! an image of the server's tree, which a trace teaches bit by bit. It turns pairs into calls on a [`ReplayTarget`].
//! Time is that of the trace: the crate reads no clock.
//!
//! Reading order: [`packet`] (a line), [`request`] (what a pair asks), [`transactions`], [`tree`] (the image),
//! [`target`] (what is called), [`player`], [`replay`](mod@replay) (the whole), [`report`], [`moment`] (dates). The
//! targets are [`directory`] and [`process_target`]. Then [`generate`] and [`hot_cold`].

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

pub mod directory;
pub mod generate;
pub mod hot_cold;
mod lines;
pub mod moment;
pub mod packet;
pub mod player;
pub mod process_target;
pub mod replay;
pub mod report;
pub mod request;
pub mod target;
#[cfg(test)]
mod tests;
pub mod transactions;
pub mod tree;

pub use directory::DirectoryTarget;
pub use generate::{NfsGenerator, NfsShape};
pub use hot_cold::{AccessPattern, FillReport, HotCold};
pub use moment::Moment;
pub use packet::{Packet, PacketFlaw};
pub use player::NfsPlayer;
pub use process_target::ProcessTarget;
pub use replay::{NfsReplayOptions, replay};
pub use report::NfsReport;
pub use request::{NfsReply, NfsRequest};
pub use target::{ReplayTarget, Room};
pub use transactions::Transactions;
pub use tree::{ServerTree, TreeLimits};
