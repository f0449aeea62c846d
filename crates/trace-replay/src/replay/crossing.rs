//! What may cross to the thread of a player that is alone. The one place of this crate with unsafe code, and all of it.

#![allow(unsafe_code, reason = "what crosses to a thread with other descriptors has to be vouched for")]

use esker_sys::NoDescriptors;

use super::Alone;

// SAFETY: the session of a player that is alone is made without a kernel (`begin_alone`), and gets none: the field is
// set once. Its script, tally, counters and results are memory; the tree is a path with numbers; options are words; a
// failure holds a path and the kernel's error, or that of a thread that could not be started.
unsafe impl NoDescriptors for Alone {}
