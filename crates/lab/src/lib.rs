//! Experiments: every figure of the documents as a named, seeded, repeatable run.
//!
//! Invariant: reports no figure that the run did not measure. A rival stands beside each figure; a rival that is
//! missing makes the run fail and say how to install it.
//!
//! Reading order: [`ALL`] (the table of experiments), [`times`] (how long they take), then the parts that several
//! share. These are `played` (requests on one stack, as `esker try` does it), `artc` (replays), `ingens` (real huge
//! pages and their manager), `random_writes`, `reflink` and `copy_on_write` (a rival of our own). Each experiment has
//! one file. Rigs and reports are those of `esker-lab-kit`.
//!
//! Names of figures are made of an arm, a load and a figure wherever an experiment has several of each.

#![forbid(unsafe_code)]
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
mod advise;
mod anvil_clone_vs_cp;
mod anvil_gc_hotcold;
mod anvil_gc_scaling;
mod anvil_gc_steady;
mod anvil_recovery;
mod anvil_scanner_threads;
mod anvil_snapshot;
mod anvil_snapshot_large;
mod artc;
mod artc_cache;
mod artc_compile;
mod artc_concurrency;
mod artc_flash;
mod artc_ground_truth;
mod artc_heldout;
mod artc_init;
mod artc_leveldb;
mod artc_micro;
mod artc_overhead;
mod artc_programs;
mod artc_programs_suite;
mod artc_record;
mod artc_semantics;
mod artc_sensitivity;
mod artc_slices;
mod artc_uring;
mod attach_vs_raw;
mod borg;
mod cache_guest;
mod cache_hit;
mod cache_lines;
mod cache_live;
mod cache_loads;
mod cache_modes;
mod cache_policies;
mod caching_vs_tiering;
mod cleaning_policies;
mod copy_on_write;
mod data_path;
mod device_calibration;
mod edt_adversarial;
mod edt_loads;
mod edt_played;
mod edt_rest;
mod edt_sizes;
mod edt_start;
mod edt_table;
mod edt_testbed;
mod edt_throttle;
mod exces;
mod file_vs_fio;
mod first_answer;
mod fs_arms;
mod fs_calls;
mod fs_fill;
mod fs_fuse;
mod fs_harness;
mod fs_sync;
mod fs_tree;
mod growth;
mod hostile_clients;
mod ingens;
mod ingens_bloat;
mod ingens_daemon;
mod ingens_damon;
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
mod lfs_bimodal;
mod lfs_hotcold;
mod lfs_mounted;
mod lfs_nilfs2_guest;
mod lfs_parallel_snapshots;
mod lfs_replay;
mod lfs_snapshot;
mod lfs_trace;
mod lfs_tracking;
mod library_calls;
mod map_commit;
mod mounted;
mod mrc_accuracy;
mod nbd_vs_peers;
mod paced_ext4;
mod packages;
mod played;
mod random_setting;
mod random_writes;
mod reflink;
mod rt_throughput;
mod sim_throughput;
mod ssd_wa;
mod tier_live;
pub mod times;
mod try_any;
mod try_quick;
mod try_truth;

pub use ingens::own;

use esker_lab_kit::{Experiment, papers};

