use super::*;

fn first() -> Superblock {
    let mut superblock = Superblock::new(5, 2, 1 << 20, 4096);
    superblock.sequence = 10;
    superblock
}

/// The superblock after changes of which members are in sync, each followed by a superblock.
fn after(changes: &[u16]) -> Superblock {
    changes.iter().fold(first(), |mut superblock, in_sync| {
        superblock.change(*in_sync);
        superblock.sequence += 1;
        superblock
    })
}

fn blank() -> Probed {
    Err(ProbeError::Superblock(SuperblockError::Blank))
}

fn go(found: &[Probed]) -> Result<Assembly, AssembleError> {
    assemble(found, first, false)
}

fn starts(found: &[Probed], degraded: bool) -> Vec<Start> {
    let assembly = assemble(found, first, degraded).unwrap_or_else(|refusal| panic!("{refusal}"));
    assembly.members.iter().map(|member| member.start).collect()
}

#[test]
fn blank_members_make_a_new_mirror_and_anything_else_does_not() {
    assert_eq!(starts(&[blank(), blank()], false), [Start::InSync; 2]);
    let refused = go(&[blank(), Err(ProbeError::Superblock(SuperblockError::Foreign("a mirror")))]);
    assert!(matches!(refused, Err(AssembleError::NoSuperblock { lower: 1, .. })), "{refused:?}");
}

#[test]
fn a_mirror_that_was_not_made_to_its_end_is_made_again() {
    let begun = Superblock { sequence: 1, ..first() };
    for found in [[Ok((begun.clone(), 0)), blank()], [blank(), Ok((begun.clone(), 1))], [blank(), blank()]] {
        assert_eq!(starts(&found, false), [Start::InSync; 2]);
    }
    let refused = go(&[Ok((first(), 0)), blank()]);
    assert!(matches!(refused, Err(AssembleError::Missing { member: 1, .. })), "{refused:?}");
}

#[test]
fn after_a_crash_members_in_sync_are_suspect_where_either_superblock_says_so() {
    let (mut one, mut two) = (first(), first());
    two.sequence += 1;
    one.dirty.set(3);
    two.dirty.set(4);
    let assembly = go(&[Ok((one, 0)), Ok((two, 1))]).unwrap();
    assert_eq!(assembly.suspect.iter().collect::<Vec<_>>(), [3, 4]);
    assert_eq!(assembly.superblock.dirty, assembly.suspect);
    assert!(assembly.members.iter().all(|member| member.start == Start::InSync));
}

#[test]
fn a_member_that_was_out_needs_the_dirty_regions_or_everything() {
    let (old, degraded) = (first(), after(&[0b01]));
    assert_eq!(starts(&[Ok((degraded.clone(), 0)), Ok((old.clone(), 1))], false), [Start::InSync, Start::Partial]);
    let older = Superblock { sequence: 9, ..old.clone() };
    assert_eq!(starts(&[Ok((degraded.clone(), 0)), Ok((older, 1))], false), [Start::InSync, Start::Full]);
    assert_eq!(starts(&[Ok((degraded.clone(), 0)), blank()], false), [Start::InSync, Start::Full]);
    let damaged = Err(ProbeError::Superblock(SuperblockError::Checksum));
    assert_eq!(starts(&[Ok((degraded.clone(), 0)), damaged], false), [Start::InSync, Start::Out]);
    assert_eq!(
        starts(&[Ok((degraded, 0))], false),
        [Start::InSync],
        "a member that is known to be offline is not missed"
    );
}

#[test]
fn a_stale_member_is_never_taken_as_fresh() {
    let (old, degraded) = (first(), after(&[0b01]));
    // Alone it cannot know that it is stale, so it is refused unless the operator vouches for it.
    let alone = go(&[Ok((old.clone(), 1))]);
    assert!(matches!(alone, Err(AssembleError::Missing { member: 0, .. })), "{alone:?}");
    assert_eq!(starts(&[Ok((old.clone(), 1))], true), [Start::InSync]);
    // The member that is in sync is gone: no member holds all data.
    assert!(matches!(go(&[Ok((degraded, 1))]), Err(AssembleError::Missing { member: 0, .. })));
    let nobody = assemble(&[Ok((after(&[0b01]), 1))], first, true);
    assert!(matches!(nobody, Err(AssembleError::NobodyInSync(0))), "{nobody:?}");
    // An image from a backup that still calls itself in sync.
    let present = Superblock { sequence: 20, ..old.clone() };
    let found = [Ok((present, 0)), Ok((old, 1))];
    assert!(matches!(go(&found), Err(AssembleError::Missing { member: 1, .. })));
    assert_eq!(starts(&found, true), [Start::InSync, Start::Full]);
}

