//! The state of a [`Ram`](super::Ram) as bytes, and back.
//!
//! An image holds what has a name: inodes keep their numbers, entries their cookies. Inodes without a name are left
//! out, and their numbers are not given again. Pins are no part of it. Integers are little-endian:
//!
//! ```text
//! image: places u32, then each place: uses u32, kind u8 (0: no inode), inode
//! inode: mode u16, uid u32, gid u32, device u64, size u64, accessed, modified, changed i64, has_birth u8, born i64,
//!        flags u32, version u64, xattrs u16 { name (u8), value (u32) }, body
//! body:  file: pages u32 { number u64, data u16 (65535: reserved) }; symbolic link: target (u16);
//!        directory: parent u64, last cookie u64, entries u32 { cookie u64, inode u64, name (u8) }
//! ```
//!
//! Invariant: an image that reads back obeys all invariants of the state, whatever bytes it was made of.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use esker_base::codec::{Reader, Short};

use super::dir::Dir;
use super::pages::{PAGE, Pages};
use super::state::{Body, Node, ROOT, State};
use super::table::{Place, Slot, Table};
use super::xattrs::Xattrs;
use super::{Ram, RamConfig};
use crate::attr::{Attr, FileFlags, FileType, mode};
use crate::walk::PATH_BYTES_MAX;
use crate::word::{Cookie, Ino, Name, Stamp};

/// Bytes of a place and an inode, without what costs room: attributes, lengths, and a target that lies in the inode.
const INODE_BYTES: u64 = 160;
/// Bytes before the data of a page.
const PAGE_HEAD: u64 = 10;
const HEAD_BYTES: u64 = 4;
/// Length of a page that is room without data.
const RESERVED: u16 = u16::MAX;
/// Names of kinds, which are stored as numbers from 1 on.
const KINDS: [FileType; 7] = [
    FileType::File,
    FileType::Directory,
    FileType::Symlink,
    FileType::CharDevice,
    FileType::BlockDevice,
    FileType::Fifo,
    FileType::Socket,
];

/// Bytes that are no image of a [`Ram`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RamImageError {
    /// They end too early.
    #[error("the image ends at byte {at} within a field of {needed} bytes; restore it from a copy")]
    Short {
        /// Offset of the field.
        at: usize,
        /// Its bytes.
        needed: usize,
    },
    /// They break a rule.
    #[error("the image breaks a rule: {0}; restore it from a copy")]
    Rule(&'static str),
}

impl From<Short> for RamImageError {
    fn from(short: Short) -> RamImageError {
        RamImageError::Short { at: short.at, needed: short.needed }
    }
}

impl RamConfig {
    /// Most bytes that an image of such a file system has.
    pub fn image_bytes_max(&self) -> u64 {
        let pages = self.bytes / PAGE as u64;
        HEAD_BYTES + self.inodes * INODE_BYTES + pages * (PAGE as u64 + PAGE_HEAD)
    }
}

fn check(is_kept: bool, rule: &'static str) -> Result<(), RamImageError> {
    if is_kept { Ok(()) } else { Err(RamImageError::Rule(rule)) }
}

impl Ram {
    /// The state as bytes: at most [`RamConfig::image_bytes_max`].
    pub fn to_image(&self) -> Vec<u8> {
        let state = self.state.borrow();
        let mut out = Writer(Vec::new());
        out.count(state.table().places().len());
        for Place { uses, slot } in state.table().places() {
            match slot.as_ref().filter(|slot| slot.node.attr.links > 0) {
                Some(slot) => {
                    out.u32(*uses);
                    out.node(&slot.node);
                }
                // The number of an inode without a name is not given again.
                None => {
                    out.u32(uses.saturating_add(u32::from(slot.is_some())));
                    out.u8(0);
                }
            }
        }
        out.0
    }

    /// A file system of these limits with the state of an image.
    ///
    /// # Errors
    /// [`RamImageError`], also if the state exceeds the limits.
    pub fn from_image(config: RamConfig, pool: esker_rt::mem::Pool, image: &[u8]) -> Result<Ram, RamImageError> {
        let mut from = Reader::new(image);
        let mut places = Vec::new();
        for _ in 0..from.le_u32()? {
            let uses = from.le_u32()?;
            let slot = match from.u8()? {
                0 => None,
                kind => Some(Slot { pins: 0, node: Rc::new(node(&mut from, kind, &config)?) }),
            };
            places.push(Place { uses, slot });
        }
        check(from.left() == 0, "nothing follows the last inode")?;
        check(places.len() as u64 <= config.inodes, "there are no more inodes than the limit")?;
        let mut table = Table::of(places);
        count_names(&mut table, &config)?;
        let bytes_used = table.iter().map(|(_, slot)| slot.node.attr.allocated).sum();
        check(bytes_used <= config.bytes, "there is no more data than the limit")?;
        let ram = Ram::new(config, pool);
        *ram.state.borrow_mut() = State::of(config, table, bytes_used);
        Ok(ram)
    }
}

