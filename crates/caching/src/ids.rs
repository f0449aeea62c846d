//! Dense numbers for keys, so that everything about a key is an array.

use crate::index::{BATCH, Index, NONE, hash};
use crate::request::LineUse;

const LOAD: f64 = 0.5;
const FIRST: u32 = 1 << 10;

/// Numbers for keys, from 0 on. A number of a key that was forgotten is given again.
pub struct Ids {
    index: Index,
    keys: Vec<u64>,
    free: Vec<u32>,
    most: u32,
}

impl Ids {
    /// No key has a number.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Ids {
        Ids { index: Index::new(FIRST, LOAD), keys: Vec::new(), free: Vec::new(), most: FIRST }
    }

    /// The number of a key, if it has one.
    #[inline]
    pub fn find(&self, key: u64) -> Option<u32> {
        self.index.find(hash(key), |id| self.keys[id as usize] == key)
    }

    /// The number of a key, and whether it is new.
    #[inline]
    pub fn of(&mut self, key: u64) -> (u32, bool) {
        match self.find(key) {
            Some(id) => (id, false),
            None => (self.add(key), true),
        }
    }

    /// The numbers of up to a batch of lines, as far as a short look says.
    pub(crate) fn guess(&self, lines: &[LineUse]) -> [u32; BATCH] {
        let (mut keys, mut ids) = ([0; BATCH], [NONE; BATCH]);
        keys.iter_mut().zip(lines).for_each(|(key, line)| *key = line.key);
        self.index.guess(&keys[..lines.len().min(BATCH)], &self.keys, &mut ids);
        ids
    }

    fn add(&mut self, key: u64) -> u32 {
        let id = self.free.pop().unwrap_or(self.keys.len() as u32);
        if id == self.most {
            self.grow();
        }
        match self.keys.get_mut(id as usize) {
            Some(old) => *old = key,
            None => self.keys.push(key),
        }
        self.index.insert(hash(key), id);
        id
    }

    /// Forgets a key, and gives its number.
    pub fn forget(&mut self, key: u64) -> Option<u32> {
        let id = self.find(key)?;
        self.index.remove(hash(key), id);
        self.free.push(id);
        Some(id)
    }

    /// All numbers that were given are below.
    pub fn bound(&self) -> u32 {
        self.keys.len() as u32
    }

    /// Doubles the index. It is called when no number is free, so all keys are in use.
    fn grow(&mut self) {
        self.most *= 2;
        self.index = Index::new(self.most, LOAD);
        self.keys.iter().zip(0..).for_each(|(key, id)| self.index.insert(hash(*key), id));
    }
}

/// Keys as dense numbers, and how many there are.
pub fn dense(keys: &[u64]) -> (Vec<u64>, u32) {
    let mut ids = Ids::new();
    let dense = keys.iter().map(|key| ids.of(*key).0.into()).collect();
    (dense, ids.bound())
}
