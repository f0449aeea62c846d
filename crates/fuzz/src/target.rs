//! The list of targets.

use esker_trace_block::Format;

use crate::{
    blktrace, compiled, compose, control, dedup, disksim, fio, framing, fuse, http, hugepage, key_slots, lfs,
    lfs_control, mirror, nbd, nfs, offload, regions, replay, shepherd, slots, stack, tier, trace, vhost, volume,
    volume_stream, whole,
};

/// What can be fuzzed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Block traces of one format.
    Blktrace(Format),
    /// Files that may be block traces of any format or something else.
    BlktraceAny,
    /// Packed block traces.
    BlktracePacked,
    /// The index of a block trace in Esker's own format.
    BlktraceIndex,
    /// DiskSim's files of a disk.
    DiskFiles,
    /// Job files of fio.
    FioJob,
    /// A server's side of an NBD connection.
    NbdSession,
    /// Replies to an NBD client.
    NbdReplies,
    /// The text of a stack.
    Stack,
    /// Declarations of extensions, and the questions that are asked of them.
    Compose,
    /// Superblocks, pages and log records of a format.
    Framing,
    /// Requests of the kernel to a file system.
    Fuse,
    /// Superblocks of mirrors' members.
    Mirror,
    /// The medium of a deduplicated volume.
    Dedup,
    /// Logs of off-loaded writes.
    Offload,
    /// Tables of moved blocks.
    Shepherd,
    /// Maps of slots.
    Slots,
    /// Labels of tiers' ends.
    Tier,
    /// Lines of the control socket.
    Control,
    /// Requests for metrics.
    Metrics,
    /// The configuration of the manager of huge pages.
    HugepageConfig,
    /// The mappings of a process, as the kernel tells them.
    HugepageMaps,
    /// Free memory, as the kernel tells of it.
    HugepageFree,
    /// The memory of a guest.
    Vhost,
    /// The medium of an area of regions.
    Regions,
    /// The medium of a volume.
    Volume,
    /// Streams of snapshots.
    VolumeStream,
    /// The medium of the harness's file system.
    Whole,
    /// Images of the log-structured file system.
    Lfs,
    /// Calls of cleaners of the log-structured file system.
    LfsControl,
    /// Traces of NFS servers.
    Nfs,
    /// The text of strace.
    TraceStrace,
    /// The layout of the iBench archive.
    TraceIbench,
    /// Recordings of programs.
    TraceEtrace,
    /// Compiled traces.
    TraceCompiled,
    /// The compiler of traces.
    TraceCompile,
    /// Replays of recordings.
    Replay,
    /// Files of key slots.
    KeySlots,
    /// Fails on an input that is easily found: proves that the fuzzer finds.
    Canary,
}

impl Target {
    /// Every target.
    pub const ALL: [Target; 60] = [
        Target::Blktrace(Format::Load),
        Target::Blktrace(Format::Vscsi1),
        Target::Blktrace(Format::Vscsi2),
        Target::Blktrace(Format::OracleGeneral),
        Target::Blktrace(Format::Msr),
        Target::Blktrace(Format::Fio2),
        Target::Blktrace(Format::Fio3),
        Target::Blktrace(Format::Alibaba),
        Target::Blktrace(Format::Tencent),
        Target::Blktrace(Format::Fiu),
        Target::Blktrace(Format::Mqsim),
        Target::Blktrace(Format::Disksim),
        Target::Blktrace(Format::Arc),
        Target::Blktrace(Format::Blkparse),
        Target::Blktrace(Format::Blktrace),
        Target::Blktrace(Format::Octf),
        Target::Blktrace(Format::Ebt),
        Target::Blktrace(Format::DisksimMeasured),
        Target::Blktrace(Format::Ids),
        Target::Blktrace(Format::Biosnoop),
        Target::Blktrace(Format::Cachelib),
        Target::Blktrace(Format::Hfplayer),
        Target::BlktraceAny,
        Target::BlktracePacked,
        Target::BlktraceIndex,
        Target::DiskFiles,
        Target::FioJob,
        Target::NbdSession,
        Target::NbdReplies,
        Target::Stack,
        Target::Compose,
        Target::Framing,
        Target::Fuse,
        Target::Mirror,
        Target::Dedup,
        Target::Offload,
        Target::Shepherd,
        Target::Slots,
        Target::Tier,
        Target::Control,
        Target::Metrics,
        Target::HugepageConfig,
        Target::HugepageMaps,
        Target::HugepageFree,
        Target::Vhost,
        Target::Regions,
        Target::Volume,
        Target::VolumeStream,
        Target::Whole,
        Target::Lfs,
        Target::LfsControl,
        Target::Nfs,
        Target::TraceStrace,
        Target::TraceIbench,
        Target::TraceEtrace,
        Target::TraceCompiled,
        Target::TraceCompile,
        Target::Replay,
        Target::KeySlots,
        Target::Canary,
    ];

