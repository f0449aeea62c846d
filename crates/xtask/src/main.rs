//! The workspace's own tools: `cargo xtask tidy`, `mutate`, `peers`, `complexity`, `soak`,
//! `release`, `record-suite`, `docs` and `test`.
//!
//! Invariant: never linked into what serves data; changes no source file. `cargo xtask docs` writes the marked blocks
//! of documents.
//!
//! Reading order: [`tidy`] (house rules as a test; one file per rule), [`mutate`] (each removed guard must be noticed),
//! [`peers`] (rival programs that comparisons need). Then [`complexity`] (how much code an extension takes), [`soak`]
//! (tests at length), [`release`] (crates, packages and images of a release), [`suite`] (traces of real programs).
//! Then [`docs`] (generated blocks of documents), [`mod@test`] (a newcomer's second command), [`skips`] (tests that a
//! machine could not run), [`mod@cargo`] and [`program`] (running cargo and other programs).

#![forbid(unsafe_code)]
#![allow(unreachable_pub, reason = "a program has no public interface: `pub` shows what its modules share")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a developer's tool reads trees and runs cargo"
)]

mod cargo;
mod complexity;
mod docs;
mod mutate;
mod peers;
mod program;
mod release;
mod skips;
mod soak;
mod suite;
mod test;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A verb of `cargo xtask`; `run` answers whether all is well.
struct Verb {
    name: &'static str,
    usage: &'static str,
    run: fn(&[String]) -> Result<bool, String>,
}

const VERBS: &[Verb] = &[
    Verb {
        name: "tidy",
        usage: "tidy [RULE | --shrink]   check the house rules, or one of them; or lower the numbers of old offenders",
        run: tidy::main,
    },
    Verb {
        name: "mutate",
        usage: "mutate [NAME | --rotation KEY [--budget MINUTES]]   check that each mutant's test notices it, or a third of them",
        run: mutate::main,
    },
    Verb {
        name: "peers",
        usage: "peers [--check]   install rival programs, or list what is missing",
        run: peers::main,
    },
    Verb {
        name: "complexity",
        usage: "complexity [--json]  count the code of the sample extensions",
        run: complexity::main,
    },
    Verb {
        name: "soak",
        usage: "soak kill|fuzz|... [OPTIONS]   kill a server under load many times, or fuzz every parser at length",
        run: soak::main,
    },
    Verb {
        name: "release",
        usage: "release check [--quick | --sizes] [--json] | sbom FILE   check what a release holds, or write its bill of materials",
        run: release::main,
    },
    Verb {
        name: "record-suite",
        usage: "record-suite [--esker PROGRAM] [--only NAME] [--table]   record the real programs of data/programs",
        run: suite::main,
    },
    Verb { name: "docs", usage: "docs              write the generated blocks of the documents", run: docs::main },
    Verb { name: "test", usage: "test [ARGUMENTS]  install what the tests need, then run all tests", run: test::main },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let verb = args.first().and_then(|word| VERBS.iter().find(|verb| verb.name == word));
    let Some(verb) = verb else {
        eprintln!("usage: cargo xtask VERB");
        VERBS.iter().for_each(|verb| eprintln!("  {}", verb.usage));
        return ExitCode::from(2);
    };
    match (verb.run)(&args[1..]) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("cargo xtask {}: {message}", verb.name);
            ExitCode::from(2)
        }
    }
}

/// The root of the workspace under judgement. Cargo says at run time where it is: checkouts that share a target folder
/// share this program too.
fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let root = Path::new(&here).join("../..");
    root.canonicalize().unwrap_or(root)
}
