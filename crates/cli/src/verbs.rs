//! The table of verbs. A new verb is a file here and a line in [`ALL`].

mod attach;
mod blktrace_check;
mod blktrace_convert;
mod blktrace_generate;
mod blktrace_stat;
mod calibrate;
mod completions;
mod detach;
mod drain;
mod freeze;
mod hugepage_doctor;
mod hugepage_restore;
mod hugepage_run;
mod hugepage_status;
mod hugepage_top;
mod init;
mod kinds;
mod lab_evaluate;
mod lab_list;
mod lab_run;
mod man;
mod measure;
mod media_check;
mod ranges;
mod resize;
mod serve;
mod stack_check;
mod stack_compose;
mod stack_dump;
mod stack_explain;
mod stack_insert;
mod stack_query;
mod stack_remove;
mod stack_reorder;
mod status;
mod stop;
mod thaw;
mod top;
mod trace_calls;
mod trace_compare;
mod trace_compile;
mod trace_generate;
mod trace_import;
mod trace_init;
mod trace_inspect;
mod trace_record;
mod trace_replay;
mod trace_show;
mod try_stacks;
mod volume_clone;
mod volume_create;
mod volume_delete;
mod volume_list;
mod volume_rename;
mod volume_resize;
mod volume_rollback;
mod volume_share;
mod volume_snapshot;
mod volume_space;

use crate::verb::Verb;

/// First words of verbs with two words, in the order of the help.
pub const GROUPS: &[(&str, &str)] = &[
    ("stack", "Check, show, compose and change stacks"),
    ("volume", "Manage named volumes, their snapshots and clones"),
    ("media", "Look at what layers keep on files and devices"),
    ("blktrace", "Describe, convert, check and generate block traces"),
    ("trace", "Record what programs do with files, and replay it"),
    ("hugepage", "Manage the huge pages of processes"),
    ("lab", "Measure the figures of the documents"),
];

/// Every verb, in the order of the help.
pub const ALL: &[Verb] = &[
    try_stacks::VERB,
    calibrate::VERB,
    init::VERB,
    serve::VERB,
    attach::VERB,
    detach::VERB,
    status::VERB,
    top::VERB,
    measure::VERB,
    ranges::VERB,
    resize::VERB,
    drain::VERB,
    freeze::VERB,
    thaw::VERB,
    stop::VERB,
    stack_check::VERB,
    stack_dump::VERB,
    stack_compose::VERB,
    stack_explain::VERB,
    stack_query::VERB,
    stack_insert::VERB,
    stack_remove::VERB,
    stack_reorder::VERB,
    volume_list::VERB,
    volume_space::VERB,
    volume_create::VERB,
    volume_snapshot::VERB,
    volume_clone::VERB,
    volume_rollback::VERB,
    volume_delete::VERB,
    volume_resize::VERB,
    volume_rename::VERB,
    volume_share::VERB,
    media_check::VERB,
    blktrace_stat::VERB,
    blktrace_convert::VERB,
    blktrace_check::VERB,
    blktrace_generate::VERB,
    trace_record::VERB,
    trace_import::VERB,
    trace_show::VERB,
    trace_calls::VERB,
    trace_generate::VERB,
    trace_compile::VERB,
    trace_inspect::VERB,
    trace_init::VERB,
    trace_replay::VERB,
    trace_compare::VERB,
    hugepage_run::VERB,
    hugepage_status::VERB,
    hugepage_top::VERB,
    hugepage_doctor::VERB,
    hugepage_restore::VERB,
    lab_evaluate::VERB,
    lab_list::VERB,
    lab_run::VERB,
    kinds::VERB,
    man::VERB,
    completions::VERB,
];
