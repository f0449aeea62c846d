//! Maps of files: up to six addresses in the inode, or a B-tree whose root lies there.
//!
//! A node has a header, then all keys, then all pointers: each array has room for as many entries as the node can hold.
//! A node in a block has eight bytes between header and keys.

use super::word;

/// Most addresses in an inode without a tree. (The specification counts the header with them and says seven.)
pub const DIRECT_MAX: u64 = 6;
/// Most entries of a root in an inode.
pub const ROOT_MAX: usize = 3;
/// Bytes of a header.
const HEADER: usize = 8;
/// Bytes between the header and the keys of a node in a block.
const GAP: usize = 8;
/// The first byte of a root in an inode.
const ROOT_FLAG: u8 = 1;
/// Levels above data that a tree can have.
const LEVEL_MAX: u8 = 13;

/// What the 56 bytes of an inode map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapRoot<'a> {
    /// Addresses of the first six blocks; 0 is a hole.
    Direct([u64; DIRECT_MAX as usize]),
    /// A B-tree.
    Tree(TreeNode<'a>),
}

impl<'a> MapRoot<'a> {
    /// Reads it.
    ///
    /// # Errors
    /// What is wrong with the root.
    pub fn read(map: &'a [u8; 56]) -> Result<MapRoot<'a>, String> {
        if map[0] & ROOT_FLAG != 0 {
            return TreeNode::read(map, 0, ROOT_MAX).map(MapRoot::Tree);
        }
        let mut addresses = [0; DIRECT_MAX as usize];
        for (number, address) in addresses.iter_mut().enumerate() {
            *address = word(map, HEADER + 8 * number);
        }
        Ok(MapRoot::Direct(addresses))
    }

    /// The bytes of a map without a tree.
    pub fn direct(addresses: &[u64]) -> [u8; 56] {
        let mut map = [0; 56];
        for (number, address) in addresses.iter().take(DIRECT_MAX as usize).enumerate() {
            put(&mut map, HEADER + 8 * number, *address);
        }
        map
    }

    /// The bytes of a map that is a root.
    ///
    /// # Panics
    /// If there are more than [`ROOT_MAX`] entries.
    pub fn tree(level: u8, entries: &[(u64, u64)]) -> [u8; 56] {
        let mut map = [0; 56];
        write_node(&mut map, (ROOT_FLAG, level), 0, ROOT_MAX, entries);
        map
    }
}

/// A node of a B-tree: keys in order, each with a pointer. Keys are numbers of blocks of the file. Pointers are
/// addresses: of data at level 1, of nodes above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeNode<'a> {
    bytes: &'a [u8],
    gap: usize,
    room: usize,
    /// Level: 1 is the lowest.
    pub level: u8,
    /// Entries.
    pub len: usize,
}

/// Most entries of a node in a block of so many bytes.
pub fn node_max(block_bytes: usize) -> usize {
    block_bytes.saturating_sub(HEADER + GAP) / 16
}

/// Writes a node to a block of zeroes.
///
/// # Panics
/// If it has no room for the entries.
pub fn write_block_node(block: &mut [u8], level: u8, entries: &[(u64, u64)]) {
    let room = node_max(block.len());
    write_node(block, (0, level), GAP, room, entries);
}

fn write_node(out: &mut [u8], (flags, level): (u8, u8), gap: usize, room: usize, entries: &[(u64, u64)]) {
    assert!(entries.len() <= room, "{} entries in a node for {room}", entries.len());
    out[0] = flags;
    out[1] = level;
    out[2..4].copy_from_slice(&(entries.len() as u16).to_le_bytes());
    for (number, (key, pointer)) in entries.iter().enumerate() {
        put(out, HEADER + gap + 8 * number, *key);
        put(out, HEADER + gap + 8 * (room + number), *pointer);
    }
}

impl<'a> TreeNode<'a> {
    /// Reads a node in a block.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read_block(block: &'a [u8]) -> Result<TreeNode<'a>, String> {
        if block.first().is_some_and(|flags| flags & ROOT_FLAG != 0) {
            return Err("it calls itself the root of an inode".to_string());
        }
        TreeNode::read(block, GAP, node_max(block.len()))
    }

    fn read(bytes: &'a [u8], gap: usize, room: usize) -> Result<TreeNode<'a>, String> {
        let [_, level, low, high, ..] = *bytes else { return Err("it has no header".to_string()) };
        let len = usize::from(u16::from_le_bytes([low, high]));
        if !(1..=LEVEL_MAX).contains(&level) {
            return Err(format!("its level is {level}, which is not within 1 to {LEVEL_MAX}"));
        }
        if len > room {
            return Err(format!("it has {len} entries, and room for {room}"));
        }
        let node = TreeNode { bytes, gap, room, level, len };
        match (1..len).find(|number| node.key(number - 1) >= node.key(*number)) {
            Some(number) => Err(format!("key {number} is not greater than the one before it")),
            None => Ok(node),
        }
    }

    /// The key of an entry.
    pub fn key(&self, number: usize) -> u64 {
        word(self.bytes, HEADER + self.gap + 8 * number)
    }

    /// The pointer of an entry.
    pub fn pointer(&self, number: usize) -> u64 {
        word(self.bytes, HEADER + self.gap + 8 * (self.room + number))
    }

    /// How many keys are at most `key`.
    pub fn rank(&self, key: u64) -> usize {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.key(middle) <= key { low = middle + 1 } else { high = middle }
        }
        low
    }
}

fn put(out: &mut [u8], at: usize, word: u64) {
    out[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_of_4_kib_has_255_entries() {
        assert_eq!((node_max(4096), node_max(1024)), (255, 63));
        let entries: Vec<(u64, u64)> = (0..255).map(|number| (3 * number, 1000 + number)).collect();
        let mut block = vec![0; 4096];
        write_block_node(&mut block, 2, &entries);
        let node = TreeNode::read_block(&block).unwrap();
        assert_eq!((node.level, node.len), (2, 255));
        assert!(entries.iter().enumerate().all(|(i, entry)| (node.key(i), node.pointer(i)) == *entry));
        assert_eq!([node.rank(0), node.rank(2), node.rank(3), node.rank(u64::MAX)], [1, 1, 2, 255]);
    }

    #[test]
    fn an_inode_maps_six_blocks_or_has_a_root_of_three() {
        let direct = MapRoot::direct(&[7, 0, 9]);
        assert_eq!(MapRoot::read(&direct).unwrap(), MapRoot::Direct([7, 0, 9, 0, 0, 0]));
        let tree = MapRoot::tree(1, &[(0, 5), (1 << 40, 6)]);
        let MapRoot::Tree(node) = MapRoot::read(&tree).unwrap() else { panic!("a tree was written") };
        assert_eq!((node.len, node.key(1), node.pointer(1)), (2, 1 << 40, 6));
    }

    #[test]
    fn wrong_nodes_are_refused() {
        let refused = |bytes: &[u8]| TreeNode::read_block(bytes).unwrap_err();
        let mut block = vec![0; 1024];
        assert!(refused(&[]).contains("header"));
        assert!(refused(&block).contains("level is 0"));
        write_block_node(&mut block, 1, &[(1, 1), (1, 2)]);
        assert!(refused(&block).contains("key 1"));
        block[2] = 64;
        assert!(refused(&block).contains("64 entries"));
        block[0] = 1;
        assert!(refused(&block).contains("root"));
    }
}
