//! Which lines of a text belong to the stack's text: sections `[device.NAME]`, `[[export]]` and `[[mount]]`.

use toml::de::{DeTable, DeValue};

/// The stack's text in a declaration: the same lines at the same places, all others blank. None if the text declares
/// nothing, so that all of it is a stack's text (or neither, which the reader of stacks explains).
pub fn stack_part(text: &str) -> Option<String> {
    let table = DeTable::parse(text).ok()?;
    let declares = |key: &str| !matches!(key, "device" | "export" | "mount");
    if !table.get_ref().keys().any(|key| declares(key.get_ref())) {
        return None;
    }
    let mut inside = Vec::new();
    table.get_ref().values().for_each(|item| spans(item, &mut inside));
    let (mut part, mut offset, mut is_stack) = (String::new(), 0, false);
    for line in text.split_inclusive('\n') {
        let start = offset + line.len() - line.trim_start().len();
        if line.trim_start().starts_with('[') && !inside.iter().any(|span| span.contains(&start)) {
            let root: String = line.trim_start_matches(['[', ' ', '\t']).chars().take_while(|c| is_bare(*c)).collect();
            is_stack = !declares(&root);
        }
        part.push_str(if is_stack { line } else { "\n" });
        offset += line.len();
    }
    Some(part)
}

fn is_bare(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// Where values stand that are no sections: a `[` in them begins none.
#[allow(clippy::wildcard_enum_match_arm, reason = "a value of TOML is foreign")]
fn spans(item: &toml::Spanned<DeValue<'_>>, inside: &mut Vec<std::ops::Range<usize>>) {
    match item.get_ref() {
        DeValue::Table(table) => table.values().for_each(|item| spans(item, inside)),
        DeValue::Array(list) if list.iter().any(|item| item.get_ref().is_table()) => {
            list.iter().for_each(|item| spans(item, inside));
        }
        _ => inside.push(item.span()),
    }
}
