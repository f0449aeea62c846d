//! Heads of mirrors' members: what is taken as a superblock is written back alike, and sets are put together or
//! refused.

use esker_layer_mirror::assemble::{ProbeError, Probed, assemble};
use esker_layer_mirror::superblock::{DATA_START, PAGE, Superblock};

fn superblock() -> Superblock {
    let mut superblock = Superblock::new(77, 3, 1 << 20, 4096);
    superblock.sequence = 4;
    superblock.change(0b011);
    superblock.dirty.set(17);
    superblock
}

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let (old, mut new) = (superblock(), superblock());
    new.sequence += 1;
    new.change(0b010);
    let blank = vec![0; PAGE];
    vec![
        [old.encode(0), new.encode(0)].concat(),
        [blank.clone(), old.encode(1)].concat(),
        [blank.clone(), blank].concat(),
        // Two members.
        [old.encode(0), new.encode(0), old.encode(1), new.encode(1)].concat(),
    ]
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    for slot in input.chunks(PAGE) {
        if let Ok((superblock, member)) = Superblock::decode(slot)
            && Superblock::decode(&superblock.encode(member)) != Ok((superblock, member))
        {
            return Err("a superblock reads back as another one".to_string());
        }
    }
    let heads = input.chunks_exact(DATA_START as usize).take(8);
    let found: Vec<Probed> = heads.map(|head| Superblock::newest(head).map_err(ProbeError::Superblock)).collect();
    if found.is_empty() {
        return Ok(false);
    }
    let members = found.len() as u16;
    match assemble(&found, || Superblock::new(1, members, 1 << 20, 4096), true) {
        Ok(assembly) if assembly.members.len() != found.len() => Err("a member is lost".to_string()),
        Ok(_) => Ok(true),
        Err(refusal) if refusal.to_string().is_empty() => Err("refused without a reason".to_string()),
        Err(_) => Ok(false),
    }
}