/// Every experiment, in the order in which it is listed.
pub const ALL: &[Experiment] = &[
    Experiment::simulated("rt-throughput", rt_throughput::run)
        .own()
        .about("Simulated I/Os per second through five pass-through layers, and the cost of one layer")
        .after("the project's own bars: at least 4 million per second and core, at most 10 ns per layer"),
    Experiment::simulated("sim-throughput", sim_throughput::run)
        .own()
        .about("Simulated I/Os per second through the SSD model's FTL in steady state")
        .after("the project's own bar: at least 1 million per second and core; MQSim reaches about 0.1"),
    Experiment::real("growth", growth::run)
        .own()
        .about("How the CPU time and memory of the main jobs grow with their size, as exponents")
        .after("the project's own bars: an exponent of at most 1.15, of memory that must not grow at most 0.1"),
    Experiment::simulated("ssd-wa", ssd_wa::run)
        .own()
        .about("Write amplification of the SSD model under uniform writes, against the published formula")
        .after("Desnoyers 2012 and Xiang and Kurkoski 2011; the project's own bar: within 3 % from 70 to 95 % utilisation"),
    Experiment::real("file-vs-fio", file_vs_fio::run)
        .own()
        .about("Random 4 KiB reads of a file device against fio's io_uring engine")
        .after("the project's own bar: at least 0.9 of fio at the same depth")
        .beside(&["fio"]),
    Experiment::real("fs-harness", fs_harness::run)
        .own()
        .about("Planted flaws of a file system that the harness finds, states that it judges in a second, and what it finds in ext4")
        .after("the project's own bars: every flaw, no broken promise of a sound one, none of ext4 under the weak promise")
        .beside(&["cargo", "mkfs.ext4"]),
    Experiment::real("nbd-vs-peers", nbd_vs_peers::run)
        .own()
        .about("Random 4 KiB over NBD against nbdkit and qemu-nbd, each with its best setting")
        .after("the project's own bars: 1.0 of nbdkit, 1.25 of it for reads at depth 32, 2.0 of qemu-nbd")
        .beside(&["fio", "nbdkit", "qemu-nbd"]),
    Experiment::real("data-path", data_path::run)
        .own()
        .about("Instructions and allocations of one NBD request of 4 KiB at depth 1, on three stacks (callgrind)")
        .after("the project's own bars: writes of 13,200, 14,400 and 21,000 instructions and of 8, 12 and 15 allocations")
        .beside(&["valgrind", "fio"]),
    Experiment::real("hostile-clients", hostile_clients::run)
        .own()
        .about("What a newcomer waits beside clients that want to keep it out, and whether a planted key gets out")
        .after("the project's own bars: at most 3 times an idle server, no lockout, 64 MiB, no key"),
    Experiment::real("fs-calls", fs_calls::run)
        .own()
        .about("Calls of a process on a file system in memory of ours against the same calls on the kernel's tmpfs, and allocations")
        .after("the issue of file systems: at least the rate of tmpfs, and no allocation of a hit")
        .beside(&["valgrind"]),
    Experiment::real("fs-fuse", fs_fuse::run)
        .own()
        .about("Requests to our FUSE server against mergerfs: a file system in memory against a tmpfs, and both on one directory")
        .after("the issue of file systems: at least the rate of mergerfs in its best setting")
        .beside(&["mergerfs"]),
    Experiment::real("library-calls", library_calls::run)
        .own()
        .about("Calls of the library from a foreign thread: reads of 4 KiB on memory, and flushes that eight threads share")
        .after("the issue of the library: 1.5 us a call, 300 ns more than a request, four calls for each flush"),
    Experiment::real("fs-sync", fs_sync::run)
        .own()
        .about("Appends of 4 KiB, each with an fsync, on lfs and on ext4, XFS and btrfs: rate, 99th percentile, bytes written")
        .after("the issue of the log-structured file system: at least the rate of ext4")
        .beside(&["mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"]),
    Experiment::real("fs-tree", fs_tree::run)
        .own()
        .about("Unpacking, listing, searching, building and removing a tree on lfs, on ext4 through our FUSE, and on the kernel's")
        .after("the issue of the log-structured file system: at least the speed of ext4 through FUSE in the worst step")
        .beside(&["mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "git", "make", "cc"]),
    Experiment::real("fs-fill", fs_fill::run)
        .own()
        .about("lfs filled and emptied again and again: bytes that do not come back, and overwrites at 50, 80 and 95 %")
        .after("the issue of the log-structured file system: no byte leaks, and a full file system lets files go")
        .beside(&["mkfs.ext4"]),
    Experiment::real("lfs-nilfs2-guest", lfs_nilfs2_guest::run)
        .own()
        .about("Bytes that devices take for the same writes on lfs and on the kernel's nilfs2, side by side in an emulated guest")
        .after("the issue of the log-structured file system: at most the bytes of nilfs2; both read both images")
        .beside(&["qemu-system-x86_64"]),
    Experiment::simulated("lfs-snapshot", lfs_snapshot::run)
        .of(&papers::NILFS_GC, "figures 7.3 and 7.4")
        .about("Cost of making and dropping a snapshot of lfs by each rule of counting live blocks, and the background scan")
        .after("the project's own bars: 50 ms, 64 MiB"),
    Experiment::simulated("lfs-parallel-snapshots", lfs_parallel_snapshots::run)
        .of(&papers::NILFS_GC, "figures 7.13 to 7.16")
        .about("How wrong counters of live blocks are, and how long churn takes, while snapshots of lfs come and go")
        .after("the thesis: 0.0005 to 0.003, within 2 %"),
    Experiment::simulated("lfs-replay", lfs_replay::run)
        .of(&papers::NILFS_GC, "figures 7.9 and 7.10")
        .about("A trace of an NFS server on lfs by cleaning policy, on a modelled disk and on flash (simulated, with plots)")
        .after("the thesis: 1.53 and 1.32 times as fast as oldest first"),
    Experiment::simulated("lfs-replay-full", lfs_replay::run_full)
        .of(&papers::NILFS_GC, "figures 7.11 and 7.12")
        .about("The same on a volume of which 82 % live at the end: greedy and cost-benefit (simulated, with plots)")
        .after("the thesis: greedy 5 % faster"),
    Experiment::real("lfs-tracking", lfs_tracking::run)
        .of(&papers::NILFS_GC, "figures 7.1 and 7.2")
        .about("Blocks, simulated time and CPU time that counters of live blocks cost lfs")
        .after("the thesis: not measurable; the bars are 1 % and 2 %"),
    Experiment::real("attach-vs-raw", attach_vs_raw::run)
        .own()
        .about("Random 4 KiB on an attached file device against a loop device on the same file")
        .after("the issue of front ends, which sets no bar")
        .beside(&["fio"]),
    Experiment::simulated("try-quick", try_quick::run)
        .own()
        .about("The default `esker try` on a prefix of its traces: verdict, determinism, speed of virtual time")
        .after("the project's main job; traces: blkreplay's linux-mysql and linux-webserver-2"),
    Experiment::real("first-answer", first_answer::run)
        .own()
        .about("How long a new user waits: for the help, for a verdict on a trace, for README's first command in a new clone")
        .after("the issue of packages: 20 ms, 1 s, 3 minutes")
        .beside(&["cargo", "git"]),
    Experiment::real("packages", packages::run)
        .own()
        .about("Sizes of the packages and of the program in them, whether they are reproducible, and how long their check takes")
        .after("the issue of packages: 8 MiB, 25 MiB, 1, 6 minutes")
        .beside(&["cargo", "dpkg-deb", "rpmbuild"]),
    Experiment::real("advise", advise::run)
        .own()
        .about("`esker advise`: seconds for 200 proposals of a million requests, and its estimates against a census of runs")
        .after("the issue on stacks that choose: 60 s, tau of 0.8, median error of 0.25; acceptance item 59"),
    Experiment::real("try-any", try_any::run)
        .own()
        .about("`esker try` on every block trace at hand: does it end, how soon, and at what cost a request")
        .after("the project's main job, on traces that were not chosen for it"),
    Experiment::real("try-truth", try_truth::run)
        .own()
        .about("Predicted against real throughput and latency, for memory, files and paced models, with and without layers")
        .after("the project's own bars: mean error at most 5 %, worst at most 15 %"),
    Experiment::real("paced-ext4", paced_ext4::run)
        .own()
        .about("fio on ext4 on an attached, paced disk model, against the model's virtual twin")
        .after("the issue of models: within the error that is stated for predictions of such devices")
        .beside(&["fio", "mkfs.ext4"]),
    Experiment::simulated("device-calibration", device_calibration::run)
        .own()
        .about("The disk model against measured disks: demerit, hit or miss, and the error of each request")
        .after("issue 3: demerit at most 10 %, class right for 90 %, median error at most 10 % of the mean; DiskSim's own \
             validation prints 0.268 ms for this Atlas 10K (demerit 6.9 %)"),
    Experiment::real("able-theory", able_theory::run)
        .of(&papers::ABLE, "figures 5.3 to 5.5")
        .about("The theory of stacking against the thesis' tables, and the time to find the best order")
        .after("the project's own bars: 1 s"),
    Experiment::simulated("able-predicted-vs-observed", able_predicted_vs_observed::run)
        .of(&papers::ABLE, "figure 5.3, never run there")
        .about("Last handlers of each volume in random running stacks, as predicted and as observed")
        .after("the thesis does not test its rules against running stacks"),
    Experiment::real("able-complexity", able_complexity::run)
        .of(&papers::ABLE, "table 5.3, vanilla to ABLE")
        .about("Code of the sample extensions on the primitives against the same by hand")
        .beside(&["cargo"]),
    Experiment::real("able-overhead", able_overhead::run)
        .of(&papers::ABLE, "figure 5.9")
        .about("Instructions of the sample extensions on the primitives against the same by hand, and their share of I/O time")
        .after("the project's bars: 5 %, 1 % and 10 ns")
        .beside(&["cargo", "valgrind"]),
    Experiment::real("ingens-fair", ingens_fair::run)
        .of(&papers::INGENS, "figure 3.5")
        .about("When three equal workers end that share slow promotion, simulated and real: by fairness, and in turn as khugepaged does")
        .after("three instances of Canneal; the project's own bars: 5 %, and 15 % in turn"),
    Experiment::simulated("ingens-bloat", ingens_bloat::run)
        .of(&papers::INGENS, "tables 3.5 and 3.10")
        .about("Memory and speed of a modelled key-value store with many of its keys deleted, by promotion threshold")
        .after("the project's own bars: 1 % and 60 %"),
    Experiment::real("ingens-misprediction", ingens_misprediction::run)
        .of(&papers::INGENS, "access tracking, no figure")
        .about("Hot huge pages that turn out to be unused, and access bits that need not be cleared")
        .after("the thesis: below 3 % for most loads, more for random ones"),
    Experiment::real("ingens-fault-latency", ingens_fault_latency::run)
        .of(&papers::INGENS, "fault latency, number unknown")
        .about("Latency of faults in base pages, with greedy huge pages and beside the manager; how soon it promotes")
        .after("the project's own bar: promoted within 100 ms of the 461st page"),
    Experiment::real("ingens-overhead", ingens_overhead::run)
        .of(&papers::INGENS, "figure 3.4")
        .about("CPU time of array, graph and request loads with the manager and its own, over THP=always")
        .after("the thesis: 0.7 % mean, 3.0 % worst; the project's own bars for the manager"),
    Experiment::real("ingens-redis", ingens_redis::run)
        .of(&papers::INGENS, "tables 3.5 and 3.10")
        .about("Memory and GETs of a real Redis with half and with 70 % of its keys deleted: base pages, the manager, THP=always")
        .after("the project's own bars: 1 % and 60 %")
        .beside(&[ingens::redis::PROGRAM]),
    Experiment::real("ingens-scan", ingens_scan::run)
        .of(&papers::INGENS, "access tracking, no figure")
        .about("Cost of looks through page tables, of clearing access bits, and of promotions for the user of the memory")
        .after("the thesis: 29 % without and 8 % with sampling; the project's own bars: 3 ms per GiB, 5 ms"),
    Experiment::real("ingens-fragmented", ingens_fragmented::run)
        .of(&papers::INGENS, "table 3.9")
        .about("Requests that take fresh memory in fragmented and in whole memory: the manager, base pages, THP=always")
        .after("Cloudstone under fragmentation; the project's own bar: p99.9 below greedy's"),
    Experiment::real("ingens-sharing", ingens_sharing::run)
        .of(&papers::INGENS, "table 3.11")
        .about("Memory that sharing of equal pages saves, and what it costs hot memory: none, all, same type, coordinated")
        .after("the thesis: coordinated saves 71.3 % of what KVM does and costs 1.5 to 2.6 %"),
    Experiment::real("ingens-daemon", ingens_daemon::run)
        .own()
        .about("The manager's own share of a CPU beside 10 GiB in huge pages, of which nothing or much is used")
        .after("the project's own bars: 0.5 % beside an idle process, 2 % beside a busy one"),
    Experiment::real("ingens-khugepaged", ingens_khugepaged::run)
        .of(&papers::INGENS, "table 3.4")
        .about("Speed-up of greedy faults that madvise, khugepaged (slow, fast) and the manager give in the same time")
        .after("the specification's bars: 1/4 at most without signals of faults, 90 % with"),
    Experiment::real("ingens-damon", ingens_damon::run)
        .own()
        .about("Huge pages of hot and cold, dense and sparse memory, and bloat: base pages, THP=always, DAMON's scheme, the manager")
        .after("the issue of the lab; DAMON's own tests (scheme `ethp`). In a guest with Debian's kernel where this one has no DAMON"),
    Experiment::real("ingens-soak", ingens_soak::run)
        .own()
        .about("The manager for half an hour beside Redis, memcached and Python: wrong bytes, settings, its own cost")
        .after("the project's own bars: no wrong byte, all settings as before")
        .beside(&["redis-server", "memcached", "python3"]),
    Experiment::simulated("cleaning-policies", cleaning_policies::run)
        .own()
        .about("Write amplification of cleaning policies: utilisation, skew, drift, snapshots and clones, against theory")
        .after("Sprite-LFS, the thesis on NILFS2, SepBIT; Desnoyers 2012 and Van Houdt 2013; the project's own bars"),
    Experiment::real("cache-policies", cache_policies::run)
        .own()
        .about("Hits of eviction policies on recorded and generated traces over LRU's, and their speed against libCacheSim's")
        .after("the issue of caches: 2 times the rate, hit ratios within 0.002, MQ at least LRU in every 12 hours"),
    Experiment::simulated("cache-modes", cache_modes::run)
        .of(&papers::CACHING, "lines and write policies")
        .about("Lines, write modes and fills of the kind cache before a modelled disk: time of a request")
        .after("the thesis: 9 and 15 % between write modes; the issue of caches: 30 %"),
    Experiment::simulated("exces", exces::run)
        .of(&papers::EXCES, "energy and slowdown, in its text")
        .about("A laptop whose disk sleeps before a flash device: energy of the machine and of the devices, slower writes")
        .after("the thesis: 2 to 14 % of the machine; the issue of caches: 0 to 20 %"),
    Experiment::simulated("borg", borg::run)
        .of(&papers::BORG, "disk-busy time, in its text")
        .about("Busy time of a modelled disk with and without the kind reorg on generated weeks of four machines; shift, writes, sweep, tuner")
        .after("acceptance items 15 to 17 and 21 of the issue on stacks that manage themselves"),
    Experiment::real("cache-hit", cache_hit::run)
        .own()
        .about("CPU time of a hit of the kind cache at a million lines, over the same device without it; bytes for each line")
        .after("the issue of caches: 250 ns, 16 bytes; Open-CAS takes 47 to 54 bytes, dm-cache 24 in its entry alone"),
    Experiment::real("cache-live", cache_live::run)
        .own()
        .about("Hits of the kind cache under fio on an attached stack, against the fast file alone; hits behind kill -9")
        .after("the issue of caches: 0.8 of the bare fast device, 0.95 of the hit ratio before the kill")
        .beside(&["fio"]),
    Experiment::real("cache-guest", cache_guest::run)
        .own()
        .about("Bytes that a home gets behind a power cut from the kernel's dm-cache and from the kind cache, in an emulated guest")
        .after("the issue of caches: a tenth of dm-cache's, which takes every block for dirty then")
        .beside(&["qemu-system-x86_64"]),
    Experiment::real("mrc-accuracy", mrc_accuracy::run)
        .own()
        .about("Curves of misses by cache size: exact against simulated caches, estimates against exact, and their rates")
        .after("the issue of caches: no mismatch, 5 and 10 million references per second, errors of 0.01 and 0.015"),
    Experiment::simulated("edt-table", edt_table::run)
        .of(&papers::EDT, "tables of devices, sizes and prices")
        .about("Printed numbers of extent-based tiering, computed again: shares of devices, break-evens, prices, watts (nothing runs)")
        .after("acceptance items 28 and 30 of the issue on stacks that choose: 0.001, all prices"),
    Experiment::simulated("edt-spc", edt_sizes::run_spc)
        .of(&papers::EDT, "table of the SPC-1-like load")
        .about("Price of dynamic and static tiering, and of one type of disk, for an SPC-1-like load (counted; nothing is played)")
        .after("the issue on stacks that choose: 1, 0.86"),
    Experiment::simulated("edt-msr", edt_sizes::run_msr)
        .of(&papers::EDT, "MSR-combined, equal performance")
        .about("The same for an MSR-like day of servers, and for one whose hot set moves (counted; nothing is played)")
        .after("the issue on stacks that choose: at most 0.70, at least 1"),
    Experiment::simulated("edt-subworkloads", edt_sizes::run_subworkloads)
        .of(&papers::EDT, "table of the sub-workloads")
        .about("The same for the server, data and source control volumes of that day (counted; nothing is played)"),
    Experiment::real("tier-live", tier_live::run)
        .own()
        .about("fio on an attached tier: slow requests on ext4 while extents move, hits of the fast end, requests at rest")
        .after("the issue on stacks that choose: 1.5 times the 99th percentile at rest, 0.8 of the bare fast device")
        .beside(&["fio", "mkfs.ext4"]),
    Experiment::simulated("edt-throttle", edt_throttle::run)
        .of(&papers::EDT, "throttling corrector, no figure")
        .about("How soon a tier on modelled devices finds and relieves a disk whose load has grown to twenty times as much")
        .after("acceptance items 41 and 42 of the issue on stacks that choose"),
    Experiment::simulated("edt-adversarial", edt_adversarial::run)
        .of(&papers::EDT, "adversarial loads, in its text")
        .about("Mean times of a tier on modelled devices over SAS disks alone: reads all over, and hot extents that change")
        .after("the thesis: 1.31, 1.21; acceptance item 46 of the issue on stacks that choose"),
    Experiment::simulated("caching-vs-tiering", caching_vs_tiering::run)
        .of(&papers::CACHING, "component studies and comparison")
        .about("One SSD before a modelled disk as a cache and as a tier: mean times, moves, shares of the SSD, chunks, epochs, planners")
        .after("acceptance items 53 to 57 of the issue on stacks that choose"),
    Experiment::simulated("edt-msr-played", edt_played::run_msr)
        .of(&papers::EDT, "MSR-combined, equal cost")
        .about("Mean times and power of dynamic and static tiers and of SAS disks of one price under MSR-like days, on modelled devices")
        .after("acceptance items 38, 44 and 45 of the issue on stacks that choose"),
    Experiment::simulated("edt-spc-played", edt_played::run_spc)
        .of(&papers::EDT, "table of the SPC-1-like load")
        .about("Mean times of dynamic tiers and of SAS disks under an SPC-1-like load, on modelled devices")
        .after("the thesis: 15 and 28 ms"),
    Experiment::simulated("map-commit", map_commit::run)
        .own()
        .about("Flushes and time of changes of the map of slots on a disk: shared commits, one for each, touched zones")
        .after("the issue of caches and tiers, item 9: at most 50 flushes per 1,000 updates, a fifth of the time"),
    Experiment::simulated("lfs-bimodal", lfs_bimodal::run)
        .of(&papers::NILFS_GC, "figure 7.5")
        .about("How full segments are behind 24 rounds of filling and cleaning, by policy, in 512 bins (simulated, with plots)")
        .after("acceptance item 51 of the issue on log-structured file systems"),
    Experiment::simulated("lfs-hotcold", lfs_hotcold::run)
        .of(&papers::NILFS_GC, "cleaning policies, no figure")
        .about("Write amplification of cleaning with hot and cold blocks: policies, targets, late aborts, age sort, a log for moved blocks (simulated)")
        .after("acceptance items 52, 53 and 57 to 59 of the issue on log-structured file systems"),
    Experiment::real("anvil-recovery", anvil_recovery::run)
        .own()
        .about("Seconds to open a volume with 16 million mappings after a kill")
        .after("issue 6 of this project: at most 5 seconds (ANViL gives no figure)"),
    Experiment::real("anvil-clone-vs-cp", anvil_clone_vs_cp::run)
        .of(&papers::ANVIL, "figure 3.4")
        .about("Cloning 1 GiB against copying it, and the cost of one extent")
        .after("the thesis: over 100 times faster than cp; issue 6 of this project: at most 1 ms, at most 1 us for each extent")
        .beside(&["mkfs.btrfs", "mkfs.xfs"]),
    Experiment::real("artc-compile", artc_compile::run)
        .own()
        .about("Time and memory of compiling and loading a trace of 1.7 million actions")
        .after("the project's own bars"),
    Experiment::simulated("artc-ground-truth", artc_ground_truth::run)
        .of(&papers::ARTC, "future work, never measured there")
        .about("Precision and recall of the inferred order on programs whose order is known"),
    Experiment::real("anvil-gc-steady", anvil_gc_steady::run)
        .of(&papers::ANVIL, "figure 3.8")
        .about("Random writes with the collector in its steady state: write amplification, balance, 99th percentile")
        .after("the thesis: allocation and reclamation in balance; issue 6 of this project: p99 at most 5 times that \
             without the collector"),
    Experiment::real("anvil-gc-scaling", anvil_gc_scaling::run)
        .of(&papers::ANVIL, "figure 3.9")
        .about("Time to clean everything against the amount of live data: the slope of both logarithms")
        .after("the thesis: roughly linear from 128 MiB to 128 GiB; issue 6 of this project: slope 0.9 to 1.1"),
    Experiment::simulated("anvil-gc-hotcold", anvil_gc_hotcold::run)
        .own()
        .about("Write amplification of the served volume with hot and cold data, against the floor, greedy and random victims")
        .after("acceptance item 43 of the issue on volumes; SepBIT; the project's own bars"),
    Experiment::real("anvil-scanner-threads", anvil_scanner_threads::run)
        .of(&papers::ANVIL, "figure 3.10")
        .about("Mappings scanned per second with 1 and 2 scanners; efficiency with 12 and 64 in virtual time")
        .after("the thesis: near-linear up to 12 threads; issue 6 of this project: 2 scanners 1.8 times as fast as 1, 0.9 of \
             the ideal with 12"),
    Experiment::real("artc-init", artc_init::run)
        .of(&papers::ARTC, "delta init, no figure")
        .about("Time of restoring a tree of which 1 % changed, against making all of it")
        .after("specification of program traces, item 26"),
    Experiment::real("artc-semantics", artc_semantics::run)
        .of(&papers::ARTC, "figure 2.7")
        .about("Calls that a replay has come out otherwise, by mode, on many traces"),
    Experiment::real("artc-micro", artc_micro::run)
        .of(&papers::ARTC, "figures 2.8 and 2.16")
        .about("Errors of replays of parallel readers across one and two modelled disks, by mode"),
    Experiment::real("artc-cache", artc_cache::run)
        .of(&papers::ARTC, "figure 2.8")
        .about("Errors of replays between a large and a small page cache, by mode")
        .beside(&["mkfs.ext4"]),
    Experiment::real("artc-slices", artc_slices::run)
        .of(&papers::ARTC, "figures 2.8 and 2.9")
        .about("Errors of replays between long and short slices of an I/O scheduler, by mode")
        .beside(&["mkfs.ext4"]),
    Experiment::real("artc-flash", artc_flash::run)
        .of(&papers::ARTC, "figure 2.15")
        .about("Thread time of recorded programs on a modelled disk over that on modelled flash, and what of it is fsync")
        .beside(&["mkfs.ext4"]),
    Experiment::real("artc-leveldb", artc_leveldb::run)
        .of(&papers::ARTC, "figures 2.10 to 2.12")
        .about("Errors of replays of LevelDB across file systems and modelled devices, by mode")
        .beside(&[artc::leveldb::PYTHON, "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"]),
    Experiment::real("artc-programs", artc_programs::run)
        .own()
        .about("Errors of predictions of git clone and of LevelDB with mapped tables, on three file systems over a model")
        .after("the project's own, with the loads of artc-leveldb")
        .beside(&[artc::leveldb::PYTHON, "git", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"]),
    Experiment::real("artc-programs-suite", artc_programs_suite::run)
        .own()
        .about("Whether recordings of 45 programs replay on three file systems with no other result and no other tree")
        .after("the project's own bars: no hang, no difference of the tree, no failed call beyond the listed ones")
        .beside(&["cc", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"]),
    Experiment::real("artc-heldout", artc_heldout::run)
        .own()
        .about("Errors of predictions of real programs, and whether errors stated from other programs hold for them")
        .after("the project's own bars: a mean of 0.10, nine of ten within the stated error")
        .beside(&["mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"]),
    Experiment::real("artc-uring", artc_uring::run)
        .own()
        .about("Requests of an io_uring that a recording does not show, and the error of predictions of fio with them")
        .after("the project's own")
        .beside(&["fio", "mkfs.ext4"]),
    Experiment::real("artc-concurrency", artc_concurrency::run)
        .of(&papers::ARTC, "figures 2.13 and 2.14")
        .about("How much of LevelDB's concurrency a replay keeps, and the lengths of the edges that limit it")
        .beside(&[artc::leveldb::PYTHON, "mkfs.ext4"]),
    Experiment::real("artc-sensitivity", artc_sensitivity::run)
        .own()
        .about("What replays lose without each of the rules: calls that come out otherwise, and errors of time")
        .after("specification of program traces, item 56")
        .beside(&[artc::leveldb::PYTHON, "mkfs.ext4"]),
    Experiment::real("artc-overhead", artc_overhead::run)
        .own()
        .about("What a replay costs beside its calls, and how far paced calls drift")
        .after("the issue of replay: at most 2 times a plain loop, at most 0.1 % drift at 50,000 calls a second")
        .beside(&["strace"]),
    Experiment::real("anvil-snapshot-large", anvil_snapshot_large::run)
        .own()
        .about("1,000 snapshots of a large volume that was written at random, with the collector at work: time, stalls, memory, rates")
        .after("the project's own bars: 5 ms for a snapshot or a roll back, stalls of 10 ms, 64 KiB for each, 0.95 of the rate before"),
    Experiment::real("anvil-snapshot", anvil_snapshot::run)
        .of(&papers::ANVIL, "figure 3.5")
        .about("Random 4 KiB writes after snapshots: against none, copy-on-write, qcow2 and the bare file")
        .after("the thesis: up to 7 times LVM; issue 6 of this project: at least 0.95 of the rate before, 5 times copy-on-write of \
             2 MiB, 1.5 times the best of it and qcow2, 0.9 of the bare file")
        .beside(&["fio", "qemu-img", "qemu-nbd"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_have_names_of_their_own_and_say_what_they_are_and_reproduce() {
        let names: std::collections::BTreeSet<&str> = ALL.iter().map(|experiment| experiment.name).collect();
        assert_eq!(names.len(), ALL.len());
        for experiment in ALL {
            assert!(!experiment.summary.is_empty() && !experiment.source().is_empty(), "{}", experiment.name);
            assert!(experiment.origin.is_some(), "{}: call `of` with its paper, or `own`", experiment.name);
        }
    }

    #[test]
    fn each_paper_has_an_experiment_and_each_place_is_named_in_a_few_words() {
        let origins: Vec<papers::Provenance> = ALL.iter().filter_map(|experiment| experiment.origin).collect();
        for key in papers::keys() {
            assert!(origins.iter().any(|origin| origin.key() == key), "{key}: no experiment has this key; remove it");
        }
        for place in origins.iter().filter(|origin| origin.key() != papers::OWN).map(|origin| origin.place()) {
            assert!((1..=35).contains(&place.len()), "{place}");
        }
    }
}
