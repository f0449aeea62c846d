//! What a solid-state drive is made of, and the profiles. `docs/layers/ssd-model.md` names the source of every number.

use esker_base::Nanos;
use esker_base::units::{KIB, MIB};
use esker_block::Args;

use crate::meter::Bill;

/// The numbers of a drive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SsdSpec {
    /// Bytes.
    pub capacity: u64,
    /// Units that read and program independently; page `n` is on unit `n` modulo this.
    pub channels: u32,
    /// Bytes of a page.
    pub page: u64,
    /// Time to sense a page.
    pub read: Nanos,
    /// Time to program a page.
    pub program: Nanos,
    /// Time of a flush after the last program.
    pub flush: Nanos,
    /// Bytes per second between a unit and the controller.
    pub unit_rate: u64,
    /// Bytes per second of the host interface.
    pub host_rate: u64,
    /// Controller time per command.
    pub overhead: Nanos,
    /// Bytes of the volatile write buffer.
    pub buffer: u64,
    /// Power and price.
    pub bill: Bill,
}

/// Names of the profiles, newest first.
pub const PROFILES: &[&str] = &["ssd-nvme-2022", "ssd-sata-2021"];

impl SsdSpec {
    /// A profile of [`PROFILES`].
    pub fn profile(name: &str) -> Option<SsdSpec> {
        match name {
            "ssd-nvme-2022" => Some(SSD_NVME_2022),
            "ssd-sata-2021" => Some(SSD_SATA_2021),
            _ => None,
        }
    }

    /// This drive with what `args` say instead.
    pub(super) fn with(mut self, args: &Args) -> SsdSpec {
        let spans = [
            ("read", &mut self.read),
            ("program", &mut self.program),
            ("flush", &mut self.flush),
            ("overhead", &mut self.overhead),
        ];
        for (name, field) in spans {
            *field = args.int_opt(name).map_or(*field, Nanos);
        }
        let sizes = [
            ("capacity", &mut self.capacity),
            ("page", &mut self.page),
            ("unit_rate", &mut self.unit_rate),
            ("host_rate", &mut self.host_rate),
            ("buffer", &mut self.buffer),
        ];
        for (name, field) in sizes {
            *field = args.int_opt(name).unwrap_or(*field);
        }
        self.channels = args.int_opt("channels").map_or(self.channels, |n| u32::try_from(n).unwrap_or(u32::MAX));
        self.bill = self.bill.with(args);
        self
    }
}

/// Samsung 990 PRO, 2 TB.
const SSD_NVME_2022: SsdSpec = SsdSpec {
    capacity: 2_000_398_934_016,
    channels: 50,
    page: 16 * KIB,
    read: Nanos(30_300),
    program: Nanos::micros(108),
    flush: Nanos::micros(20),
    unit_rate: 1_600_000_000,
    host_rate: 7_450_000_000,
    overhead: Nanos::micros(12),
    buffer: 64 * MIB,
    bill: Bill { active_w: 5.5, idle_w: 0.055, price_usd: 290.0 },
};

/// Samsung 870 EVO, 1 TB.
const SSD_SATA_2021: SsdSpec = SsdSpec {
    capacity: 1_000_204_886_016,
    channels: 5,
    page: 16 * KIB,
    read: Nanos(39_400),
    program: Nanos(113_600),
    flush: Nanos::micros(50),
    unit_rate: 400_000_000,
    host_rate: 560_000_000,
    overhead: Nanos::micros(20),
    buffer: 16 * MIB,
    bill: Bill { active_w: 2.2, idle_w: 0.03, price_usd: 140.0 },
};
