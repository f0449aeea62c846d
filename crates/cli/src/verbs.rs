//! The table of verbs. A new verb is a file here and a line in [`ALL`].

mod advise;
mod blktrace_check;
mod blktrace_convert;
mod blktrace_from_fio;
mod blktrace_generate;
mod blktrace_stat;
mod curve;
mod kinds;
mod man;
mod stack_check;
mod try_stacks;

cfg_if::cfg_if! {
    if #[cfg(feature = "full")] {
        mod attach;
        mod blktrace_record;
        mod calibrate;
        mod check;
        mod completions;
        mod detach;
        mod doctor;
        mod freeze;
        mod fs_check;
        mod fs_dump;
        mod fs_mkfs;
        mod fs_play;
        mod fs_stat;
        mod hotcold;
        mod hugepage_doctor;
        mod hugepage_restore;
        mod hugepage_run;
        mod hugepage_status;
        mod hugepage_top;
        mod init;
        mod key_add;
        mod key_make;
        mod key_remove;
        mod lab_compare;
        mod lab_list;
        mod lab_repeat;
        mod lab_run;
        mod lfs;
        mod lfs_cleaner;
        mod lfs_log;
        mod meters;
        mod mirror_attach;
        mod mirror_detach;
        mod mirror_offline;
        mod mirror_replace;
        mod mirror_rescan;
        mod mirror_scrub;
        mod mirror_status;
        mod mount;
        mod nfs_generate;
        mod nfs_replay;
        mod order;
        mod remap;
        mod resize;
        mod run;
        pub mod serve;
        mod stack_compose;
        mod stack_dump;
        mod stack_explain;
        mod stack_insert;
        mod stack_place;
        mod stack_remove;
        mod stack_reorder;
        mod status;
        mod stop;
        mod sync;
        mod thaw;
        mod top;
        mod trace_compare;
        mod trace_compile;
        mod trace_deps;
        mod trace_generate;
        mod trace_import;
        mod trace_predict;
        mod trace_prepare;
        mod trace_record;
        mod trace_replay;
        mod trace_show;
        mod trace_syscalls;
        mod umount;
        mod volume_clone;
        mod volume_create;
        mod volume_dedup;
        mod volume_delete;
        mod volume_diff;
        mod volume_export;
        mod volume_hold;
        mod volume_import;
        mod volume_info;
        mod volume_list;
        mod volume_map;
        mod volume_receive;
        mod volume_release;
        mod volume_rename;
        mod volume_resize;
        mod volume_rollback;
        mod volume_rotate;
        mod volume_send;
        mod volume_snapshot;
        mod volume_usage;
    }
}

use crate::verb::Verb;

/// Headings of the help, with the first words of the verbs below each.
pub const HEADINGS: &[(&str, &[&str])] = &[
    ("Predict", &["try", "advise", "calibrate", "curve"]),
    ("Serve", &["init", "check", "stack", "serve", "run", "attach", "detach", "mount", "umount", "key", "fs"]),
    (
        "Operate",
        &[
            "status", "top", "meters", "volume", "mirror", "lfs", "resize", "remap", "order", "sync", "freeze", "thaw",
            "stop",
        ],
    ),
    ("Trace", &["blktrace", "trace", "nfs", "hotcold"]),
    ("Tools", &["doctor", "kinds", "hugepage", "lab", "man", "completions", "help"]),
];

/// First words of verbs with two words.
pub const GROUPS: &[(&str, &str)] = &[
    ("stack", "Check, show, compose and change stacks"),
    ("lfs", "Manage checkpoints, snapshots and segments of lfs"),
    ("volume", "Manage named volumes, their snapshots and clones"),
    ("mirror", "Scrub mirrors, and replace, attach and detach their members"),
    ("key", "Make key slots of encrypted volumes, and change their passphrases"),
    ("blktrace", "Record, describe, convert, check and generate block traces"),
    ("trace", "Record what programs do with files, and replay it"),
    ("fs", "Make, check and try file systems"),
    ("nfs", "Replay and generate traces of NFS servers"),
    ("hugepage", "Manage the huge pages of processes"),
    ("lab", "Measure the figures of the documents"),
];

