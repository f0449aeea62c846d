//! Blocks of files: from numbers in a file to places on the device.
//!
//! Addresses in the maps of all files are virtual, but for those of the DAT. So each level of a tree costs a look into
//! the DAT. A virtual block that does not live in the checkpoint that is read is damage.

use crate::error::{LfsError, damaged};
use crate::format::{InodeRecord, MapRoot, TreeNode};
use crate::volume::{Block, Volume};

/// What the addresses of a map are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Addressing {
    /// Places: the DAT.
    Physical,
    /// Virtual blocks, as they are in this checkpoint: all other files.
    Virtual(u64),
}

/// A file, as far as its blocks matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MappedFile {
    /// Number of its inode.
    pub ino: u64,
    /// Its map.
    pub map: [u8; 56],
    /// What its addresses are.
    pub addressing: Addressing,
}

impl MappedFile {
    /// Of an inode.
    pub fn new(ino: u64, inode: &InodeRecord, addressing: Addressing) -> MappedFile {
        MappedFile { ino, map: inode.map, addressing }
    }

    fn root(&self) -> Result<MapRoot<'_>, LfsError> {
        MapRoot::read(&self.map).or_else(|why| damaged("the map of inode", self.ino, 0, why))
    }
}

/// A block of a file, or a node of its map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MappedBlock {
    /// Number in the file; of a node the first key that its parent gives it.
    pub index: u64,
    /// Address in the map.
    pub address: u64,
    /// Level: 0 is data.
    pub level: u8,
}

/// A node that a walk has entered: its block, and the entry that is next.
struct Entered {
    block: Block,
    next: usize,
    /// The keys that its parent gives it: from, and before.
    keys: (u64, Option<u64>),
}

/// A walk over the blocks of a file, in order, each node before what is below it.
pub struct MapWalk<'v> {
    volume: &'v Volume,
    file: MappedFile,
    /// Blocks of the root that come next, backwards.
    root: Vec<(MappedBlock, (u64, Option<u64>))>,
    entered: Vec<Entered>,
    from: u64,
}

