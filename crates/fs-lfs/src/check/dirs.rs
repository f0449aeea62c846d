//! Directories: their records, and how names and links agree.

use std::collections::BTreeMap;

use esker_vfs::FileType;

use super::Checker;
use crate::format::{DirRecord, DirRecords, InodeRecord, ino};
use crate::map::MappedFile;

/// What an inode says, and what names lead to it.
struct Node {
    links: u64,
    kind: FileType,
    names: u64,
    /// Of a directory: the directory that holds its name, where ".." leads, and its subdirectories.
    holder: Option<u64>,
    parent: Option<u64>,
    subdirectories: u64,
}

/// All inodes of a checkpoint, and names that lead to them.
#[derive(Default)]
pub(super) struct Directories {
    nodes: BTreeMap<u64, Node>,
    names: Vec<(u64, String, u64, Option<FileType>)>,
}

impl Directories {
    /// Notes an inode.
    pub(super) fn add(&mut self, number: u64, links: u16, kind: FileType) {
        let (links, names, subdirectories) = (u64::from(links), 0, 0);
        self.nodes.insert(number, Node { links, kind, names, holder: None, parent: None, subdirectories });
    }

    /// Compares names with inodes, once all are known.
    pub(super) fn judge(mut self, checker: &mut Checker<'_>, at: &str) {
        for (dir, name, number, told) in std::mem::take(&mut self.names) {
            let at = format!("{at}, directory {dir}, name {name:?}");
            let Some(node) = self.nodes.get_mut(&number) else {
                checker.damage(at, format!("it leads to inode {number}, which is not in use"));
                continue;
            };
            node.names += 1;
            let kind = node.kind;
            if told.is_some_and(|told| told != kind) {
                checker.damage(&at, format!("it calls inode {number} a {told:?}, and that is a {kind:?}"));
            }
            if kind == FileType::Directory {
                if node.holder.replace(dir).is_some() {
                    checker.damage(&at, format!("directory {number} has another name"));
                }
                self.nodes.entry(dir).and_modify(|holder| holder.subdirectories += 1);
            }
        }
        for (number, node) in &self.nodes {
            self.judge_node(checker, &format!("{at}, inode {number}"), *number, node);
        }
    }

    fn judge_node(&self, checker: &mut Checker<'_>, at: &str, number: u64, node: &Node) {
        if node.kind != FileType::Directory {
            return checker.miscount(at, "links", node.links, node.names);
        }
        // A directory without links was removed while it was open.
        if node.links > 0 {
            checker.miscount(at, "links", node.links, 2 + node.subdirectories);
        }
        let holder = if number == ino::ROOT { Some(number) } else { node.holder };
        match (holder, node.parent) {
            (None, _) if node.links > 0 => checker.damage(at, "no name leads to this directory"),
            (Some(holder), Some(parent)) if holder != parent => {
                checker.damage(at, format!("\"..\" leads to {parent}, and the name lies in {holder}"));
            }
            _ => {}
        }
        if node.links > 0 && !self.leads_to_root(number) {
            checker.damage(at, "the way up does not lead to the root");
        }
    }

    fn leads_to_root(&self, number: u64) -> bool {
        let (mut at, mut left) = (number, self.nodes.len());
        while at != ino::ROOT && left > 0 {
            let Some(holder) = self.nodes.get(&at).and_then(|node| node.holder) else { return false };
            (at, left) = (holder, left - 1);
        }
        at == ino::ROOT
    }
}

impl Checker<'_> {
    /// Reads all records of a directory.
    pub(super) async fn directory(
        &mut self,
        at: &str,
        number: u64,
        file: &MappedFile,
        inode: &InodeRecord,
        data: &[u64],
        dirs: &mut Directories,
    ) {
        let block_bytes = self.volume.geometry().block_bytes as u64;
        if inode.size == 0 || !inode.size.is_multiple_of(block_bytes) || inode.size / block_bytes != data.len() as u64 {
            self.damage(at, format!("a directory of {} bytes has {} blocks", inode.size, data.len()));
        }
        let (mut has_own, mut has_parent) = (false, false);
        let mut names = std::collections::BTreeSet::new();
        for index in data {
            let Ok(Some(block)) = self.volume.file_block(file, *index).await else { continue };
            for record in DirRecords::new(&block) {
                let record = match record {
                    Ok(record) if record.ino == 0 => continue,
                    Ok(record) => record,
                    Err(why) => {
                        self.damage(format!("{at}, block {index}"), why);
                        continue;
                    }
                };
                match record.name {
                    b"." if record.ino == number => has_own = true,
                    b".." => {
                        has_parent = true;
                        dirs.nodes.entry(number).and_modify(|node| node.parent = Some(record.ino));
                    }
                    name => {
                        if !names.insert(name.to_vec()) {
                            self.damage(at, format!("the name {:?} is there twice", name.escape_ascii().to_string()));
                        }
                        self.name(&format!("{at}, block {index}"), number, &record, dirs);
                    }
                }
            }
        }
        if !has_own || !has_parent {
            self.damage(at, "\".\" or \"..\" is missing");
        }
    }

    fn name(&mut self, at: &str, dir: u64, record: &DirRecord<'_>, dirs: &mut Directories) {
        let name = record.name.escape_ascii().to_string();
        if record.real_name().is_none() {
            return self.damage(at, format!("no path can hold the name {name:?}"));
        }
        if record.ino != ino::ROOT && record.ino < ino::FIRST {
            return self.damage(at, format!("the name {name:?} leads to inode {}, which is the format's", record.ino));
        }
        dirs.names.push((dir, name, record.ino, record.file_type()));
    }
}
