//! Heads of a tier's ends: a label that is taken is written back alike, and the checker takes the same ones. Each input
//! is tried as it is, and once more with right checksums, so that what lies behind them is reached.

use std::io;
use std::rc::Rc;

use esker_block::ReadMedium;
use esker_framing::superblock::reseal;
use esker_framing::{SLOT, slots};
use esker_layer_tier::KIND;
use esker_layer_tier::label::{Label, head, label_of};

/// Bytes of both slots; what an input lacks is zero.
const HEAD: usize = 2 * SLOT;

struct End(Vec<u8>);

impl ReadMedium for End {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let found = usize::try_from(at).ok().and_then(|at| self.0.get(at..)?.get(..out.len()));
        out.copy_from_slice(found.ok_or_else(|| io::Error::other("beyond the end"))?);
        Ok(())
    }
}

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let label = |end, ends| head(&Label { map: 77, generation: 0, end, ends, slots: 500, extent: 1 << 20 });
    let whole = label(2, 3);
    let second = [&vec![0; SLOT], &whole[SLOT..]].concat();
    vec![label(1, 2), whole[..SLOT].to_vec(), whole, second]
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let mut bytes = input[..input.len().min(HEAD)].to_vec();
    bytes.resize(HEAD, 0);
    let as_it_is = try_head(&bytes)?;
    bytes.chunks_exact_mut(SLOT).filter(|slot| slot.iter().any(|byte| *byte != 0)).for_each(reseal);
    Ok(try_head(&bytes)? || as_it_is)
}

/// Whether the head of an end has a label.
fn try_head(bytes: &[u8]) -> Result<bool, String> {
    let found = label_of(bytes);
    let check = KIND.check.ok_or("the kind has no checker")?;
    let medium = Rc::new(End(bytes.to_vec()));
    let is_marked = (check.is_marked)(&*medium).map_err(|error| format!("the checker cannot read: {error}"))?;
    let verdict = (check.check)(&[medium]);
    match found {
        Err(error) if error.to_string().is_empty() => Err("refused without a reason".to_string()),
        Err(_) if verdict.as_ref().is_ok_and(|verdict| verdict.text.contains("label is sound")) => {
            Err("the checker takes a label that the tier refuses".to_string())
        }
        Err(_) => Ok(false),
        Ok(_) if !is_marked => Err("the checker passes a labelled end over".to_string()),
        Ok(label) => match verdict {
            Ok(verdict) if verdict.is_sound => try_label(bytes, &label),
            other => Err(format!("the checker refuses a label that the tier takes: {other:?}")),
        },
    }
}

/// A label that was read keeps the rules, and reads back from a head that is written with it.
fn try_label(bytes: &[u8], label: &Label) -> Result<bool, String> {
    if label.end == 0 || label.end >= label.ends || label.slots == 0 || !label.extent.is_power_of_two() {
        return Err(format!("a label that breaks its rules is taken: {label:?}"));
    }
    let again = head(label);
    let is_alike = |other: &Label| Label { generation: label.generation, ..*other } == *label;
    if !label_of(&again).is_ok_and(|other| is_alike(&other)) {
        return Err("a label reads back as another one".to_string());
    }
    // The slot that it was read from, without what a later version may have in its words.
    let same = |at: usize| slots(bytes)[at][64..76] == slots(&again)[at][64..76];
    match same(label.generation as usize) {
        true => Ok(true),
        false => Err("a label is written back otherwise".to_string()),
    }
}
