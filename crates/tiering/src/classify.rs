//! Which requests are sequential.

/// A request that begins at most so far from a request before it is sequential, in bytes.
pub const WINDOW: u64 = 512 * 1024;

/// Most stream heads of a volume.
pub const HEADS_MAX: usize = 32;

/// Tells random requests of one volume from sequential ones.
///
/// A head is the address of the last request of a stream. A request within [`WINDOW`] of a head is sequential and moves
/// that head; another one is random and replaces the head that was used least recently. One head is the rule of the
/// source: the distance to the request before. More heads also see streams that are mixed. The first request is random.
#[derive(Debug, Clone)]
pub struct Classifier {
    /// Newest first.
    heads: Vec<u64>,
    heads_max: usize,
}

impl Classifier {
    /// With so many heads.
    ///
    /// # Panics
    /// If these are none, or more than [`HEADS_MAX`].
    pub fn new(heads: usize) -> Classifier {
        assert!((1..=HEADS_MAX).contains(&heads), "a volume has 1 to {HEADS_MAX} stream heads, not {heads}");
        Classifier { heads: Vec::with_capacity(heads), heads_max: heads }
    }

    /// Whether a request at this address, in bytes, is random. It joins the heads.
    #[inline]
    pub fn is_random(&mut self, address: u64) -> bool {
        let near = self.heads.iter().position(|head| head.abs_diff(address) <= WINDOW);
        match near {
            Some(at) => self.heads[..=at].rotate_right(1),
            None if self.heads.len() < self.heads_max => self.heads.insert(0, address),
            None => self.heads.rotate_right(1),
        }
        self.heads[0] = address;
        near.is_none()
    }
}
