//! Writes both forms, canonically: equal specs give equal texts.

use super::{DeviceSpec, ExportSpec, KernelCache, MountSpec, Spec};

/// The TOML form: devices, then exports, then mounts, with an empty line between tables.
pub(super) fn toml(spec: &Spec) -> String {
    let (devices, exports) = (spec.devices.iter().map(toml_device), spec.exports.iter().map(toml_export));
    let tables: Vec<String> = devices.chain(exports).chain(spec.mounts.iter().map(toml_mount)).collect();
    tables.join("\n")
}

fn toml_device(device: &DeviceSpec) -> String {
    let mut out = format!("[device.{}]\nkind = {}\n", device.name, toml_text(&device.kind));
    match device.on.as_slice() {
        [] => {}
        [one] => out += &format!("on = {}\n", toml_text(one)),
        several => out += &format!("on = {}\n", toml_list(several)),
    }
    for (name, value) in &device.args {
        out += &format!("{name} = {}\n", toml_value(value));
    }
    out
}

fn toml_export(export: &ExportSpec) -> String {
    let mut out = format!("[[export]]\nname = {}\ndevice = {}\n", toml_text(&export.name), toml_text(&export.device));
    if let Some(nbd) = &export.nbd {
        out += &format!("nbd = {}\n", toml_text(nbd));
    }
    if export.read_only {
        out += "read_only = true\n";
    }
    out
}

fn toml_mount(mount: &MountSpec) -> String {
    let MountSpec { name, fs, dir, device, cache, options, at: _ } = mount;
    let mut out = format!("[[mount]]\nname = {}\nfs = {}\nat = {}\n", toml_text(name), toml_text(fs), toml_text(dir));
    if let Some(device) = device {
        out += &format!("device = {}\n", toml_text(device));
    }
    if *cache != KernelCache::default() {
        out += &format!("cache = \"{}\"\n", cache.word());
    }
    if !options.is_empty() {
        out += &format!("options = {}\n", toml_list(options));
    }
    out
}

/// Numbers and flags without quotes where TOML reads them back to the same text.
fn toml_value(text: &str) -> String {
    let is_whole = text.parse::<i64>().is_ok_and(|n| n.to_string() == text);
    let digits = |part: &str| !part.is_empty() && part.len() <= 15 && part.bytes().all(|b| b.is_ascii_digit());
    let is_decimal = text
        .split_once('.')
        .is_some_and(|(whole, part)| digits(whole) && digits(part) && (whole == "0" || !whole.starts_with('0')));
    if is_whole || is_decimal || matches!(text, "true" | "false") { text.to_string() } else { toml_text(text) }
}

fn toml_list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| toml_text(text)).collect();
    format!("[{}]", texts.join(", "))
}

fn toml_text(text: &str) -> String {
    toml::Value::String(text.to_string()).to_string()
}

/// The one-line form: one statement for each device, export and mount.
pub(super) fn line(spec: &Spec) -> String {
    let (devices, exports) = (spec.devices.iter().map(line_device), spec.exports.iter().map(line_export));
    let statements: Vec<String> = devices.chain(exports).chain(spec.mounts.iter().map(line_mount)).collect();
    statements.join("; ")
}

fn line_device(device: &DeviceSpec) -> String {
    let mut out = format!("{} = {}", device.name, device.kind);
    for (name, value) in &device.args {
        out += &format!(" {name}={}", line_value(value));
    }
    if !device.on.is_empty() {
        out += &format!(" on {}", device.on.join(","));
    }
    out
}

fn line_export(export: &ExportSpec) -> String {
    let mut out = format!("export {} = {}", export.name, export.device);
    if let Some(nbd) = &export.nbd {
        out += &format!(" nbd={}", line_value(nbd));
    }
    if export.read_only {
        out += " read_only=true";
    }
    out
}

fn line_mount(mount: &MountSpec) -> String {
    let MountSpec { name, fs, dir, device, cache, options, at: _ } = mount;
    let mut out = format!("mount {name} = {fs} at={}", line_value(dir));
    if *cache != KernelCache::default() {
        out += &format!(" cache={}", cache.word());
    }
    if !options.is_empty() {
        out += &format!(" options={}", line_value(&options.join(",")));
    }
    if let Some(device) = device {
        out += &format!(" on {device}");
    }
    out
}

fn line_value(text: &str) -> String {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, ';' | '|' | '"');
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_string();
    }
    let escaped = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        '\n' => "\\n".to_string(),
        '\r' => "\\r".to_string(),
        '\t' => "\\t".to_string(),
        c if c.is_control() => format!("\\u{{{:x}}}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}
