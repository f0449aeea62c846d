//! Experiments: every figure of the documents as a named, seeded, repeatable run.
//!
//! Invariant: reports no figure that the run did not measure. A rival stands beside each figure; a rival that is
//! missing makes the run fail and say how to install it.
//!
//! Reading order: `artc` (replays), `ingens` (real huge pages), `manager_client` (their manager), `random_writes`,
//! `reflink`, `copy_on_write` (a rival of our own), then one file per experiment. Rigs and reports are
//! `esker-lab-kit`'s.

#![forbid(unsafe_code)]
#![allow(unreachable_pub, reason = "experiments are moving to tables")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "experiments measure real time, run rival programs and make scratch files"
)]

mod able_complexity;
mod able_kinds;
mod able_overhead;
mod able_predicted_vs_observed;
mod able_theory;
mod anvil_clone_vs_cp;
mod anvil_gc_scaling;
mod anvil_gc_steady;
mod anvil_recovery;
mod anvil_scanner_threads;
mod anvil_snapshot;
mod artc;
mod artc_cache;
mod artc_compile;
mod artc_concurrency;
mod artc_flash;
mod artc_ground_truth;
mod artc_init;
mod artc_leveldb;
mod artc_micro;
mod artc_overhead;
mod artc_programs;
mod artc_record;
mod artc_semantics;
mod artc_sensitivity;
mod artc_slices;
mod artc_uring;
mod attach_vs_raw;
mod cleaning_policies;
mod copy_on_write;
mod data_path;
mod device_calibration;
mod file_vs_fio;
mod growth;
mod hostile_clients;
mod ingens;
mod ingens_bloat;
mod ingens_daemon;
mod ingens_fair;
mod ingens_fault_latency;
mod ingens_fragmented;
mod ingens_khugepaged;
mod ingens_misprediction;
mod ingens_overhead;
mod ingens_redis;
mod ingens_scan;
mod ingens_sharing;
mod ingens_soak;
mod manager_client;
mod nbd_vs_peers;
mod paced_ext4;
mod random_setting;
mod random_writes;
mod reflink;
mod rt_throughput;
mod sim_throughput;
mod ssd_wa;
mod try_any;
mod try_quick;
mod try_truth;

pub use ingens::guest;

use esker_lab_kit::Experiment;

/// Every experiment, in the order in which it is listed.
pub const ALL: &[Experiment] = &[
    rt_throughput::EXPERIMENT,
    sim_throughput::EXPERIMENT,
    growth::EXPERIMENT,
    ssd_wa::EXPERIMENT,
    file_vs_fio::EXPERIMENT,
    nbd_vs_peers::EXPERIMENT,
    data_path::EXPERIMENT,
    hostile_clients::EXPERIMENT,
    attach_vs_raw::EXPERIMENT,
    try_quick::EXPERIMENT,
    try_any::EXPERIMENT,
    try_truth::EXPERIMENT,
    paced_ext4::EXPERIMENT,
    device_calibration::EXPERIMENT,
    able_theory::EXPERIMENT,
    able_predicted_vs_observed::EXPERIMENT,
    able_complexity::EXPERIMENT,
    able_overhead::EXPERIMENT,
    ingens_fair::EXPERIMENT,
    ingens_bloat::EXPERIMENT,
    ingens_misprediction::EXPERIMENT,
    ingens_fault_latency::EXPERIMENT,
    ingens_overhead::EXPERIMENT,
    ingens_redis::EXPERIMENT,
    ingens_scan::EXPERIMENT,
    ingens_fragmented::EXPERIMENT,
    ingens_sharing::EXPERIMENT,
    ingens_daemon::EXPERIMENT,
    ingens_khugepaged::EXPERIMENT,
    ingens_soak::EXPERIMENT,
    cleaning_policies::EXPERIMENT,
    anvil_recovery::EXPERIMENT,
    anvil_clone_vs_cp::EXPERIMENT,
    artc_compile::EXPERIMENT,
    artc_ground_truth::EXPERIMENT,
    anvil_gc_steady::EXPERIMENT,
    anvil_gc_scaling::EXPERIMENT,
    anvil_scanner_threads::EXPERIMENT,
    artc_init::EXPERIMENT,
    artc_semantics::EXPERIMENT,
    artc_micro::EXPERIMENT,
    artc_cache::EXPERIMENT,
    artc_slices::EXPERIMENT,
    artc_flash::EXPERIMENT,
    artc_leveldb::EXPERIMENT,
    artc_programs::EXPERIMENT,
    artc_uring::EXPERIMENT,
    artc_concurrency::EXPERIMENT,
    artc_sensitivity::EXPERIMENT,
    artc_overhead::EXPERIMENT,
    anvil_snapshot::EXPERIMENT,
];
