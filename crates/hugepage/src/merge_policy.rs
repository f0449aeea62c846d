//! Sharing of equal pages against huge pages: a duplicate inside a huge page can be shared only once that is split.

use serde::Deserialize;

/// Which duplicates are shared.
///
/// Linux shares base pages only: on this machine an equal huge page has no use, and `SameType` shares what is in base
/// pages anyway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharingPolicy {
    /// None.
    #[default]
    None,
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
    /// Its name in a configuration.
    pub fn word(self) -> &'static str {
        match self {
            SharingPolicy::None => "none",
            SharingPolicy::All => "all",
            SharingPolicy::SameType => "same_type",
            SharingPolicy::Coordinated => "coordinated",
        }
    }

    /// Decides about one duplicate.
    pub fn judge(self, candidate: Candidate) -> Verdict {
        match (self, candidate) {
            (SharingPolicy::None, _) => Verdict::Keep,
            (_, Candidate::Base) => Verdict::Share,
            (SharingPolicy::All, Candidate::Huge { .. }) => Verdict::Split,
            (SharingPolicy::SameType, Candidate::Huge { twin: true, .. }) => Verdict::Share,
            (SharingPolicy::SameType, Candidate::Huge { twin: false, .. }) => Verdict::Keep,
            (SharingPolicy::Coordinated, Candidate::Huge { hot: true, .. }) => Verdict::Keep,
            (SharingPolicy::Coordinated, Candidate::Huge { hot: false, .. }) => Verdict::Split,
        }
    }
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
}
