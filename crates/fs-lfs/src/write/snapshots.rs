//! Snapshots: checkpoints that the cleaner keeps, and what an operator asks for in words.

use std::rc::Rc;

use esker_base::{Errno, Progress};

use super::Inner;
use super::clean::Pass;
use super::core::Core;
use super::counting::SnapshotChange;
use crate::answer::told;
use crate::error::LfsError;
use crate::format::checkpoint::{CheckpointHead, flag};
use crate::format::usage::flag as usage;
use crate::format::{CpfileHeader, LiveCounters, SegmentUsage};

impl Inner {
    /// Does what words ask for. `snapshot` keeps the state as it is now and answers its number. `snapshot N` keeps
    /// checkpoint N, `checkpoint N` no longer keeps it, and `delete N` deletes it. `checkpoints` lists all.
    /// `segments` lists those in use. `clean` runs the cleaner over all segments.
    ///
    /// # Errors
    /// `EINVAL` for other words, `ENOENT` for a checkpoint that is not there, `EBUSY` for a snapshot to delete.
    pub(super) async fn ask(&self, words: &[String]) -> Result<String, Errno> {
        self.check()?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let number = |text: &str| text.parse::<u64>().map_err(|_| Errno::EINVAL);
        match words[..] {
            ["snapshot"] => {
                self.sync().await?;
                let now = self.head.get().cno;
                self.set_mode(now, Mode::Snapshot).await?;
                Ok(now.to_string())
            }
            ["snapshot", text] => self.set_mode(number(text)?, Mode::Snapshot).await.map(|()| text.to_string()),
            ["checkpoint", text] => self.set_mode(number(text)?, Mode::Checkpoint).await.map(|()| text.to_string()),
            ["delete", text] => self.set_mode(number(text)?, Mode::Deleted).await.map(|()| text.to_string()),
            ["checkpoints"] => self.listed().await.map_err(told),
            ["segments"] => self.segments_listed().await.map_err(told),
            ["clean"] => self.clean_all().await,
            _ => Err(Errno::EINVAL),
        }
    }

    /// Runs a pass of the cleaner. Answers how many segments are clean then.
    async fn clean_all(&self) -> Result<String, Errno> {
        self.sync().await?;
        let pass = Rc::new(Pass::new(self));
        let dirty = self.core.segments.get().dirty;
        let tell = |looked| self.core.rt.progress(Progress::of("cleaning", "segments", looked, dirty));
        while self.clean_now(&pass).await?.is_some() {
            tell(pass.looked().min(dirty));
        }
        tell(dirty);
        Ok(format!("{} clean segments", self.core.segments.get().clean))
    }

    /// A line for each checkpoint: number, mode, seconds since 1970, inodes.
    async fn listed(&self) -> Result<String, LfsError> {
        let mut lines = String::new();
        for number in 1..=self.head.get().cno {
            let Ok(head) = self.core.checkpoint_head(number).await else { continue };
            if head.flags & flag::INVALID == 0 && head.cno == number {
                let mode = if head.flags & flag::SNAPSHOT != 0 { "ss" } else { "cp" };
                lines += &format!("{number} {mode} {} {}\n", head.created, head.inodes);
            }
        }
        Ok(lines)
    }

    /// A line for each segment in use. It has the number, flags (`a`: the log goes on there, `d`: dirty, `e`: must not
    /// be written), blocks that its logs take, and live blocks. Then come blocks that snapshots protected when the
    /// cleaner looked, and seconds since 1970 of its last log and of the counter's last change. `-` stands for a
    /// counter that is not there.
    async fn segments_listed(&self) -> Result<String, LfsError> {
        let (mut lines, head) = (String::new(), self.head.get());
        for segment in 0..self.core.geometry.segments {
            let SegmentUsage { head: told, live } = self.core.usage(segment).await?;
            let is_active = segment == head.segment || segment == head.next;
            if told.flags == 0 && !is_active {
                continue;
            }
            let letter = |is_set: bool, letter: char| if is_set { letter } else { '-' };
            let is_set = |bit: u32| told.flags & bit != 0;
            let flags = [letter(is_active, 'a'), letter(is_set(usage::DIRTY), 'd'), letter(is_set(usage::ERROR), 'e')];
            let counter = |of: fn(LiveCounters) -> u64| live.map_or("-".to_string(), |live| of(live).to_string());
            let [blocks, protected, counted] =
                [counter(|live| live.live.into()), counter(|live| live.snapshot.into()), counter(|live| live.changed)];
            let flags: String = flags.iter().collect();
            lines += &format!("{segment} {flags} {} {blocks} {protected} {} {counted}\n", told.blocks, told.changed);
        }
        Ok(lines)
    }

    /// Changes what a checkpoint is, and makes that durable. A repeated change is none. Changes of files wait for their
    /// own checkpoint.
    async fn set_mode(&self, number: u64, mode: Mode) -> Result<(), Errno> {
        self.room_for_scan().await?;
        let (_, done) = self
            .alone(async move |inner| {
                let changed = inner.core.set_mode(number, mode).await?;
                if changed == Ok(true) {
                    inner.make_checkpoint(inner.unchanged(), Default::default()).await?;
                }
                Ok(changed)
            })
            .await
            .map_err(|_| Errno::EIO)?;
        done?;
        self.changed.notify_all();
        Ok(())
    }
}

