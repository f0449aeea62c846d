//! Assembles the members of a set from the superblocks that were found: fresh ones, ones to resync, and refusals.

use esker_base::Bits;
use esker_framing::SuperblockError;

use crate::superblock::Superblock;

/// What the head of one lower device gave.
pub type Probed = Result<(Superblock, u16), ProbeError>;

/// Why a lower device gave no superblock.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProbeError {
    /// It holds none.
    #[error(transparent)]
    Superblock(#[from] SuperblockError),
    /// It holds the medium of another layer.
    #[error("holds {0} and no superblock of a mirror; name a member, or let `esker init` make a new mirror")]
    Other(&'static str),
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
}

impl ProbeError {
    /// Why a lower device with this head gave no superblock.
    pub fn of(error: SuperblockError, head: &[u8]) -> ProbeError {
        match (error, esker_layer_kit::media::name_of(head)) {
            (SuperblockError::Foreign(_), Some(name)) => ProbeError::Other(name),
            (error, _) => ProbeError::Superblock(error),
        }
    }
}

/// How a member begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// It holds all that was acknowledged.
    InSync,
    /// It needs the dirty regions.
    Partial,
    /// It needs everything.
    Full,
    /// It cannot be used now.
    Out,
    /// It is blank, and there are more lower devices than members: it becomes one.
    Joins,
}

/// Lower device `i` is this member of the set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AssembledMember {
    /// Its number in the set; none if it is not known.
    pub number: Option<u16>,
    /// How it begins.
    pub start: Start,
}

/// What the superblocks say together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assembly {
    /// What holds now; `in_sync` without the members that are missing.
    pub superblock: Superblock,
    /// By lower device.
    pub members: Vec<AssembledMember>,
    /// Regions in which members that are in sync may differ.
    pub suspect: Bits,
}

/// Why a set cannot be used. The text says what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AssembleError {
    /// No superblock anywhere, and not all lower devices are blank.
    #[error("no lower device has a usable superblock: lower device {lower} {trouble}")]
    NoSuperblock {
        /// Lower device.
        lower: usize,
        /// Why it has none.
        trouble: ProbeError,
    },
    /// Superblocks of different mirrors.
    #[error("lower devices {0} and {1} are members of different mirrors; name the members of one mirror")]
    Strangers(usize, usize),
    /// One member twice, or more lower devices than members.
    #[error("lower devices {0} and {1} are the same member; name each member once")]
    Twice(usize, usize),
    /// More lower devices than members.
    #[error("the mirror has {members} members, but the text names {lowers} lower devices; leave the others out")]
    TooMany {
        /// Members of the set.
        members: u16,
        /// Lower devices in the stack text.
        lowers: usize,
    },
    /// A member that was detached.
    #[error("lower device {0} was detached from the mirror; leave it out of `on`")]
    Detached(usize),
    /// Two members were changed apart from each other.
    #[error(
        "split-brain: lower devices {0} and {1} were changed apart from each other, so each may lack writes of the other; choose \
         one, and zero the first 8 KiB of the other, which is then copied as a whole"
    )]
    Split(usize, usize),
    /// A member that may hold newer data is not there.
    #[error(
        "member {member} is missing ({why}), and no superblock calls it stale, so its data may be newer; bring it back, or set \
         degraded=true to start without it"
    )]
    Missing {
        /// Member.
        member: u16,
        /// What is known of it.
        why: String,
    },
    /// No present member holds all data.
    #[error("no member in sync is present; bring member {0} back")]
    NobodyInSync(u16),
}

/// Assembles a set. `fresh` gives the superblock of a new one; `degraded` permits a start without members that may be
/// newer.
///
/// # Errors
/// [`AssembleError`].
pub fn assemble(
    found: &[Probed],
    fresh: impl FnOnce() -> Superblock,
    degraded: bool,
) -> Result<Assembly, AssembleError> {
    let superblocks: Vec<(usize, &Superblock, u16)> = found
        .iter()
        .enumerate()
        .filter_map(|(i, f)| f.as_ref().ok().map(|(superblock, member)| (i, superblock, *member)))
        .collect();
    // A mirror that was not made to its end holds nothing: it is made again.
    let made = superblocks.iter().copied().filter(|(_, superblock, _)| !superblock.is_first());
    let Some((newest_at, newest, _)) = made.max_by_key(|(_, l, _)| (l.generation, l.sequence)) else {
        return make_new(found, fresh());
    };
    check_identity(&superblocks, newest, found)?;
    if let Some((at, ..)) = superblocks.iter().find(|(_, superblock, _)| !superblock.is_ancestor_of(newest)) {
        return Err(AssembleError::Split(*at, newest_at));
    }
    let members: Vec<AssembledMember> = (0..found.len()).map(|i| member(i, found, newest)).collect();
    let superblock = merge(newest, &superblocks, &members);
    let present = present(&members);
    if let Some(member) = missing(newest, present).filter(|_| !degraded) {
        return Err(AssembleError::Missing { member, why: why_missing(member, &members, found) });
    }
    match newest.in_sync & present {
        0 => Err(AssembleError::NobodyInSync(missing(newest, present).expect("a member is in sync"))),
        in_sync => {
            let suspect =
                if in_sync.count_ones() > 1 { superblock.dirty.clone() } else { Bits::new(superblock.dirty.len()) };
            Ok(Assembly { superblock, members: numbered(members, newest), suspect })
        }
    }
}