#[test]
fn members_that_went_on_alone_are_a_split() {
    let found = [Ok((after(&[0b01]), 0)), Ok((after(&[0b10]), 1))];
    assert!(matches!(assemble(&found, first, true), Err(AssembleError::Split(..))));
    let found = [Ok((after(&[0b01]), 0)), Ok((after(&[0b10, 0b11, 0b10]), 1))];
    assert_eq!(assemble(&found, first, true), Err(AssembleError::Split(0, 1)));
}

#[test]
fn members_of_other_mirrors_and_doubles_are_refused() {
    let stranger = Superblock::new(6, 2, 1 << 20, 4096);
    assert_eq!(go(&[Ok((first(), 0)), Ok((stranger, 1))]), Err(AssembleError::Strangers(0, 1)));
    assert_eq!(go(&[Ok((first(), 1)), Ok((first(), 1))]), Err(AssembleError::Twice(0, 1)));
    let damaged = Err(ProbeError::Superblock(SuperblockError::Checksum));
    let three = [Ok((first(), 0)), Ok((first(), 1)), damaged];
    assert_eq!(go(&three), Err(AssembleError::TooMany { members: 2, lowers: 3 }));
}

#[test]
fn members_keep_their_numbers_in_any_order() {
    let assembly = go(&[Ok((first(), 1)), Ok((first(), 0))]).unwrap();
    assert_eq!(assembly.members.iter().map(|member| member.number).collect::<Vec<_>>(), [Some(1), Some(0)]);
    let replaced = go(&[blank(), Ok((after(&[0b10]), 1))]).unwrap();
    assert_eq!(replaced.members[0], AssembledMember { number: Some(0), start: Start::Full });
}

/// A set of two members, and the same with a third.
fn grown() -> (Superblock, Superblock) {
    let (before, mut grown) = (first(), first());
    grown.attach(2);
    grown.sequence += 1;
    (before, grown)
}

#[test]
fn a_blank_device_beyond_the_members_joins_and_one_that_cannot_be_read_keeps_its_number() {
    let found = [Ok((first(), 0)), Ok((first(), 1)), blank()];
    assert_eq!(starts(&found, false), [Start::InSync, Start::InSync, Start::Joins]);
    let unreadable = Err(ProbeError::Unreadable("gone".into()));
    let found = [Ok((after(&[0b01]), 0)), blank(), unreadable];
    let members = go(&found).unwrap().members;
    let told: Vec<_> = members.iter().map(|member| (member.number, member.start)).collect();
    assert_eq!(told, [(Some(0), Start::InSync), (None, Start::Joins), (Some(1), Start::Out)]);
}

#[test]
fn a_crash_while_a_member_comes_leaves_the_old_set_or_the_new_one() {
    let (before, grown) = grown();
    // Neither, one or both of the others have the new table; the text has the device or not yet.
    for (others, third) in
        [([&before, &before], Start::Joins), ([&before, &grown], Start::Full), ([&grown, &grown], Start::Full)]
    {
        let two = [Ok((others[0].clone(), 0)), Ok((others[1].clone(), 1))];
        assert_eq!(starts(&two, false), [Start::InSync, Start::InSync]);
        let three = [two[0].clone(), two[1].clone(), blank()];
        assert_eq!(starts(&three, false), [Start::InSync, Start::InSync, third]);
    }
    // Its own superblock comes behind those.
    let next = Superblock { sequence: grown.sequence + 1, ..grown.clone() };
    let three = [Ok((grown.clone(), 0)), Ok((grown, 1)), Ok((next, 2))];
    let assembly = go(&three).unwrap();
    assert_eq!(assembly.members[2], AssembledMember { number: Some(2), start: Start::Partial });
    assert_eq!(assembly.superblock.dirty.count(), assembly.superblock.dirty.len(), "all of it is copied");
}

#[test]
fn a_text_with_the_old_members_is_told_what_to_change() {
    let (_, mut whole) = grown();
    whole.change(0b111);
    whole.sequence += 1;
    let two = [Ok((whole.clone(), 0)), Ok((whole.clone(), 1))];
    let error = go(&two).unwrap_err().to_string();
    assert!(error.contains("member 2 is missing (the text does not name it in `on`)"), "{error}");
    let mut left = whole.clone();
    left.change(0b011);
    left.detach(2);
    left.sequence += 1;
    let three = [Ok((left.clone(), 0)), Ok((left.clone(), 1)), Ok((whole, 2))];
    assert_eq!(go(&three), Err(AssembleError::Detached(2)));
    assert_eq!(starts(&three[..2], false), [Start::InSync, Start::InSync]);
    let blanked = [three[0].clone(), three[1].clone(), blank()];
    assert_eq!(starts(&blanked, false)[2], Start::Joins, "it is a new member");
}
