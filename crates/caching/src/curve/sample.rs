//! Samples of lines: all uses of a line, or none.

use esker_base::digest::mix;

/// Makes these hashes others than those of the index.
const SALT: u64 = 0xA076_1D64_78BD_642F;
const ALL: f64 = 18_446_744_073_709_551_616.0;

/// Takes the lines whose hash is below a threshold. Hashes of two lines are different, because the function is a
/// permutation.
pub(crate) struct Sample {
    threshold: u64,
}

impl Sample {
    /// About the share `rate` of all lines.
    pub(crate) fn new(rate: f64) -> Sample {
        Sample { threshold: (rate * ALL) as u64 }
    }

    /// The hash of a line, if the line is in the sample.
    #[inline]
    pub(crate) fn takes(&self, key: u64) -> Option<u64> {
        Some(mix(key ^ SALT)).filter(|hash| *hash < self.threshold || self.threshold == u64::MAX)
    }

    /// The share of lines that is taken.
    pub(crate) fn rate(&self) -> f64 {
        self.threshold as f64 / ALL
    }

    /// Leaves out the lines from this hash on.
    pub(crate) fn lower(&mut self, hash: u64) {
        self.threshold = hash;
    }
}
