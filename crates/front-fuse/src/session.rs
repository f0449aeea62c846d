//! Answers to the kernel, from the first request of the kernel until the file system is gone.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::Tag;
use esker_rt::mem::{Parts, Pool, Slice};
use esker_rt::sync::{Notify, race};
use esker_rt::{Level, Rt};
use rustix::io::Errno;

use crate::channel::{Channel, Message, Reader};
use crate::isolated;
use crate::proto::abi::{
    ASYNC_DIO, ASYNC_READ, BIG_WRITES, CopyOut, FOPEN_DIRECT_IO, FOPEN_NOFLUSH, FOPEN_PARALLEL_DIRECT_WRITES, InitOut,
    MAJOR, MAX_PAGES, MINOR, MINOR_MIN, OpenOut, WriteOut,
};
use crate::proto::{Op, Request, reply};
use crate::tree::{Entry, Tree};
use crate::volume::Volume;

/// Largest payload of one request in bytes, as far as the devices take it: what the kernel sends at most.
const TRANSFER_MAX: u32 = 1 << 20;
const PAGE: u32 = 4096;

/// Requests that the kernel hands out before older ones are answered. A loop device has up to 128 of its own.
const UNDER_WAY_MAX: u16 = 512;

/// A range that was cloned may be cached by readers of the device. The kernel holds the file locked until the answer,
/// so that forgetting may have to wait for it: no longer than this.
const FORGET_MAX: Nanos = Nanos::millis(1000);

/// One file system, served from its mount to its end.
pub(crate) struct Session {
    rt: Rt,
    pool: Pool,
    channel: Channel,
    tree: Tree,
    pub volumes: Vec<Rc<Volume>>,
    /// Whenever a file is opened or closed.
    pub opened: Notify,
}

impl Session {
    pub(crate) fn new(rt: &Rt, pool: &Pool, channel: Channel, volumes: Vec<Rc<Volume>>) -> Session {
        let entry =
            |v: &Rc<Volume>| Entry { name: v.name.clone(), size: Cell::new(v.size()), read_only: v.is_read_only() };
        let discard = volumes.iter().map(|volume| volume.discard()).max().unwrap_or(PAGE);
        let tree = Tree::new(volumes.iter().map(entry).collect(), discard);
        Session { rt: rt.clone(), pool: pool.clone(), channel, tree, volumes, opened: Notify::default() }
    }

    /// Largest payload of one request in bytes, whole pages.
    pub(crate) fn transfer_max(volumes: &[Rc<Volume>]) -> u32 {
        let least = volumes.iter().map(|volume| volume.transfer_max()).min().unwrap_or(TRANSFER_MAX);
        least.min(TRANSFER_MAX) / PAGE * PAGE
    }

    /// Tells the kernel, when it asks, that the file of a volume, by its place, has the size of its device.
    pub(crate) fn resized(&self, file: usize) {
        self.tree.resize(file, self.volumes[file].size());
    }

    /// Answers until the file system is unmounted or the kernel ends it.
    pub(crate) async fn serve(self: Rc<Self>) {
        let mut reader = Reader::new(self.channel.clone(), &self.pool, Session::transfer_max(&self.volumes) as usize);
        loop {
            match reader.next().await {
                Ok(Some(message)) => {
                    let session = self.clone();
                    self.rt.spawn("fuse-request", async move { session.take(message).await }).detach();
                }
                Ok(None) => return,
                Err(error) => {
                    self.rt.log(Level::Error, format_args!("fuse: the kernel cannot be heard any more: {error}"));
                    return;
                }
            }
        }
    }

    async fn take(&self, Message { request, payload }: Message) {
        let Request { unique, node, pid, op } = request;
        let answer = match op {
            Op::Silent => return,
            op => self.perform(unique, node, Tag { stream: node as u32, pid, ..Tag::default() }, op, payload).await,
        };
        self.channel.answer(answer.unwrap_or_else(|errno| Slice::heap(reply::failed(unique, errno)).into())).await;
    }

