use std::mem::offset_of;

use super::*;

fn label() -> Label {
    let mut label = Label::new(0x0102_0304, 3, 1 << 20, 4096);
    label.sequence = 7;
    label.change(0b101);
    label.dirty.set(0);
    label.dirty.set(9);
    label
}

#[test]
fn the_layout_is_that_of_the_page() {
    let at = [
        offset_of!(Page, magic),
        offset_of!(Page, version),
        offset_of!(Page, member),
        offset_of!(Page, features),
        offset_of!(Page, set),
        offset_of!(Page, data),
        offset_of!(Page, region),
        offset_of!(Page, generation),
        offset_of!(Page, base),
        offset_of!(Page, sequence),
        offset_of!(Page, members),
        offset_of!(Page, in_sync),
        offset_of!(Page, reserved),
        offset_of!(Page, past),
        offset_of!(Page, bits),
        offset_of!(Page, checksum),
    ];
    assert_eq!(at, [0, 8, 10, 12, 16, 32, 40, 48, 56, 64, 72, 74, 76, 96, 608, 4092]);
    assert_eq!((size_of::<Page>(), REGIONS_MAX, DATA_START), (4096, 27_872, 8192));
}

/// The label that version 1 wrote; it must stay readable.
#[test]
fn the_golden_label_reads_as_it_was_written() {
    let golden = include_bytes!("../../golden/label-v1.bin");
    assert_eq!(Label::decode(golden), Ok((label(), 2)));
    assert_eq!(label().encode(2), golden);
}

#[test]
fn a_label_in_the_slot_of_the_other_is_that_of_a_device_seen_elsewhere() {
    let (old, blank) = (label(), vec![0; PAGE]);
    let shifted = if old.sequence % SLOTS == 0 { [blank, old.encode(1)] } else { [old.encode(1), blank] };
    assert_eq!(Label::newest(&shifted.concat()), Err(LabelError::Shifted));
}

#[test]
fn the_newer_slot_counts_and_a_torn_one_does_not() {
    let (old, mut new) = (label(), label());
    new.sequence += 1;
    let slots = [new.encode(0), old.encode(0)].concat();
    assert_eq!(Label::newest(&slots), Ok((new, 0)));
    for torn in [600, 4095] {
        let mut slots = slots.clone();
        slots[torn] ^= 1;
        assert_eq!(Label::newest(&slots), Ok((old.clone(), 0)), "byte {torn}");
    }
    let blank = vec![0; PAGE];
    assert_eq!(Label::newest(&[blank.clone(), old.encode(1)].concat()), Ok((old.clone(), 1)));
    assert_eq!(Label::newest(&[blank.clone(), blank.clone()].concat()), Err(LabelError::Blank));
    let mut broken = old.encode(1);
    broken[700] ^= 1;
    assert_eq!(Label::newest(&[blank, broken].concat()), Err(LabelError::Checksum));
}

fn with(change: impl FnOnce(&mut Page)) -> Result<(Label, u16), LabelError> {
    let bytes = label().encode(0);
    let mut page = Page::read_from_bytes(&bytes).unwrap();
    change(&mut page);
    page.checksum = checksum(&page).into();
    Label::decode(page.as_bytes())
}

#[test]
fn what_no_esker_writes_is_refused_under_a_right_checksum() {
    assert_eq!(with(|page| page.version = 2.into()), Err(LabelError::Newer(2, 0)));
    assert_eq!(with(|page| page.features = 1.into()), Err(LabelError::Newer(1, 1)));
    assert_eq!(with(|page| page.magic[3] ^= 1), Err(LabelError::Foreign));
    assert_eq!(with(|page| page.members = 17.into()), Err(LabelError::Range("number of halves")));
    assert_eq!(with(|page| page.member = 3.into()), Err(LabelError::Range("own number")));
    assert_eq!(with(|page| page.region = 0.into()), Err(LabelError::Range("region")));
    assert_eq!(with(|page| page.region = 1.into()), Err(LabelError::Range("size")));
    assert_eq!(with(|page| page.data = u64::MAX.into()), Err(LabelError::Range("size")));
    assert_eq!(with(|page| page.in_sync = 0.into()), Err(LabelError::Range("set of halves in sync")));
    assert_eq!(with(|page| page.in_sync = 0b1001.into()), Err(LabelError::Range("set of halves in sync")));
    assert_eq!(with(|page| page.generation = 0.into()), Err(LabelError::Range("generation")));
    assert_eq!(with(|page| page.base = 99.into()), Err(LabelError::Range("sequence")));
    assert_eq!(Label::decode(&[1; 100]), Err(LabelError::Foreign));
}

#[test]
fn ancestors_are_told_from_strangers() {
    let old = label();
    let (mut left, mut right) = (old.clone(), old.clone());
    left.change(0b001);
    right.change(0b100);
    assert!(old.is_ancestor_of(&left) && old.is_ancestor_of(&right) && left.is_ancestor_of(&left));
    right.change(0b110);
    assert!(!left.is_ancestor_of(&right), "they went on without each other");
    for in_sync in [0b001, 0b101].into_iter().cycle().take(100) {
        left.change(in_sync);
    }
    assert!(old.is_ancestor_of(&left), "too old to be known");
}

#[test]
fn what_a_crash_leaves_of_a_first_label_is_told_from_other_data() {
    let mut label = Label::new(5, 2, 1 << 20, 4096);
    label.sequence = 1;
    let whole = label.encode(0);
    for (from, to) in [(0, 512), (512, 4096), (3584, 4096), (0, 3584)] {
        let mut slots = vec![0; 2 * PAGE];
        slots[PAGE + from..PAGE + to].copy_from_slice(&whole[from..to]);
        assert_eq!(Label::newest(&slots), Err(LabelError::Unmade), "{from} to {to}");
    }
    let mut foreign = vec![0; 2 * PAGE];
    foreign[PAGE + 600] = 1;
    assert_eq!(Label::newest(&foreign), Err(LabelError::Foreign));
    foreign[PAGE + 600] = 0;
    foreign[10] = 1;
    assert_eq!(Label::newest(&foreign), Err(LabelError::Foreign));
}
