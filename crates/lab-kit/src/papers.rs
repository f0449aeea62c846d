//! What experiments measure again: the systems of five theses, each under a key, with its publication and its chapter.
//!
//! The project works from written extracts of these theses, which number figures only for some systems. Publications
//! are cited as their venues and the authors' universities list them.

use serde::Serialize;

/// Where a system was published.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Publication {
    /// Authors, in its order.
    pub authors: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Conference or journal; of a thesis, the university.
    pub venue: &'static str,
    /// Year.
    pub year: u16,
}

/// A paper: a chapter of a thesis about one system.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Paper {
    /// Name on the command line.
    pub key: &'static str,
    /// The system, and what it does.
    pub title: &'static str,
    /// The thesis.
    pub thesis: &'static str,
    /// The chapter, or none where the thesis is about this system alone.
    pub chapter: Option<&'static str>,
    /// Where it was published: the thesis itself, if nowhere else.
    pub published: Publication,
}

/// Where an experiment comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// The project's own question: no paper has such a figure.
    Own,
    /// A place of a paper: a figure, a table or a named part.
    Paper(&'static Paper, &'static str),
}

/// No paper has this key.
#[derive(Debug, thiserror::Error)]
#[error("there is no paper \"{key}\"; the nearest key is \"{nearest}\"; the keys are: {}", keys().join(", "))]
pub struct UnknownPaper {
    key: String,
    nearest: &'static str,
}

/// The word for experiments without a paper.
pub const OWN: &str = "own";

const EXTENSIONS: &str = "Improving Storage with Stackable Extensions";
const EVOLUTION: &str = "Hardware-Driven Evolution in Storage Software";
const EMERGING: &str = "Designing Systems for Emerging Memory Technologies";
const NILFS2: &str = "State-of-the-art Garbage Collection Policies for NILFS2";

/// Stackable extensions.
pub static ABLE: Paper = Paper {
    key: "able",
    title: "ABLE: block-layer extensions and a theory of stacking them",
    thesis: EXTENSIONS,
    chapter: Some("5"),
    published: Publication {
        authors: "Jorge Guerra, Luis Useche, Medha Bhadkamkar, Ricardo Koller, Raju Rangaswami",
        title: "The Case for Active Block Layer Extensions",
        venue: "ACM SIGOPS Operating Systems Review 42(6)",
        year: 2008,
    },
};
/// A log-structured volume that remaps.
pub static ANVIL: Paper = Paper {
    key: "anvil",
    title: "ANViL: a log-structured, address-remapping block virtualization layer",
    thesis: EVOLUTION,
    chapter: Some("3"),
    published: Publication {
        authors: "Zev Weiss, Sriram Subramanian, Swaminathan Sundararaman, Nisha Talagala, Andrea C. Arpaci-Dusseau, \
                  Remzi H. Arpaci-Dusseau",
        title: "ANViL: Advanced Virtualization for Modern Non-Volatile Memory Devices",
        venue: "USENIX FAST",
        year: 2015,
    },
};
/// Replay of system calls.
pub static ARTC: Paper = Paper {
    key: "artc",
    title: "ROOT, ARTC and Magritte: performance prediction by trace replay",
    thesis: EVOLUTION,
    chapter: Some("2"),
    published: Publication {
        authors: "Zev Weiss, Tyler Harter, Andrea C. Arpaci-Dusseau, Remzi H. Arpaci-Dusseau",
        title: "ROOT: Replaying Multithreaded Traces with Resource-Oriented Ordering",
        venue: "ACM SOSP",
        year: 2013,
    },
};
/// A disk that is laid out anew.
pub static BORG: Paper = Paper {
    key: "borg",
    title: "BORG: layout reorganisation on one disk",
    thesis: EXTENSIONS,
    chapter: Some("4"),
    published: Publication {
        authors: "Medha Bhadkamkar, Jorge Guerra, Luis Useche, Sam Burnett, Jason Liptak, Raju Rangaswami, \
                  Vagelis Hristidis",
        title: "BORG: Block-reORGanization for Self-optimizing Storage Systems",
        venue: "USENIX FAST",
        year: 2009,
    },
};
/// Caching beside tiering.
pub static CACHING: Paper = Paper {
    key: "caching",
    title: "SSD caching against multi-tiering, an empirical comparison",
    thesis: EXTENSIONS,
    chapter: Some("6"),
    published: Publication {
        authors: "Jorge Guerra",
        title: EXTENSIONS,
        venue: "Florida International University",
        year: 2012,
    },
};
/// Tiers of extents.
pub static EDT: Paper = Paper {
    key: "edt",
    title: "EDT: extent-based dynamic tiering",
    thesis: EXTENSIONS,
    chapter: Some("4"),
    published: Publication {
        authors: "Jorge Guerra, Himabindu Pucha, Joseph Glider, Wendy Belluomini, Raju Rangaswami",
        title: "Cost Effective Storage using Extent Based Dynamic Tiering",
        venue: "USENIX FAST",
        year: 2011,
    },
};
/// A disk that sleeps.
pub static EXCES: Paper = Paper {
    key: "exces",
    title: "EXCES: an external flash cache that lets a disk sleep",
    thesis: EXTENSIONS,
    chapter: Some("4"),
    published: Publication {
        authors: "Luis Useche, Jorge Guerra, Medha Bhadkamkar, Mauricio Alarcon, Raju Rangaswami",
        title: "EXCES: EXternal Caching in Energy Saving Storage Systems",
        venue: "IEEE HPCA",
        year: 2008,
    },
};
/// Huge pages.
pub static INGENS: Paper = Paper {
    key: "ingens",
    title: "Ingens: coordinated huge page management",
    thesis: EMERGING,
    chapter: Some("3"),
    published: Publication {
        authors: "Youngjin Kwon, Hangchen Yu, Simon Peter, Christopher J. Rossbach, Emmett Witchel",
        title: "Coordinated and Efficient Huge Page Management with Ingens",
        venue: "USENIX OSDI",
        year: 2016,
    },
};
/// Cleaning of a log-structured file system.
pub static NILFS_GC: Paper = Paper {
    key: "nilfs-gc",
    title: "Garbage collection policies of a log-structured file system",
    thesis: NILFS2,
    chapter: None,
    published: Publication { authors: "Andreas Rohner", title: NILFS2, venue: "TU Wien", year: 2018 },
};

