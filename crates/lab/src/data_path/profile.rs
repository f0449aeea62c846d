//! Reads the file that callgrind writes.
//!
//! Format: "Callgrind Format Specification" in the manual of Valgrind. A function has a number, which is followed by
//! its name where it occurs first. A line `cfn=` names the function that is called, the next line `calls=` says how
//! often. With callers separated, the name of a function is followed by those of its callers, the nearest first, each
//! behind an apostrophe.

use std::collections::BTreeMap;

/// Functions of the C library that make or grow a piece of memory.
const ALLOCATORS: [&str; 2] = ["malloc", "realloc"];

/// The counts of one run of a program.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Profile {
    /// Instructions of all threads.
    pub instructions: u64,
    /// Calls to the allocator by the function of this project that caused them.
    pub allocations: BTreeMap<String, u64>,
}

impl Profile {
    /// Reads a profile.
    ///
    /// # Errors
    /// A text without a sum, or without a call to an allocator: its program has no symbols.
    pub(crate) fn parse(text: &str) -> Result<Profile, String> {
        let (mut names, mut profile, mut callee) = (BTreeMap::new(), Profile::default(), "");
        for line in text.lines() {
            let Some((key, value)) = line.split_once(['=', ':']) else { continue };
            match key {
                "fn" => {
                    named(&mut names, value);
                }
                "cfn" => callee = named(&mut names, value),
                "calls" => profile.called(callee, number(value)?),
                "totals" => profile.instructions = number(value)?,
                _ => {}
            }
        }
        match (profile.instructions, profile.allocations.len()) {
            (0, _) => Err("the profile has no line of totals".to_string()),
            (_, 0) => Err("the profile has no call to malloc; the program has no symbols".to_string()),
            _ => Ok(profile),
        }
    }

    /// Notes calls to a function whose name is followed by its callers.
    fn called(&mut self, callee: &str, count: u64) {
        let mut chain = callee.split('\'');
        if chain.next().is_some_and(|function| ALLOCATORS.contains(&function)) {
            *self.allocations.entry(site(chain)).or_default() += count;
        }
    }
}

/// The name behind a number; where the name is given, it is noted.
fn named<'a>(names: &mut BTreeMap<&'a str, &'a str>, value: &'a str) -> &'a str {
    match value.split_once(' ') {
        Some((id, name)) => {
            names.insert(id, name);
            name
        }
        None => names.get(value).copied().unwrap_or_default(),
    }
}

/// The first number of a line.
fn number(value: &str) -> Result<u64, String> {
    let word = value.split_whitespace().next().unwrap_or_default();
    word.parse().map_err(|_| format!("the profile has \"{value}\" where a number is expected"))
}

/// The nearest caller that belongs to this project; without one, the furthest that is known.
fn site<'a>(chain: impl Iterator<Item = &'a str>) -> String {
    let mut furthest = "unknown";
    for caller in chain.map(without_hash) {
        furthest = caller;
        if caller.trim_start_matches(['<', '&', '(']).starts_with("esker") {
            break;
        }
    }
    furthest.to_string()
}

/// The name of a function without the hash at its end.
fn without_hash(name: &str) -> &str {
    let is_hash = |end: &str| end.len() == 17 && end.starts_with('h');
    name.rsplit_once("::").filter(|(_, end)| is_hash(end)).map_or(name, |(path, _)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# callgrind format
events: Ir
fn=(1) main
10 5
cfn=(2) esker_dev::disk::run::h0123456789abcdef
calls=4 20
10 900
fn=(2)
20 7
cob=(3) libc.so.6
cfn=(4) malloc'alloc::raw_vec::finish_grow'esker_dev::disk::run::h0123456789abcdef'main
calls=8 0
21 600
cfn=(5) realloc'<esker_rt::mem::Pool as core::fmt::Debug>::fmt
calls=3 0
22 60
fn=(6) other
cfn=(4)
calls=2 0
30 60
cfn=(7) free'main
calls=50 0
30 60
totals: 12345
";

    #[test]
    fn allocations_are_counted_by_the_project_s_function_that_caused_them() {
        let profile = Profile::parse(TEXT).unwrap();
        let sites: Vec<_> = profile.allocations.iter().map(|(site, count)| (site.as_str(), *count)).collect();
        let expected = [("<esker_rt::mem::Pool as core::fmt::Debug>::fmt", 3), ("esker_dev::disk::run", 10)];
        assert_eq!(profile.instructions, 12_345);
        assert_eq!(sites, expected);
    }

    #[test]
    fn a_caller_outside_of_the_project_is_the_furthest_that_is_known() {
        assert_eq!(site("alloc::finish_grow'std::main".split('\'')), "std::main");
        assert_eq!(site(std::iter::empty()), "unknown");
    }

    #[test]
    fn a_profile_without_sum_or_symbols_is_refused() {
        let without = |line: &str| TEXT.replace(line, "");
        assert!(Profile::parse(&without("totals: 12345")).unwrap_err().contains("totals"));
        assert!(Profile::parse(&TEXT.replace("alloc'", "xalloc'")).unwrap_err().contains("symbols"));
        assert!(Profile::parse("calls=many 0").unwrap_err().contains("\"many 0\""));
    }
}
