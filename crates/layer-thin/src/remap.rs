//! What the manager needs of the device whose logical space the volumes divide.

use std::future::Future;
use std::ops::Range;
use std::rc::Rc;

use esker_block::{Below, Bio, BioError, Buf, Class, Done, Tag};
use esker_rt::Rt;
use esker_rt::mem::Pool;

/// Logical blocks of such a device.
pub const LOGICAL_BLOCKS: u64 = 1 << 48;

/// The tag of the catalogue's requests.
pub(crate) const METADATA: Tag = Tag::of(Class::Metadata);

/// A device with [`LOGICAL_BLOCKS`] whose mapping changes by range vectors: each takes effect as a whole or not at all,
/// and is durable when it is answered.
pub trait Remap: 'static {
    /// Its name in the stack.
    fn name(&self) -> &str;

    /// Its world.
    fn rt(&self) -> &Rt;

    /// Memory for requests.
    fn pool(&self) -> &Pool;

    /// The number that marks its medium.
    fn identity(&self) -> u128;

    /// Bytes of a block.
    fn block(&self) -> u32;

    /// The number of the next change. Each change has a higher one than those before it, also after a restart.
    fn next_number(&self) -> u64;

    /// Most bytes of a write.
    fn write_max(&self) -> u64;

    /// What `to` maps, or with `base` where it maps other blocks than as many blocks from `base` on. Tells nothing of
    /// blocks that are surely equal. In order; looks at a bounded number of mappings, and says where to go on if there
    /// are more.
    fn changes(&self, to: Range<u64>, base: Option<u64>) -> (Vec<Changed>, Option<u64>);

    /// The first run of mapped logical blocks in a range.
    fn first_mapped(&self, blocks: Range<u64>) -> Option<Range<u64>>;

    /// Answers a request of whole blocks that changes something, such as a range vector.
    fn change(self: Rc<Self>, below: Below, bio: Bio) -> impl Future<Output = Done>;

    /// Reads blocks.
    ///
    /// # Errors
    /// What the device below answers.
    fn read_blocks(
        self: &Rc<Self>,
        below: &Below,
        blocks: Range<u64>,
        tag: Tag,
    ) -> impl Future<Output = Result<Buf, BioError>>;

    /// Clones `len` blocks from `src` to `dst` if both hold the same bytes, with nothing between comparison and clone.
    ///
    /// # Errors
    /// Ranges that overlap or leave the device; what the device below answers; no space.
    fn compare_and_clone(
        self: &Rc<Self>,
        below: &Below,
        src: u64,
        dst: u64,
        len: u64,
        tag: Tag,
    ) -> impl Future<Output = Result<Compared, BioError>>;

    /// Bytes that the last writes wrote below for each byte of data; 0 if there were none.
    fn write_amplification(&self) -> f64;

    /// How many blocks are mapped, and what each of these ranges takes, which do not overlap.
    fn measure(&self, volumes: Vec<Range<u64>>) -> impl Future<Output = (u64, Spaces)>;
}

/// A run of blocks that are mapped otherwise than those of a base.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changed {
    /// The blocks.
    pub blocks: Range<u64>,
    /// Whether they are mapped: if not, they read as zeroes.
    pub is_mapped: bool,
}

/// What came of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compared {
    /// They held the same bytes and share them now.
    Cloned,
    /// They shared every block already.
    Shared,
    /// They differ.
    Different,
}

/// What one volume takes, in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Space {
    /// Logical blocks that are mapped.
    pub apparent: u64,
    /// Physical blocks that no other volume uses: what is won when it is deleted.
    pub exclusive: u64,
    /// Physical blocks that another volume uses too.
    pub shared: u64,
}

/// What all volumes take.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Spaces {
    /// Each volume, in the order in which their ranges were given.
    pub each: Vec<Space>,
    /// Physical blocks that any of them uses.
    pub used: u64,
}
