//! Heads of mirrors' halves: what is taken as a label is written back alike, and sets are put together or refused.

use esker_layer_mirror::assemble::{Found, Trouble, assemble};
use esker_layer_mirror::label::{DATA_START, Label, PAGE};

fn label() -> Label {
    let mut label = Label::new(77, 3, 1 << 20, 4096);
    label.sequence = 4;
    label.change(0b011);
    label.dirty.set(17);
    label
}

pub fn corpus() -> Vec<Vec<u8>> {
    let (old, mut new) = (label(), label());
    new.sequence += 1;
    new.change(0b010);
    let blank = vec![0; PAGE];
    vec![
        [old.encode(0), new.encode(0)].concat(),
        [blank.clone(), old.encode(1)].concat(),
        [blank.clone(), blank].concat(),
        // Two halves.
        [old.encode(0), new.encode(0), old.encode(1), new.encode(1)].concat(),
    ]
}

pub fn try_input(input: &[u8]) -> Result<bool, String> {
    for slot in input.chunks(PAGE) {
        if let Ok((label, member)) = Label::decode(slot)
            && Label::decode(&label.encode(member)) != Ok((label, member))
        {
            return Err("a label reads back as another one".to_string());
        }
    }
    let heads = input.chunks_exact(DATA_START as usize).take(8);
    let found: Vec<Found> = heads.map(|head| Label::newest(head).map_err(Trouble::Label)).collect();
    if found.is_empty() {
        return Ok(false);
    }
    let members = found.len() as u16;
    match assemble(&found, || Label::new(1, members, 1 << 20, 4096), true) {
        Ok(assembly) if assembly.halves.len() != found.len() => Err("a half is lost".to_string()),
        Ok(_) => Ok(true),
        Err(refusal) if refusal.to_string().is_empty() => Err("refused without a reason".to_string()),
        Err(_) => Ok(false),
    }
}
