//! Paths under other names, so that a trace can be given away: the same component becomes the same word everywhere, so
//! that the structure of the tree, links and repeated names stay.
//!
//! Kept are: the length of each component, its extension, a leading dot, `.` and `..`, digits only, and the names that
//! every system has ([`KEPT`]). A word is drawn from the seed and the component alone; where two components draw one
//! word, the later draws again. A reader that knows the seed can check a guessed name: keep the seed, or forget it.

use std::collections::{BTreeMap, BTreeSet};

use esker_base::Stream;

use crate::action::{Action, Outcome};
use crate::call::Call;
use crate::final_tree::FinalTree;
use crate::name::{PathBytes, Word};
use crate::snapshot::{Entry, EntryKind, Snapshot};
use crate::trace::Trace;
use crate::words::FdSource;

/// Components that say nothing about whose machine it was.
pub const KEPT: &[&str] = &[
    "Applications",
    "Contents",
    "Documents",
    "Library",
    "Resources",
    "System",
    "Users",
    "Volumes",
    "bin",
    "boot",
    "cache",
    "cwd",
    "dev",
    "etc",
    "exe",
    "fd",
    "home",
    "include",
    "lib",
    "lib64",
    "libexec",
    "local",
    "locale",
    "maps",
    "media",
    "meminfo",
    "mnt",
    "mounts",
    "null",
    "opt",
    "private",
    "proc",
    "ptmx",
    "pts",
    "random",
    "root",
    "run",
    "sbin",
    "self",
    "share",
    "shm",
    "src",
    "stat",
    "status",
    "stderr",
    "stdin",
    "stdout",
    "sys",
    "task",
    "thread-self",
    "tmp",
    "tty",
    "urandom",
    "usr",
    "var",
    "zero",
];

/// Extended attributes that every system of a kind has.
const KEPT_ATTRIBUTES: &[&str] = &["user.xdg.", "security.", "system.", "trusted.", "com.apple.", "user.com.apple."];

/// Longest extension that is kept, in bytes.
const EXTENSION_MAX: usize = 8;
/// Draws of one length before a word gets longer.
const DRAWS: u32 = 64;

/// New names of components, one after the other as they come: for recorders, which write as they go.
pub struct Anonymiser {
    seed: u64,
    words: BTreeMap<Vec<u8>, Vec<u8>>,
    used: BTreeSet<Vec<u8>>,
    paths: BTreeMap<PathBytes, PathBytes>,
}

/// Gives all paths of a trace other names: those of calls, links, working directories, descriptors and the snapshot,
/// and names of threads and of a program's own attributes. Texts of warnings go, their counts stay. A pure function of
/// trace and seed.
pub fn anonymise(trace: &mut Trace, seed: u64) {
    let mut names = Anonymiser::new(seed);
    for process in &mut trace.processes {
        process.cwd = names.path(&process.cwd);
    }
    for thread in &mut trace.threads {
        thread.name = Word::default();
    }
    for path in trace.inherited.iter_mut().filter_map(|inherited| inherited.path.as_mut()) {
        *path = names.path(path);
    }
    names.snapshot(&mut trace.snapshot);
    trace.after.iter_mut().for_each(|after| names.final_tree(after));
    trace.actions.iter_mut().for_each(|action| names.action(action));
    trace.warnings.forget_places();
}

/// `readlink` returns the length of what it tells.
fn fit_outcome(call: &Call, outcome: &mut Outcome) {
    if let (Call::ReadLink { len, seen_target: Some(target), .. }, Outcome::Done(told)) = (call, outcome) {
        *told = (target.len() as u64).min(*len) as i64;
    }
}

impl Anonymiser {
    /// Names by this seed.
    pub fn new(seed: u64) -> Anonymiser {
        let (words, used, paths) = Default::default();
        Anonymiser { seed, words, used, paths }
    }

    fn snapshot(&mut self, snapshot: &mut Snapshot) {
        for (path, mut entry) in std::mem::take(&mut snapshot.entries) {
            self.entry(&mut entry);
            snapshot.entries.insert(self.path(&path), entry);
        }
    }

    /// The files after a trace.
    pub fn final_tree(&mut self, after: &mut FinalTree) {
        for path in after.roots.iter_mut().chain(&mut after.without) {
            *path = self.path(path);
        }
        self.snapshot(&mut after.tree);
    }

    /// The target and attributes of a file.
    pub fn entry(&mut self, entry: &mut Entry) {
        if let EntryKind::Symlink { target } = &mut entry.kind {
            *target = self.path(target);
        }
        for xattr in &mut entry.xattrs {
            xattr.name = self.attribute(&xattr.name);
        }
    }

    /// The paths and attributes of an action.
    pub fn action(&mut self, action: &mut Action) {
        action.call.change_paths(&mut |path| *path = self.path(path));
        self.attribute_of(&mut action.call);
        fit_outcome(&action.call, &mut action.outcome);
    }

    /// A path's other name.
    pub fn path(&mut self, path: &PathBytes) -> PathBytes {
        if let Some(known) = self.paths.get(path) {
            return known.clone();
        }
        let components: Vec<Vec<u8>> = path.split(|byte| *byte == b'/').map(|part| self.component(part)).collect();
        let new = PathBytes::from(components.join(&b'/'));
        self.paths.insert(path.clone(), new.clone());
        new
    }

