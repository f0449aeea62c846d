//! The map of a file that is written: its nodes in memory, and edits of them.
//!
//! A node that an edit touches moves: it gets a provisional address, and its parent points there. Before the log is
//! written, [`FileMap::settle`] gives it the address that it has from then on. So an edit never changes what an older
//! checkpoint sees. An edit first needs all nodes on its way; it answers [`Absent`] for one that is not in memory, and
//! has changed nothing then.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::{LfsError, damaged};
use crate::format::node::{node_max, write_block_node};
use crate::format::{DIRECT_MAX, MapRoot, ROOT_MAX, TreeNode};

/// Addresses from here on are provisional.
pub(super) const PROVISIONAL: u64 = 1 << 63;

/// A node that is not in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Absent {
    /// Its address.
    pub address: u64,
    /// Its level.
    pub level: u8,
    /// The keys that may be there: from, and before.
    keys: (u64, Option<u64>),
}

/// What is found if all nodes on the way are in memory.
pub(super) type Sought<T> = Result<T, Absent>;

/// A node that has moved and has no address on the medium yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MovedNode {
    /// Its provisional address.
    pub address: u64,
    /// Its level.
    pub level: u8,
    /// Its first key.
    pub key: u64,
    /// The address that it had before, if any.
    pub before: Option<u64>,
}

/// The map of a file.
pub(super) struct FileMap {
    ino: u64,
    block_bytes: usize,
    root: Root,
    /// By address. Those that have moved come last, because theirs are provisional.
    nodes: BTreeMap<u64, Node>,
    /// Addresses of nodes in the log that is being made.
    settled: Vec<u64>,
    dropped: Vec<u64>,
    next: u64,
    grown: i64,
}

enum Root {
    Direct([u64; DIRECT_MAX as usize]),
    Tree { level: u8, entries: Vec<(u64, u64)> },
}

struct Node {
    level: u8,
    entries: Vec<(u64, u64)>,
    state: NodeState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeState {
    /// As on the medium.
    Clean,
    /// Under a provisional address; this one it had before.
    Moved(Option<u64>),
    /// Under the address that it has in the log that is being made.
    Settled,
}

/// The way from the root to a leaf: each node, and the entry of its parent.
type Path = Vec<(u64, usize)>;

impl FileMap {
    /// From the bytes in an inode.
    ///
    /// # Errors
    /// The root is wrong.
    pub(super) fn new(ino: u64, map: &[u8; 56], block_bytes: usize) -> Result<FileMap, LfsError> {
        let root = match MapRoot::read(map) {
            Ok(MapRoot::Direct(addresses)) => Root::Direct(addresses),
            Ok(MapRoot::Tree(node)) => Root::Tree { level: node.level, entries: entries_of(&node) },
            Err(why) => return damaged("the map of inode", ino, 0, why),
        };
        let (nodes, settled, dropped) = (BTreeMap::new(), Vec::new(), Vec::new());
        Ok(FileMap { ino, block_bytes, root, nodes, settled, dropped, next: PROVISIONAL, grown: 0 })
    }

    /// The bytes for an inode.
    pub(super) fn root_bytes(&self) -> [u8; 56] {
        match &self.root {
            Root::Direct(addresses) => MapRoot::direct(addresses),
            Root::Tree { level, entries } => MapRoot::tree(*level, entries),
        }
    }

    /// The address of a block; 0 in a hole.
    pub(super) fn find(&self, index: u64) -> Sought<u64> {
        if let Root::Direct(addresses) = &self.root {
            return Ok(usize::try_from(index).ok().and_then(|index| addresses.get(index).copied()).unwrap_or(0));
        }
        let Some(path) = self.path(index)? else { return Ok(0) };
        let entries = self.leaf_entries(&path);
        let found = entries.binary_search_by_key(&index, |entry| entry.0);
        Ok(found.map_or(0, |number| entries[number].1))
    }

