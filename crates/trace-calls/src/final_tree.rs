//! The tree of files as it was after the trace, as far as a recorder could look.

use crate::name::PathBytes;
use crate::snapshot::Snapshot;

/// What lay below some directories when the last process had ended: types, sizes, permissions and links.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct FinalTree {
    /// Directories that were looked at with all below them, as absolute paths through no link. Above none of them does
    /// another one lie.
    pub roots: Vec<PathBytes>,
    /// What was left out below them: mounts, what could not be read, and the recording itself.
    pub without: Vec<PathBytes>,
    /// The entries: the roots, and what lies below. They have no holes, attributes or times of change.
    pub tree: Snapshot,
}

impl FinalTree {
    /// Whether a path was looked at, so that its absence from the tree says that there was nothing.
    pub fn covers(&self, path: &[u8]) -> bool {
        let is_below = |roots: &[PathBytes]| roots.iter().any(|root| is_at_or_below(path, root));
        is_below(&self.roots) && !is_below(&self.without)
    }
}

fn is_at_or_below(path: &[u8], root: &[u8]) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest[0] == b'/' || root == b"/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_below_roots_was_looked_at_unless_it_was_left_out() {
        let paths = |paths: &[&str]| paths.iter().map(|path| PathBytes::from(*path)).collect();
        let tree = FinalTree { roots: paths(&["/a", "/b/c"]), without: paths(&["/a/x"]), ..FinalTree::default() };
        for path in ["/a", "/a/b", "/a/xy", "/b/c/d/e"] {
            assert!(tree.covers(path.as_bytes()), "{path}");
        }
        for path in ["/", "/ab", "/b", "/a/x", "/a/x/y"] {
            assert!(!tree.covers(path.as_bytes()), "{path}");
        }
        let whole = FinalTree { roots: paths(&["/"]), ..FinalTree::default() };
        assert!(whole.covers(b"/") && whole.covers(b"/etc"));
    }
}
