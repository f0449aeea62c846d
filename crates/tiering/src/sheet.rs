//! What is known of a device type.

/// A device type: price, room, power and speed. Units are decimal: a MB is 10^6 bytes.
///
/// The model uses `rtime_s` and `xtime_s_per_mb` alone. `iops` and `mb_per_s` are peaks that were measured apart from
/// them; homogeneous sizing and the planners that know no model use these. One sum never has both.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    /// Name, for texts.
    pub name: String,
    /// Price of one device, US dollars.
    pub usd: f64,
    /// Room of one device.
    pub bytes: f64,
    /// Power while nothing is under way, watts.
    pub idle_w: f64,
    /// Power while busy, watts.
    pub active_w: f64,
    /// Power at rest, watts.
    pub standby_w: f64,
    /// Model: time of a random read, seconds.
    pub rtime_s: f64,
    /// Model: time of a random write, seconds. Flash may take much longer for it than for a read.
    pub rtime_write_s: f64,
    /// Model: time of a sequential MB, seconds.
    pub xtime_s_per_mb: f64,
    /// Measured peak of random requests per second.
    pub iops: f64,
    /// Measured peak of sequential transfer, MB per second.
    pub mb_per_s: f64,
    /// From rest to the first request served, seconds.
    pub spin_up_s: f64,
}

/// Types in the order of the printed table.
pub const SSD: usize = 0;
/// The second type of the printed table.
pub const SAS: usize = 1;
/// The third type of the printed table.
pub const SATA: usize = 2;

/// Watts of an SSD with which the printed peak powers of two result tables add up; the device table says 1 W.
pub const SSD_WATTS_OF_RESULTS: f64 = 0.2;

impl Sheet {
    /// The printed table of the thesis on extending storage, section 3.4: an Intel X25-M, a drive of 15,000 and one of
    /// 7,200 turns per minute.
    ///
    /// Times to spin up, power at rest and writes are not printed. Writes take the time of reads, rest takes no power.
    pub fn thesis() -> [Sheet; 3] {
        let row =
            |name: &str, [usd, gb]: [f64; 2], [idle_w, active_w]: [f64; 2], model: [f64; 2], peak: [f64; 2], up| {
                Sheet {
                    name: name.to_owned(),
                    usd,
                    bytes: gb * 1e9,
                    idle_w,
                    active_w,
                    standby_w: 0.0,
                    rtime_s: model[0],
                    rtime_write_s: model[0],
                    xtime_s_per_mb: model[1],
                    iops: peak[0],
                    mb_per_s: peak[1],
                    spin_up_s: up,
                }
            };
        [
            row("SSD", [430.0, 180.0], [0.5, 1.0], [0.0002, 0.01], [5000.0, 90.0], 0.0),
            row("SAS", [325.0, 450.0], [12.4, 17.3], [0.00375, 0.004], [290.0, 200.0], 6.0),
            row("SATA", [170.0, 1000.0], [8.0, 11.6], [0.009, 0.009], [135.0, 105.0], 8.0),
        ]
    }

    /// The same device under a load of which a share are random writes: its time of a random request is the mean.
    pub fn with_writes(&self, share: f64) -> Sheet {
        let rtime_s = self.rtime_s + (self.rtime_write_s - self.rtime_s) * share;
        Sheet { rtime_s, ..self.clone() }
    }

    /// Of one device, the share that an extent's bytes take.
    pub fn capacity(&self, extent_bytes: f64) -> f64 {
        extent_bytes / self.bytes
    }

    /// Whether all numbers are such that the model can divide by them and compare them.
    pub fn is_sound(&self) -> bool {
        let positive = [self.bytes, self.rtime_s, self.rtime_write_s, self.xtime_s_per_mb, self.iops, self.mb_per_s];
        let others = [self.usd, self.idle_w, self.active_w, self.standby_w, self.spin_up_s];
        let is_positive = |value: &f64| value.is_finite() && *value > 0.0;
        positive.iter().all(is_positive) && others.iter().all(|value| value.is_finite() && *value >= 0.0)
    }
}

/// Price of so many devices of each type, US dollars.
pub fn usd(sheets: &[Sheet], counts: &[f64]) -> f64 {
    sheets.iter().zip(counts).map(|(sheet, count)| sheet.usd * count).sum()
}

/// Peak power of so many devices of each type by their sheets, watts.
pub fn peak_w(sheets: &[Sheet], counts: &[f64]) -> f64 {
    sheets.iter().zip(counts).map(|(sheet, count)| sheet.active_w * count).sum()
}
