//! What yields records, and the adaptors that choose a volume or change the speed.

use crate::fault::TraceError;
use crate::record::Record;
use esker_base::Nanos;

/// A stream of records whose times never run backwards.
pub trait Source {
    /// The next record, or `None` at the end.
    ///
    /// # Errors
    /// What makes reading on impossible; records before were delivered.
    fn next_record(&mut self) -> Result<Option<Record>, TraceError>;

    /// The names of the volumes met so far; `Record::volume` is the index.
    fn volumes(&self) -> &[String];

    /// The name of this stream in messages.
    fn name(&self) -> &str;

    /// Notices that travel with the records, if the format carries them.
    fn comment(&self) -> &[u8] {
        &[]
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        (**self).next_record()
    }

    fn volumes(&self) -> &[String] {
        (**self).volumes()
    }

    fn name(&self) -> &str {
        (**self).name()
    }

    fn comment(&self) -> &[u8] {
        (**self).comment()
    }
}

/// How much faster than recorded a trace runs, exact to a millionth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    millionths: u64,
}

impl Speed {
    /// As recorded.
    pub const RECORDED: Speed = Speed { millionths: 1_000_000 };

    /// The speed `factor`, if it is between 0.000001 and 1,000,000.
    pub fn new(factor: f64) -> Option<Speed> {
        let is_sound = (1e-6..=1e6).contains(&factor);
        is_sound.then(|| Speed { millionths: (factor * 1e6).round() as u64 })
    }

    /// The time at this speed, rounded down; never beyond 2^64 - 1 ns.
    pub fn apply(self, at: Nanos) -> Nanos {
        let scaled = u128::from(at.0) * 1_000_000 / u128::from(self.millionths);
        Nanos(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

/// A source with its times divided by a factor.
pub struct Rescaled<S> {
    inner: S,
    speed: Speed,
}

impl<S: Source> Rescaled<S> {
    /// Runs `inner` at `speed`.
    pub fn new(inner: S, speed: Speed) -> Rescaled<S> {
        Rescaled { inner, speed }
    }

    /// The source as recorded, for instance to read its report.
    pub fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S: Source> Source for Rescaled<S> {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        let record = self.inner.next_record()?;
        Ok(record.map(|r| Record { at: self.speed.apply(r.at), ..r }))
    }

    fn volumes(&self) -> &[String] {
        self.inner.volumes()
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn comment(&self) -> &[u8] {
        self.inner.comment()
    }
}

/// The requests to one volume of a source, as volume 0.
pub struct VolumeFilter<S> {
    inner: S,
    wanted: [String; 1],
    number: Option<u32>,
}

impl<S: Source> VolumeFilter<S> {
    /// Only the requests to the volume called `name`.
    pub fn new(inner: S, name: &str) -> VolumeFilter<S> {
        VolumeFilter { inner, wanted: [name.to_string()], number: None }
    }

    /// The source with all its volumes.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    fn missing(&self) -> TraceError {
        let present = self.inner.volumes().join(", ");
        TraceError::NoSuchVolume { file: self.inner.name().to_string(), wanted: self.wanted[0].clone(), present }
    }
}

impl<S: Source> Source for VolumeFilter<S> {
    /// # Errors
    /// At the end of the trace if the volume never occurred.
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        while let Some(record) = self.inner.next_record()? {
            if self.number.is_none() {
                let position = self.inner.volumes().iter().position(|v| *v == self.wanted[0]);
                self.number = position.map(|i| i as u32);
            }
            if Some(record.volume) == self.number {
                return Ok(Some(Record { volume: 0, ..record }));
            }
        }
        if self.number.is_none() { Err(self.missing()) } else { Ok(None) }
    }

    fn volumes(&self) -> &[String] {
        &self.wanted
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn comment(&self) -> &[u8] {
        self.inner.comment()
    }
}

/// All requests of a source, or those to one volume.
pub enum Selection<S> {
    /// Those to all volumes.
    All(S),
    /// Those to one.
    One(VolumeFilter<S>),
}

impl<S: Source> Selection<S> {
    /// The requests of `inner` to the volume called `volume`, or all of them.
    pub fn new(inner: S, volume: Option<&str>) -> Selection<S> {
        match volume {
            None => Selection::All(inner),
            Some(volume) => Selection::One(VolumeFilter::new(inner, volume)),
        }
    }

    /// The source with all its volumes.
    pub fn inner(&self) -> &S {
        match self {
            Selection::All(inner) => inner,
            Selection::One(volume) => volume.inner(),
        }
    }

    fn source(&self) -> &dyn Source {
        match self {
            Selection::All(inner) => inner,
            Selection::One(volume) => volume,
        }
    }
}

impl<S: Source> Source for Selection<S> {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        match self {
            Selection::All(inner) => inner.next_record(),
            Selection::One(volume) => volume.next_record(),
        }
    }

    fn volumes(&self) -> &[String] {
        self.source().volumes()
    }

    fn name(&self) -> &str {
        self.source().name()
    }

    fn comment(&self) -> &[u8] {
        self.source().comment()
    }
}
