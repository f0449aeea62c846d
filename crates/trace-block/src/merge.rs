//! Several traces as one stream in time order, each as a volume of its own.

use crate::fault::TraceError;
use crate::record::Record;
use crate::source::Source;
use esker_base::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The k-way merge of sources: the i-th one is volume i. At equal times the source with the lower number comes first.
/// One record of each source is in memory.
pub struct Merged<S> {
    sources: Vec<S>,
    names: Vec<String>,
    name: String,
    /// The next record of each source, to find them by time.
    next: Vec<Option<Record>>,
    order: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// The one inner volume that each source may name.
    inner: Vec<Option<u32>>,
}

impl<S: Source> Merged<S> {
    /// Merges `sources`.
    ///
    /// # Errors
    /// If the first record of a source cannot be read.
    pub fn new(sources: Vec<S>) -> Result<Merged<S>, TraceError> {
        let names: Vec<String> = sources.iter().map(|s| s.name().to_string()).collect();
        let count = sources.len();
        let mut merged = Merged {
            sources,
            name: names.join(" + "),
            names,
            next: vec![None; count],
            order: BinaryHeap::with_capacity(count),
            inner: vec![None; count],
        };
        (0..count).try_for_each(|i| merged.pull(i))?;
        Ok(merged)
    }

    /// The merged sources, for instance to read their reports.
    pub fn sources(&self) -> &[S] {
        &self.sources
    }

    /// Fetches the next record of source `i`.
    fn pull(&mut self, i: usize) -> Result<(), TraceError> {
        let Some(record) = self.sources[i].next_record()? else { return Ok(()) };
        let only = *self.inner[i].get_or_insert(record.volume);
        if record.volume != only {
            return Err(self.several(i, only, record.volume));
        }
        self.order.push(Reverse((record.at, i)));
        self.next[i] = Some(Record { volume: i as u32, ..record });
        Ok(())
    }

    fn several(&self, i: usize, first: u32, second: u32) -> TraceError {
        let source = &self.sources[i];
        let name = |n: u32| source.volumes().get(n as usize).cloned().unwrap_or_else(|| n.to_string());
        TraceError::SeveralVolumes { file: source.name().to_string(), first: name(first), second: name(second) }
    }
}

impl<S: Source> Source for Merged<S> {
    /// # Errors
    /// Those of the sources, and a source that names a second volume (see [`crate::VolumeFilter`]).
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        let Some(Reverse((_, i))) = self.order.pop() else { return Ok(None) };
        let record = self.next[i].take();
        self.pull(i)?;
        Ok(record)
    }

    fn volumes(&self) -> &[String] {
        &self.names
    }

    fn name(&self) -> &str {
        &self.name
    }
}