fn make_new(found: &[Probed], superblock: Superblock) -> Result<Assembly, AssembleError> {
    let trouble = |(i, found): (usize, &Probed)| found.as_ref().err().map(|trouble| (i, trouble.clone()));
    let blank = ProbeError::Superblock(SuperblockError::Blank);
    match found.iter().enumerate().filter_map(trouble).find(|(_, trouble)| *trouble != blank) {
        Some((lower, trouble)) => Err(AssembleError::NoSuperblock { lower, trouble }),
        None => {
            let member = |i| AssembledMember { number: Some(i as u16), start: Start::InSync };
            let suspect = superblock.dirty.clone();
            Ok(Assembly { members: (0..found.len()).map(member).collect(), suspect, superblock })
        }
    }
}

fn check_identity(
    superblocks: &[(usize, &Superblock, u16)],
    newest: &Superblock,
    found: &[Probed],
) -> Result<(), AssembleError> {
    for (n, (i, superblock, member)) in superblocks.iter().enumerate() {
        for (j, other, number) in &superblocks[..n] {
            let is_one_set =
                superblock.set == other.set && superblock.data == other.data && superblock.region == other.region;
            // A member comes or leaves with a new generation.
            let is_one_table = (superblock.members, superblock.detached) == (other.members, other.detached);
            if !is_one_set || (superblock.generation == other.generation && !is_one_table) {
                return Err(AssembleError::Strangers(*j, *i));
            }
            if member == number {
                return Err(AssembleError::Twice(*j, *i));
            }
        }
    }
    let is_detached = |(_, _, member): &&(usize, &Superblock, u16)| newest.detached >> member & 1 != 0;
    if let Some((at, ..)) = superblocks.iter().find(is_detached) {
        return Err(AssembleError::Detached(*at));
    }
    let members = newest.all().count_ones() as u16;
    // Blank ones may join.
    let lowers = found.iter().filter(|found| !is_blank(found)).count();
    match lowers > usize::from(members) {
        true => Err(AssembleError::TooMany { members, lowers }),
        false => Ok(()),
    }
}

fn member(i: usize, found: &[Probed], newest: &Superblock) -> AssembledMember {
    match &found[i] {
        Ok((superblock, member)) => {
            AssembledMember { number: Some(*member), start: start(superblock, *member, newest) }
        }
        // Its number is what the others leave.
        blank if is_blank(blank) => AssembledMember { number: None, start: Start::Full },
        Err(_) => AssembledMember { number: None, start: Start::Out },
    }
}

/// A power cut may fall between the superblocks of two members, so the superblock before the newest is as good. An
/// older one that calls its member in sync comes from an image of a backup, or from a disk that lied.
fn start(superblock: &Superblock, member: u16, newest: &Superblock) -> Start {
    let is_present = superblock.sequence + 1 >= newest.sequence;
    match newest.has(usize::from(member)) {
        true if is_present => Start::InSync,
        false if superblock.sequence >= newest.base => Start::Partial,
        _ => Start::Full,
    }
}

fn merge(newest: &Superblock, superblocks: &[(usize, &Superblock, u16)], members: &[AssembledMember]) -> Superblock {
    let mut superblock = newest.clone();
    for (i, other, _) in superblocks {
        if members[*i].start == Start::InSync {
            superblock.dirty.unite(&other.dirty);
        }
    }
    superblock
}

/// The members that hold all that was acknowledged.
fn present(members: &[AssembledMember]) -> u16 {
    let in_sync = members.iter().filter(|member| member.start == Start::InSync).filter_map(|member| member.number);
    in_sync.fold(0, |set, member| set | 1 << member)
}

/// The first member that is in sync but not there.
fn missing(newest: &Superblock, present: u16) -> Option<u16> {
    (0..newest.members).find(|member| newest.has(usize::from(*member)) && present >> member & 1 == 0)
}

fn why_missing(member: u16, members: &[AssembledMember], found: &[Probed]) -> String {
    if members.iter().any(|other| other.number == Some(member)) {
        return "its superblock is older than it should be".to_string();
    }
    let troubled = found.iter().enumerate().find_map(|(i, found)| found.as_ref().err().map(|trouble| (i, trouble)));
    troubled
        .map_or("the text does not name it in `on`".to_string(), |(i, trouble)| format!("lower device {i} {trouble}"))
}

fn is_blank(found: &Probed) -> bool {
    matches!(found, Err(ProbeError::Superblock(SuperblockError::Blank)))
}

/// Gives the members without a superblock the numbers that are left: first those that cannot be read, for they may be
/// members. Blank ones for which none is left join.
fn numbered(mut members: Vec<AssembledMember>, newest: &Superblock) -> Vec<AssembledMember> {
    let taken = members.iter().filter_map(|member| member.number).fold(0u16, |set, member| set | 1 << member);
    let mut left = (0..newest.members).filter(|member| (newest.all() & !taken) >> member & 1 != 0);
    for start in [Start::Out, Start::Full] {
        for member in members.iter_mut().filter(|member| member.number.is_none() && member.start == start) {
            member.number = left.next();
        }
    }
    let has_none = |member: &&mut AssembledMember| member.number.is_none() && member.start == Start::Full;
    members.iter_mut().filter(has_none).for_each(|member| member.start = Start::Joins);
    members
}

#[cfg(test)]
mod tests;
