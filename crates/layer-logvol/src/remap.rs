//! The volume as what a manager of thin volumes stands on.

use std::ops::Range;
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{Below, Bio, BioError, Buf, Done, Tag};
use esker_layer_thin::{Changed, Compared, Remap, Spaces};
use esker_rt::Rt;
use esker_rt::mem::Pool;

use crate::space::measure;
use crate::volume::Volume;

/// Bytes of memory that a measurement of space may take.
const SPACE_MEMORY: u64 = 64 << 20;
/// Mappings that one look at the map passes over: a few milliseconds.
const LOOKS: usize = 1 << 16;
/// CPU time of one mapping, charged in virtual time: an estimate for a walk and a word of memory.
const MAPPING_COST: Nanos = Nanos(20);

impl Remap for Volume {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn rt(&self) -> &Rt {
        self.rt()
    }

    fn pool(&self) -> &Pool {
        self.pool()
    }

    fn identity(&self) -> u128 {
        self.identity
    }

    fn block(&self) -> u32 {
        self.geometry.block
    }

    fn next_number(&self) -> u64 {
        self.log.borrow().seq
    }

    fn write_max(&self) -> u64 {
        self.config.request_max(&self.geometry, self.geometry.block)
    }

    fn changes(&self, to: Range<u64>, base: Option<u64>) -> (Vec<Changed>, Option<u64>) {
        self.map.borrow().changed(to, base, LOOKS)
    }

    fn first_mapped(&self, blocks: Range<u64>) -> Option<Range<u64>> {
        self.map.borrow().pieces(blocks).next().map(|piece| piece.range())
    }

    async fn change(self: Rc<Self>, below: Below, bio: Bio) -> Done {
        self.change(below, bio).await
    }

    async fn read_blocks(self: &Rc<Self>, below: &Below, blocks: Range<u64>, tag: Tag) -> Result<Buf, BioError> {
        self.read_blocks(below, blocks, tag).await
    }

    async fn compare_and_clone(
        self: &Rc<Self>,
        below: &Below,
        src: u64,
        dst: u64,
        len: u64,
        tag: Tag,
    ) -> Result<Compared, BioError> {
        self.compare_and_clone(below, src, dst, len, tag).await
    }

    fn write_amplification(&self) -> f64 {
        self.amplification()
    }

    /// Passes over a snapshot of the map, away from the reactor.
    async fn measure(&self, volumes: Vec<Range<u64>>) -> (u64, Spaces) {
        let (map, physical) = (self.snapshot(), self.geometry.blocks());
        let (mapped, mappings) = (map.blocks(), map.mappings());
        let work = move || measure(&map, &volumes, physical, SPACE_MEMORY);
        (mapped, self.rt().worker(MAPPING_COST * mappings, work).await)
    }
}
