//! What a trace may not leave behind: privileges.
//!
//! Another person may have written the trace. A set-user-id file that it makes would run with the rights of the user
//! that replays, and others could fill it through a shared map without losing the bit. The kernel reads meaning into
//! attributes outside of `user.`: `security.capability` grants rights, access lists open files. A replay leaves all of
//! these out and counts them, unless the user vouches for the trace (`--keep-modes`).

use std::collections::BTreeMap;

use esker_trace_calls::{Entry, Platform};
use rustix::fs::Mode;

use crate::report::Adapted;
use crate::xattrs;

/// Set-user-id and set-group-id.
pub(crate) const SET_ID: u16 = 0o6000;

/// What reports call calls that lost bits.
pub(crate) const MODES: &str = "set-user-id and set-group-id bits were left out (--keep-modes sets them)";
/// What reports call attributes that were not set or removed.
pub(crate) const ATTRIBUTES: &str =
    "calls that set or remove attributes outside of user. were not made (--keep-modes makes them)";
const TREE_MODES: &str = "set-user-id and set-group-id bits of the initial tree were left out (--keep-modes sets them)";
const TREE_ATTRIBUTES: &str = "attributes outside of user. of the initial tree were left out (--keep-modes sets them)";

/// The permissions that a file gets, and whether they are fewer than traced.
pub(crate) fn permitted(traced: u16, keep: bool) -> (Mode, bool) {
    let kept = if keep { traced } else { traced & !SET_ID };
    (Mode::from_raw_mode(kept.into()), kept != traced)
}

/// Whether an attribute of that name, as it is on Linux, may be set.
pub(crate) fn is_permitted(name: &[u8], keep: bool) -> bool {
    keep || name.starts_with(b"user.")
}

/// Takes privileges from the entries of a tree; says what was taken.
pub(crate) fn strip<'a>(entries: impl Iterator<Item = &'a mut Entry>) -> Vec<Adapted> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for entry in entries {
        if entry.mode & SET_ID != 0 {
            entry.mode &= !SET_ID;
            *counts.entry(TREE_MODES).or_default() += 1;
        }
        let before = entry.xattrs.len();
        entry.xattrs.retain(|xattr| is_permitted(&xattrs::name(Platform::Linux, xattr.name.as_bytes()), false));
        if entry.xattrs.len() < before {
            *counts.entry(TREE_ATTRIBUTES).or_default() += (before - entry.xattrs.len()) as u64;
        }
    }
    counts.into_iter().map(|(what, count)| Adapted { what: what.to_string(), count }).collect()
}
