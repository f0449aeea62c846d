//! What is to be known of each format besides its layout: one row for each.

use super::Format;
use esker_base::Nanos;

/// What holds for all traces in a format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub name: &'static str,
    /// The step of recorded times.
    pub resolution: Nanos,
    pub has_times: bool,
    pub has_operations: bool,
    pub has_volumes: bool,
    pub has_parts: bool,
    /// Times count from an instant unrelated to the trace.
    pub is_absolute: bool,
    /// Traces come slightly out of order, because several CPUs or machines recorded them.
    pub is_reordered: bool,
    /// Esker writes the format too.
    pub is_written: bool,
    /// What to do about a trace that is not in order of time.
    pub sorting_advice: &'static str,
}

impl Facts {
    /// A format with times in steps of `step` ns and with operations, which Esker also writes; nothing else.
    const fn of(name: &'static str, step: u64) -> Facts {
        Facts {
            name,
            resolution: Nanos(step),
            has_times: true,
            has_operations: true,
            has_volumes: false,
            has_parts: false,
            is_absolute: false,
            is_reordered: false,
            is_written: true,
            sorting_advice: "sort it by time first: sort -n",
        }
    }

    const fn timeless(self) -> Facts {
        Facts { has_times: false, ..self }
    }

    const fn reads_only(self) -> Facts {
        Facts { has_operations: false, ..self }
    }

    const fn volumes(self) -> Facts {
        Facts { has_volumes: true, ..self }
    }

    const fn parts(self) -> Facts {
        Facts { has_parts: true, ..self }
    }

    const fn absolute(self) -> Facts {
        Facts { is_absolute: true, ..self }
    }

    const fn reordered(self, sorting_advice: &'static str) -> Facts {
        Facts { is_reordered: true, sorting_advice, ..self }
    }

    const fn only_read(self) -> Facts {
        Facts { is_written: false, ..self }
    }
}

const US: u64 = 1_000;
const SECOND: u64 = 1_000_000_000;

impl Format {
    /// The row of this format.
    pub(crate) const fn facts(self) -> Facts {
        match self {
            Format::Load => Facts::of("load", 1),
            Format::Vscsi1 => Facts::of("vscsi1", US).absolute(),
            Format::Vscsi2 => Facts::of("vscsi2", US).absolute(),
            Format::OracleGeneral => Facts::of("oracle-general", SECOND).reads_only().absolute(),
            Format::Msr => Facts::of("msr", 100).volumes().absolute(),
            Format::Fio2 => Facts::of("fio2", US).timeless().volumes(),
            Format::Fio3 => Facts::of("fio3", US).volumes(),
            Format::Alibaba => {
                Facts::of("alibaba", US).volumes().absolute().reordered("sort it first: sort -t, -k5,5n")
            }
            Format::Tencent => {
                Facts::of("tencent", SECOND).volumes().absolute().reordered("sort it first: sort -t, -k1,1n")
            }
            Format::Fiu => Facts::of("fiu", 1).volumes().absolute().reordered("sort it by time first: sort -n"),
            Format::Mqsim => Facts::of("mqsim", 1).volumes(),
            Format::Disksim => Facts::of("disksim", 1).volumes(),
            Format::DisksimMeasured => Facts::of("disksim-measured", 1).only_read(),
            Format::Arc => Facts::of("arc", 1).timeless().reads_only(),
            Format::Ids => Facts::of("ids", 1).timeless().reads_only().only_read(),
            Format::Blkparse => Facts::of("blkparse", 1).volumes().reordered("sort it first: sort -k4,4n"),
            Format::Blktrace => Facts::of("blktrace", 1)
                .volumes()
                .parts()
                .absolute()
                .reordered("give the files of all CPUs unjoined, or merge them with blkparse"),
            Format::Octf => Facts::of("octf", 1)
                .volumes()
                .parts()
                .absolute()
                .reordered("give the folder with the files of all queues unjoined"),
            Format::Biosnoop => Facts::of("biosnoop", 10 * US)
                .volumes()
                .absolute()
                .reordered("give each recording on its own")
                .only_read(),
            Format::Cachelib => Facts::of("cachelib", SECOND).absolute().only_read(),
            Format::Hfplayer => Facts::of("hfplayer", 1).volumes().absolute().only_read(),
            Format::Ebt => Facts::of("ebt", 1).volumes(),
        }
    }
}
