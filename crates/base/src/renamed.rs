//! Names before the glossary, for the advice in errors. The module goes with version 0.1.

/// What a name belongs to: the same word may be old in one place and in use in another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope<'a> {
    /// A kind of device or layer.
    Kind,
    /// A parameter of this kind.
    Param(&'a str),
    /// The words of a verb of the command line.
    Verb,
    /// An option of the command line, with its dashes.
    Flag,
    /// A word that an argument of the command line, an option or a key takes.
    Word,
    /// A command of the control socket.
    Command,
    /// The first word of an order to thin volumes.
    ThinOrder,
    /// A key of the configuration of `esker hugepage run`.
    HugepageKey,
}

/// Scope, old name, new name.
const NAMES: &[(Scope<'_>, &str, &str)] = &[
    (Scope::Kind, "volume", "logvol"),
    (Scope::Kind, "volumes", "thin"),
    (Scope::Param("mirror"), "new", "initial"),
    (Scope::Param("mirror"), "tries", "retries"),
    (Scope::Param("mirror"), "settle", "clean_after"),
    (Scope::Param("mirror"), "probe", "rescan"),
    (Scope::Param("shepherd"), "tries", "retries"),
    (Scope::Param("shepherd"), "pause", "retry_delay"),
    (Scope::Param("shepherd"), "scrub", "scrub_interval"),
    (Scope::Param("offload"), "rest", "idle_after"),
    (Scope::Param("offload"), "full", "high_watermark"),
    (Scope::Param("offload"), "drain", "write_back"),
    (Scope::Param("offload"), "entries", "index_max"),
    (Scope::Param("logvol"), "victims", "gc_policy"),
    (Scope::Param("logvol"), "choices", "gc_sample"),
    (Scope::Param("logvol"), "separation", "gc_separation"),
    (Scope::Param("logvol"), "clean_from", "gc_start"),
    (Scope::Param("logvol"), "clean_share", "gc_bandwidth"),
    (Scope::Param("logvol"), "clean_memory", "gc_memory"),
    (Scope::Param("logvol"), "scanners", "gc_threads"),
    (Scope::Param("logvol"), "checkpoint", "checkpoint_interval"),
    (Scope::Verb, "measure", "meters"),
    (Scope::Verb, "drain", "sync"),
    (Scope::Verb, "ranges", "remap"),
    (Scope::Verb, "media check", "check"),
    (Scope::Verb, "volume share", "volume dedup"),
    (Scope::Verb, "volume space", "volume usage"),
    (Scope::Verb, "trace calls", "trace syscalls"),
    (Scope::Verb, "trace init", "trace prepare"),
    (Scope::Verb, "trace inspect", "trace deps"),
    (Scope::Verb, "stack query", "stack place"),
    (Scope::Verb, "lab evaluate", "lab repeat"),
    (Scope::Flag, "--measure", "--meters"),
    (Scope::Word, "nothing", "off"),
    (Scope::Command, "ask", "order"),
    (Scope::Command, "drain", "sync"),
    (Scope::Command, "measure", "meters"),
    (Scope::Command, "ranges", "remap"),
    (Scope::ThinOrder, "share", "dedup"),
    (Scope::ThinOrder, "space", "usage"),
    (Scope::HugepageKey, "access.most", "access.scan_max"),
    (Scope::HugepageKey, "slow", "slow_promotion"),
    (Scope::HugepageKey, "rest_times", "backoff_factor"),
    (Scope::HugepageKey, "no_contiguity_rest", "fragmented_backoff"),
    (Scope::HugepageKey, "exclusion", "skip_after_miss"),
    (Scope::HugepageKey, "poll_share", "poll_cpu_max"),
    (Scope::HugepageKey, "cpu_share", "cpu_max"),
];

/// The name of what was called `old` in `scope`.
pub fn now(scope: Scope<'_>, old: &str) -> Option<&'static str> {
    // Thin volumes have the parameters of the log-structured volume that they lie in.
    let scope = if scope == Scope::Param("thin") { Scope::Param("logvol") } else { scope };
    NAMES.iter().find(|(of, name, _)| *of == scope && *name == old).map(|(.., new)| *new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_names_lead_to_new_ones() {
        assert_eq!((now(Scope::Kind, "volumes"), now(Scope::Kind, "mirror")), (Some("thin"), None));
        let param = |kind, old| now(Scope::Param(kind), old);
        assert_eq!((param("thin", "scanners"), param("mirror", "probe")), (Some("gc_threads"), Some("rescan")));
        assert_eq!((param("shepherd", "probe"), param("mirror", "rescan")), (None, None));
    }

    #[test]
    fn no_name_is_old_and_new_at_once() {
        for (scope, old, new) in NAMES {
            assert_eq!(now(*scope, new), None, "{old}");
            assert_eq!(now(*scope, old), Some(*new), "{old} stands twice");
        }
    }
}
