//! Names of volumes (disks, files) numbered in order of first appearance.

use crate::fault::Reason;
use std::collections::BTreeMap;

/// More names than this are refused, so that a damaged trace cannot fill the memory.
pub(crate) const VOLUMES_MAX: usize = 65_536;

/// The table of names. Most requests go to the volume of the request before, which costs one comparison.
#[derive(Debug, Default)]
pub(crate) struct Names {
    shown: Vec<String>,
    numbers: BTreeMap<Box<[u8]>, u32>,
    last: Option<(Box<[u8]>, u32)>,
}

impl Names {
    /// A table that holds one volume.
    pub(crate) fn single(name: &str) -> Names {
        Names { shown: vec![name.to_string()], ..Names::default() }
    }

    /// The names as shown to people, by number.
    pub(crate) fn list(&self) -> &[String] {
        &self.shown
    }

    /// The number of the volume `key`, shown as `show(key)` if it is new.
    pub(crate) fn number(&mut self, key: &[u8], show: impl FnOnce(&str) -> String) -> Result<u32, Reason> {
        if let Some((last, number)) = &self.last
            && **last == *key
        {
            return Ok(*number);
        }
        let number = match self.numbers.get(key) {
            Some(number) => *number,
            None => self.add(key, show)?,
        };
        self.last = Some((key.into(), number));
        Ok(number)
    }

    /// That a table of `len` names is not full.
    pub(crate) fn room(len: usize) -> Result<(), Reason> {
        if len >= VOLUMES_MAX { Err(Reason::TooManyVolumes(VOLUMES_MAX)) } else { Ok(()) }
    }

    fn add(&mut self, key: &[u8], show: impl FnOnce(&str) -> String) -> Result<u32, Reason> {
        Names::room(self.shown.len())?;
        let number = self.shown.len() as u32;
        self.shown.push(show(&String::from_utf8_lossy(key)));
        self.numbers.insert(key.into(), number);
        Ok(number)
    }
}
