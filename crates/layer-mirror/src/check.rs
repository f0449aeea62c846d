//! Whether members agree: their superblocks, and their data in all regions that are not called dirty.

use std::io;

use esker_base::ByteRange;
use esker_block::{Fact, Media, MediaCheck, MediaVerdict, ReadMedium};

use crate::assemble::{AssembleError, Assembly, ProbeError, Probed, Start, assemble};
use crate::superblock::{DATA_START, FORMAT, Superblock};

/// Bytes compared at once.
const STEP: u64 = 64 << 10;

/// How `mirror` checks its media.
pub const MEDIA: MediaCheck = MediaCheck {
    holds: "mirror",
    media: "members of mirrors",
    formats: &[FORMAT],
    is_set: true,
    is_marked,
    check: check_media,
};

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// What the superblocks say together.
    pub assembly: Assembly,
    /// Bytes of data that were compared.
    pub compared: u64,
    /// Ranges of the volume (in steps of at most 64 KiB) that differ between members in sync, against all superblocks.
    pub differing: Vec<ByteRange>,
}

/// Why members cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// Their superblocks do not fit together.
    #[error(transparent)]
    Refusal(#[from] AssembleError),
    /// All are blank, or a first superblock was never followed by a second.
    #[error("the members are blank: there is no mirror yet; `esker init` makes one")]
    Blank,
    /// Data of a member cannot be read.
    #[error("the member at lower device {0} cannot be read: {1}")]
    Unreadable(usize, std::io::Error),
}

/// Reads bytes of the member with this number, from this offset on.
pub type ReadMember<'a> = &'a mut dyn FnMut(usize, u64, &mut [u8]) -> std::io::Result<()>;

/// Compares `members` members that no stack uses.
///
/// # Errors
/// [`CheckError`].
pub fn check(members: usize, read: ReadMember<'_>) -> Result<Verdict, CheckError> {
    let found: Vec<Probed> = (0..members).map(|member| superblock_of(member, read)).collect();
    if found.iter().all(|found| found.as_ref().map_or(true, |(superblock, _)| superblock.is_first())) {
        return Err(CheckError::Blank);
    }
    let assembly = assemble(&found, || unreachable!("a superblock was found"), true)?;
    let in_sync = (0..members).filter(|member| assembly.members[*member].start == Start::InSync);
    let in_sync: Vec<usize> = in_sync.collect();
    let (mut compared, mut differing) = (0, Vec::new());
    for region in (0..assembly.superblock.dirty.len()).filter(|region| !assembly.superblock.dirty.has(*region)) {
        let start = region as u64 * assembly.superblock.region;
        let len = assembly.superblock.region.min(assembly.superblock.data - start);
        let range = ByteRange::new(start, len).expect("inside the volume");
        for step in range.split_at_multiples(STEP) {
            compared += step.len();
            if !are_equal(&in_sync, step, read)? {
                differing.push(step);
            }
        }
    }
    Ok(Verdict { assembly, compared, differing })
}

fn is_marked(medium: &dyn ReadMedium) -> io::Result<bool> {
    let mut slots = vec![0; DATA_START as usize];
    medium.read_at(0, &mut slots)?;
    Ok(!Superblock::newest(&slots).is_err_and(|error| error.is_unmarked()))
}