    /// Its name on the command line.
    pub fn name(self) -> String {
        match self {
            Target::Blktrace(format) => format!("blktrace-{}", format.name()),
            Target::BlktraceAny => "blktrace-any".to_string(),
            Target::BlktracePacked => "blktrace-packed".to_string(),
            Target::BlktraceIndex => "blktrace-index".to_string(),
            Target::DiskFiles => "disk-files".to_string(),
            Target::FioJob => "fio-job".to_string(),
            Target::NbdSession => "nbd-session".to_string(),
            Target::NbdReplies => "nbd-replies".to_string(),
            Target::Stack => "stack".to_string(),
            Target::Compose => "compose".to_string(),
            Target::Framing => "framing".to_string(),
            Target::Fuse => "fuse".to_string(),
            Target::Mirror => "mirror".to_string(),
            Target::Dedup => "dedup".to_string(),
            Target::Offload => "offload".to_string(),
            Target::Shepherd => "shepherd".to_string(),
            Target::Slots => "slots".to_string(),
            Target::Tier => "tier".to_string(),
            Target::Control => "control".to_string(),
            Target::Metrics => "metrics".to_string(),
            Target::HugepageConfig => "hugepage-config".to_string(),
            Target::HugepageMaps => "hugepage-maps".to_string(),
            Target::HugepageFree => "hugepage-free".to_string(),
            Target::Vhost => "vhost".to_string(),
            Target::Regions => "regions".to_string(),
            Target::Volume => "volume".to_string(),
            Target::VolumeStream => "volume-stream".to_string(),
            Target::Whole => "whole".to_string(),
            Target::Lfs => "lfs".to_string(),
            Target::LfsControl => "lfs-control".to_string(),
            Target::Nfs => "nfs".to_string(),
            Target::TraceStrace => "trace-strace".to_string(),
            Target::TraceIbench => "trace-ibench".to_string(),
            Target::TraceEtrace => "trace-etrace".to_string(),
            Target::TraceCompiled => "trace-compiled".to_string(),
            Target::TraceCompile => "trace-compile".to_string(),
            Target::Replay => "replay".to_string(),
            Target::KeySlots => "key-slots".to_string(),
            Target::Canary => "canary".to_string(),
        }
    }

