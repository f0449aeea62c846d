//! What a kind decides.

use esker_base::ByteRange;
use esker_block::Tag;
use esker_caching::{Lines, Slot};

use crate::placing::Free;

/// How a request uses a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// All bytes of the request.
    pub range: ByteRange,
    /// Whether it is a change.
    pub changes: bool,
    /// Where it comes from.
    pub tag: Tag,
}

/// What becomes of a unit that a read missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fill {
    /// It stays at home alone.
    No,
    /// The read is answered, then the unit gets a copy.
    Behind,
    /// The unit gets a copy, then the read is answered.
    Before,
}

/// Where a write goes that missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// Home.
    Home,
    /// A free slot.
    Aside,
}

/// Free slots that are taken from the map at once.
const TAKEN: usize = 64;

/// Decides which units have copies. It is called inside requests, and never waits.
pub trait Director: 'static {
    /// The map has so many slots. Called once, first.
    fn begin(&mut self, slots: u32);

    /// A copy is used.
    fn hit(&mut self, slot: Slot, of: Access);

    /// A read finds no copy of a unit.
    fn read_miss(&mut self, unit: u64, of: Access) -> Fill;

    /// A write finds no copy of a unit.
    fn write_miss(&mut self, unit: u64, of: Access) -> Put;

    /// Takes at least so many free slots for new copies, or as many as there are. The last one is used first.
    fn take(&mut self, want: usize, free: &Free<'_>) -> Vec<Slot> {
        free.any(want.max(TAKEN))
    }

    /// A request of a client goes home.
    fn home_begins(&mut self) {}

    /// It has ended.
    fn home_ended(&mut self) {}

    /// The copy that makes room: none that `lines` holds. It is not asked about again.
    fn victim(&mut self, lines: &dyn Lines) -> Option<Slot>;

    /// A unit has its copy in a slot now.
    fn placed(&mut self, unit: u64, slot: Slot);

    /// The copy in a slot is gone without a choice of the director.
    fn removed(&mut self, slot: Slot);

    /// Adds up to `most` slots to `coldest`, those first that are needed last.
    fn coldest(&self, coldest: &mut Vec<Slot>, most: usize);

    /// Bytes of memory.
    fn bytes(&self) -> usize;
}
