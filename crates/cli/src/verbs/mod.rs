//! The table of verbs. A new verb is a file here and a line in [`ALL`].

mod blktrace_convert;
mod blktrace_stat;
mod completions;
mod kinds;
mod man;
mod stack_check;
mod stack_dump;

use crate::verb::Verb;

/// First words of verbs with two words, in the order of the help.
pub const GROUPS: &[(&str, &str)] =
    &[("stack", "Check, show and change stacks"), ("blktrace", "Describe and convert block traces")];

/// Every verb, in the order of the help.
pub const ALL: &[Verb] = &[
    stack_check::VERB,
    stack_dump::VERB,
    blktrace_stat::VERB,
    blktrace_convert::VERB,
    kinds::VERB,
    man::VERB,
    completions::VERB,
];