fn check_media(media: Media<'_>) -> Result<MediaVerdict, Box<dyn std::error::Error>> {
    let found = check(media.len(), &mut |member, at, out| media[member].read_at(at, out))?;
    let superblock = &found.assembly.superblock;
    let (open, regions) = (superblock.dirty.count() as u64, superblock.dirty.len());
    let starts: Vec<String> = found.assembly.members.iter().map(|member| word(member.start).to_string()).collect();
    let end = match found.differing.first() {
        Some(first) => {
            let count = found.differing.len();
            format!("DIFFER although no superblock says so, in {count} places, the first of them bytes {first}")
        }
        None => "sound".to_string(),
    };
    let text = format!(
        "mirror of {} members and {} bytes, generation {} ({}): {} bytes compared, {open} of {regions} regions may differ; \
         {end}",
        superblock.all().count_ones(),
        superblock.data,
        superblock.generation,
        starts.join(", "),
        found.compared,
    );
    let facts = vec![
        ("members", u64::from(superblock.all().count_ones()).into()),
        ("volume_bytes", superblock.data.into()),
        ("generation", superblock.generation.into()),
        ("members", Fact::Texts(starts)),
        ("compared_bytes", found.compared.into()),
        ("regions_that_may_differ", open.into()),
        ("differing", Fact::Texts(found.differing.iter().map(ToString::to_string).collect())),
    ];
    Ok(MediaVerdict { is_sound: found.differing.is_empty(), text, facts })
}

fn word(start: Start) -> &'static str {
    match start {
        Start::InSync => "in sync",
        Start::Partial => "lacks the dirty regions",
        Start::Full => "lacks everything",
        Start::Out => "cannot be used",
        Start::Joins => "is blank and no member yet",
    }
}

fn superblock_of(member: usize, read: ReadMember<'_>) -> Probed {
    let mut slots = vec![0; DATA_START as usize];
    read(member, 0, &mut slots).map_err(|error| ProbeError::Unreadable(error.to_string()))?;
    Superblock::newest(&slots).map_err(|error| ProbeError::of(error, &slots))
}

fn are_equal(members: &[usize], range: ByteRange, read: ReadMember<'_>) -> Result<bool, CheckError> {
    let mut bytes = |member: usize| {
        let mut out = vec![0; range.len() as usize];
        let result = read(member, DATA_START + range.start(), &mut out);
        result.map(|()| out).map_err(|error| CheckError::Unreadable(member, error))
    };
    let first = bytes(members[0])?;
    for member in &members[1..] {
        if bytes(*member)? != first {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two members of 64 KiB of data in 16 regions, of which region 2 is dirty.
    fn members() -> Vec<Vec<u8>> {
        let mut superblock = Superblock::new(9, 2, 64 << 10, 4096);
        superblock.sequence = 2;
        superblock.dirty.set(2);
        let member = |member| [superblock.encode(member), vec![0; 4096], vec![7; 64 << 10]].concat();
        vec![member(0), member(1)]
    }

    fn run(members: &[Vec<u8>]) -> Result<Verdict, CheckError> {
        check(members.len(), &mut |member, at, out| {
            out.copy_from_slice(&members[member][at as usize..][..out.len()]);
            Ok(())
        })
    }

    #[test]
    fn differences_count_only_where_no_superblock_tells_of_them() {
        let mut members = members();
        members[1][DATA_START as usize + 2 * 4096] ^= 1;
        let verdict = run(&members).unwrap();
        assert_eq!((verdict.compared, verdict.differing.len()), (60 << 10, 0));
        members[1][DATA_START as usize + 5 * 4096 + 9] ^= 1;
        let differing = run(&members).unwrap().differing;
        assert_eq!(differing, [ByteRange::new(5 * 4096, 4096).unwrap()]);
    }

    #[test]
    fn a_member_that_is_seen_4096_bytes_off_is_not_in_sync_and_is_not_compared() {
        let mut members = members();
        members[1] = [vec![0; 4096], members[1].clone()].concat();
        let verdict = run(&members).unwrap();
        assert_eq!(verdict.assembly.members[1].start, Start::Out);
        assert_eq!(verdict.differing, []);
    }

    #[test]
    fn blank_and_foreign_members_are_told() {
        assert!(matches!(run(&[vec![0; 80_000], vec![0; 80_000]]), Err(CheckError::Blank)));
        let mut members = members();
        members[1] = members[0].clone();
        assert!(matches!(run(&members), Err(CheckError::Refusal(AssembleError::Twice(0, 1)))));
    }
}
