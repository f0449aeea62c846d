//! What things cost: measured on Linux 6.18 in a virtual machine on a recent Xeon, another process promoting.

use esker_base::Nanos;

/// Costs of a simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// A fault that takes a base page.
    pub base_fault: Nanos,
    /// A fault that takes a huge page.
    pub huge_fault: Nanos,
    /// A promotion, without what each page adds.
    pub promote: Nanos,
    /// What each page in use adds to it.
    pub promote_page: Nanos,
    /// A demotion.
    pub demote: Nanos,
    /// Moving a page in compaction, and finding out that one need not be.
    pub move_page: Nanos,
}

impl Costs {
    /// Base faults of 1.44 to 1.62 us and huge ones of 226 to 265 us; a promotion of 255 us with one page and 560 us
    /// with 512; a demotion of 87 us; 23.6 ms for a compaction that moved 8,956 pages.
    pub const MEASURED: Costs = Costs {
        base_fault: Nanos(1_530),
        huge_fault: Nanos(245_000),
        promote: Nanos(255_000),
        promote_page: Nanos(600),
        demote: Nanos(87_000),
        move_page: Nanos(2_640),
    };

    /// A promotion of a region with `used` pages.
    pub fn promotion(&self, used: u32) -> Nanos {
        self.promote + self.promote_page * u64::from(used)
    }
}
