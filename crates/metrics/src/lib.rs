//! Pages that Prometheus reads: families of gauges, counters and histograms, by its naming rules.
//!
//! Invariant: knows no system that it measures, and reads nothing but what it is given.
//!
//! Names and units follow the conventions of Prometheus: base units, which end a family's name, and counters that end
//! in `_total`.

#![forbid(unsafe_code)]

pub mod monitor;

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
pub use prometheus_client::registry::Unit;

/// What a page is, for HTTP.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Names and values that tell a sample from others of its family.
pub type Labels = Vec<(&'static str, String)>;

/// Labels and a value.
pub type Sample = (Labels, f64);

/// Name, help and unit of a family.
pub type Family<'a> = (&'a str, &'a str, Option<Unit>);

/// How often something took how long.
pub struct Histogram {
    /// Sum of what was measured, in the family's unit.
    pub sum: f64,
    /// How often it was measured.
    pub count: u64,
    /// Upper bounds, ascending, and how many were above the bound before and not above this one; the last is infinite.
    pub buckets: Vec<(f64, u64)>,
}

/// The whole page of `status`, every family named with `prefix`, as `tell` writes it.
pub fn page<T: fmt::Debug + Send + Sync + 'static>(
    prefix: &str,
    status: T,
    tell: fn(&mut Families<'_>, &T) -> fmt::Result,
) -> String {
    let mut registry = Registry::with_prefix(prefix);
    registry.register_collector(Box::new(Page { status, tell }));
    let mut page = String::new();
    text::encode(&mut page, &registry).expect("a text takes all that is written to it");
    page
}

struct Page<T> {
    status: T,
    tell: fn(&mut Families<'_>, &T) -> fmt::Result,
}

impl<T: fmt::Debug> fmt::Debug for Page<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.status.fmt(f)
    }
}

impl<T: fmt::Debug + Send + Sync + 'static> Collector for Page<T> {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        (self.tell)(&mut Families(encoder), &self.status)
    }
}

/// Takes the families of a page, one after the other.
pub struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    /// Values that go up and down.
    ///
    /// # Errors
    /// What the page refuses.
    pub fn gauges(&mut self, (name, help, unit): Family<'_>, samples: impl IntoIterator<Item = Sample>) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        samples.into_iter().try_for_each(|(labels, value)| match labels.is_empty() {
            true => family.encode_gauge(&value),
            false => family.encode_family(&labels)?.encode_gauge(&value),
        })
    }

    /// Values that only grow.
    ///
    /// # Errors
    /// What the page refuses.
    pub fn counters(
        &mut self,
        (name, help, unit): Family<'_>,
        samples: impl IntoIterator<Item = Sample>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
        samples.into_iter().try_for_each(|(labels, value)| match labels.is_empty() {
            true => family.encode_counter::<NoLabelSet, f64, f64>(&value, None),
            false => family.encode_family(&labels)?.encode_counter::<NoLabelSet, f64, f64>(&value, None),
        })
    }

    /// Distributions.
    ///
    /// # Errors
    /// What the page refuses.
    pub fn histograms(
        &mut self,
        (name, help, unit): Family<'_>,
        samples: impl IntoIterator<Item = (Labels, Histogram)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Histogram)?;
        samples.into_iter().try_for_each(|(labels, Histogram { sum, count, buckets })| {
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
        })
    }
}

/// The one sample of a family without labels.
pub fn one(value: f64) -> [Sample; 1] {
    [(Labels::new(), value)]
}

/// The same of what is or is not.
pub fn flag(is: bool) -> [Sample; 1] {
    one(f64::from(u8::from(is)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(out: &mut Families<'_>, status: &f64) -> fmt::Result {
        out.gauges(("level", "A level.", None), one(*status))?;
        out.counters(("moved", "Bytes.", Some(Unit::Bytes)), [(vec![("of", "a b".to_string())], 3.0)])?;
        let histogram = Histogram { sum: 1.5, count: 3, buckets: vec![(1.0, 2), (f64::INFINITY, 1)] };
        out.histograms(("took", "Time.", Some(Unit::Seconds)), [(vec![("of", "x".to_string())], histogram)])
    }

    #[test]
    fn a_reader_finds_every_family_with_its_labels_and_unit() {
        let page = page("t", 0.5, describe);
        assert!(page.ends_with("# EOF\n"));
        let read = prometheus_parse::Scrape::parse(page.lines().map(|line| Ok(line.to_string()))).unwrap();
        let found = |name: &str| read.samples.iter().find(|sample| sample.metric == name).cloned();
        assert_eq!(found("t_level").unwrap().value, prometheus_parse::Value::Gauge(0.5));
        let moved = found("t_moved_bytes_total").unwrap();
        assert_eq!(moved.labels.get("of"), Some("a b"));
        for line in [
            "# TYPE t_moved_bytes counter",
            r#"t_moved_bytes_total{of="a b"} 3.0"#,
            r#"t_took_seconds_sum{of="x"} 1.5"#,
            r#"t_took_seconds_bucket{le="1.0",of="x"} 2"#,
            r#"t_took_seconds_bucket{le="+Inf",of="x"} 3"#,
        ] {
            assert!(page.lines().any(|told| told == line), "{line}\n{page}");
        }
    }
}
