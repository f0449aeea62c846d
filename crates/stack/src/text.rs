//! The text of a stack, in its two equivalent forms: TOML for files and one line for the command line.
//!
//! `docs/guide/stacks.md` has both grammars. A [`Spec`] is what either form says, in the order of the text; writing it
//! in either form and reading it back gives an equal one.
//!
//! Reading order: this file (what a text says), [`mount`] (mounts), [`error`], [`check`] (what must hold, and the order
//! to build in), `writers` (second writers of a device), then the forms: `toml_form` and `line_form` read, `write`
//! writes.

pub mod address;
pub mod check;
pub mod error;
mod line_form;
pub mod mount;
mod toml_form;
mod write;
mod writers;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use esker_block::kind::{Kind, NOT_SHOWN};

pub use check::BuildPlan;
pub use error::{Problem, TextError, TextErrors};
pub use mount::{KernelCache, MountSpec};

/// Where something stands.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Location {
    /// The file's name as the user gave it, or a word for where else the text came from.
    pub file: String,
    /// Line, from 1; 0 if unknown.
    pub line: u32,
}

impl Location {
    /// Line `line` of `file`.
    pub fn new(file: &str, line: u32) -> Location {
        Location { file: file.to_string(), line }
    }

    fn with_line(&self, line: u32) -> Location {
        Location { file: self.file.clone(), line }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// One device or layer. Two are equal if they say the same, wherever they stand.
#[derive(Clone, Debug)]
pub struct DeviceSpec {
    /// Its name.
    pub name: String,
    /// The name of its kind.
    pub kind: String,
    /// Its lower devices in order: `NAME` or `NAME.PORT`.
    pub on: Vec<String>,
    /// Its parameters as written.
    pub args: BTreeMap<String, String>,
    /// Where it begins.
    pub at: Location,
    /// Lines of `kind`, `on` and the parameters, where they are not the line of `at`.
    lines: BTreeMap<String, u32>,
}

impl DeviceSpec {
    /// A device that stands at `at`.
    pub fn new(name: &str, kind: &str, on: Vec<String>, args: BTreeMap<String, String>, at: Location) -> DeviceSpec {
        DeviceSpec { name: name.to_string(), kind: kind.to_string(), on, args, at, lines: BTreeMap::new() }
    }

    /// The same as logs may show it: a value is replaced unless its kind says that it is no secret.
    #[must_use]
    pub fn shown(mut self, kinds: &[&Kind]) -> DeviceSpec {
        let kind = kinds.iter().find(|kind| kind.name == self.kind);
        for (name, text) in &mut self.args {
            let shown = match kind.and_then(|kind| kind.param(name)) {
                Some(param) => param.shown(text),
                None if name == check::CHECK => text,
                None => NOT_SHOWN,
            };
            *text = shown.to_string();
        }
        self
    }

    /// Where `key` (`kind`, `on` or a parameter) stands; the device's own place if it was not written.
    pub fn place_of(&self, key: &str) -> Location {
        self.lines.get(key).map_or_else(|| self.at.clone(), |line| self.at.with_line(*line))
    }
}

impl PartialEq for DeviceSpec {
    fn eq(&self, other: &DeviceSpec) -> bool {
        (&self.name, &self.kind, &self.on, &self.args) == (&other.name, &other.kind, &other.on, &other.args)
    }
}

/// One volume that is offered to the outside. Two are equal if they say the same, wherever they stand.
#[derive(Clone, Debug)]
pub struct ExportSpec {
    /// The name that clients ask for.
    pub name: String,
    /// The device behind it: `NAME` or `NAME.PORT`.
    pub device: String,
    /// Where an NBD server listens ([`address::parse`]), if one shall.
    pub nbd: Option<String>,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Where it begins.
    pub at: Location,
}

impl PartialEq for ExportSpec {
    fn eq(&self, other: &ExportSpec) -> bool {
        (&self.name, &self.device, &self.nbd, self.read_only)
            == (&other.name, &other.device, &other.nbd, other.read_only)
    }
}

/// What a stack text says.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Spec {
    /// Devices and layers, in the order of the text.
    pub devices: Vec<DeviceSpec>,
    /// Exports, in the order of the text.
    pub exports: Vec<ExportSpec>,
    /// Mounts, in the order of the text.
    pub mounts: Vec<MountSpec>,
}

/// A use of a device from outside the stack: by clients of an export, or by a mounted file system.
#[derive(Clone, Copy)]
pub(crate) struct Outlet<'a> {
    /// The name of the export or mount.
    pub name: &'a str,
    /// The device behind it.
    pub device: &'a str,
    /// Whether changes are refused.
    pub read_only: bool,
    /// Where it stands.
    pub at: &'a Location,
}

