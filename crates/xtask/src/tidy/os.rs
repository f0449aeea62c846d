//! The operating system is reached from a named list of places: only there may clippy's prohibition be lifted, with a
//! reason.

use quote::ToTokens;
use syn::Attribute;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Report;
use super::tree::Tree;

const MAY_REACH_THE_OS: &[&str] = &[
    "crates/rt/src/real.rs",
    "crates/rt/src/real/",
    "crates/sys/",
    "crates/dev/",
    "crates/bpf/src/btf.rs",
    "crates/bpf/src/peek.rs",
    "crates/bpf/src/tracefs.rs",
    "crates/bpf/src/tests.rs",
    "crates/fs-host/src/files/tests.rs",
    "crates/front-nbd/src/listen.rs",
    "crates/front-fuse/src/alive.rs",
    "crates/front-fuse/src/busy.rs",
    "crates/front-fuse/src/isolated.rs",
    "crates/front-fuse/src/mount_point.rs",
    "crates/front-fuse/src/mounting.rs",
    "crates/front-fuse/src/harden.rs",
    "crates/front-fuse/src/registry.rs",
    "crates/front-fuse/src/serve/notices.rs",
    "crates/front-fuse/src/tests",
    "crates/front-fuse/src/transport.rs",
    "crates/front-fuse/src/users.rs",
    "crates/front-fuse/tests/",
    "crates/hugepage-linux/src/linux.rs",
    "crates/hugepage-linux/src/linux/",
    "crates/hugepage-preload/",
    "crates/trace-replay/",
    "crates/trace-record/",
    "crates/kinds/tests/",
    "crates/esker/src/stack.rs",
    "crates/esker/src/trace.rs",
    "crates/esker/tests/",
    "crates/serve/src/tests/mounts.rs",
    "crates/serve/src/tests/starting.rs",
    "crates/layers/src/crypt/tests.rs",
    "crates/front-vhost/src/handler.rs",
    "crates/front-vhost/src/tests/",
    "crates/guest/",
    "crates/lab-kit/",
    "crates/lab/",
    "crates/cli/",
    "crates/skip/",
    "crates/testkit/",
    "crates/it/",
    "crates/fuzz/",
    "crates/bench/",
    "crates/xtask/",
];

const LINTS: &[&str] = &["disallowed_methods", "disallowed_types"];

pub fn check(tree: &Tree, report: &mut Report) {
    for source in &tree.sources {
        let Ok(ast) = &source.ast else { continue };
        let mut lifted = Lifted::default();
        lifted.visit_file(ast);
        let listed = MAY_REACH_THE_OS.iter().any(|place| source.path.starts_with(place)) || is_program(&source.path);
        for (line, with_reason) in lifted.places {
            if !listed {
                let fix =
                    "ask Rt, take a parameter, or move the code to a place that may (crates/xtask/src/tidy/os.rs)";
                report.find(&source.path, line, "reaches the operating system outside the named list", fix);
            } else if !with_reason {
                report.find(&source.path, line, "lifts a prohibition without a reason", "add `reason = \"...\"`");
            }
        }
    }
}

/// Examples and benchmarks are programs of their own, linked into nothing.
fn is_program(path: &str) -> bool {
    matches!(path.split('/').nth(2), Some("examples" | "benches"))
}

/// Attributes that mention one of [`LINTS`]: line, and whether they give a reason.
#[derive(Default)]
struct Lifted {
    places: Vec<(usize, bool)>,
}

impl<'ast> Visit<'ast> for Lifted {
    fn visit_attribute(&mut self, attr: &'ast Attribute) {
        let text = attr.meta.to_token_stream().to_string();
        if LINTS.iter().any(|lint| text.contains(lint)) {
            self.places.push((attr.span().start().line, text.contains("reason =")));
        }
        visit::visit_attribute(self, attr);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_fires, assert_silent};
    use super::*;

    const ALLOW: &str = "#![allow(clippy::disallowed_methods, reason = \"owns files\")]\n";

    #[test]
    fn listed_places_may_with_a_reason() {
        assert_silent(check, &[("crates/dev/src/lib.rs", ALLOW), ("crates/rt/src/real/ring.rs", ALLOW)]);
        assert_silent(check, &[("crates/base/examples/speed.rs", ALLOW)]);
        assert_fires(check, &[("crates/dev/src/lib.rs", "#![allow(clippy::disallowed_types)]")], "without a reason");
    }

    #[test]
    fn other_places_may_not_even_in_tests() {
        assert_fires(check, &[("crates/base/src/lib.rs", ALLOW)], "outside the named list");
        assert_fires(check, &[("crates/rt/src/realm.rs", ALLOW)], "outside the named list");
        let in_test = format!("#[cfg(test)]\nmod tests {{\n{ALLOW}}}\n");
        assert_fires(check, &[("crates/base/src/a.rs", &in_test)], "crates/base/src/a.rs:3 ");
        let on_fn = "#[cfg_attr(test, expect(clippy::disallowed_methods, reason = \"x\"))]\nfn f() {}\n";
        assert_fires(check, &[("crates/base/src/a.rs", on_fn)], "outside the named list");
    }
}
