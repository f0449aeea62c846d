//! Kernel modules: which others each needs, as it says itself, and an order in which they can be loaded.

use std::collections::BTreeMap;

/// Modules by name, with `-` and `_` made alike.
pub type Modules = BTreeMap<String, Vec<u8>>;

/// The name of the module in a file.
pub fn name_of(file: &str) -> Option<String> {
    let stem = file.rsplit('/').next()?.strip_suffix(".xz").unwrap_or(file.rsplit('/').next()?);
    Some(stem.strip_suffix(".ko")?.replace('-', "_"))
}

/// What the module in `bytes` needs, from its own description (`depends=a,b`).
pub fn depends(bytes: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = bytes.windows(KEY.len()).position(|window| window == KEY) else { return Vec::new() };
    let text = &bytes[at + KEY.len()..];
    let text = &text[..text.iter().position(|byte| *byte == 0).unwrap_or(0)];
    let names = String::from_utf8_lossy(text).into_owned();
    names.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

/// The wanted modules and all that they need, each after what it needs.
///
/// # Errors
/// A module that is not there.
pub fn order(modules: &Modules, wanted: &[&str]) -> Result<Vec<String>, String> {
    let mut order = Vec::new();
    for name in wanted {
        add(modules, name, &mut order, &mut Vec::new())?;
    }
    Ok(order)
}

fn add(modules: &Modules, name: &str, order: &mut Vec<String>, above: &mut Vec<String>) -> Result<(), String> {
    if order.iter().any(|done| done == name) {
        return Ok(());
    }
    if above.iter().any(|user| user == name) {
        return Err(format!("kernel module {name} needs itself"));
    }
    let bytes = modules.get(name).ok_or_else(|| format!("the kernel's package has no module {name}"))?;
    above.push(name.to_string());
    for needed in depends(bytes) {
        add(modules, &needed, order, above)?;
    }
    above.pop();
    order.push(name.to_string());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(depends: &str) -> Vec<u8> {
        format!("\x7fELF..\0license=GPL\0depends={depends}\0name=x\0").into_bytes()
    }

    #[test]
    fn modules_come_after_what_they_need_and_only_once() {
        let modules: Modules = [("ext4", "jbd2,mbcache"), ("jbd2", ""), ("mbcache", ""), ("xfs", "libcrc32c,jbd2")]
            .map(|(name, depends)| (name.to_string(), module(depends)))
            .into_iter()
            .chain([("libcrc32c".to_string(), module(""))])
            .collect();
        let found = order(&modules, &["ext4", "xfs"]).unwrap();
        assert_eq!(found, ["jbd2", "mbcache", "ext4", "libcrc32c", "xfs"]);
        assert!(order(&modules, &["zfs"]).unwrap_err().contains("zfs"));
        let circle = [("a".to_string(), module("b")), ("b".to_string(), module("a"))].into();
        assert!(order(&circle, &["a"]).unwrap_err().contains("needs itself"));
    }

    #[test]
    fn names_are_made_alike() {
        assert_eq!(name_of("./lib/modules/6.1/kernel/crypto/crc32c-intel.ko").as_deref(), Some("crc32c_intel"));
        assert_eq!(name_of("net/virtio_net.ko.xz").as_deref(), Some("virtio_net"));
        assert_eq!(name_of("modules.order"), None);
        assert_eq!(depends(b"\0depends=a-b,c\0"), ["a_b", "c"]);
        assert_eq!(depends(b"nothing"), [""; 0]);
    }
}