    fn component(&mut self, component: &[u8]) -> Vec<u8> {
        if is_kept(component) {
            return component.to_vec();
        }
        if let Some(word) = self.words.get(component) {
            return word.clone();
        }
        let (dot, stem, extension) = parts(component);
        let mut draw = 0;
        let word = loop {
            let longer = (draw / DRAWS) as usize;
            let drawn = self.draw(component, draw, stem.len() + longer);
            let word = [dot, &drawn, extension].concat();
            // A kept component stands for itself, so no other may become it.
            if !is_kept(&word) && self.used.insert(word.clone()) {
                break word;
            }
            draw += 1;
        };
        self.words.insert(component.to_vec(), word.clone());
        word
    }

    /// Letters from the seed, the component and the number of the draw.
    fn draw(&self, component: &[u8], draw: u32, len: usize) -> Vec<u8> {
        let mut stream = Stream::named(self.seed, &format!("{draw}/{}", component.escape_ascii()));
        (0..len.max(1)).map(|_| b'a' + stream.below(26) as u8).collect()
    }

    fn attribute(&mut self, name: &Word) -> Word {
        let text = String::from_utf8_lossy(name);
        if KEPT_ATTRIBUTES.iter().any(|kept| text.starts_with(kept)) {
            return name.clone();
        }
        let space = name.iter().position(|byte| *byte == b'.').map_or(0, |dot| dot + 1);
        let (space, rest) = name.split_at(space);
        Word::from([space, &self.component(rest)].concat())
    }

    fn attribute_of(&mut self, call: &mut Call) {
        match call {
            Call::GetXattr { name, .. }
            | Call::SetXattr { name, .. }
            | Call::RemoveXattr { name, .. }
            | Call::GetXattrAt { name, .. }
            | Call::SetXattrAt { name, .. } => *name = self.attribute(name),
            // What a ring has for a name is an option of the call.
            Call::MakeFd { source, name, .. } if *source != FdSource::Uring && !name.is_empty() => {
                *name = Word::from(self.component(name))
            }
            _ => {}
        }
    }
}

fn is_kept(component: &[u8]) -> bool {
    component.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
        || KEPT.binary_search_by(|kept| kept.as_bytes().cmp(component)).is_ok()
}

/// A leading dot, the stem, and the extension with its dot.
fn parts(component: &[u8]) -> (&[u8], &[u8], &[u8]) {
    let (dot, rest) = component.split_at(usize::from(component.starts_with(b".")));
    let is_plain = |extension: &[u8]| {
        (1..=EXTENSION_MAX).contains(&extension.len()) && extension.iter().all(u8::is_ascii_alphanumeric)
    };
    match rest.iter().rposition(|byte| *byte == b'.') {
        Some(at) if at > 0 && is_plain(&rest[at + 1..]) => (dot, &rest[..at], &rest[at..]),
        _ => (dot, rest, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etrace::tests::sample;

    fn renamed(paths: &[&str]) -> Vec<String> {
        let mut names = Anonymiser::new(5);
        paths.iter().map(|path| names.path(&PathBytes::from(*path)).to_string()).collect()
    }

    #[test]
    fn kept_names_are_sorted() {
        assert!(KEPT.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn one_component_is_one_word_and_structure_stays() {
        let new = renamed(&[
            "/home/alice/.ssh/notes.txt",
            "../alice//x.tar.gz/",
            "/home/bob/notes.txt",
            "/dev/null",
            "/proc/12/fd",
        ]);
        assert!(!new.iter().any(|path| path.contains("alice") || path.contains("bob") || path.contains("notes")));
        let parts: Vec<&str> = new[0].split('/').collect();
        assert_eq!((parts[0], parts[1], parts[2].len()), ("", "home", 5));
        assert!(parts[3].starts_with('.') && parts[4].ends_with(".txt"));
        assert_eq!(new[1].split('/').nth(1), Some(parts[2]));
        assert_eq!(new[2].split('/').nth(3), Some(parts[4]));
        assert!(new[1].starts_with("../") && new[1].ends_with(".gz/"));
        assert_eq!(new[3..], ["/dev/null", "/proc/12/fd"]);
        let lengths: Vec<_> = new.iter().map(String::len).collect();
        assert_eq!(lengths, [26, 19, 19, 9, 11]);
    }

    #[test]
    fn different_components_stay_different() {
        let paths: Vec<String> = (0..2000).map(|n| format!("f{n:x}")).collect();
        let new = renamed(&paths.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(new.iter().collect::<BTreeSet<_>>().len(), paths.len());
    }

    #[test]
    fn a_ring_stays_one_that_the_kernel_polls() {
        let mut trace = sample();
        for (action, is_polled) in trace.actions.iter_mut().zip([true, false]) {
            action.call = Call::ring(is_polled);
        }
        anonymise(&mut trace, 1);
        assert_eq!([0, 1].map(|at| trace.actions[at].call.is_polled_ring()), [true, false]);
    }

    #[test]
    fn a_whole_trace_is_renamed_alike_and_by_seed() {
        let (mut a, mut b, mut c) = (sample(), sample(), sample());
        anonymise(&mut a, 1);
        anonymise(&mut b, 1);
        anonymise(&mut c, 2);
        assert_eq!(a, b);
        assert_ne!(a, c);
        assert_eq!((a.actions.len(), a.snapshot.entries.len()), (4, 3));
        let Call::Open { at, .. } = &a.actions[0].call else { panic!("no open") };
        let opened = [b"/home/", at.path.as_bytes()].concat();
        assert!(a.snapshot.entries.contains_key(&*opened), "what is opened is still there");
        assert!(a.warnings.tallies().all(|(_, tally)| tally.places.is_empty() && tally.count > 0));
    }
}
