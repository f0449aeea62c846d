//! Words of a text, for rules that look for some.

/// The words in lower case. An underscore parts words, so that names of statistics have several.
pub fn words(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !c.is_alphanumeric());
    parts.filter(|part| !part.is_empty()).map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_parted_by_all_that_is_no_letter_or_digit() {
        assert_eq!(
            words("The lower-end, `halves_in_sync`: 2 of it's"),
            ["the", "lower", "end", "halves", "in", "sync", "2", "of", "it", "s"]
        );
    }
}