    /// Sound inputs to begin with.
    pub fn corpus(self) -> Vec<Vec<u8>> {
        match self {
            Target::Blktrace(format) => blktrace::corpus(format),
            Target::BlktraceAny => blktrace::any_corpus(),
            Target::BlktracePacked => blktrace::packed_corpus(),
            Target::BlktraceIndex => blktrace::index_corpus(),
            Target::DiskFiles => disksim::corpus(),
            Target::FioJob => fio::corpus(),
            Target::NbdSession => nbd::session_corpus(),
            Target::NbdReplies => nbd::replies_corpus(),
            Target::Stack => stack::corpus(),
            Target::Compose => compose::corpus(),
            Target::Framing => framing::corpus(),
            Target::Fuse => fuse::corpus(),
            Target::Mirror => mirror::corpus(),
            Target::Dedup => dedup::corpus(),
            Target::Offload => offload::corpus(),
            Target::Shepherd => shepherd::corpus(),
            Target::Slots => slots::corpus(),
            Target::Tier => tier::corpus(),
            Target::Control => control::corpus(),
            Target::Metrics => http::corpus(),
            Target::HugepageConfig => hugepage::config_corpus(),
            Target::HugepageMaps => hugepage::maps_corpus(),
            Target::HugepageFree => hugepage::free_corpus(),
            Target::Vhost => vhost::corpus(),
            Target::Regions => regions::corpus(),
            Target::Volume => volume::corpus(),
            Target::VolumeStream => volume_stream::corpus(),
            Target::Whole => whole::corpus(),
            Target::Lfs => lfs::corpus(),
            Target::LfsControl => lfs_control::corpus(),
            Target::Nfs => nfs::corpus(),
            Target::TraceStrace => trace::strace_corpus(),
            Target::TraceIbench => trace::ibench_corpus(),
            Target::TraceEtrace => trace::etrace_corpus(),
            Target::TraceCompiled => compiled::corpus(),
            Target::TraceCompile => compiled::recordings(),
            Target::Replay => replay::corpus(),
            Target::KeySlots => key_slots::corpus(),
            Target::Canary => vec![b"a canary sings".to_vec()],
        }
    }

    /// Tries one input: whether it was accepted.
    ///
    /// # Errors
    /// The promise that the answer breaks.
    pub fn try_input(self, input: &[u8]) -> Result<bool, String> {
        match self {
            Target::Blktrace(format) => blktrace::try_input(format, input),
            Target::BlktraceAny => blktrace::try_any(input),
            Target::BlktracePacked => blktrace::try_input(Format::Msr, input),
            Target::BlktraceIndex => blktrace::try_index(input),
            Target::DiskFiles => disksim::try_input(input),
            Target::FioJob => fio::try_input(input),
            Target::NbdSession => nbd::try_session(input),
            Target::NbdReplies => nbd::try_replies(input),
            Target::Stack => stack::try_input(input),
            Target::Compose => compose::try_input(input),
            Target::Framing => framing::try_input(input),
            Target::Fuse => fuse::try_input(input),
            Target::Mirror => mirror::try_input(input),
            Target::Dedup => dedup::try_input(input),
            Target::Offload => offload::try_input(input),
            Target::Shepherd => shepherd::try_input(input),
            Target::Slots => slots::try_input(input),
            Target::Tier => tier::try_input(input),
            Target::Control => control::try_input(input),
            Target::Metrics => http::try_input(input),
            Target::HugepageConfig => hugepage::try_config(input),
            Target::HugepageMaps => hugepage::try_maps(input),
            Target::HugepageFree => hugepage::try_free(input),
            Target::Vhost => vhost::try_input(input),
            Target::Regions => regions::try_input(input),
            Target::Volume => volume::try_input(input),
            Target::VolumeStream => volume_stream::try_input(input),
            Target::Whole => whole::try_input(input),
            Target::Lfs => lfs::try_input(input),
            Target::LfsControl => lfs_control::try_input(input),
            Target::Nfs => nfs::try_input(input),
            Target::TraceStrace => trace::try_strace(input),
            Target::TraceIbench => trace::try_ibench(input),
            Target::TraceEtrace => trace::try_etrace(input),
            Target::TraceCompiled => compiled::try_compiled(input),
            Target::TraceCompile => compiled::try_recording(input),
            Target::Replay => replay::try_input(input),
            Target::KeySlots => key_slots::try_input(input),
            Target::Canary => {
                assert!(!input.contains(&0xff), "the canary is dead");
                Ok(true)
            }
        }
    }
}
