//! Sharing of equal pages against huge pages: a duplicate inside a huge page can be shared only once that is split.

use crate::util::Threshold;

/// Which duplicates are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharingPolicy {
    /// Any: huge pages are split for them, as KSM does.
    All,
    /// Huge pages with equal huge pages, base pages with base pages; nothing is split.
    SameType,
    /// The source's: huge pages that are not hot are split for them.
    Coordinated,
}

/// How a page that has a duplicate is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// As a base page.
    Base,
    /// Inside a huge page; `twin`: the whole of it has a duplicate.
    Huge {
        /// Whether it is used often.
        hot: bool,
        /// Whether there is an equal huge page.
        twin: bool,
    },
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays private.
    Keep,
    /// It is shared as it is mapped.
    Share,
    /// Its huge page is split and the base page shared.
    Split,
}

impl SharingPolicy {
    /// Decides about one duplicate.
    pub fn judge(self, candidate: Candidate) -> Verdict {
        match (self, candidate) {
            (_, Candidate::Base) => Verdict::Share,
            (SharingPolicy::All, Candidate::Huge { .. }) => Verdict::Split,
            (SharingPolicy::SameType, Candidate::Huge { twin: true, .. }) => Verdict::Share,
            (SharingPolicy::SameType, Candidate::Huge { twin: false, .. }) => Verdict::Keep,
            (SharingPolicy::Coordinated, Candidate::Huge { hot: true, .. }) => Verdict::Keep,
            (SharingPolicy::Coordinated, Candidate::Huge { hot: false, .. }) => Verdict::Split,
        }
    }
}

/// Whether the region of a page that was shared until a write is asked to be promoted at once.
pub fn promotes_after_break(used: u32, promote: Threshold) -> bool {
    used >= promote.pages()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_coordinated_policy_looks_at_heat() {
        let huge = |hot, twin| Candidate::Huge { hot, twin };
        for (policy, cold, hot, twins) in [
            (SharingPolicy::All, Verdict::Split, Verdict::Split, Verdict::Split),
            (SharingPolicy::SameType, Verdict::Keep, Verdict::Keep, Verdict::Share),
            (SharingPolicy::Coordinated, Verdict::Split, Verdict::Keep, Verdict::Keep),
        ] {
            let seen = [huge(false, false), huge(true, false), huge(true, true)].map(|c| policy.judge(c));
            assert_eq!(seen, [cold, hot, twins], "{policy:?}");
            assert_eq!(policy.judge(Candidate::Base), Verdict::Share);
        }
    }

    #[test]
    fn a_write_to_a_shared_page_asks_for_promotion_only_in_a_well_used_region() {
        let threshold = Threshold::percent(90).unwrap();
        assert!(promotes_after_break(461, threshold) && !promotes_after_break(460, threshold));
    }
}
