//! The calls as text, for a cleaner in another process: one JSON value for a call, one for its answer.
//!
//! A mount's words carry them (`control`, number of the cleaner, call). Every answer is `{"ok": VALUE}` or
//! `{"errno": NUMBER}`. Nothing is kept between two calls but the claim, which lapses when its cleaner is silent.

use esker_base::Errno;
use esker_vfs::Answer;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{
    CheckpointInfo, CheckpointMode, Checkpoints, Cleaned, CleaningOrder, DatBlock, LfsControl, LfsTotals, SegmentInfo,
    SegmentLogs, SegmentUpdate, VirtualBlock,
};
use crate::answer::answer;

/// The first word of what a mount is asked.
pub const WORD: &str = "control";
/// Longest text of a call in bytes: a server takes lines of 1 MiB, in which each quote stands escaped.
pub const CALL_BYTES_MAX: usize = 700 << 10;

/// A call with its arguments.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ControlCall {
    Claim,
    Release,
    Totals,
    Segments(u64),
    SetSegments(Vec<SegmentUpdate>),
    VirtualBlocks(Vec<u64>),
    DatBlocks(Vec<DatBlock>),
    Checkpoints(u64, Checkpoints),
    SetMode(u64, CheckpointMode),
    DeleteCheckpoint(u64),
    Logs(u64),
    Clean(CleaningOrder),
    Sync,
    Include(Vec<u64>),
}

/// The answer to a call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ControlReply<T> {
    Ok(T),
    Errno(u16),
}

/// Does the call that a text names. What is no call answers `EINVAL`.
pub async fn answered(control: &dyn LfsControl, text: &str) -> String {
    let Ok(call) = serde_json::from_str(text) else { return replied::<()>(Err(Errno::EINVAL)) };
    match call {
        ControlCall::Claim => replied(control.claim().await),
        ControlCall::Release => replied(control.release().await),
        ControlCall::Totals => replied(control.totals().await),
        ControlCall::Segments(from) => replied(control.segments(from).await),
        ControlCall::SetSegments(updates) => replied(control.set_segments(updates).await),
        ControlCall::VirtualBlocks(vblocks) => replied(control.virtual_blocks(vblocks).await),
        ControlCall::DatBlocks(blocks) => replied(control.dat_blocks(blocks).await),
        ControlCall::Checkpoints(from, which) => replied(control.checkpoints(from, which).await),
        ControlCall::SetMode(cno, mode) => replied(control.set_mode(cno, mode).await),
        ControlCall::DeleteCheckpoint(cno) => replied(control.delete_checkpoint(cno).await),
        ControlCall::Logs(segment) => replied(control.logs(segment).await),
        ControlCall::Clean(order) => replied(control.clean(order).await),
        ControlCall::Sync => replied(control.sync().await),
        ControlCall::Include(vblocks) => replied(control.include(vblocks).await),
    }
}

fn replied<T: Serialize>(result: Result<T, Errno>) -> String {
    let reply = match result {
        Ok(value) => ControlReply::Ok(value),
        Err(errno) => ControlReply::Errno(errno.0),
    };
    serde_json::to_string(&reply).expect("an answer holds numbers, texts and lists")
}

/// A file system in another process: `ask` brings the text of a call there and its answer back.
pub struct RemoteControl<A> {
    ask: A,
}

impl<A: Fn(String) -> Answer<String>> RemoteControl<A> {
    /// Behind a way to it.
    pub fn new(ask: A) -> RemoteControl<A> {
        RemoteControl { ask }
    }

    fn call<T: DeserializeOwned + 'static>(&self, call: &ControlCall) -> Answer<T> {
        let text = serde_json::to_string(call).expect("a call holds numbers, texts and lists");
        if text.len() > CALL_BYTES_MAX {
            // As if there were no room for so many copies: the cleaner takes fewer victims.
            return esker_block::Step::Now(Err(Errno::ENOMEM));
        }
        let asked = (self.ask)(text);
        answer(async move {
            match serde_json::from_str(&asked.await?) {
                Ok(ControlReply::Ok(value)) => Ok(value),
                Ok(ControlReply::Errno(number)) => Err(Errno(number)),
                Err(_) => Err(Errno::EPROTO),
            }
        })
    }
}

impl<A: Fn(String) -> Answer<String>> LfsControl for RemoteControl<A> {
    fn claim(&self) -> Answer<()> {
        self.call(&ControlCall::Claim)
    }

    fn release(&self) -> Answer<()> {
        self.call(&ControlCall::Release)
    }

    fn totals(&self) -> Answer<LfsTotals> {
        self.call(&ControlCall::Totals)
    }

    fn segments(&self, from: u64) -> Answer<Vec<SegmentInfo>> {
        self.call(&ControlCall::Segments(from))
    }

    fn set_segments(&self, updates: Vec<SegmentUpdate>) -> Answer<()> {
        self.call(&ControlCall::SetSegments(updates))
    }

    fn virtual_blocks(&self, vblocks: Vec<u64>) -> Answer<Vec<VirtualBlock>> {
        self.call(&ControlCall::VirtualBlocks(vblocks))
    }

    fn dat_blocks(&self, blocks: Vec<DatBlock>) -> Answer<Vec<DatBlock>> {
        self.call(&ControlCall::DatBlocks(blocks))
    }

    fn checkpoints(&self, from: u64, which: Checkpoints) -> Answer<Vec<CheckpointInfo>> {
        self.call(&ControlCall::Checkpoints(from, which))
    }

    fn set_mode(&self, cno: u64, mode: CheckpointMode) -> Answer<()> {
        self.call(&ControlCall::SetMode(cno, mode))
    }

    fn delete_checkpoint(&self, cno: u64) -> Answer<()> {
        self.call(&ControlCall::DeleteCheckpoint(cno))
    }

    fn logs(&self, segment: u64) -> Answer<SegmentLogs> {
        self.call(&ControlCall::Logs(segment))
    }

    fn clean(&self, order: CleaningOrder) -> Answer<Cleaned> {
        self.call(&ControlCall::Clean(order))
    }

    fn sync(&self) -> Answer<u64> {
        self.call(&ControlCall::Sync)
    }

    fn include(&self, vblocks: Vec<u64>) -> Answer<()> {
        self.call(&ControlCall::Include(vblocks))
    }
}
