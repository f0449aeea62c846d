//! Listings while entries change.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[test]
fn a_listing_goes_on_where_it_ended() {
    let mut desk = Desk::large();
    for text in ["c", "a", "b"] {
        desk.make(text, FILE);
    }
    let first = desk.list(ROOT, Cookie::BEGINNING, 2);
    let rest = desk.list(ROOT, first[1].1, 2);
    assert_eq!((first.len(), rest.len()), (2, 1));
    assert!(first[0].1 > Cookie::RESERVED, "front ends have their own");
    assert!(desk.list(ROOT, rest[0].1, 2).is_empty());
    assert!(desk.list(ROOT, Cookie(u64::MAX), 2).is_empty());
}

#[test]
fn a_program_that_renames_all_that_it_lists_comes_to_an_end() {
    let mut desk = Desk::large();
    for i in 0..20 {
        desk.make(&format!("{i}"), FILE);
    }
    let (mut from, mut renamed) = (Cookie::BEGINNING, 0);
    while let Some((name, next)) = desk.list(ROOT, from, 1).pop().filter(|_| renamed < 100) {
        let old = String::from_utf8(name.name().bytes().to_vec()).unwrap();
        desk.rename((ROOT, &old), (ROOT, &format!("{old}.new")), Rename::Replace).unwrap();
        (from, renamed) = (next, renamed + 1);
    }
    assert_eq!(renamed, 20);
}

#[derive(Clone, Debug)]
enum Act {
    Create(u8),
    Remove(u8),
    Rename(u8, u8),
    Exchange(u8, u8),
    Replace(u8, u8),
    /// Lists so many rows more.
    List(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let text = || 0u8..12;
    let act = prop_oneof![
        3 => text().prop_map(Act::Create),
        2 => text().prop_map(Act::Remove),
        1 => (text(), text()).prop_map(|(a, b)| Act::Rename(a, b)),
        1 => (text(), text()).prop_map(|(a, b)| Act::Exchange(a, b)),
        1 => (text(), text()).prop_map(|(a, b)| Act::Replace(a, b)),
        3 => (1usize..4).prop_map(Act::List),
    ];
    prop::collection::vec(act, 1..60)
}

fn text(which: u8) -> String {
    format!("n{which}")
}

/// One program lists while another changes the directory.
struct Watch {
    desk: Desk,
    /// Names that have been there since the listing began.
    throughout: Vec<String>,
    given: BTreeMap<String, usize>,
    at: Cookie,
}

impl Watch {
    fn act(&mut self, act: Act) {
        let rename = |desk: &mut Desk, a, b, how| desk.rename((ROOT, &text(a)), (ROOT, &text(b)), how).is_ok();
        match act {
            Act::Create(which) => drop(self.desk.create(ROOT, &text(which), FILE)),
            Act::Remove(which) => {
                if self.desk.remove(ROOT, &text(which), Remove::File).is_ok() {
                    self.gone(which);
                }
            }
            Act::Rename(a, b) => {
                if rename(&mut self.desk, a, b, Rename::NoReplace) {
                    self.gone(a);
                }
            }
            Act::Replace(a, b) => {
                if rename(&mut self.desk, a, b, Rename::Replace) && a != b {
                    self.gone(a);
                }
            }
            Act::Exchange(a, b) => drop(rename(&mut self.desk, a, b, Rename::Exchange)),
            Act::List(rows) => self.list(rows),
        }
    }

    fn gone(&mut self, which: u8) {
        self.throughout.retain(|name| *name != text(which));
    }

    fn list(&mut self, rows: usize) {
        for (name, next) in self.desk.list(ROOT, self.at, rows) {
            assert!(next > self.at, "cookies grow within a listing");
            self.at = next;
            let name = String::from_utf8(name.name().bytes().to_vec()).unwrap();
            *self.given.entry(name).or_default() += 1;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn names_that_are_there_throughout_are_given_once(before in 0u8..12, acts in acts()) {
        let mut desk = Desk::large();
        let throughout: Vec<String> = (0..before).map(text).collect();
        throughout.iter().for_each(|name| assert!(desk.create(ROOT, name, FILE).is_ok()));
        let mut watch = Watch { desk, throughout, given: BTreeMap::new(), at: Cookie::BEGINNING };
        acts.into_iter().for_each(|act| watch.act(act));
        watch.list(1000);
        for name in &watch.throughout {
            prop_assert_eq!(watch.given.get(name), Some(&1), "{}", name);
        }
    }
}