/// All papers, by key.
pub static PAPERS: [&Paper; 9] = [&ABLE, &ANVIL, &ARTC, &BORG, &CACHING, &EDT, &EXCES, &INGENS, &NILFS_GC];

impl Paper {
    /// Its publication, and its place in the thesis.
    pub fn citation(&self) -> String {
        let Publication { authors, title, venue, year } = &self.published;
        let thesis = if *title == self.thesis { String::new() } else { format!("; thesis \"{}\"", self.thesis) };
        let chapter = self.chapter.map(|chapter| format!(", chapter {chapter}")).unwrap_or_default();
        format!("{authors}: \"{title}\", {venue}, {year}{thesis}{chapter}")
    }
}

impl Provenance {
    /// The key of its paper, or [`OWN`].
    pub fn key(self) -> &'static str {
        match self {
            Provenance::Own => OWN,
            Provenance::Paper(paper, _) => paper.key,
        }
    }

    /// The place in its paper: empty for the project's own.
    pub fn place(self) -> &'static str {
        match self {
            Provenance::Own => "",
            Provenance::Paper(_, place) => place,
        }
    }

    /// The paper and the place in it.
    pub fn citation(self) -> Option<String> {
        match self {
            Provenance::Own => None,
            Provenance::Paper(paper, place) => Some(format!("{}, {place}", paper.citation())),
        }
    }
}

/// All keys, that of the project's own experiments last.
pub fn keys() -> Vec<&'static str> {
    PAPERS.iter().map(|paper| paper.key).chain([OWN]).collect()
}

/// Checks that a paper, or [`OWN`], has this key.
///
/// # Errors
/// The nearest key, and all of them.
pub fn known(key: &str) -> Result<&'static str, UnknownPaper> {
    let likeness = |known: &&'static str| strsim::jaro_winkler(key, known);
    let nearest = keys().into_iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b))).expect("there are papers");
    if nearest == key { Ok(nearest) } else { Err(UnknownPaper { key: key.to_string(), nearest }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_and_differ() {
        let keys = PAPERS.map(|paper| paper.key);
        assert!(keys.is_sorted_by(|a, b| a < b) && !keys.contains(&OWN), "{keys:?}");
        assert!(keys.iter().all(|key| known(key).is_ok_and(|found| found == *key)));
    }

    #[test]
    fn an_unknown_key_is_told_the_nearest_and_all() {
        let told = known("artx").unwrap_err().to_string();
        assert!(
            told.starts_with("there is no paper \"artx\"; the nearest key is \"artc\"; the keys are: able, "),
            "{told}"
        );
        assert!(told.ends_with("nilfs-gc, own"), "{told}");
    }

    #[test]
    fn a_citation_has_the_publication_and_the_place_in_the_thesis() {
        let alone = "Andreas Rohner: \"State-of-the-art Garbage Collection Policies for NILFS2\", TU Wien, 2018";
        assert_eq!(NILFS_GC.citation(), alone);
        let chapter = "Jorge Guerra: \"Improving Storage with Stackable Extensions\", Florida International University, \
                       2012, chapter 6";
        assert_eq!(CACHING.citation(), chapter);
        let both = ", IEEE HPCA, 2008; thesis \"Improving Storage with Stackable Extensions\", chapter 4";
        assert!(EXCES.citation().ends_with(both), "{}", EXCES.citation());
        assert_eq!(Provenance::Paper(&EDT, "a table").citation().unwrap(), format!("{}, a table", EDT.citation()));
        assert_eq!((Provenance::Own.key(), Provenance::Own.place(), Provenance::Own.citation()), ("own", "", None));
    }
}
