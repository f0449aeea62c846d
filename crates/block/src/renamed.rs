//! Names of kinds and parameters before the glossary, for the advice in errors. The module goes with version 0.1.

/// Kinds: old name, new name.
const KINDS: &[(&str, &str)] = &[("volume", "logvol"), ("volumes", "thin")];

/// Parameters: kind, old name, new name.
const PARAMS: &[(&str, &str, &str)] = &[
    ("mirror", "new", "initial"),
    ("mirror", "tries", "retries"),
    ("mirror", "settle", "clean_after"),
    ("mirror", "probe", "rescan"),
    ("shepherd", "tries", "retries"),
    ("shepherd", "pause", "retry_delay"),
    ("shepherd", "scrub", "scrub_interval"),
    ("offload", "rest", "idle_after"),
    ("offload", "full", "high_watermark"),
    ("offload", "drain", "write_back"),
    ("offload", "entries", "index_max"),
    ("logvol", "victims", "gc_policy"),
    ("logvol", "choices", "gc_sample"),
    ("logvol", "separation", "gc_separation"),
    ("logvol", "clean_from", "gc_start"),
    ("logvol", "clean_share", "gc_bandwidth"),
    ("logvol", "clean_memory", "gc_memory"),
    ("logvol", "scanners", "gc_threads"),
    ("logvol", "checkpoint", "checkpoint_interval"),
];

/// The name of a kind that was called `old`.
pub fn kind(old: &str) -> Option<&'static str> {
    KINDS.iter().find(|(name, _)| *name == old).map(|(_, new)| *new)
}

/// The name of a parameter of `kind` that was called `old`.
pub fn param(kind: &str, old: &str) -> Option<&'static str> {
    // Thin volumes have the parameters of the log-structured volume that they lie in.
    let owner = if kind == "thin" { "logvol" } else { kind };
    PARAMS.iter().find(|(of, name, _)| *of == owner && *name == old).map(|(.., new)| *new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_names_lead_to_new_ones() {
        assert_eq!((kind("volumes"), kind("mirror")), (Some("thin"), None));
        assert_eq!((param("thin", "scanners"), param("mirror", "probe")), (Some("gc_threads"), Some("rescan")));
        assert_eq!((param("shepherd", "probe"), param("mirror", "rescan")), (None, None));
    }
}