/// Appends integers.
struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).expect("memory ends before such counts do"));
    }

    fn stamp(&mut self, stamp: Stamp) {
        self.0.extend(stamp.0.to_le_bytes());
    }

    fn node(&mut self, node: &Node) {
        let attr = &node.attr;
        let kind = KINDS.iter().position(|kind| *kind == attr.kind).expect("a list of all kinds");
        self.u8(kind as u8 + 1);
        self.u16(attr.mode);
        self.u32(attr.uid);
        self.u32(attr.gid);
        self.u64(attr.device);
        self.u64(attr.size);
        [attr.accessed, attr.modified, attr.changed].into_iter().for_each(|stamp| self.stamp(stamp));
        self.u8(u8::from(attr.born.is_some()));
        self.stamp(attr.born.unwrap_or(Stamp(0)));
        self.u32(attr.flags.0);
        self.u64(attr.version);
        self.xattrs(&node.xattrs);
        match &node.body {
            Body::File(pages) => self.pages(pages),
            Body::Directory(dir) => self.dir(dir),
            Body::Symlink(target) => {
                self.u16(u16::try_from(target.len()).expect("paths are short"));
                self.0.extend_from_slice(target);
            }
            Body::Other => {}
        }
    }

    fn xattrs(&mut self, xattrs: &Xattrs) {
        self.u16(u16::try_from(xattrs.iter().count()).expect("all names have 64 KiB together"));
        for (name, value) in xattrs.iter() {
            self.u8(u8::try_from(name.len()).expect("names are short"));
            self.0.extend_from_slice(name);
            self.count(value.len());
            self.0.extend_from_slice(value);
        }
    }

    fn pages(&mut self, pages: &Pages) {
        self.count(pages.iter().count());
        for (number, data) in pages.iter() {
            self.u64(number);
            match data {
                None => self.u16(RESERVED),
                Some(data) => {
                    let used = PAGE - data.iter().rev().take_while(|byte| **byte == 0).count();
                    self.u16(used as u16);
                    self.0.extend_from_slice(&data[..used]);
                }
            }
        }
    }

    fn dir(&mut self, dir: &Dir) {
        self.u64(dir.parent.0);
        self.u64(dir.last().0);
        self.count(dir.behind(Cookie::BEGINNING).count());
        for (cookie, name, ino) in dir.behind(Cookie::BEGINNING) {
            self.u64(cookie.0);
            self.u64(ino.0);
            self.u8(name.bytes().len() as u8);
            self.0.extend_from_slice(name.bytes());
        }
    }
}

fn stamp(from: &mut Reader<'_>) -> Result<Stamp, Short> {
    Ok(Stamp(from.le_u64()?.cast_signed()))
}

fn node(from: &mut Reader<'_>, kind: u8, config: &RamConfig) -> Result<Node, RamImageError> {
    let kind = *KINDS.get(usize::from(kind) - 1).ok_or(RamImageError::Rule("each inode has a kind"))?;
    let attr = Attr {
        kind,
        mode: from.le_u16()?,
        // Counted when all inodes are there.
        links: 0,
        uid: from.le_u32()?,
        gid: from.le_u32()?,
        device: from.le_u64()?,
        size: from.le_u64()?,
        allocated: 0,
        accessed: stamp(from)?,
        modified: stamp(from)?,
        changed: stamp(from)?,
        born: {
            let is_there = from.u8()? != 0;
            Some(stamp(from)?).filter(|_| is_there)
        },
        flags: FileFlags(from.le_u32()?),
        version: from.le_u64()?,
    };
    check(attr.mode & !mode::ALL == 0, "a mode has twelve bits")?;
    check(attr.version <= i64::MAX.cast_unsigned(), "a version is in range")?;
    let xattrs = xattrs(from)?;
    let body = match kind {
        FileType::File => Body::File(pages(from, attr.size, config)?),
        FileType::Directory => Body::Directory(dir(from)?),
        FileType::Symlink => {
            let len = usize::from(from.le_u16()?);
            check((1..=PATH_BYTES_MAX).contains(&len), "a target has a length")?;
            Body::Symlink(from.take(len)?.into())
        }
        FileType::CharDevice | FileType::BlockDevice | FileType::Fifo | FileType::Socket => Body::Other,
    };
    let mut node = Node::new(attr, body);
    node.xattrs = xattrs;
    Ok(node)
}