/// What a checkpoint can become.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Snapshot,
    Checkpoint,
    Deleted,
}

impl Core {
    /// Changes what a checkpoint is. Answers whether anything changed, or why it cannot.
    async fn set_mode(&self, number: u64, mode: Mode) -> Result<Result<bool, Errno>, LfsError> {
        let head = match self.checkpoint_head(number.max(1)).await {
            Ok(head) if number > 0 && head.cno == number && head.flags & flag::INVALID == 0 => head,
            Ok(_) | Err(LfsError::Unknown(_)) => return Ok(Err(Errno::ENOENT)),
            Err(error) => return Err(error),
        };
        match (head.flags & flag::SNAPSHOT != 0, mode) {
            (true, Mode::Snapshot) | (false, Mode::Checkpoint) => Ok(Ok(false)),
            (true, Mode::Deleted) => Ok(Err(Errno::EBUSY)),
            (false, Mode::Deleted) => {
                self.delete_checkpoints(number..number + 1, u64::MAX).await?;
                Ok(Ok(true))
            }
            (false, Mode::Snapshot) => {
                self.link_snapshot(number).await?;
                let mut snapshots = self.snapshots.borrow().clone();
                snapshots.insert(snapshots.partition_point(|other| *other < number), number);
                self.snapshots.replace(snapshots);
                self.tell_counters_of(SnapshotChange::Made(number)).await.map(|()| Ok(true))
            }
            (true, Mode::Checkpoint) => {
                self.unlink_snapshot(number, &head).await?;
                self.snapshots.borrow_mut().retain(|other| *other != number);
                let (before, after) = (head.prev, head.next);
                self.tell_counters_of(SnapshotChange::Dropped { number, before, after }).await.map(|()| Ok(true))
            }
        }
    }

    /// Puts a checkpoint into the list of snapshots, which is in ascending order.
    async fn link_snapshot(&self, number: u64) -> Result<(), LfsError> {
        let (mut prev, mut next) = (self.cpfile_header().await?.prev, 0);
        while prev > number {
            next = prev;
            prev = self.checkpoint_head(prev).await?.prev;
        }
        self.edit_head(number, |head| {
            (head.prev, head.next) = (prev, next);
            head.flags |= flag::SNAPSHOT;
        })
        .await?;
        self.join(prev, number).await?;
        self.join(number, next).await?;
        self.count_snapshots(1).await
    }

    async fn unlink_snapshot(&self, number: u64, head: &CheckpointHead) -> Result<(), LfsError> {
        self.edit_head(number, |head| {
            (head.prev, head.next) = (0, 0);
            head.flags &= !flag::SNAPSHOT;
        })
        .await?;
        self.join(head.prev, head.next).await?;
        self.count_snapshots(-1).await
    }

    /// Makes two snapshots neighbours; 0 stands for the header.
    async fn join(&self, prev: u64, next: u64) -> Result<(), LfsError> {
        match prev {
            0 => self.edit_header(|header| header.next = next).await?,
            _ => self.edit_head(prev, |head| head.next = next).await?,
        }
        match next {
            0 => self.edit_header(|header| header.prev = prev).await,
            _ => self.edit_head(next, |head| head.prev = prev).await,
        }
    }

    async fn count_snapshots(&self, more: i64) -> Result<(), LfsError> {
        self.edit_header(|header| header.snapshots = header.snapshots.saturating_add_signed(more)).await
    }

    async fn edit_header(&self, edit: impl FnOnce(&mut CpfileHeader)) -> Result<(), LfsError> {
        let mut header = self.cpfile_header().await?;
        edit(&mut header);
        self.cpfile.edit(0, |block| header.write(block));
        Ok(())
    }

    async fn edit_head(&self, number: u64, edit: impl FnOnce(&mut CheckpointHead)) -> Result<(), LfsError> {
        let mut head = self.checkpoint_head(number).await?;
        edit(&mut head);
        let (index, offset) = self.geometry.checkpoints.place(number);
        self.cpfile.edit(index, |block| head.write(&mut block[offset..]));
        Ok(())
    }

    /// Lowers counters that a snapshot that is gone may have left too high, so that the cleaner looks at these segments
    /// again (Prevent-Starvation, section 3.15).
    pub(super) async fn fix_starving(&self) -> Result<(), LfsError> {
        let half = (self.geometry.segment_blocks / 2) as u32;
        for segment in 0..self.geometry.segments {
            let usage = self.usage(segment).await?;
            let Some(live) = usage.live.filter(|live| live.live > half && live.snapshot > half) else { continue };
            let live = Some(LiveCounters { live: half, snapshot: half, ..live });
            self.set_usage(segment, SegmentUsage { live, ..usage }).await?;
        }
        Ok(())
    }
}