    /// The first block from `from` on that is no hole, and its address.
    pub(super) fn next(&self, from: u64) -> Sought<Option<(u64, u64)>> {
        if let Root::Direct(addresses) = &self.root {
            let held = (0..).zip(addresses).find(|(index, address)| *index >= from && **address != 0);
            return Ok(held.map(|(index, address)| (index, *address)));
        }
        let mut from = from;
        loop {
            let Some(path) = self.path(from)? else { return Ok(None) };
            let entries = self.leaf_entries(&path);
            if let Some(entry) = entries.get(entries.partition_point(|entry| entry.0 < from)) {
                return Ok(Some(*entry));
            }
            match self.behind(&path) {
                Some(key) if key > from => from = key,
                _ => return Ok(None),
            }
        }
    }

    /// The address of the node of a level on the way to a key; `None` if the tree has no such level.
    pub(super) fn find_node(&self, key: u64, level: u8) -> Sought<Option<u64>> {
        let Root::Tree { .. } = self.root else { return Ok(None) };
        let path = self.path_to(key, level)?.unwrap_or_default();
        Ok(path.last().map(|(address, _)| *address).filter(|address| self.nodes[address].level == level))
    }

    /// Moves the node of a level on the way to a key.
    pub(super) fn touch(&mut self, key: u64, level: u8) -> Sought<()> {
        if let Some(mut path) = self.path_to(key, level)? {
            self.move_path(&mut path);
        }
        Ok(())
    }

    /// Puts a node into memory that was [`Absent`].
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn put(&mut self, absent: &Absent, place: u64, block: &[u8]) -> Result<(), LfsError> {
        let checked = TreeNode::read_block(block).and_then(|node| {
            let last = node.len.checked_sub(1).ok_or("it has no entry")?;
            if node.level != absent.level {
                return Err(format!("its level is {}, and its parent expects {}", node.level, absent.level));
            }
            if node.key(0) < absent.keys.0 || absent.keys.1.is_some_and(|end| node.key(last) >= end) {
                return Err("its keys are beyond those of its parent".to_string());
            }
            Ok(Node { level: node.level, entries: entries_of(&node), state: NodeState::Clean })
        });
        match checked {
            Ok(node) => {
                self.nodes.insert(absent.address, node);
                Ok(())
            }
            Err(why) => damaged("a node of the map of inode", self.ino, place, why),
        }
    }

    /// Gives a block an address. Answers the one before; 0 if it was a hole.
    pub(super) fn insert(&mut self, index: u64, address: u64) -> Sought<u64> {
        if let Root::Direct(addresses) = &mut self.root {
            if index < DIRECT_MAX {
                let before = std::mem::replace(&mut addresses[index as usize], address);
                self.grown += i64::from(before == 0);
                return Ok(before);
            }
            self.grow_tree();
        }
        let Some(mut path) = self.path(index)? else {
            self.root = Root::Tree { level: 1, entries: vec![(index, address)] };
            self.grown += 1;
            return Ok(0);
        };
        self.move_path(&mut path);
        let entries = self.leaf_entries_mut(&path);
        match entries.binary_search_by_key(&index, |entry| entry.0) {
            Ok(number) => Ok(std::mem::replace(&mut entries[number].1, address)),
            Err(number) => {
                entries.insert(number, (index, address));
                self.grown += 1;
                self.mend_keys(&path);
                self.split(path);
                Ok(0)
            }
        }
    }

