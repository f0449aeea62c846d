//! The options of fio, by what they mean for a trace.

/// What becomes of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It is read.
    Read,
    /// It changes no request, or none of a trace.
    Ignored,
    /// Its effect is missing in the trace, which is told.
    Told(&'static str),
    /// It changes requests in a way that is not known here.
    Refused(&'static str),
}

/// Other words for an option.
const ALIASES: [(&str, &str); 7] = [
    ("readwrite", "rw"),
    ("blocksize", "bs"),
    ("blocksize_range", "bsrange"),
    ("fileoffset", "offset"),
    ("io_limit", "io_size"),
    ("timeout", "runtime"),
    ("wait_for_previous", "stonewall"),
];

const READ: &[&str] = &[
    "rw",
    "bs",
    "bsrange",
    "bssplit",
    "size",
    "io_size",
    "offset",
    "offset_increment",
    "rate",
    "rate_iops",
    "rate_process",
    "thinktime",
    "thinktime_blocks",
    "numjobs",
    "runtime",
    "time_based",
    "loops",
    "random_distribution",
    "norandommap",
    "rwmixread",
    "rwmixwrite",
    "fsync",
    "fdatasync",
    "end_fsync",
    "number_ios",
    "startdelay",
    "stonewall",
    "filename",
    "directory",
    "ioengine",
    "kb_base",
    "filesize",
];

/// How requests are sent, measured and reported, and what they carry.
const IGNORED: &[&str] = &[
    "name",
    "description",
    "direct",
    "buffered",
    "iodepth",
    "iodepth_batch",
    "iodepth_batch_submit",
    "iodepth_batch_complete",
    "iodepth_batch_complete_min",
    "iodepth_batch_complete_max",
    "iodepth_low",
    "serialize_overlap",
    "hipri",
    "fixedbufs",
    "registerfiles",
    "sqthread_poll",
    "sqthread_poll_cpu",
    "nonvectored",
    "uncached",
    "nowait",
    "atomic",
    "sync",
    "invalidate",
    "group_reporting",
    "new_group",
    "stats",
    "thread",
    "prio",
    "prioclass",
    "nice",
    "cpumask",
    "cpus_allowed",
    "cpus_allowed_policy",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "mem",
    "iomem",
    "iomem_align",
    "mem_align",
    "hugepage-size",
    "lockmem",
    "zero_buffers",
    "refill_buffers",
    "scramble_buffers",
    "buffer_pattern",
    "buffer_compress_percentage",
    "buffer_compress_chunk",
    "dedupe_percentage",
    "randrepeat",
    "allrandrepeat",
    "random_generator",
    "unlink",
    "unlink_each_loop",
    "create_serialize",
    "create_fsync",
    "create_on_open",
    "create_only",
    "fallocate",
    "fadvise_hint",
    "overwrite",
    "fill_device",
    "fill_fs",
    "allow_file_create",
    "allow_mounted_write",
    "openfiles",
    "file_service_type",
    "ioscheduler",
    "gtod_reduce",
    "gtod_cpu",
    "clocksource",
    "disable_lat",
    "disable_clat",
    "disable_slat",
    "disable_bw_measurement",
    "disable_bw",
    "lat_percentiles",
    "clat_percentiles",
    "slat_percentiles",
    "percentile_list",
    "significant_figures",
    "disk_util",
    "write_bw_log",
    "write_lat_log",
    "write_iops_log",
    "write_hist_log",
    "write_iolog",
    "log_avg_msec",
    "log_hist_msec",
    "log_hist_coarseness",
    "log_max_value",
    "log_offset",
    "log_compression",
    "log_store_compressed",
    "log_unix_epoch",
    "log_alternate_epoch",
    "per_job_logs",
    "bwavgtime",
    "iopsavgtime",
    "unified_rw_reporting",
    "unit_base",
    "ignore_error",
    "error_dump",
    "exitall",
    "exitall_on_error",
    "exit_what",
    "max_open_zones",
    "rate_cycle",
    "rate_min",
    "rate_iops_min",
    "profile",
    "softrandommap",
    "bs_unaligned",
    "exec_prerun",
    "exec_postrun",
    "uid",
    "gid",
    "cgroup",
    "cgroup_weight",
    "cgroup_nodelete",
    "continue_on_error",
    "trim_verify_zero",
    "kernel_coalesce",
    "loop_poll",
];

const TOLD: &[(&str, &str)] = &[
    ("ramp_time", "requests of this time are in the trace too"),
    ("verify", "reads that verify are not in the trace"),
    ("do_verify", "reads that verify are not in the trace"),
    ("verify_backlog", "reads that verify are not in the trace"),
    ("verify_async", "reads that verify are not in the trace"),
    ("pre_read", "the reads before the job are not in the trace"),
    ("randseed", "--seed decides random choices"),
    ("latency_target", "rates follow the job file, not latencies"),
    ("latency_window", "rates follow the job file, not latencies"),
    ("latency_percentile", "rates follow the job file, not latencies"),
    ("max_latency", "rates follow the job file, not latencies"),
    ("fsync_on_close", "flushes of closed files are not in the trace"),
    ("thinktime_spin", "it counts as a part of thinktime"),
    ("rate_ignore_thinktime", "thinktime counts for rates as without it"),
];

const REFUSED: &[(&str, &str)] = &[
    ("include", "copy the lines of that file into this one"),
    ("percentage_random", "divide the job into a random and a sequential one"),
    ("rw_sequencer", "remove it"),
    ("blockalign", "remove it; blocks lie at multiples of the smallest bs"),
    ("ba", "remove it; blocks lie at multiples of the smallest bs"),
    ("nrfiles", "give each file a job of its own with filename"),
    ("filename_format", "name the file with filename"),
    ("opendir", "name one file with filename"),
    ("file_append", "give the place with offset"),
    ("offset_align", "give the place with offset"),
    ("zonemode", "remove it; traces have no zones"),
    ("zonesize", "remove it; traces have no zones"),
    ("zonerange", "remove it; traces have no zones"),
    ("zoneskip", "remove it; traces have no zones"),
    ("zonecapacity", "remove it; traces have no zones"),
    ("sync_file_range", "use fsync=N"),
    ("write_barrier", "use fsync=N"),
    ("trim_percentage", "use a job of its own with rw=randtrim"),
    ("trim_backlog", "use a job of its own with rw=trim"),
    ("read_iolog", "the log is a trace already: give it to `esker try` or `esker blktrace convert`"),
    ("replay_redirect", "the log is a trace already: give it to `esker try` or `esker blktrace convert`"),
    ("thinktime_iotime", "use thinktime_blocks"),
    ("thinktime_blocks_type", "remove it; blocks are counted when they are sent"),
    ("wait_for", "use stonewall, or startdelay"),
    ("flow", "give each job a rate of its own"),
    ("flow_watermark", "give each job a rate of its own"),
    ("flow_id", "give each job a rate of its own"),
    ("io_submit_mode", "remove it; arrivals do not depend on it"),
    ("steadystate", "use runtime"),
    ("random_seed", "use --seed"),
    ("use_os_rand", "use --seed"),
];

/// Engines that move no blocks of a file.
const OTHER_ENGINES: &[&str] = &[
    "net",
    "netsplice",
    "rdma",
    "cpuio",
    "http",
    "fileopen",
    "filecreate",
    "filestat",
    "filedelete",
    "exec",
    "ftruncate",
    "gfapi",
    "gfapi_async",
    "libhdfs",
    "dircreate",
    "dirstat",
    "dirdelete",
];

/// The option by its first name.
pub(super) fn canonical(key: &str) -> &str {
    ALIASES.iter().find(|(other, _)| *other == key).map_or(key, |(_, name)| name)
}

/// What becomes of an option of this first name. `None` if it is not known.
pub(super) fn of(key: &str) -> Option<Use> {
    let listed =
        |list: &[(&'static str, &'static str)]| list.iter().find(|(name, _)| *name == key).map(|(_, text)| *text);
    if READ.contains(&key) {
        return Some(Use::Read);
    }
    if IGNORED.contains(&key) {
        return Some(Use::Ignored);
    }
    listed(TOLD).map(Use::Told).or_else(|| listed(REFUSED).map(Use::Refused))
}

/// Whether an engine sends requests to a file or device.
pub(super) fn moves_blocks(engine: &str) -> bool {
    !OTHER_ENGINES.contains(&engine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_has_one_meaning() {
        let told = TOLD.iter().chain(REFUSED).map(|(name, _)| *name);
        let mut all: Vec<&str> = READ.iter().chain(IGNORED).copied().chain(told).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "an option is listed twice");
        assert!(ALIASES.iter().all(|(other, name)| of(name).is_some() && of(other).is_none()));
    }
}
