//! How far long work is: a library tells it, and a program shows it.
//!
//! A report holds no time. The program that shows it has the clock, and reckons how long the rest takes.

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Things of this name, in the plural.
    Of(&'static str),
}

/// How far a part of long work is. Each report stands for itself: parts may be told in turns, and from several threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress<'a> {
    /// The part, in a few words. Reports of one part have the same words.
    pub part: &'a str,
    /// What is counted.
    pub unit: Unit,
    /// How much is done.
    pub done: u64,
    /// How much there is, as far as that is known. A part has ended when all of it is done.
    pub total: Option<u64>,
}

impl<'a> Progress<'a> {
    /// So many bytes of a part.
    pub fn bytes(part: &'a str, done: u64, total: u64) -> Progress<'a> {
        Progress { part, unit: Unit::Bytes, done, total: Some(total) }
    }

    /// So many things of a part.
    pub fn of(part: &'a str, unit: &'static str, done: u64, total: u64) -> Progress<'a> {
        Progress { part, unit: Unit::Of(unit), done, total: Some(total) }
    }
}

/// Takes reports.
pub type Watch = dyn Fn(Progress<'_>);
