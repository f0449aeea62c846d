//! Access bits of huge pages through DAMON, the kernel's monitor of physical addresses: each region is one huge page,
//! one sample is one bit.
//!
//! A window lies well inside an interval of the policy, because the kernel hands results out only at its end. Regions
//! stay as they are given: their least number forbids merging, and their greatest, less than twice that, splitting.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use super::knobs::{KnobError, Knobs, read};
use esker_hugepage::REGION_BYTES;
use esker_hugepage::view::RegionAddress;

const ADMIN: &str = "/sys/kernel/mm/damon/admin/kdamonds";
/// The kernel takes no fewer.
const REGIONS_MIN: usize = 3;
/// Share of an interval that a window takes.
const WINDOW: f64 = 0.4;
/// After a window, the result may take one more.
const PATIENCE: f64 = 1.05;

/// The monitor.
#[derive(Debug)]
pub struct Damon {
    root: PathBuf,
    window: Duration,
    pending: BTreeMap<u64, RegionAddress>,
    running: Option<JoinHandle<io::Result<BTreeMap<u64, bool>>>>,
    places: BTreeMap<u64, RegionAddress>,
    bits: BTreeMap<RegionAddress, bool>,
    /// Why the last window gave nothing.
    pub trouble: Option<String>,
}

/// Why the monitor cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum DamonError {
    /// It is in use.
    #[error("another program uses it")]
    Taken,
    /// The kernel has none, or hides it.
    #[error("{}: {source}", place.display())]
    Unread {
        /// The file that says how many monitors there are.
        place: PathBuf,
        /// The kernel's words.
        source: io::Error,
    },
}

/// Whether the monitor is there, and free.
///
/// # Errors
/// [`DamonError`].
pub fn is_free() -> Result<(), DamonError> {
    let place = Path::new(ADMIN).join("nr_kdamonds");
    match read(&place) {
        Ok(count) if count == "0" => Ok(()),
        Ok(_) => Err(DamonError::Taken),
        Err(source) => Err(DamonError::Unread { place, source }),
    }
}

impl Damon {
    /// Takes the monitor for windows within intervals of so long, until `knobs` puts it back.
    ///
    /// # Errors
    /// [`KnobError`].
    pub fn take(knobs: &mut Knobs, interval: Duration) -> Result<Damon, KnobError> {
        let admin = Path::new(ADMIN);
        knobs.set_after(&admin.join("nr_kdamonds"), "1", Some((admin.join("0/state"), "off".to_string())))?;
        Ok(Damon {
            root: admin.join("0"),
            window: interval.mul_f64(WINDOW),
            pending: BTreeMap::new(),
            running: None,
            places: BTreeMap::new(),
            bits: BTreeMap::new(),
            trouble: None,
        })
    }

    /// Asks for the huge page of a place, at a physical address, in the next window.
    pub fn ask(&mut self, place: RegionAddress, physical: u64) {
        self.pending.insert(physical, place);
    }

    /// Begins a window if any is asked for and none is under way.
    pub fn begin(&mut self) {
        if self.running.is_some() || self.pending.is_empty() {
            return;
        }
        self.bits.clear();
        self.places = std::mem::take(&mut self.pending);
        let addresses: Vec<u64> = self.places.keys().copied().collect();
        let (root, window) = (self.root.clone(), self.window);
        self.running = Some(std::thread::spawn(move || watch(&root, &addresses, window)));
    }

    /// Whether a place was used in the window; nothing if it was not watched, or the window is not over.
    pub fn bit(&mut self, place: RegionAddress) -> Option<bool> {
        if self.running.as_ref().is_some_and(JoinHandle::is_finished) {
            self.collect();
        }
        self.bits.get(&place).copied()
    }

    fn collect(&mut self) {
        let Some(running) = self.running.take() else { return };
        match running.join() {
            Ok(Ok(bits)) => {
                let place = |(physical, used): (u64, bool)| Some((*self.places.get(&physical)?, used));
                self.bits = bits.into_iter().filter_map(place).collect();
                self.trouble = None;
            }
            Ok(Err(error)) => self.trouble = Some(error.to_string()),
            Err(_) => self.trouble = Some("its thread has panicked".to_string()),
        }
    }
}

impl Drop for Damon {
    fn drop(&mut self) {
        self.collect();
    }
}

/// One window: which of the huge pages at these addresses, in order, were used in it.
fn watch(root: &Path, addresses: &[u64], window: Duration) -> io::Result<BTreeMap<u64, bool>> {
    let result = prepare(root, addresses, window).and_then(|()| {
        put(&root.join("state"), "on")?;
        std::thread::sleep(window.mul_f64(PATIENCE));
        put(&root.join("state"), "update_schemes_tried_regions")?;
        tried(&root.join("contexts/0/schemes/0/tried_regions"))
    });
    let off = put(&root.join("state"), "off");
    let bits = result?;
    off.map(|()| bits)
}

fn put(path: &Path, value: impl ToString) -> io::Result<()> {
    let with_path = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    fs::write(path, value.to_string()).map_err(with_path)
}

fn prepare(root: &Path, addresses: &[u64], window: Duration) -> io::Result<()> {
    put(&root.join("contexts/nr_contexts"), 1)?;
    let context = root.join("contexts/0");
    put(&context.join("operations"), "paddr")?;
    let intervals = context.join("monitoring_attrs/intervals");
    put(&intervals.join("sample_us"), window.as_micros())?;
    put(&intervals.join("aggr_us"), window.as_micros())?;
    put(&intervals.join("update_us"), 60_000_000)?;
    let count = addresses.len().max(REGIONS_MIN);
    put(&context.join("monitoring_attrs/nr_regions/min"), count)?;
    put(&context.join("monitoring_attrs/nr_regions/max"), count + 1)?;
    put(&context.join("targets/nr_targets"), 1)?;
    let regions = context.join("targets/0/regions");
    put(&regions.join("nr_regions"), addresses.len())?;
    for (at, address) in addresses.iter().enumerate() {
        let region = regions.join(at.to_string());
        put(&region.join("start"), address)?;
        put(&region.join("end"), address + REGION_BYTES)?;
    }
    put(&context.join("schemes/nr_schemes"), 1)?;
    let scheme = context.join("schemes/0");
    put(&scheme.join("action"), "stat")?;
    for (bound, most) in [("sz", u64::MAX), ("nr_accesses", u64::from(u32::MAX)), ("age", u64::from(u32::MAX))] {
        put(&scheme.join("access_pattern").join(bound).join("min"), 0)?;
        put(&scheme.join("access_pattern").join(bound).join("max"), most)?;
    }
    Ok(())
}

/// Huge pages by address. What was merged in spite of all counts for each page in it.
fn tried(folder: &Path) -> io::Result<BTreeMap<u64, bool>> {
    let mut bits = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?.path();
        let number = |file: &str| -> Option<u64> { fs::read_to_string(entry.join(file)).ok()?.trim().parse().ok() };
        let (Some(start), Some(end), Some(used)) = (number("start"), number("end"), number("nr_accesses")) else {
            continue;
        };
        bits.extend((start..end).step_by(REGION_BYTES as usize).map(|address| (address, used > 0)));
    }
    Ok(bits)
}