impl<'v> MapWalk<'v> {
    /// From block `from` of the file on. Nodes on the way are given too.
    ///
    /// # Errors
    /// The root is wrong.
    pub fn new(volume: &'v Volume, file: MappedFile, from: u64) -> Result<MapWalk<'v>, LfsError> {
        let mut root = Vec::new();
        match file.root()? {
            MapRoot::Direct(addresses) => {
                let held = (0..).zip(addresses).filter(|(index, address)| *index >= from && *address != 0);
                root.extend(held.map(|(index, address)| (MappedBlock { index, address, level: 0 }, (index, None))));
            }
            MapRoot::Tree(node) => {
                let first = first_entry(&node, from);
                root.extend((first..node.len).map(|number| child(&node, number, None)));
            }
        }
        root.reverse();
        Ok(MapWalk { volume, file, root, entered: Vec::new(), from })
    }

    /// The next block with its place, which is an error of its own where the address leads nowhere. After an error
    /// below a node the walk goes on behind it.
    pub async fn next(&mut self) -> Option<(MappedBlock, Result<u64, LfsError>)> {
        let (block, keys) = self.advance()?;
        let place = self.volume.place(&self.file, block.address).await;
        let (Ok(place), true) = (&place, block.level > 0) else { return Some((block, place)) };
        let place = *place;
        match self.volume.node(&self.file, place, block.level, keys).await {
            Ok(node) => {
                let next = TreeNode::read_block(&node).map_or(0, |node| first_entry(&node, self.from));
                self.entered.push(Entered { block: node, next, keys });
                Some((block, Ok(place)))
            }
            Err(error) => Some((block, Err(error))),
        }
    }

    fn advance(&mut self) -> Option<(MappedBlock, (u64, Option<u64>))> {
        while let Some(entered) = self.entered.last_mut() {
            // It was read soundly when it was entered.
            let node = TreeNode::read_block(&entered.block).ok().filter(|node| entered.next < node.len);
            if let Some(node) = node {
                entered.next += 1;
                return Some(child(&node, entered.next - 1, entered.keys.1));
            }
            self.entered.pop();
        }
        self.root.pop()
    }
}

/// The first entry of a node that may lead to `from` or behind.
fn first_entry(node: &TreeNode<'_>, from: u64) -> usize {
    match node.level {
        1 => from.checked_sub(1).map_or(0, |before| node.rank(before)),
        _ => node.rank(from).saturating_sub(1),
    }
}

/// What an entry leads to, and the keys that may be there.
fn child(node: &TreeNode<'_>, number: usize, before: Option<u64>) -> (MappedBlock, (u64, Option<u64>)) {
    let index = node.key(number);
    let end = if number + 1 < node.len { Some(node.key(number + 1)) } else { before };
    (MappedBlock { index, address: node.pointer(number), level: node.level - 1 }, (index, end))
}

impl Volume {
    /// The place of block `index` of a file; `None` in a hole.
    ///
    /// # Errors
    /// A structure on the way is wrong; the device's.
    pub async fn find(&self, file: &MappedFile, index: u64) -> Result<Option<u64>, LfsError> {
        let (mut address, mut level, mut keys) = match file.root()? {
            MapRoot::Direct(addresses) => {
                let address = usize::try_from(index).ok().and_then(|index| addresses.get(index).copied());
                (address.unwrap_or(0), 0, (0, None))
            }
            MapRoot::Tree(node) => match step(&node, index, None) {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        if address == 0 {
            return Ok(None);
        }
        loop {
            let place = self.place(file, address).await?;
            if level == 0 {
                return Ok(Some(place));
            }
            let block = self.node(file, place, level, keys).await?;
            let node = TreeNode::read_block(&block);
            let node = node.or_else(|why| damaged("a node of the map of inode", file.ino, place, why))?;
            match step(&node, index, keys.1) {
                Some(found) => (address, level, keys) = found,
                None => return Ok(None),
            }
        }
    }

    /// The first block of a file from `from` on that is no hole.
    ///
    /// # Errors
    /// As [`Volume::find`].
    pub async fn next_data(&self, file: &MappedFile, from: u64) -> Result<Option<u64>, LfsError> {
        let mut walk = MapWalk::new(self, *file, from)?;
        while let Some((block, place)) = walk.next().await {
            place?;
            if block.level == 0 && block.index >= from {
                return Ok(Some(block.index));
            }
        }
        Ok(None)
    }

    /// The first block of a file from `from` on that is a hole.
    ///
    /// # Errors
    /// As [`Volume::find`].
    pub async fn next_hole(&self, file: &MappedFile, from: u64) -> Result<u64, LfsError> {
        let (mut walk, mut hole) = (MapWalk::new(self, *file, from)?, from);
        while let Some((block, place)) = walk.next().await {
            place?;
            if block.level > 0 || block.index < from {
                continue;
            }
            if block.index != hole {
                break;
            }
            hole = hole.saturating_add(1);
        }
        Ok(hole)
    }

    /// Reads a node and holds it to what its parent says.
    async fn node(
        &self,
        file: &MappedFile,
        place: u64,
        level: u8,
        keys: (u64, Option<u64>),
    ) -> Result<Block, LfsError> {
        let block = self.block(place).await?;
        let wrong = |why: String| damaged("a node of the map of inode", file.ino, place, why);
        let checked = TreeNode::read_block(&block).and_then(|node| {
            let last = node.len.checked_sub(1).ok_or("it has no entry")?;
            if node.level != level {
                return Err(format!("its level is {}, and its parent expects {level}", node.level));
            }
            if node.key(0) < keys.0 || keys.1.is_some_and(|end| node.key(last) >= end) {
                return Err(format!("its keys are {} to {}, beyond those of its parent", node.key(0), node.key(last)));
            }
            Ok(())
        });
        match checked {
            Ok(()) => Ok(block),
            Err(why) => wrong(why),
        }
    }

    /// The place of an address of a file.
    ///
    /// # Errors
    /// It leads nowhere.
    pub async fn place(&self, file: &MappedFile, address: u64) -> Result<u64, LfsError> {
        let place = match file.addressing {
            Addressing::Physical => address,
            Addressing::Virtual(cno) => {
                // Boxed, because a look into the DAT is a lookup of its own.
                let entry = Box::pin(self.dat_entry(address)).await?;
                if entry.place == 0 || !entry.covers(cno) {
                    let why = format!(
                        "inode {} of checkpoint {cno} leads to it, and it lives from {} to before {} at block {}",
                        file.ino, entry.start, entry.end, entry.place
                    );
                    return damaged("entry of the DAT", address, 0, why);
                }
                entry.place
            }
        };
        match self.geometry().has(place) {
            true => Ok(place),
            false => damaged("the map of inode", file.ino, place, format!("address {address} lies in no segment")),
        }
    }
}

/// What a lookup finds: an address, its level, and the keys that may be there.
type Stepped = (u64, u8, (u64, Option<u64>));

/// The way from a node to a key.
fn step(node: &TreeNode<'_>, index: u64, before: Option<u64>) -> Option<Stepped> {
    let number = node.rank(index).checked_sub(1)?;
    let (block, keys) = child(node, number, before);
    (block.level > 0 || block.index == index).then_some((block.address, block.level, keys))
}
