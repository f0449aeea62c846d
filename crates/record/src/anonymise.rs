//! Paths without what they tell: each component becomes a number, the same wherever it stands.
//!
//! Structure stays: depth, equality, links and their targets, hidden names and short endings. Names that every machine has
//! stay too, as programs and replays treat some of them as special.

use std::collections::BTreeMap;

use esker_trace::{Action, Entry, EntryKind, PathBytes, wire::Field};

/// Components that say nothing about a machine or its user.
const COMMON: &[&str] = &[
    "bin", "boot", "cmdline", "cpu", "dev", "devices", "etc", "exe", "fd", "full", "home", "lib", "lib32", "lib64", "libexec",
    "libx32", "local", "log", "maps", "media", "meminfo", "mnt", "null", "online", "opt", "possible", "proc", "pts", "ptmx",
    "random", "root", "run", "sbin", "self", "share", "shm", "srv", "stat", "status", "stdin", "stdout", "stderr", "sys",
    "system", "task", "thread-self", "tmp", "tty", "urandom", "usr", "var", "x86_64-linux-gnu", "zero",
];

/// Longest ending that is kept, such as `.json`.
const ENDING_MAX: usize = 4;

/// The components so far, and their numbers.
#[derive(Debug, Default)]
pub struct Anonymiser {
    numbers: BTreeMap<Vec<u8>, usize>,
}

impl Anonymiser {
    /// The paths of an action.
    pub fn action(&mut self, action: &mut Action) {
        action.call.paths(&mut |path| *path = self.path(path));
    }

    /// Where an entry leads.
    pub fn entry(&mut self, entry: &mut Entry) {
        if let EntryKind::Symlink { target } = &mut entry.kind {
            *target = self.path(target);
        }
    }

    /// A path.
    pub fn path(&mut self, path: &[u8]) -> PathBytes {
        let components: Vec<Vec<u8>> = path.split(|byte| *byte == b'/').map(|name| self.component(name)).collect();
        PathBytes::from(components.join(&b'/'))
    }

    fn component(&mut self, name: &[u8]) -> Vec<u8> {
        let is_number = name.iter().all(u8::is_ascii_digit);
        let is_kept = matches!(name, b"" | b"." | b"..") || is_number;
        if is_kept || COMMON.iter().any(|common| common.as_bytes() == name) {
            return name.to_vec();
        }
        let next = self.numbers.len() + 1;
        let number = *self.numbers.entry(name.to_vec()).or_insert(next);
        let hidden = if name.starts_with(b".") { "." } else { "" };
        format!("{hidden}n{number}{}", ending(name)).into_bytes()
    }
}

/// A short ending of letters and digits, with its dot.
fn ending(name: &[u8]) -> &str {
    let Some(dot) = name.iter().rposition(|byte| *byte == b'.').filter(|dot| *dot > 0) else { return "" };
    let letters = &name[dot + 1..];
    let is_short = (1..=ENDING_MAX).contains(&letters.len()) && letters.iter().all(u8::is_ascii_alphanumeric);
    if is_short { std::str::from_utf8(&name[dot..]).unwrap_or("") } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_stay_equal_and_structure_stays() {
        let mut anonymiser = Anonymiser::default();
        let path = |anonymiser: &mut Anonymiser, path: &str| anonymiser.path(path.as_bytes()).to_string();
        assert_eq!(path(&mut anonymiser, "/home/ann/.cache/letter.txt"), "/home/n1/.n2/n3.txt");
        assert_eq!(path(&mut anonymiser, "../ann/./letter.txt"), "../n1/./n3.txt");
        assert_eq!(path(&mut anonymiser, "/proc/self/fd/3"), "/proc/self/fd/3");
        assert_eq!(path(&mut anonymiser, "//usr/lib/"), "//usr/lib/");
        assert_eq!(path(&mut anonymiser, "letter"), "n4", "another name is another number");
        assert_eq!(path(&mut anonymiser, "a.secretending"), "n5");
    }
}