fn xattrs(from: &mut Reader<'_>) -> Result<Xattrs, RamImageError> {
    let mut xattrs = Xattrs::default();
    for _ in 0..from.le_u16()? {
        let name = usize::from(from.u8()?);
        let name = from.take(name)?;
        let value = from.le_u32()? as usize;
        let value = from.take(value)?;
        check(xattrs.restore(name, value), "extended attributes have names, sizes and an end")?;
    }
    Ok(xattrs)
}

fn pages(from: &mut Reader<'_>, size: u64, config: &RamConfig) -> Result<Pages, RamImageError> {
    check(size <= config.size_max, "no file is longer than the limit")?;
    let mut pages = Pages::default();
    for _ in 0..from.le_u32()? {
        let number = from.le_u64()?;
        check(number < config.size_max.div_ceil(PAGE as u64), "no page lies behind the limit")?;
        let data = match from.le_u16()? {
            RESERVED => None,
            len => {
                check(usize::from(len) <= PAGE, "no page is longer than a page")?;
                let data = from.take(usize::from(len))?;
                let end = (size.saturating_sub(number * PAGE as u64)).min(PAGE as u64) as usize;
                check(data.iter().skip(end).all(|byte| *byte == 0), "what is behind the end of a file is zero")?;
                Some(data)
            }
        };
        check(pages.restore(number, data), "each page is there once")?;
    }
    Ok(pages)
}

fn dir(from: &mut Reader<'_>) -> Result<Dir, RamImageError> {
    let (parent, last) = (Ino(from.le_u64()?), Cookie(from.le_u64()?));
    check((Cookie::RESERVED.0..1 << 62).contains(&last.0), "cookies are in range")?;
    let mut dir = Dir::restored(parent, last);
    for _ in 0..from.le_u32()? {
        let (cookie, ino) = (Cookie(from.le_u64()?), Ino(from.le_u64()?));
        let len = usize::from(from.u8()?);
        let name = Name::new(from.take(len)?).map_err(|_| RamImageError::Rule("an entry has a name"))?;
        check(dir.restore(name, cookie, ino), "each name and cookie of a directory is there once")?;
    }
    Ok(dir)
}

/// Sets the links of all inodes by the names that lead to them, and holds the tree to its rules: one root, each
/// directory below the one that names it, and nothing without a name.
fn count_names(table: &mut Table, config: &RamConfig) -> Result<(), RamImageError> {
    let root = table.get(ROOT).map(|slot| slot.node.clone());
    let is_root = |node: Rc<Node>| matches!(&node.body, Body::Directory(dir) if dir.parent == ROOT);
    check(root.is_some_and(is_root), "the first inode is the root")?;
    let mut links: BTreeMap<Ino, u32> = BTreeMap::from([(ROOT, 2)]);
    let mut seen = BTreeSet::from([ROOT]);
    let mut left = vec![ROOT];
    while let Some(ino) = left.pop() {
        let slot = table.get(ino).ok_or(RamImageError::Rule("each entry leads to an inode"))?;
        let Body::Directory(dir) = &slot.node.body else { continue };
        for (_, _, child) in dir.behind(Cookie::BEGINNING) {
            let slot = table.get(child).ok_or(RamImageError::Rule("each entry leads to an inode"))?;
            match &slot.node.body {
                Body::Directory(below) => {
                    check(below.parent == ino && seen.insert(child), "a directory has one name")?;
                    *links.entry(ino).or_default() += 1;
                    links.insert(child, links.get(&child).copied().unwrap_or(0) + 2);
                    left.push(child);
                }
                Body::File(_) | Body::Symlink(_) | Body::Other => *links.entry(child).or_default() += 1,
            }
        }
    }
    check(links.len() as u64 == table.len(), "each inode has a name")?;
    check(links.values().all(|links| *links <= config.links_max.saturating_add(2)), "no inode has too many names")?;
    for (ino, links) in links {
        let slot = table.get_mut(ino).expect("it was counted");
        let node = Rc::make_mut(&mut slot.node);
        node.attr.links = links;
        node.measure();
    }
    let root = table.get_mut(ROOT).expect("it was looked at");
    root.pins = 1;
    Ok(())
}
