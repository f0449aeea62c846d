//! Logs of data alone: bytes of one file become durable without a checkpoint (sections 3.7 and 3.8).
//!
//! Such a log is taken if nothing but bytes of that file changed since the log before. So the state after a crash is
//! still that after some prefix of the calls, but for the times of the file. Recovery writes the blocks again. The map,
//! the inode and the DAT change in memory, and the next checkpoint writes them.

use std::rc::Rc;

use esker_base::Errno;
use esker_fs_pages::Frozen;
use esker_vfs::Ino;

use super::checkpoint::Making;
use super::plan::{Owner, PlannedFile, PlannedLog, Track};
use super::table::Inode;
use super::{Inner, LogHead};
use crate::error::LfsError;
use crate::format::usage::UsageHead;
use crate::format::{Payload, SegmentUsage};

/// What changed since the last log.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Unlogged {
    /// Nothing.
    #[default]
    Nothing,
    /// Bytes of one file.
    BytesOf(u64),
    /// Anything.
    More,
}

impl Unlogged {
    /// The same, when bytes of a file have changed too.
    pub(super) fn and_bytes_of(self, number: u64) -> Unlogged {
        match self {
            Unlogged::Nothing => Unlogged::BytesOf(number),
            Unlogged::BytesOf(other) if other == number => self,
            Unlogged::BytesOf(_) | Unlogged::More => Unlogged::More,
        }
    }
}

impl Inner {
    /// Makes the bytes of a file durable, and its size.
    pub(super) async fn sync_data(&self, number: u64) -> Result<(), Errno> {
        if self.unlogged.get() != Unlogged::More {
            let logged = self.alone(async move |inner| inner.log_data(number).await).await;
            if logged.map_err(|_| Errno::EIO)?.1 {
                return Ok(());
            }
        }
        self.sync().await
    }

    /// Writes a log of data, if one is enough. Answers whether the bytes of the file are durable.
    async fn log_data(&self, number: u64) -> Result<bool, LfsError> {
        match self.unlogged.get() {
            Unlogged::Nothing => return Ok(true),
            // The file has not changed since a log that has it.
            Unlogged::BytesOf(other) if other != number => return Ok(true),
            Unlogged::BytesOf(_) if self.has_room(1) => {}
            Unlogged::BytesOf(_) | Unlogged::More => return Ok(false),
        }
        let inode = self.table.borrow().get(&number).cloned();
        let Some(inode) = inode else { return Ok(false) };
        let nrs = self.cache.dirty_frames(Ino(number), 0..u64::MAX);
        let frames: Vec<Frozen> = nrs.into_iter().filter_map(|nr| self.cache.freeze(Ino(number), nr)).collect();
        inode.state.borrow_mut().frozen = Some(frames.iter().map(Frozen::nr).collect());
        self.unlogged.set(Unlogged::Nothing);
        let mut making = Making::new(self);
        let frames = making.plan_data(&inode, frames).await?;
        // There are none if only frames behind the end of the file had changed.
        if !making.files[0].data.is_empty() {
            self.written.set(self.seconds());
            let head = making.write_data().await?;
            making.go_on(head);
        }
        frames.into_iter().for_each(Frozen::written);
        inode.state.borrow_mut().frozen = None;
        Ok(true)
    }
}

impl Making<'_> {
    async fn plan_data(&mut self, inode: &Rc<Inode>, mut frames: Vec<Frozen>) -> Result<Vec<Frozen>, LfsError> {
        let record = inode.state.borrow().record;
        let mut planned = PlannedFile::new(inode.number, self.cno, Owner::User(inode.clone()));
        for frame in &mut frames {
            self.plan_frame(inode, &record, frame, &mut planned).await?;
        }
        self.files.push(planned);
        Ok(frames)
    }

    /// Writes all that is planned. Answers where the log goes on; the last checkpoint stays the last.
    async fn write_data(&mut self) -> Result<LogHead, LfsError> {
        let mut logs = self.cut(Track::Main, false);
        while !self.take_segments(&logs).await? {
            logs = self.cut(Track::Main, false);
        }
        for log in &logs {
            self.settle_data(log).await?;
        }
        let is_one = logs.len() == 1;
        for log in &logs {
            self.write_log(log, &logs, is_one).await?;
        }
        if !is_one {
            self.inner.core.medium.flush().await?;
        }
        let last = logs.last().expect("there are data");
        let LogHead { cno, log, log_sequence, .. } = self.head;
        Ok(LogHead { cno, log, log_sequence, ..self.head_behind(last) })
    }

    /// Tells DAT and SUFILE of a log, in memory.
    async fn settle_data(&self, log: &PlannedLog) -> Result<(), LfsError> {
        let (core, place) = (&self.inner.core, self.place_of(log));
        for (place, (_, block)) in (place + log.summary_blocks..).zip(self.blocks_of(log)) {
            if let Payload::Data { vblock, .. } = block.what {
                core.dat_settle(vblock, place, self.cno).await?;
            }
        }
        core.note_live(place, log.payload() as i64);
        self.inner.synced_blocks.set(self.inner.synced_blocks.get() + log.payload());
        let (segment, changed) = (self.segment_of(log), self.inner.seconds());
        let usage = core.usage(segment).await?;
        let head = UsageHead { changed, blocks: usage.head.blocks + log.blocks() as u32, ..usage.head };
        core.set_usage(segment, SegmentUsage { head, ..usage }).await
    }
}