    /// Removes blocks of a range, as far as they lie in one leaf. Answers them; none means that the range is a hole.
    pub(super) fn take(&mut self, range: Range<u64>) -> Sought<Vec<(u64, u64)>> {
        let Some((first, _)) = self.next(range.start)?.filter(|entry| entry.0 < range.end) else {
            return Ok(Vec::new());
        };
        if let Root::Direct(addresses) = &mut self.root {
            let held = (0..).zip(addresses).filter(|(index, address)| range.contains(index) && **address != 0);
            let taken: Vec<_> = held.map(|(index, address)| (index, std::mem::take(address))).collect();
            self.grown -= taken.len() as i64;
            return Ok(taken);
        }
        let Some(mut path) = self.path(first)? else { return Ok(Vec::new()) };
        self.move_path(&mut path);
        let entries = self.leaf_entries_mut(&path);
        let bounds = [first, range.end].map(|key| entries.partition_point(|entry| entry.0 < key));
        let taken: Vec<_> = entries.drain(bounds[0]..bounds[1]).collect();
        self.grown -= taken.len() as i64;
        self.prune(path);
        self.shrink();
        Ok(taken)
    }

    /// Blocks, nodes among them, that the map has more than when this was asked last.
    pub(super) fn take_grown(&mut self) -> i64 {
        std::mem::take(&mut self.grown)
    }

    /// Addresses of nodes that were part of the map on the medium and no longer are.
    pub(super) fn take_dropped(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.dropped)
    }

    /// Nodes that have a provisional address, the lowest level first.
    pub(super) fn moved(&self) -> Vec<MovedNode> {
        let moved = self.nodes.range(PROVISIONAL..).filter_map(|(address, node)| match node.state {
            NodeState::Moved(before) => {
                Some(MovedNode { address: *address, level: node.level, key: node.entries[0].0, before })
            }
            NodeState::Clean | NodeState::Settled => None,
        });
        let mut moved: Vec<MovedNode> = moved.collect();
        moved.sort_by_key(|node| (node.level, node.key));
        moved
    }

