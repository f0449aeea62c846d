//! The text of a stack: devices, what they stand on, and exports.

use std::collections::BTreeMap;

/// Where something stands in a text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// File name as it was given.
    pub file: String,
    /// Line, from 1; 0 if unknown.
    pub line: u32,
}

/// One device or layer.
#[derive(Clone, Debug)]
pub struct DeviceSpec {
    /// Its name: also the name of the volume that requests to it are addressed to.
    pub name: String,
    /// Kind.
    pub kind: String,
    /// What it stands on: devices, or ports such as `vm.vol1`.
    pub on: Vec<String>,
    /// Parameters as written.
    pub args: BTreeMap<String, String>,
    /// Where it stands.
    pub at: Place,
}

/// One export.
#[derive(Clone, Debug)]
pub struct ExportSpec {
    /// Name that clients use.
    pub name: String,
    /// Device, or port.
    pub device: String,
    /// `unix:PATH` or `tcp:HOST:PORT`.
    pub nbd: Option<String>,
    /// Refuse changes.
    pub read_only: bool,
    /// Where it stands.
    pub at: Place,
}

/// A whole stack.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    /// Devices and layers in the order of the text.
    pub devices: Vec<DeviceSpec>,
    /// Exports in the order of the text.
    pub exports: Vec<ExportSpec>,
}
