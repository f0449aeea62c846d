//! Every verdict on a tiny project of its own, built by the real cargo.

use super::*;

const LIB: &str = "\
pub fn half(x: u8) -> u8 {
    assert!(x % 2 == 0);
    x / 2
}

#[cfg(test)]
mod tests {
    #[test]
    fn halves() {
        assert_eq!(super::half(4), 2);
    }

    #[test]
    #[should_panic]
    fn refuses_odd() {
        super::half(3);
    }
}
";

/// A patch of line 2 (the guard) with `new` in its place.
fn patch(test: &str, old: &str, new: &str) -> String {
    format!(
        "test: {test}\nguard: odd numbers are refused\n\n--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1,3 +1,3 @@\n \
         pub fn half(x: u8) -> u8 {{\n-    {old}\n+    {new}\n     x / 2\n"
    )
}

#[test]
fn each_mutant_gets_the_verdict_it_deserves() {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let full = dir.path().join(path);
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::write(full, text).unwrap();
    };
    // A repository around the scratch copy is what it meets in life.
    let git = std::process::Command::new("git").args(["init", "--quiet"]).current_dir(dir.path()).status();
    assert!(git.unwrap().success());
    write("Cargo.toml", "[package]\nname = \"tiny\"\nedition = \"2024\"\n\n[workspace]\n");
    write(".gitignore", "target\n");
    write("src/lib.rs", LIB);
    let guard = "assert!(x % 2 == 0);";
    write("crates/it/mutants/a.patch", &patch("--lib refuses_odd", guard, "let _ = x;"));
    write("crates/it/mutants/b.patch", &patch("--lib halves", guard, "let _ = x;"));
    write("crates/it/mutants/c.patch", &patch("--lib refuses_odd", guard, "let x = y;"));
    write("crates/it/mutants/d.patch", &patch("--lib refuses_odd", "guard(x);", "let _ = x;"));
    write("crates/it/mutants/e.patch", &patch("--lib nothing_of_the_kind", guard, "let _ = x;"));
    write("crates/it/mutants/f.patch", &patch("--lib halves", guard, "std::process::exit(3);"));

    let mutants = patch::read_all(&dir.path().join(MUTANTS)).unwrap();
    let verdicts = judge_all(dir.path(), &mutants, &Choice::All).unwrap();

    let bad = Verdict::BadTest("its arguments match no test".into());
    use Verdict::*;
    assert_eq!(verdicts, [Killed, Survived, NotCompiled, NotApplied, bad, Crashed]);
    let source = std::fs::read_to_string(dir.path().join("src/lib.rs")).unwrap();
    assert_eq!(source, LIB, "the judged tree itself is never changed");
}
