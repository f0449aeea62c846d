use super::count::{Counts, count};
use super::*;

fn counted(text: &str) -> Counts {
    count(text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn lines_are_those_with_code() {
    let text = "//! Doc.\n\nuse std::fmt;\n\n/// Doc\n/// of f.\nfn f() {\n    // why\n    g(\n        1,\n    );\n}\n\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n";
    assert_eq!(counted(text).lines, 6);
}

#[test]
fn each_decision_counts_once() {
    let cyclomatic = |body: &str| counted(&format!("fn f() {{ {body} }}")).cyclomatic;
    assert_eq!(cyclomatic(""), 1);
    assert_eq!(cyclomatic("if a && b || c { g() } else if d { h() }"), 5);
    assert_eq!(cyclomatic("match x { 1 => {} 2 if y => {} _ => {} }"), 4);
    assert_eq!(cyclomatic("for i in 0..3 { while a { g()?; } } loop { break }"), 4);
    assert_eq!(cyclomatic("let Some(x) = y else { return };"), 2);
    assert_eq!(counted("fn f() {} impl A { fn g() { h(|x| if x { 1 } else { 2 }) } }").cyclomatic, 3);
}

#[test]
fn runtime_references_are_mentions_of_what_was_imported() {
    let text = "use esker_rt::{Rt, sync::Notify};\nuse esker_block::Bio;\nstruct A { a: Rt, b: Notify, c: Bio }\nfn f(rt: &Rt) {}\n";
    assert_eq!(counted(text).runtime, 3);
}

#[test]
fn completion_lines_run_after_an_answer() {
    let completion = |text: &str| counted(text).completion;
    assert_eq!(completion("impl E for A {\n fn complete(&self) {\n  g();\n }\n}"), 3);
    assert_eq!(completion("async fn f() {\n a();\n b().await;\n c();\n}"), 2);
    assert_eq!(completion("fn f() {\n io.submit(b).map(|done| {\n  g(done)\n })\n}"), 3);
    assert_eq!(completion("fn f() {\n list.map(|x| {\n  g(x)\n })\n}"), 0);
}

#[test]
fn critical_lines_run_while_something_is_held() {
    let critical = |text: &str| counted(text).critical;
    assert_eq!(critical("fn f() {\n let mut g = a.borrow_mut();\n g.x();\n g.y();\n}"), 3);
    assert_eq!(critical("fn f() {\n a.borrow_mut().x();\n}"), 0);
    assert_eq!(critical("fn f() {\n let n = a.borrow().len();\n g(n);\n}"), 0);
    assert_eq!(critical("async fn f() {\n l.granted(t).await;\n x();\n l.leave(t);\n y();\n}"), 3);
}

#[test]
fn what_cannot_be_parsed_is_told_with_its_line() {
    assert!(count("fn f() {}\nfn 1() {}").unwrap_err().starts_with("line 2"));
}

#[test]
fn both_variants_of_each_sample_are_counted_and_reductions_are_shares_of_vanilla() {
    assert_eq!((reduction(200, 50), reduction(10, 12), reduction(0, 0)), (Some(75.0), Some(-19.999999999999996), None));
    let pairs = pairs(&crate::root().join("crates/able-samples/src")).unwrap();
    assert!(pairs.iter().any(|pair| pair.name == "raid1"));
    assert!(pairs.iter().all(|pair| pair.vanilla.lines > 20 && pair.able.lines > 20));
    let components = components(&crate::root().join("crates/layer-kit/src")).unwrap();
    assert!(components.iter().any(|row| row.name == "region" && row.counts.lines > 100));
    let told = text(&pairs, &components);
    assert!(told.contains("| raid1 | ") && json(&pairs, &[]).contains("\"raid1\":{\"vanilla\":{\"lines\":"), "{told}");
}
