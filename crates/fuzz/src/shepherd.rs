//! Tables of moved blocks: each block is led to one spare, and what is taken is written back alike.

use esker_layer_shepherd::table::{BAD, Table};

const BLOCKS: u64 = 1000;

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    vec![bytes(&[8, 0, BAD, 1000, 1, 0]), bytes(&[0; 16]), bytes(&[5, 5])]
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let words = &input[..input.len() / 8 * 8];
    let table = match Table::decode(words, BLOCKS) {
        Ok(table) => table,
        Err(what) if what.to_string().is_empty() => return Err("refused without a reason".to_string()),
        Err(_) => return Ok(false),
    };
    if table.encode() != words {
        return Err("a table reads back as another one".to_string());
    }
    let (block, spares) = (512, BLOCKS * 512);
    let mut seen = std::collections::BTreeSet::new();
    for at in (0..BLOCKS).map(|number| number * block) {
        let run = table.run(at, block, spares);
        if run.len == 0 || !seen.insert(run.place.at) {
            return Err(format!("byte {at} lies nowhere, or where another does: {run:?}"));
        }
    }
    Ok(true)
}
