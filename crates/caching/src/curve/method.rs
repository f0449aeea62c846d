//! Methods by name.

use std::fmt;
use std::str::FromStr;

use crate::by_name;
use crate::curve::{Aet, Estimator, Exact, Miniature, Relaxed, Shards};

/// The policy that stack distances describe.
const LRU: &str = "lru";
/// Lines of a bounded sample if no number is named.
const SHARDS_LINES: usize = 8192;

/// How a curve is found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Method {
    /// By stack distances for LRU, by simulating each size for other policies.
    Exact,
    /// By reuse times that stand for stack distances. LRU only.
    Relaxed,
    /// By reuse times and the model of average eviction times. LRU only.
    Aet,
    /// By stack distances of this share of the lines. LRU only.
    Shards(f64),
    /// By stack distances of at most so many lines. LRU only.
    ShardsLines(usize),
    /// By simulating small caches with this share of the lines.
    Miniature(f64),
}

/// Why there is no such method.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum MethodError {
    /// The name is not one of a method.
    #[error(
        "there is no method `{0}`; use `exact`, `relaxed`, `aet`, `shards=RATE`, `shards-lines=COUNT` or `miniature=RATE`"
    )]
    Unknown(String),
    /// The number behind the name does not fit.
    #[error("`{0}` is no rate; use a number over 0, up to 1")]
    Rate(String),
    /// The number behind the name does not fit.
    #[error("`{0}` is no count of lines; use a whole number over 0")]
    Count(String),
    /// There is no policy of this name.
    #[error("there is no policy `{0}`")]
    Policy(String),
    /// The method describes LRU only.
    #[error("`{0}` describes `lru` only; use `exact` or `miniature=RATE` for `{1}`")]
    LruOnly(Method, String),
}

impl Method {
    /// An estimator for a policy and these sizes in lines.
    ///
    /// # Errors
    /// If there is no such policy, or if the method does not describe it.
    pub fn estimator(self, policy: &str, sizes: &[u64]) -> Result<Box<dyn Estimator>, MethodError> {
        let make = by_name(policy).ok_or_else(|| MethodError::Policy(policy.into()))?;
        let estimator: Box<dyn Estimator> = match self {
            Method::Miniature(rate) => Box::new(Miniature::new(make, rate, sizes)),
            Method::Exact if policy != LRU => Box::new(Miniature::new(make, 1.0, sizes)),
            _ if policy != LRU => return Err(MethodError::LruOnly(self, policy.into())),
            Method::Exact => Box::new(Exact::new(sizes)),
            Method::Relaxed => Box::new(Relaxed::new(sizes)),
            Method::Aet => Box::new(Aet::new(sizes)),
            Method::Shards(rate) => Box::new(Shards::with_rate(rate, sizes)),
            Method::ShardsLines(lines) => Box::new(Shards::with_lines(lines, sizes)),
        };
        Ok(estimator)
    }
}

impl FromStr for Method {
    type Err = MethodError;

    fn from_str(text: &str) -> Result<Method, MethodError> {
        let (name, number) = text.split_once('=').map_or((text, None), |(name, number)| (name, Some(number)));
        match (name, number) {
            ("exact", None) => Ok(Method::Exact),
            ("relaxed", None) => Ok(Method::Relaxed),
            ("aet", None) => Ok(Method::Aet),
            ("shards", Some(rate)) => Ok(Method::Shards(rate_of(rate)?)),
            ("shards-lines", None) => Ok(Method::ShardsLines(SHARDS_LINES)),
            ("shards-lines", Some(count)) => {
                let lines = count.parse().ok().filter(|lines| *lines > 0);
                lines.map(Method::ShardsLines).ok_or_else(|| MethodError::Count(count.into()))
            }
            ("miniature", Some(rate)) => Ok(Method::Miniature(rate_of(rate)?)),
            _ => Err(MethodError::Unknown(text.into())),
        }
    }
}

fn rate_of(text: &str) -> Result<f64, MethodError> {
    let rate = text.parse().ok().filter(|rate| *rate > 0.0 && *rate <= 1.0);
    rate.ok_or_else(|| MethodError::Rate(text.into()))
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::Exact => f.write_str("exact"),
            Method::Relaxed => f.write_str("relaxed"),
            Method::Aet => f.write_str("aet"),
            Method::Shards(rate) => write!(f, "shards={rate}"),
            Method::ShardsLines(lines) => write!(f, "shards-lines={lines}"),
            Method::Miniature(rate) => write!(f, "miniature={rate}"),
        }
    }
}
