//! The table of all experiments.

use esker_lab_kit::Experiment;

use crate::*;

/// Every experiment, in the order in which it is listed.
pub const ALL: &[Experiment] = &[
    Experiment::simulated(
        "rt-throughput",
        "Simulated I/Os per second through five pass-through layers, and the cost of one layer",
        "the project's own bars: at least 4 million per second and core, at most 10 ns per layer",
        rt_throughput::run,
    ),
    Experiment::simulated(
        "sim-throughput",
        "Simulated I/Os per second through the SSD model's FTL in steady state",
        "the project's own bar: at least 1 million per second and core; MQSim reaches about 0.1",
        sim_throughput::run,
    ),
    Experiment::real(
        "growth",
        "How the CPU time and memory of the main jobs grow with their size, as exponents",
        "the project's own bars: an exponent of at most 1.15, of memory that must not grow at most 0.1",
        growth::run,
    ),
    Experiment::simulated(
        "ssd-wa",
        "Write amplification of the SSD model under uniform writes, against the published formula",
        "Desnoyers 2012 and Xiang and Kurkoski 2011; the project's own bar: within 3 % from 70 to 95 % utilisation",
        ssd_wa::run,
    ),
    Experiment::real(
        "file-vs-fio",
        "Random 4 KiB reads of a file device against fio's io_uring engine",
        "the project's own bar: at least 0.9 of fio at the same depth",
        file_vs_fio::run,
    )
    .beside(&["fio"]),
    Experiment::real(
        "nbd-vs-peers",
        "Random 4 KiB over NBD against nbdkit and qemu-nbd, each with its best setting",
        "the project's own bars: 1.0 of nbdkit, 1.25 of it for reads at depth 32, 2.0 of qemu-nbd",
        nbd_vs_peers::run,
    )
    .beside(&["fio", "nbdkit", "qemu-nbd"]),
    Experiment::real(
        "data-path",
        "Instructions and allocations of one NBD request of 4 KiB at depth 1, on three stacks (callgrind)",
        "the project's own bars: writes of 13,200, 14,400 and 21,000 instructions and of 8, 12 and 15 allocations",
        data_path::run,
    )
    .beside(&["valgrind", "fio"]),
    Experiment::real(
        "hostile-clients",
        "What a newcomer waits beside clients that want to keep it out, and whether a planted key gets out",
        "the project's own bars: at most 3 times an idle server, no lockout, 64 MiB, no key",
        hostile_clients::run,
    ),
    Experiment::real(
        "attach-vs-raw",
        "Random 4 KiB on an attached file device against a loop device on the same file",
        "the issue of front ends, which sets no bar",
        attach_vs_raw::run,
    )
    .beside(&["fio"]),
    Experiment::simulated(
        "try-quick",
        "The default `esker try` on a prefix of its traces: verdict, determinism, speed of virtual time",
        "the project's main job; traces: blkreplay's linux-mysql and linux-webserver-2",
        try_quick::run,
    ),
    Experiment::real(
        "try-any",
        "`esker try` on every block trace at hand: does it end, how soon, and at what cost a request",
        "the project's main job, on traces that were not chosen for it",
        try_any::run,
    ),
    Experiment::real(
        "try-truth",
        "Predicted against real throughput and latency, for memory, files and paced models, with and without layers",
        "the project's own bars: mean error at most 5 %, worst at most 15 %",
        try_truth::run,
    ),
    Experiment::real(
        "paced-ext4",
        "fio on ext4 on an attached, paced disk model, against the model's virtual twin",
        "the issue of models: within the error that is stated for predictions of such devices",
        paced_ext4::run,
    )
    .beside(&["fio", "mkfs.ext4"]),
    Experiment::simulated(
        "device-calibration",
        "The disk model against measured disks: demerit, hit or miss, and the error of each request",
        "issue 3: demerit at most 10 %, class right for 90 %, median error at most 10 % of the mean; DiskSim's own \
             validation prints 0.268 ms for this Atlas 10K (demerit 6.9 %)",
        device_calibration::run,
    ),
    Experiment::real(
        "able-theory",
        "The theory of stacking against the thesis' tables, and the time to find the best order",
        "Improving Storage with Stackable Extensions, figures 5.3 to 5.5 and section 5.4; the project's own bars: 1 s",
        able_theory::run,
    ),
    Experiment::simulated(
        "able-predicted-vs-observed",
        "Last handlers of each volume in random running stacks, as predicted and as observed",
        "Improving Storage with Stackable Extensions, section 5.3, whose rules it does not test against running stacks",
        able_predicted_vs_observed::run,
    ),
    Experiment::real(
        "able-complexity",
        "Code of the sample extensions on the primitives against the same by hand",
        "Improving Storage with Stackable Extensions, table 5.3 (vanilla to ABLE)",
        able_complexity::run,
    )
    .beside(&["cargo"]),
    Experiment::real(
        "able-overhead",
        "Instructions of the sample extensions on the primitives against the same by hand, and their share of I/O time",
        "Improving Storage with Stackable Extensions, figure 5.9; the project's bars: 5 %, 1 % and 10 ns",
        able_overhead::run,
    )
    .beside(&["cargo", "valgrind"]),
    Experiment::simulated(
        "ingens-fair",
        "When three equal workers end that share slow promotion: by fairness, and in turn as khugepaged does",
        "Ingens, section on fairness (three instances of Canneal); the project's own bars: 5 %, and 15 % in turn",
        ingens_fair::run,
    ),
    Experiment::simulated(
        "ingens-bloat",
        "Memory and speed of a modelled key-value store with many of its keys deleted, by promotion threshold",
        "Ingens, tables of Redis' memory and throughput; the project's own bars: 1 % and 60 %",
        ingens_bloat::run,
    ),
    Experiment::real(
        "ingens-misprediction",
        "Hot huge pages that turn out to be unused, and access bits that need not be cleared",
        "Ingens, section on access tracking: below 3 % for most loads, more for random ones",
        ingens_misprediction::run,
    ),
    Experiment::real(
        "ingens-fault-latency",
        "Latency of faults in base pages, with greedy huge pages and beside the manager; how soon it promotes",
        "Ingens, table of page fault latency; the project's own bar: promoted within 100 ms of the 461st page",
        ingens_fault_latency::run,
    ),
    Experiment::real(
        "ingens-overhead",
        "CPU time of array, graph and request loads with the manager and its own, over THP=always",
        "Ingens, overhead without fragmentation: 0.7 % mean, 3.0 % worst; the project's own bars for the manager",
        ingens_overhead::run,
    ),
    Experiment::real(
        "ingens-redis",
        "Memory and GETs of a real Redis with half and with 70 % of its keys deleted: base pages, the manager, THP=always",
        "Ingens, tables of Redis' memory and throughput; the project's own bars: 1 % and 60 %",
        ingens_redis::run,
    )
    .beside(&[ingens::redis::PROGRAM]),
    Experiment::real(
        "ingens-scan",
        "Cost of looks through page tables, of clearing access bits, and of promotions for the user of the memory",
        "Ingens, cost of access tracking: 29 % without and 8 % with sampling; the project's own bars: 3 ms per GiB, 5 ms",
        ingens_scan::run,
    ),
    Experiment::real(
        "ingens-fragmented",
        "Requests that take fresh memory in fragmented and in whole memory: the manager, base pages, THP=always",
        "Ingens, table of Cloudstone under fragmentation; the project's own bar: p99.9 below greedy's",
        ingens_fragmented::run,
    ),
    Experiment::real(
        "ingens-sharing",
        "Memory that sharing of equal pages saves, and what it costs hot memory: none, all, same type, coordinated",
        "Ingens, table of page sharing: coordinated saves 71.3 % of what KVM does and costs 1.5 to 2.6 %",
        ingens_sharing::run,
    ),
    Experiment::real(
        "ingens-daemon",
        "The manager's own share of a CPU beside 10 GiB in huge pages, of which nothing or much is used",
        "the project's own bars: 0.5 % beside an idle process, 2 % beside a busy one",
        ingens_daemon::run,
    ),
    Experiment::real(
        "ingens-khugepaged",
        "Speed-up of greedy faults that madvise, khugepaged (slow, fast) and the manager give in the same time",
        "Ingens, asynchronous promotion alone; the specification's bars: 1/4 at most without signals of faults, 90 % with",
        ingens_khugepaged::run,
    ),
    Experiment::real(
        "ingens-soak",
        "The manager for half an hour beside Redis, memcached and Python: wrong bytes, settings, its own cost",
        "the project's own bars: no wrong byte, all settings as before",
        ingens_soak::run,
    )
    .beside(&["redis-server", "memcached", "python3"]),
    Experiment::simulated(
        "cleaning-policies",
        "Write amplification of cleaning policies: utilisation, skew, drift, snapshots and clones, against theory",
        "Sprite-LFS, the thesis on NILFS2, SepBIT; Desnoyers 2012 and Van Houdt 2013; the project's own bars",
        cleaning_policies::run,
    ),
    Experiment::real(
        "anvil-recovery",
        "Seconds to open a volume with 16 million mappings after a kill",
        "issue 6 of this project: at most 5 seconds (ANViL gives no figure)",
        anvil_recovery::run,
    ),
    Experiment::real(
        "anvil-clone-vs-cp",
        "Cloning 1 GiB against copying it, and the cost of one extent",
        "ANViL, figure 3.4: over 100 times faster than cp; issue 6 of this project: at most 1 ms, at most 1 us for each extent",
        anvil_clone_vs_cp::run,
    )
    .beside(&["mkfs.btrfs", "mkfs.xfs"]),
    Experiment::real(
        "artc-compile",
        "Time and memory of compiling and loading a trace of 1.7 million actions",
        "thesis on hardware-driven evolution, section 2.4; the project's own bars",
        artc_compile::run,
    ),
    Experiment::simulated(
        "artc-ground-truth",
        "Precision and recall of the inferred order on programs whose order is known",
        "thesis on hardware-driven evolution, section 2.6 (never measured there)",
        artc_ground_truth::run,
    ),
    Experiment::real(
        "anvil-gc-steady",
        "Random writes with the collector in its steady state: write amplification, balance, 99th percentile",
        "ANViL, figure 3.8 (allocation and reclamation in balance); issue 6 of this project: p99 at most 5 times that \
             without the collector",
        anvil_gc_steady::run,
    ),
    Experiment::real(
        "anvil-gc-scaling",
        "Time to clean everything against the amount of live data: the slope of both logarithms",
        "ANViL, figure 3.9 (roughly linear from 128 MiB to 128 GiB); issue 6 of this project: slope 0.9 to 1.1",
        anvil_gc_scaling::run,
    ),
    Experiment::real(
        "anvil-scanner-threads",
        "Mappings scanned per second with 1 and 2 scanners; efficiency with 12 and 64 in virtual time",
        "ANViL, figure 3.10 (near-linear up to 12 threads); issue 6 of this project: 2 scanners 1.8 times as fast as 1, 0.9 of \
             the ideal with 12",
        anvil_scanner_threads::run,
    ),
    Experiment::real(
        "artc-init",
        "Time of restoring a tree of which 1 % changed, against making all of it",
        "specification of program traces, item 26",
        artc_init::run,
    ),
    Experiment::real(
        "artc-semantics",
        "Calls that a replay has come out otherwise, by mode, on many traces",
        "thesis on hardware-driven evolution, section 2.5.1, figure 2.7",
        artc_semantics::run,
    ),
    Experiment::real(
        "artc-micro",
        "Errors of replays of parallel readers across one and two modelled disks, by mode",
        "thesis on hardware-driven evolution, section 2.5.2, figure 2.8",
        artc_micro::run,
    ),
    Experiment::real(
        "artc-cache",
        "Errors of replays between a large and a small page cache, by mode",
        "thesis on hardware-driven evolution, section 2.5.2, figure 2.8",
        artc_cache::run,
    )
    .beside(&["mkfs.ext4"]),
    Experiment::real(
        "artc-slices",
        "Errors of replays between long and short slices of an I/O scheduler, by mode",
        "thesis on hardware-driven evolution, section 2.5.2, figures 2.8 and 2.9",
        artc_slices::run,
    )
    .beside(&["mkfs.ext4"]),
    Experiment::real(
        "artc-flash",
        "Thread time of recorded programs on a modelled disk over that on modelled flash, and what of it is fsync",
        "thesis on hardware-driven evolution, section 2.5.4, figures 2.15 and 2.16",
        artc_flash::run,
    )
    .beside(&["mkfs.ext4"]),
    Experiment::real(
        "artc-leveldb",
        "Errors of replays of LevelDB across file systems and modelled devices, by mode",
        "thesis on hardware-driven evolution, section 2.5.3, figures 2.10 to 2.12",
        artc_leveldb::run,
    )
    .beside(&[artc::leveldb::PYTHON, "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"]),
    Experiment::real(
        "artc-programs",
        "Errors of predictions of git clone and of LevelDB with mapped tables, on three file systems over a model",
        "ours; after the thesis on hardware-driven evolution, section 2.5.3",
        artc_programs::run,
    )
    .beside(&[artc::leveldb::PYTHON, "git", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"]),
    Experiment::real(
        "artc-concurrency",
        "How much of LevelDB's concurrency a replay keeps, and the lengths of the edges that limit it",
        "thesis on hardware-driven evolution, section 2.5.3, figures 2.13 and 2.14",
        artc_concurrency::run,
    )
    .beside(&[artc::leveldb::PYTHON, "mkfs.ext4"]),
    Experiment::real(
        "artc-sensitivity",
        "What replays lose without each of the rules: calls that come out otherwise, and errors of time",
        "specification of program traces, item 56",
        artc_sensitivity::run,
    )
    .beside(&[artc::leveldb::PYTHON, "mkfs.ext4"]),
    Experiment::real(
        "artc-overhead",
        "What a replay costs beside its calls, and how far paced calls drift",
        "the issue of replay: at most 2 times a plain loop, at most 0.1 % drift at 50,000 calls a second",
        artc_overhead::run,
    )
    .beside(&["strace"]),
    Experiment::real(
        "anvil-snapshot",
        "Random 4 KiB writes after snapshots: against none, copy-on-write, qcow2 and the bare file",
        "ANViL, figure 3.5: up to 7 times LVM; issue 6 of this project: at least 0.95 of the rate before, 5 times copy-on-write of \
             2 MiB, 1.5 times the best of it and qcow2, 0.9 of the bare file",
        anvil_snapshot::run,
    )
    .beside(&["fio", "qemu-img", "qemu-nbd"]),
];