impl ExportSpec {
    fn outlet(&self) -> Outlet<'_> {
        Outlet { name: &self.name, device: &self.device, read_only: self.read_only, at: &self.at }
    }
}

impl MountSpec {
    fn outlet(&self) -> Option<Outlet<'_>> {
        let device = self.device.as_deref()?;
        Some(Outlet { name: &self.name, device, read_only: false, at: &self.at })
    }
}

impl Spec {
    /// Reads either form; `file` is the text's name in messages.
    ///
    /// # Errors
    /// Everything that is not of the form. Whether the stack makes sense is for [`Spec::check`].
    pub fn parse(file: &str, text: &str) -> Result<Spec, TextErrors> {
        if line_form::is_line_form(text) { line_form::parse(file, text) } else { toml_form::parse(file, text) }
    }

    /// The canonical TOML text. [`Spec::parse`] reads it back to an equal spec if all names are sound, as
    /// [`Spec::check`] demands.
    pub fn to_toml(&self) -> String {
        write::toml(self)
    }

    /// The canonical one-line text, under the same condition as [`Spec::to_toml`].
    pub fn to_line(&self) -> String {
        write::line(self)
    }

    /// The device of that name.
    pub fn device(&self, name: &str) -> Option<&DeviceSpec> {
        self.devices.iter().find(|d| d.name == name)
    }

    /// Exports, and then mounts that lie on a device.
    pub(crate) fn outlets(&self) -> impl Iterator<Item = Outlet<'_>> {
        let mounts = self.mounts.iter().filter_map(MountSpec::outlet);
        self.exports.iter().map(ExportSpec::outlet).chain(mounts)
    }

    /// What the outlets lead to, to be led elsewhere.
    pub(crate) fn outlet_devices_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let mounts = self.mounts.iter_mut().filter_map(|mount| mount.device.as_mut());
        self.exports.iter_mut().map(|export| &mut export.device).chain(mounts)
    }

    /// The text without exports and mounts.
    pub(crate) fn without_outlets(mut self) -> Spec {
        self.exports.clear();
        self.mounts.clear();
        self
    }

    /// The names of the devices `tops`, and of all that they stand on.
    pub fn beneath<'a>(&'a self, tops: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
        let (mut waiting, mut found) = (Vec::from_iter(tops), BTreeSet::new());
        while let Some(name) = waiting.pop() {
            if found.insert(name) {
                let lowers = self.device(name).into_iter().flat_map(|device| &device.on);
                waiting.extend(lowers.map(|lower| split_reference(lower).0));
            }
        }
        found
    }

    /// The text as far as `top`: without exports and mounts, and without devices on which it does not stand.
    pub fn up_to(mut self, top: &str) -> Spec {
        let needed: Vec<bool> = {
            let beneath = self.beneath([top]);
            self.devices.iter().map(|device| beneath.contains(device.name.as_str())).collect()
        };
        let mut needed = needed.into_iter();
        self.devices.retain(|_| needed.next().expect("one for each"));
        self.without_outlets()
    }
}

/// The device and the port (empty for the only one) that a reference `NAME` or `NAME.PORT` means.
pub fn split_reference(reference: &str) -> (&str, &str) {
    reference.split_once('.').unwrap_or((reference, ""))
}

/// Whether `name` can name a device, port, export or mount: ASCII letters, digits, `_` and `-`, at most 64, not
/// starting with `-`.
pub fn is_sound_name(name: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=64).contains(&name.len()) && !name.starts_with('-') && name.chars().all(is_fine)
}