    /// A provisional address. Its user gives it to a block, and later to [`FileMap::settle_block`].
    pub(super) fn provisional(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Gives a node its address.
    pub(super) fn settle(&mut self, moved: &MovedNode, address: u64) {
        self.repoint(moved.key, moved.address, address);
        let mut node = self.nodes.remove(&moved.address).expect("a node that has moved is in memory");
        node.state = NodeState::Settled;
        self.nodes.insert(address, node);
        self.settled.push(address);
    }

    /// Gives a block its address in place of a provisional one.
    pub(super) fn settle_block(&mut self, index: u64, provisional: u64, address: u64) {
        self.repoint(index, provisional, address);
    }

    /// Writes a node to a block of zeroes.
    pub(super) fn write_node(&self, address: u64, block: &mut [u8]) {
        let node = self.nodes.get(&address).expect("a node of the log is in memory");
        write_block_node(block, node.level, &node.entries);
    }

    /// Nodes that are in memory.
    pub(super) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The log is on the medium: all nodes are clean. Drops them if they are many.
    pub(super) fn written(&mut self, nodes_max: usize) {
        for address in std::mem::take(&mut self.settled) {
            // It may have been dropped since.
            if let Some(node) = self.nodes.get_mut(&address) {
                node.state = NodeState::Clean;
            }
        }
        if self.nodes.len() > nodes_max {
            self.nodes.clear();
        }
    }

    fn root_tree(&self) -> (u8, &[(u64, u64)]) {
        match &self.root {
            Root::Tree { level, entries } => (*level, entries),
            Root::Direct(_) => unreachable!("callers have a tree"),
        }
    }

    fn root_entries_mut(&mut self) -> &mut Vec<(u64, u64)> {
        match &mut self.root {
            Root::Tree { entries, .. } => entries,
            Root::Direct(_) => unreachable!("callers have a tree"),
        }
    }

    /// The way to the leaf that has, or would have, a key: no node if the root is the leaf. `None` for an empty tree.
    fn path(&self, key: u64) -> Sought<Option<Path>> {
        self.path_to(key, 1)
    }

    /// The same to the node of a level.
    fn path_to(&self, key: u64, lowest: u8) -> Sought<Option<Path>> {
        let (mut level, mut entries) = self.root_tree();
        if entries.is_empty() {
            return Ok(None);
        }
        let (mut path, mut before) = (Path::new(), None);
        while level > lowest {
            let number = entries.partition_point(|entry| entry.0 <= key).saturating_sub(1);
            let (first, address) = entries[number];
            before = entries.get(number + 1).map(|entry| entry.0).or(before);
            level -= 1;
            let absent = Absent { address, level, keys: (first, before) };
            let node = self.nodes.get(&address).ok_or(absent)?;
            entries = &node.entries;
            path.push((address, number));
        }
        Ok(Some(path))
    }

    /// The first key behind the leaf of a path.
    fn behind(&self, path: &Path) -> Option<u64> {
        let parents = std::iter::once(self.root_tree().1);
        let parents = parents.chain(path.iter().map(|(address, _)| &*self.nodes[address].entries));
        let behind = parents.zip(path).filter_map(|(entries, (_, number))| entries.get(number + 1));
        behind.last().map(|entry| entry.0)
    }

    fn leaf_entries(&self, path: &Path) -> &[(u64, u64)] {
        match path.last() {
            Some((address, _)) => &self.nodes[address].entries,
            None => self.root_tree().1,
        }
    }

    fn leaf_entries_mut(&mut self, path: &Path) -> &mut Vec<(u64, u64)> {
        self.entries_mut(path, path.len())
    }

    /// The entries of the node at a depth of a path; depth 0 is the root.
    fn entries_mut(&mut self, path: &Path, depth: usize) -> &mut Vec<(u64, u64)> {
        match depth.checked_sub(1) {
            Some(above) => &mut self.nodes.get_mut(&path[above].0).expect("a path leads over nodes").entries,
            None => self.root_entries_mut(),
        }
    }

    /// Gives all nodes of a path provisional addresses, unless they are part of no log yet.
    fn move_path(&mut self, path: &mut Path) {
        for depth in 0..path.len() {
            let (address, number) = path[depth];
            let mut node = self.nodes.remove(&address).expect("a path leads over nodes");
            let moved = match node.state {
                NodeState::Clean => {
                    node.state = NodeState::Moved(Some(address));
                    self.provisional()
                }
                NodeState::Moved(_) | NodeState::Settled => address,
            };
            self.nodes.insert(moved, node);
            path[depth].0 = moved;
            self.entries_mut(path, depth)[number].1 = moved;
        }
    }

    /// Makes the key of each entry on the way the first key of its node.
    fn mend_keys(&mut self, path: &Path) {
        for depth in (0..path.len()).rev() {
            let (address, number) = path[depth];
            let key = self.nodes[&address].entries[0].0;
            self.entries_mut(path, depth)[number].0 = key;
        }
    }

    /// Splits nodes that have too many entries, from the leaf up.
    fn split(&mut self, mut path: Path) {
        let max = node_max(self.block_bytes);
        while let Some((address, number)) = path.pop() {
            let node = self.nodes.get_mut(&address).expect("a path leads over nodes");
            if node.entries.len() <= max {
                return;
            }
            // A file that grows at its end leaves full nodes behind.
            let at = if self.is_last(&path, number) { max } else { max / 2 };
            let node = self.nodes.get_mut(&address).expect("a path leads over nodes");
            let (level, entries) = (node.level, node.entries.split_off(at));
            let key = entries[0].0;
            let right = self.add(level, entries);
            let depth = path.len();
            self.entries_mut(&path, depth).insert(number + 1, (key, right));
        }
        if self.root_tree().1.len() > ROOT_MAX {
            let (level, entries) = (self.root_tree().0, std::mem::take(self.root_entries_mut()));
            let key = entries[0].0;
            let only = self.add(level, entries);
            self.root = Root::Tree { level: level + 1, entries: vec![(key, only)] };
        }
    }

    /// Whether the child `number` of the last node of a path is the last of its level.
    fn is_last(&self, path: &Path, number: usize) -> bool {
        let parents = std::iter::once(self.root_tree().1);
        let mut parents = parents.chain(path.iter().map(|(address, _)| &*self.nodes[address].entries));
        let numbers = path.iter().map(|(_, number)| *number).chain([number]);
        numbers.zip(&mut parents).all(|(number, entries)| number + 1 == entries.len())
    }

    fn add(&mut self, level: u8, entries: Vec<(u64, u64)>) -> u64 {
        let address = self.provisional();
        self.grown += 1;
        self.nodes.insert(address, Node { level, entries, state: NodeState::Moved(None) });
        address
    }

    /// Removes nodes of a path that have no entry.
    fn prune(&mut self, mut path: Path) {
        while let Some((address, number)) = path.last().copied() {
            if !self.nodes[&address].entries.is_empty() {
                self.mend_keys(&path);
                return;
            }
            path.pop();
            self.drop_node(address);
            let depth = path.len();
            self.entries_mut(&path, depth).remove(number);
        }
    }

    fn drop_node(&mut self, address: u64) -> Vec<(u64, u64)> {
        let node = self.nodes.remove(&address).expect("only nodes in memory are dropped");
        self.grown -= 1;
        match node.state {
            NodeState::Clean | NodeState::Settled => self.dropped.push(address),
            NodeState::Moved(before) => self.dropped.extend(before),
        }
        node.entries
    }

    /// Lowers the tree as far as its nodes in memory allow, and ends it if the inode itself can map what is left.
    fn shrink(&mut self) {
        while let (level @ 2.., [(_, address)]) = self.root_tree() {
            let address = *address;
            let fits = |node: &Node| {
                let is_small = level == 2 && node.entries.iter().all(|entry| entry.0 < DIRECT_MAX);
                node.entries.len() <= ROOT_MAX || is_small
            };
            if !self.nodes.get(&address).is_some_and(fits) {
                return;
            }
            let entries = self.drop_node(address);
            self.root = Root::Tree { level: level - 1, entries };
        }
        let (level, entries) = self.root_tree();
        if level == 1 && entries.iter().all(|entry| entry.0 < DIRECT_MAX) || entries.is_empty() {
            let mut addresses = [0; DIRECT_MAX as usize];
            entries.iter().for_each(|(index, address)| addresses[*index as usize] = *address);
            self.root = Root::Direct(addresses);
        }
    }

    /// Turns a map without a tree into one.
    fn grow_tree(&mut self) {
        let Root::Direct(addresses) = &self.root else { return };
        let entries = (0..).zip(*addresses).filter(|(_, address)| *address != 0).collect::<Vec<(u64, u64)>>();
        self.root = if entries.len() < ROOT_MAX {
            Root::Tree { level: 1, entries }
        } else {
            let key = entries[0].0;
            Root::Tree { level: 2, entries: vec![(key, self.add(1, entries))] }
        };
    }

    /// Leads the pointer on the way to `key` that is `from` to `to`.
    fn repoint(&mut self, key: u64, from: u64, to: u64) {
        let mut entries = match &mut self.root {
            Root::Direct(addresses) => {
                let address = addresses.iter_mut().find(|address| **address == from);
                *address.expect("a provisional address is in the map") = to;
                return;
            }
            Root::Tree { entries, .. } => entries,
        };
        loop {
            let number = entries.partition_point(|entry| entry.0 <= key).saturating_sub(1);
            let address = entries[number].1;
            if address == from {
                entries[number].1 = to;
                return;
            }
            // A node above one that has moved is in memory.
            entries = &mut self.nodes.get_mut(&address).expect("a provisional address is in the map").entries;
        }
    }
}

fn entries_of(node: &TreeNode<'_>) -> Vec<(u64, u64)> {
    (0..node.len).map(|number| (node.key(number), node.pointer(number))).collect()
}

#[cfg(test)]
mod tests;
