//! How fragmented free memory is: the share of it that no huge page can be made of.
//!
//! The source cites Gorman and Whitcroft for its "free memory fragmentation index" and gives no formula; what it says
//! of the value 1 matches their *unusable free space index*, which Linux shows as `extfrag/unusable_index`.

/// Blocks of this order and above can back a huge page.
pub const HUGE_ORDER: usize = 9;

/// More pages than physical addresses of 52 bits reach: a larger number is not believed.
const PAGES_MAX: u64 = 1 << 40;

/// Free blocks of a zone by order, as `/proc/buddyinfo` lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreeBlocks(pub Vec<u64>);

impl FreeBlocks {
    /// All free pages.
    pub fn pages(&self) -> u64 {
        self.pages_from(0)
    }

    /// Free pages in blocks of at least `order`.
    pub fn pages_from(&self, order: usize) -> u64 {
        self.0.iter().enumerate().skip(order).map(|(order, blocks)| blocks << order).sum()
    }

    /// Adds the blocks of another zone.
    pub fn add(&mut self, other: &FreeBlocks) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(sum, blocks)| *sum += blocks);
    }

    /// The fragmentation index, from 0 (every free page lies in a block that can back a huge page) to 1 (none does, or
    /// none is free). `unlisted` are free pages that the lists do not hold and that lie together: memory that the
    /// kernel has not yet handed to its allocator.
    pub fn fragmentation(&self, unlisted: u64) -> f64 {
        let all = self.pages() + unlisted;
        match all {
            0 => 1.0,
            _ => 1.0 - (self.pages_from(HUGE_ORDER) + unlisted) as f64 / all as f64,
        }
    }
}

/// The zones of `/proc/buddyinfo`, with the number of their node. Lines that do not look so are passed over.
pub fn parse_buddyinfo(text: &str) -> Vec<(String, FreeBlocks)> {
    let zone = |line: &str| {
        let (node, rest) = line.strip_prefix("Node ")?.split_once(", zone")?;
        let mut words = rest.split_whitespace();
        let name = words.next()?;
        let blocks = words.map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
        let is_sound =
            |(order, blocks): (usize, &u64)| PAGES_MAX.checked_shr(order as u32).is_some_and(|most| *blocks <= most);
        if !blocks.iter().enumerate().all(is_sound) {
            return None;
        }
        Some((format!("{}/{name}", node.trim()), FreeBlocks(blocks)))
    };
    text.lines().filter_map(zone).collect()
}

/// Pages in the lists of single CPUs, of `/proc/zoneinfo`: free, but in no block that the index sees, and merged only
/// later. After much was freed, wait until they have drained before the index is believed.
pub fn parse_per_cpu_pages(zoneinfo: &str) -> u64 {
    let count = |line: &str| line.trim().strip_prefix("count:")?.trim().parse::<u64>().ok();
    zoneinfo.lines().filter_map(count).filter(|pages| *pages <= PAGES_MAX).sum()
}

/// Free memory of `/proc/meminfo` in pages.
pub fn parse_free_pages(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemFree:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib / 4)
}

/// The index over all zones, with what is free beyond the lists taken as lying together.
pub fn fragmentation_of(buddyinfo: &str, zoneinfo: &str, meminfo: &str) -> f64 {
    let mut all = FreeBlocks::default();
    parse_buddyinfo(buddyinfo).iter().for_each(|(_, blocks)| all.add(blocks));
    let listed = all.pages() + parse_per_cpu_pages(zoneinfo);
    all.fragmentation(parse_free_pages(meminfo).unwrap_or(0).saturating_sub(listed))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDDYINFO: &str = "\
Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      2 \n\
Node 0, zone   Normal   1024    512      0      0      0      0      0      0      0      2      3 \nnonsense\n";

    #[test]
    fn numbers_that_no_machine_has_are_passed_over() {
        let whole = fragmentation_of(BUDDYINFO, "count: 7", "MemFree: 40000 kB");
        let absurd = format!("{BUDDYINFO}Node 0, zone Far 0 {0}\nNode 0, zone Long{1}\n", u64::MAX, " 1".repeat(70));
        assert_eq!(fragmentation_of(&absurd, &format!("count: 7\ncount: {}", u64::MAX), "MemFree: 40000 kB"), whole);
    }

    #[test]
    fn zones_are_read_with_their_blocks() {
        let zones = parse_buddyinfo(BUDDYINFO);
        assert_eq!(zones.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["0/DMA", "0/Normal"]);
        assert_eq!((zones[0].1.pages(), zones[0].1.pages_from(HUGE_ORDER)), (256 + 512 + 2048, 2560));
    }

    #[test]
    fn the_index_is_the_kernels() {
        let zones = parse_buddyinfo(BUDDYINFO);
        // The formula of mm/vmstat.c: (free - suitable << order) * 1000 / free.
        assert!((zones[0].1.fragmentation(0) - 256.0 / 2816.0).abs() < 1e-12);
        let normal = &zones[1].1;
        assert!((normal.fragmentation(0) - 2048.0 / (2048.0 + 1024.0 + 3072.0)).abs() < 1e-12);
    }

    #[test]
    fn no_free_memory_is_fragmented_and_unlisted_memory_is_not() {
        assert_eq!(FreeBlocks::default().fragmentation(0), 1.0);
        assert_eq!(FreeBlocks(vec![8]).fragmentation(0), 1.0);
        assert_eq!(FreeBlocks(vec![8]).fragmentation(8), 0.5);
        assert_eq!(FreeBlocks::default().fragmentation(8), 0.0);
    }

    #[test]
    fn pages_on_the_lists_of_cpus_are_not_taken_for_unlisted_memory() {
        let listed: u64 = parse_buddyinfo(BUDDYINFO).iter().map(|(_, blocks)| blocks.pages()).sum();
        let zoneinfo = "  pagesets\n    cpu: 0\n              count: 100\n    cpu: 1\n              count:    28\n";
        assert_eq!(parse_per_cpu_pages(zoneinfo), 128);
        let index = |free: u64| fragmentation_of(BUDDYINFO, zoneinfo, &format!("MemFree:  {} kB\n", free * 4));
        assert_eq!(index(listed + 128), index(0));
        assert!(index(listed + 128 + 5000) < index(0));
    }
}