    async fn perform(&self, unique: u64, node: u64, tag: Tag, op: Op, payload: Parts) -> Result<Parts, Errno> {
        let message = match op {
            Op::Read { offset, size } => return self.read(unique, node, offset, size, tag).await,
            Op::Write { offset, size } => {
                self.volume(node)?.write(offset, payload, tag).await?;
                reply::with(unique, &WriteOut { size, padding: 0 })
            }
            Op::Sync => {
                self.volume(node)?.flush(tag).await?;
                reply::done(unique)
            }
            Op::Allocate { offset, len, mode } => {
                self.volume(node)?.allocate(mode, offset, len, tag).await?;
                reply::done(unique)
            }
            Op::Copy { from, node: to_node, to, len, wide } => {
                let len = if wide { len } else { len.min(u64::from(u32::MAX / PAGE * PAGE)) };
                // From one device to another is the kernel's to copy.
                if to_node != node {
                    return Err(Errno::XDEV);
                }
                self.clone_range(self.volume(node)?, from, to, len, tag).await?;
                match wide {
                    true => reply::with(unique, &CopyOut { bytes: len }),
                    false => reply::with(unique, &WriteOut { size: len as u32, padding: 0 }),
                }
            }
            other => self.describe(unique, node, other)?,
        };
        Ok(Slice::heap(message).into())
    }

    async fn read(&self, unique: u64, node: u64, offset: u64, size: u32, tag: Tag) -> Result<Parts, Errno> {
        let bytes = self.volume(node)?.read(offset, size, tag).await?;
        let head = reply::head(unique, bytes.iter().map(|part| part.len).sum());
        Ok(std::iter::once(Slice::heap(head)).chain(bytes).collect())
    }

    async fn clone_range(&self, volume: &Volume, from: u64, to: u64, len: u64, tag: Tag) -> Result<(), Errno> {
        let changed = volume.clone_range(from, to, len, tag).await?;
        let Some(device) = volume.path.borrow().clone() else { return Ok(()) };
        race(isolated::forget(&self.rt, &device, &[changed]), self.rt.sleep(FORGET_MAX)).await;
        Ok(())
    }

    /// What needs no device.
    fn describe(&self, unique: u64, node: u64, op: Op) -> Result<Vec<u8>, Errno> {
        Ok(match op {
            Op::Init { major, minor, flags, readahead } => self.greet(unique, (major, minor), flags, readahead)?,
            Op::Lookup(name) => reply::with(unique, &self.tree.lookup(&name).ok_or(Errno::NOENT)?),
            Op::GetAttr => reply::with(unique, &self.tree.attributes(node).ok_or(Errno::STALE)?),
            Op::Open { writes } => self.open(unique, node, writes)?,
            Op::Release => {
                let volume = self.volume(node)?;
                volume.opens.set(volume.opens.get().saturating_sub(1));
                self.opened.notify_all();
                reply::done(unique)
            }
            Op::StatFs => reply::with(unique, &self.tree.statfs()),
            Op::OpenDir => reply::with(unique, &OpenOut::zero()),
            Op::ReadDir { from, size } => reply::with(unique, reply::entries(from, size, self.tree.list()).as_slice()),
            Op::ReleaseDir | Op::Destroy => reply::done(unique),
            _ => return Err(Errno::NOSYS),
        })
    }

    fn greet(&self, unique: u64, version: (u32, u32), flags: u32, readahead: u32) -> Result<Vec<u8>, Errno> {
        if version.0 != MAJOR || version.1 < MINOR_MIN {
            let (major, minor) = version;
            let what = format_args!("fuse: this kernel speaks {major}.{minor}, and {MAJOR}.{MINOR_MIN} is needed");
            self.rt.log(Level::Error, what);
            return Err(Errno::PROTO);
        }
        let transfer_max = Session::transfer_max(&self.volumes);
        Ok(reply::with(
            unique,
            &InitOut {
                major: MAJOR,
                minor: MINOR,
                max_readahead: readahead,
                flags: flags & (ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES),
                max_background: UNDER_WAY_MAX,
                congestion_threshold: UNDER_WAY_MAX,
                max_write: transfer_max,
                time_gran: 1,
                max_pages: (transfer_max / PAGE) as u16,
                ..InitOut::zero()
            },
        ))
    }

    /// The kernel keeps no pages of our files, and writes of several at a time.
    fn open(&self, unique: u64, node: u64, writes: bool) -> Result<Vec<u8>, Errno> {
        let volume = self.volume(node)?;
        if writes && volume.is_read_only() {
            return Err(Errno::ROFS);
        }
        volume.opens.set(volume.opens.get() + 1);
        self.opened.notify_all();
        let open_flags = FOPEN_DIRECT_IO | FOPEN_NOFLUSH | FOPEN_PARALLEL_DIRECT_WRITES;
        Ok(reply::with(unique, &OpenOut { open_flags, ..OpenOut::zero() }))
    }

    fn volume(&self, node: u64) -> Result<&Rc<Volume>, Errno> {
        self.tree.file(node).map(|index| &self.volumes[index]).ok_or(Errno::BADF)
    }
}
