//! What experiments measure again: the systems of five theses, each under a key, with its chapter.
//!
//! The project works from written extracts of these theses. They name no author, no venue and no year, and number
//! figures only for some systems. Where they do not say, this table holds nothing.

use serde::Serialize;

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
    /// Authors, where known.
    pub authors: Option<&'static str>,
    /// Venue, where known.
    pub venue: Option<&'static str>,
    /// Year, where known.
    pub year: Option<u16>,
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

/// Stackable extensions.
pub static ABLE: Paper =
    Paper::of("able", "ABLE: block-layer extensions and a theory of stacking them", EXTENSIONS, "5");
/// A log-structured volume that remaps.
pub static ANVIL: Paper =
    Paper::of("anvil", "ANViL: a log-structured, address-remapping block virtualization layer", EVOLUTION, "3");
/// Replay of system calls.
pub static ARTC: Paper =
    Paper::of("artc", "ROOT, ARTC and Magritte: performance prediction by trace replay", EVOLUTION, "2");
/// A disk that is laid out anew.
pub static BORG: Paper = Paper::of("borg", "BORG: layout reorganisation on one disk", EXTENSIONS, "4");
/// Caching beside tiering.
pub static CACHING: Paper =
    Paper::of("caching", "SSD caching against multi-tiering, an empirical comparison", EXTENSIONS, "6");
/// Tiers of extents.
pub static EDT: Paper = Paper::of("edt", "EDT: extent-based dynamic tiering", EXTENSIONS, "4");
/// A disk that sleeps.
pub static EXCES: Paper = Paper::of("exces", "EXCES: an external flash cache that lets a disk sleep", EXTENSIONS, "4");
/// Huge pages.
pub static INGENS: Paper = Paper::of("ingens", "Ingens: coordinated huge page management", EMERGING, "3");
/// Cleaning of a log-structured file system.
pub static NILFS_GC: Paper = Paper {
    chapter: None,
    ..Paper::of(
        "nilfs-gc",
        "Garbage collection policies of a log-structured file system",
        "State-of-the-art Garbage Collection Policies for NILFS2",
        "",
    )
};

/// All papers, by key.
pub static PAPERS: [&Paper; 9] = [&ABLE, &ANVIL, &ARTC, &BORG, &CACHING, &EDT, &EXCES, &INGENS, &NILFS_GC];

impl Paper {
    const fn of(key: &'static str, title: &'static str, thesis: &'static str, chapter: &'static str) -> Paper {
        Paper { key, title, thesis, chapter: Some(chapter), authors: None, venue: None, year: None }
    }

    /// Authors, thesis, chapter, venue and year, as far as they are known.
    pub fn citation(&self) -> String {
        let authors = self.authors.map(|authors| format!("{authors}: "));
        let chapter = self.chapter.map(|chapter| format!(", chapter {chapter}"));
        let venue = self.venue.map(|venue| format!(", {venue}"));
        let year = self.year.map(|year| format!(", {year}"));
        let [authors, chapter, venue, year] = [authors, chapter, venue, year].map(Option::unwrap_or_default);
        format!("{authors}thesis \"{}\"{chapter}{venue}{year}", self.thesis)
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
    fn a_citation_holds_what_is_known() {
        assert_eq!(NILFS_GC.citation(), "thesis \"State-of-the-art Garbage Collection Policies for NILFS2\"");
        let whole = Paper {
            authors: Some("A. Author"),
            venue: Some("a venue"),
            year: Some(2001),
            ..Paper::of("k", "T", "B", "2")
        };
        assert_eq!(whole.citation(), "A. Author: thesis \"B\", chapter 2, a venue, 2001");
        assert_eq!(Provenance::Paper(&EDT, "a table").citation().unwrap(), format!("{}, a table", EDT.citation()));
        assert_eq!((Provenance::Own.key(), Provenance::Own.place(), Provenance::Own.citation()), ("own", "", None));
    }
}