/// The verbs of a program that only predicts.
#[cfg(not(feature = "full"))]
pub const ALL: &[Verb] = &[
    try_stacks::VERB,
    advise::VERB,
    stack_check::VERB,
    blktrace_stat::VERB,
    blktrace_convert::VERB,
    blktrace_check::VERB,
    blktrace_generate::VERB,
    blktrace_from_fio::VERB,
    curve::VERB,
    kinds::VERB,
    man::VERB,
];

/// Every verb.
#[cfg(feature = "full")]
pub const ALL: &[Verb] = &[
    try_stacks::VERB,
    advise::VERB,
    calibrate::VERB,
    doctor::VERB,
    init::VERB,
    check::VERB,
    run::VERB,
    serve::VERB,
    attach::VERB,
    detach::VERB,
    mount::VERB,
    umount::VERB,
    status::VERB,
    top::VERB,
    meters::VERB,
    remap::VERB,
    resize::VERB,
    order::VERB,
    sync::VERB,
    freeze::VERB,
    thaw::VERB,
    stop::VERB,
    stack_check::VERB,
    stack_dump::VERB,
    stack_compose::VERB,
    stack_explain::VERB,
    stack_place::VERB,
    stack_insert::VERB,
    stack_remove::VERB,
    stack_reorder::VERB,
    volume_list::VERB,
    volume_usage::VERB,
    volume_info::VERB,
    volume_map::VERB,
    volume_diff::VERB,
    volume_create::VERB,
    volume_snapshot::VERB,
    volume_clone::VERB,
    volume_rollback::VERB,
    volume_delete::VERB,
    volume_hold::VERB,
    volume_release::VERB,
    volume_rotate::VERB,
    volume_send::VERB,
    volume_receive::VERB,
    volume_import::VERB,
    volume_export::VERB,
    volume_resize::VERB,
    volume_rename::VERB,
    volume_dedup::VERB,
    mirror_status::VERB,
    mirror_scrub::VERB,
    mirror_replace::VERB,
    mirror_attach::VERB,
    mirror_detach::VERB,
    mirror_offline::VERB,
    mirror_rescan::VERB,
    key_make::VERB,
    key_add::VERB,
    key_remove::VERB,
    blktrace_record::VERB,
    blktrace_stat::VERB,
    blktrace_convert::VERB,
    blktrace_check::VERB,
    blktrace_generate::VERB,
    blktrace_from_fio::VERB,
    curve::VERB,
    trace_record::VERB,
    trace_import::VERB,
    trace_show::VERB,
    trace_syscalls::VERB,
    trace_generate::VERB,
    trace_compile::VERB,
    trace_deps::VERB,
    trace_predict::VERB,
    trace_prepare::VERB,
    trace_replay::VERB,
    trace_compare::VERB,
    fs_mkfs::VERB,
    fs_check::VERB,
    fs_dump::VERB,
    fs_stat::VERB,
    fs_play::VERB,
    lfs::SNAPSHOT,
    lfs::CHECKPOINTS,
    lfs::SEGMENTS,
    lfs::CLEAN,
    lfs_cleaner::VERB,
    lfs_log::VERB,
    nfs_replay::VERB,
    nfs_generate::VERB,
    hotcold::VERB,
    hugepage_run::VERB,
    hugepage_status::VERB,
    hugepage_top::VERB,
    hugepage_doctor::VERB,
    hugepage_restore::VERB,
    lab_repeat::VERB,
    lab_list::VERB,
    lab_run::VERB,
    lab_compare::VERB,
    kinds::VERB,
    man::VERB,
    completions::VERB,
];
