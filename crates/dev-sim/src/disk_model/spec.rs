//! What a disk is made of, and the profiles. `docs/layers/disk-model.md` names the source of every number.

use esker_base::Nanos;
use esker_base::units::MIB;
use esker_block::Args;

use crate::meter::Bill;

/// The numbers of a data sheet, and those that sheets leave out.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DiskSpec {
    /// Bytes of the whole medium.
    pub capacity: u64,
    /// Revolutions per minute.
    pub rpm: u32,
    /// Tracks per cylinder.
    pub heads: u32,
    /// Seek over one cylinder, for reads.
    pub seek_single: Nanos,
    /// Average seek, for reads.
    pub seek_average: Nanos,
    /// Seek over all cylinders, for reads.
    pub seek_full: Nanos,
    /// What a seek takes longer before a write.
    pub write_settle: Nanos,
    /// Sustained bytes per second at the outer edge.
    pub rate_outer: u64,
    /// Sustained bytes per second at the inner edge.
    pub rate_inner: u64,
    /// Bytes per second of the host interface.
    pub host_rate: u64,
    /// Controller time per command.
    pub overhead: Nanos,
    /// Bytes of the write cache.
    pub buffer: u64,
    /// Bytes that the disk reads on after a read.
    pub read_ahead: u64,
    /// Power and price.
    pub bill: Bill,
}

/// Names of the profiles, newest first.
pub const PROFILES: &[&str] = &["hdd-7200-2021", "hdd-7200-2008", "hdd-15k-2008"];

impl DiskSpec {
    /// A profile of [`PROFILES`].
    pub fn profile(name: &str) -> Option<DiskSpec> {
        match name {
            "hdd-7200-2021" => Some(HDD_7200_2021),
            "hdd-7200-2008" => Some(HDD_7200_2008),
            "hdd-15k-2008" => Some(HDD_15K_2008),
            _ => None,
        }
    }

    /// This disk with what `args` say instead.
    pub(super) fn with(mut self, args: &Args) -> DiskSpec {
        let spans = [
            ("seek_single", &mut self.seek_single),
            ("seek_average", &mut self.seek_average),
            ("seek_full", &mut self.seek_full),
            ("write_settle", &mut self.write_settle),
            ("overhead", &mut self.overhead),
        ];
        for (name, field) in spans {
            *field = args.int_opt(name).map_or(*field, Nanos);
        }
        let sizes = [
            ("capacity", &mut self.capacity),
            ("rate_outer", &mut self.rate_outer),
            ("rate_inner", &mut self.rate_inner),
            ("host_rate", &mut self.host_rate),
            ("buffer", &mut self.buffer),
            ("read_ahead", &mut self.read_ahead),
        ];
        for (name, field) in sizes {
            *field = args.int_opt(name).unwrap_or(*field);
        }
        for (name, field) in [("rpm", &mut self.rpm), ("heads", &mut self.heads)] {
            *field = args.int_opt(name).map_or(*field, |n| u32::try_from(n).unwrap_or(u32::MAX));
        }
        self.bill = self.bill.with(args);
        self
    }
}

/// WD Ultrastar DC HC310, 4 TB.
const HDD_7200_2021: DiskSpec = DiskSpec {
    capacity: 4_000_787_030_016,
    rpm: 7200,
    heads: 6,
    seek_single: Nanos::micros(230),
    seek_average: Nanos::micros(7_400),
    seek_full: Nanos::millis(15),
    write_settle: Nanos::micros(800),
    rate_outer: 255_000_000,
    rate_inner: 127_500_000,
    host_rate: 600_000_000,
    overhead: Nanos::micros(100),
    buffer: 256 * MIB,
    read_ahead: 2 * MIB,
    bill: Bill { active_w: 7.0, idle_w: 5.2, price_usd: 150.0 },
};

/// Seagate Barracuda 7200.11, 1 TB.
const HDD_7200_2008: DiskSpec = DiskSpec {
    capacity: 1_000_204_886_016,
    rpm: 7200,
    heads: 8,
    seek_single: Nanos::micros(800),
    seek_average: Nanos::micros(8_500),
    seek_full: Nanos::millis(17),
    write_settle: Nanos::millis(1),
    rate_outer: 105_000_000,
    rate_inner: 52_500_000,
    host_rate: 300_000_000,
    overhead: Nanos::micros(200),
    buffer: 32 * MIB,
    read_ahead: MIB,
    bill: Bill { active_w: 11.6, idle_w: 8.0, price_usd: 170.0 },
};

/// Seagate Cheetah 15K.6, 450 GB.
const HDD_15K_2008: DiskSpec = DiskSpec {
    capacity: 450_098_159_616,
    rpm: 15_000,
    heads: 8,
    seek_single: Nanos::micros(200),
    seek_average: Nanos::micros(3_400),
    seek_full: Nanos::micros(7_000),
    write_settle: Nanos::micros(500),
    rate_outer: 171_000_000,
    rate_inner: 112_000_000,
    host_rate: 300_000_000,
    overhead: Nanos::micros(150),
    buffer: 16 * MIB,
    read_ahead: MIB,
    bill: Bill { active_w: 17.3, idle_w: 12.4, price_usd: 325.0 },
};
