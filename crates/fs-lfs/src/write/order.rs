//! A cleaning that a cleaner orders: each list is held against what the victims' logs and the DAT say now.

use std::collections::BTreeSet;

use esker_base::Errno;

use super::Inner;
use super::clean::{Cleaning, MovedBlock};
use super::core::Core;
use crate::control::{Cleaned, CleaningOrder, MovedVirtual, VICTIMS_MAX, moved_flag};
use crate::error::LfsError;
use crate::format::Payload;
use crate::liveness::Liveness;

impl Inner {
    /// Cleans what an order names, or refuses with nothing changed.
    pub(super) async fn clean_ordered(&self, order: &CleaningOrder) -> Result<Result<Cleaned, Errno>, LfsError> {
        if self.is_closed.get() {
            return Ok(Err(Errno::ENODEV));
        }
        if let Err(errno) = self.check_order(order).await? {
            return Ok(Err(errno));
        }
        // What lives, what a snapshot has and what the latest checkpoint has moves, whatever the order says.
        let (snapshots, protected) = (self.snapshots().await?, self.head.get().cno);
        let mut found = Cleaning::default();
        for segment in &order.victims {
            match self.describe(*segment, &snapshots, protected).await? {
                Some(more) => found.add(more),
                None => return Ok(Err(Errno::EIO)),
            }
        }
        let cleaning = match heeded(order, found) {
            Ok(cleaning) if self.has_room_for_copies(cleaning.copies()) => cleaning,
            Ok(_) => return Ok(Err(Errno::ENOMEM)),
            Err(errno) => return Ok(Err(errno)),
        };
        let (copied, freed) = (cleaning.copies(), cleaning.dead.len() as u64);
        self.make_checkpoint(self.freeze(), cleaning).await?;
        Ok(Ok(Cleaned { cno: self.head.get().cno, copied, freed }))
    }

    /// Whether an order is well formed, and its victims may be cleaned.
    async fn check_order(&self, order: &CleaningOrder) -> Result<Result<(), Errno>, LfsError> {
        let (geometry, head) = (&self.core.geometry, self.head.get());
        let victims: BTreeSet<u64> = order.victims.iter().copied().collect();
        let places: BTreeSet<u64> = order.moves.iter().map(|moved| moved.place).collect();
        let freed: BTreeSet<u64> = order.freed.iter().copied().collect();
        let is_whole = (1..=VICTIMS_MAX).contains(&victims.len())
            && victims.len() == order.victims.len()
            && places.len() == order.moves.len()
            && freed.len() == order.freed.len()
            && victims.iter().all(|segment| *segment < geometry.segments)
            && places.iter().all(|place| geometry.has(*place) && victims.contains(&geometry.segment_of(*place)))
            && order.moves.iter().all(is_known)
            && order.periods.iter().all(|(first, behind)| 0 < *first && first < behind && *behind <= head.cno);
        if !is_whole {
            return Ok(Err(Errno::EINVAL));
        }
        for segment in victims {
            let usage = self.core.usage(segment).await?;
            let is_needed = self.sequence(segment).await? >= self.superblocks.protected();
            if !usage.is_dirty() || usage.has_error() || self.is_in_use(segment) || is_needed {
                return Ok(Err(Errno::EBUSY));
            }
        }
        Ok(Ok(()))
    }
}

/// Whether flags of a move are known. A program that does not know the flags leaves anything there.
fn is_known(moved: &MovedVirtual) -> bool {
    moved.period_start != 0 || moved.flags <= (moved_flag::SNAPSHOT | moved_flag::PERIOD)
}

/// What victims hold, with what the order keeps beside. Counters do not have that: no snapshot that is there now has
/// it, whatever the cleaner saw.
///
/// # Errors
/// `EINVAL`: the lists leave a block out, or name one that the victims do not hold.
fn heeded(order: &CleaningOrder, mut found: Cleaning) -> Result<Cleaning, Errno> {
    let moves: BTreeSet<u64> = order.moves.iter().map(|moved| moved.place).collect();
    let freed: BTreeSet<u64> = order.freed.iter().copied().collect();
    let dat: BTreeSet<(u64, u8)> = order.dat.iter().map(|block| (block.index, block.level)).collect();
    let mut named = 0;
    for moved in &found.moves {
        let (Payload::Data { vblock, .. } | Payload::Node { vblock }) = moved.block.what else { continue };
        // A block that a cleaner calls dead may have got a snapshot since.
        match moves.contains(&moved.block.place) || freed.contains(&vblock) {
            true => named += 1,
            false => return Err(Errno::EINVAL),
        }
    }
    for dead in std::mem::take(&mut found.dead) {
        named += 1;
        match () {
            () if moves.contains(&dead.block.place) => {
                found.moves.push(MovedBlock { block: dead.block, kept: Liveness::Period });
            }
            () if freed.contains(&dead.vblock) => found.dead.push(dead),
            () => return Err(Errno::EINVAL),
        }
    }
    let has_all = found.dat.iter().all(|block| dat.contains(block));
    if named != moves.len() + freed.len() || !has_all {
        return Err(Errno::EINVAL);
    }
    // Runs that follow each other are read at once.
    found.moves.sort_by_key(|moved| moved.block.place);
    found.periods.extend(order.periods.iter().map(|(first, behind)| *first..*behind));
    Ok(found)
}

impl Core {
    /// The place of a block of the DAT, by its number or first key and its level; 0 if it is not there.
    pub(super) async fn dat_place(&self, index: u64, level: u8) -> Result<u64, LfsError> {
        let map = &self.dat.map;
        match level {
            0 => self.with_map(map, true, |map| map.find(index)).await,
            _ => Ok(self.with_map(map, true, |map| map.find_node(index, level)).await?.unwrap_or(0)),
        }
    }
}
