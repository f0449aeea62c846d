//! Requests of guests as requests to a device. Payload is copied here, once for each byte, and counted.

use esker_base::ByteRange;
use esker_block::{Bio, BioError, Buf, OpKind, Tag};

use crate::chain::Chain;
use crate::disk::{Disk, count};
use crate::guest::Guest;
use crate::request::{DATA_AT, Request, Status};

/// Payload is moved in pieces of this size, so that no request holds more memory.
const PIECE_BYTES: u64 = 1 << 20;

/// What a request needs to be carried out.
pub(crate) struct Executor<'a> {
    pub disk: &'a Disk,
    pub memory: &'a Guest,
    pub chain: &'a Chain,
    /// The guest never flushes: whatever is answered must be durable.
    pub forced: bool,
    /// The ring, for attribution below.
    pub tag: Tag,
}

impl Executor<'_> {
    /// Carries out `request`; tells its status and how many data bytes the guest was given.
    pub(crate) async fn run(&self, request: Request) -> (Status, u32) {
        let mut given = 0;
        let done = match request {
            Request::Read(range) => self.read(range, &mut given).await,
            Request::Write(range) => self.write(range).await,
            Request::Flush => self.submit(Bio::flush()).await.map(drop),
            Request::Serial => self.serial(&mut given),
            Request::Discard(ranges) => self.discard(&ranges).await,
            Request::Zero(ranges) => {
                let bios = ranges.iter().filter(|zeroes| !zeroes.range.is_empty()).map(|zeroes| {
                    let mut bio = Bio::zero(zeroes.range.start(), zeroes.range.len());
                    (bio.flags.fua, bio.flags.no_unmap) = (self.forced, zeroes.keep);
                    bio
                });
                self.one_by_one(bios.collect()).await
            }
        };
        (done.err().unwrap_or(Status::Ok), u32::try_from(given).unwrap_or(u32::MAX))
    }

    async fn read(&self, range: ByteRange, given: &mut u64) -> Result<(), Status> {
        for piece in self.pieces(range) {
            let _room = self.room(piece.len()).await;
            let buf = Buf::unique(&self.disk.pool, piece.len() as usize);
            let buf = self.submit(Bio::read(piece.start(), buf)).await?;
            let (mut at, mut copied) = (piece.start() - range.start(), Ok(()));
            buf.for_each_piece(&mut |bytes| {
                copied = copied.and_then(|()| self.chain.writable.write(self.memory, at, bytes));
                at += bytes.len() as u64;
            });
            copied.map_err(|_| Status::Io)?;
            *given += piece.len();
            self.copied(piece.len());
        }
        Ok(())
    }

    async fn write(&self, range: ByteRange) -> Result<(), Status> {
        for piece in self.pieces(range) {
            let _room = self.room(piece.len()).await;
            let mut buf = Buf::unique(&self.disk.pool, piece.len() as usize);
            let from = DATA_AT + piece.start() - range.start();
            let bytes = buf.bytes_mut().expect("just made unique");
            self.chain.readable.read(self.memory, from, bytes).map_err(|_| Status::Io)?;
            if self.memory.is_lost() {
                // The guest did not write these zeroes.
                return Err(Status::Io);
            }
            self.copied(piece.len());
            let mut bio = Bio::write(piece.start(), buf);
            bio.flags.fua = self.forced;
            self.submit(bio).await?;
        }
        Ok(())
    }

    fn serial(&self, given: &mut u64) -> Result<(), Status> {
        let serial = self.disk.serial();
        *given = serial.len() as u64;
        self.chain.writable.write(self.memory, 0, &serial).map_err(|_| Status::Io)
    }

    async fn discard(&self, ranges: &[ByteRange]) -> Result<(), Status> {
        let bios = ranges.iter().filter(|range| !range.is_empty());
        self.one_by_one(bios.map(|range| Bio::discard(range.start(), range.len())).collect()).await?;
        // A hint has no durability of its own.
        if self.forced { self.submit(Bio::flush()).await.map(drop) } else { Ok(()) }
    }

    async fn one_by_one(&self, bios: Vec<Bio>) -> Result<(), Status> {
        for bio in bios {
            self.submit(bio).await?;
        }
        Ok(())
    }

    fn copied(&self, bytes: u64) {
        self.disk.pool.note_bounce(bytes as usize);
        count(&self.disk.counters.copied_bytes, bytes);
    }

    fn pieces(&self, range: ByteRange) -> impl Iterator<Item = ByteRange> {
        range.split_at_multiples(PIECE_BYTES.min(u64::from(self.disk.limits().transfer_max)))
    }

    /// Waits until `bytes` of payload may be held.
    async fn room(&self, bytes: u64) -> Room<'_> {
        let bytes = bytes.min(self.disk.config.payload_bytes_max);
        self.disk.payload.take(bytes).await;
        Room { disk: self.disk, bytes }
    }

    async fn submit(&self, bio: Bio) -> Result<Buf, Status> {
        let done = self.disk.device.submit(bio.tagged(self.tag)).await;
        match done.result {
            Ok(_) => Ok(done.buf),
            Err(BioError::Unsupported(OpKind::Discard | OpKind::Zero)) => Err(Status::Unsupported),
            Err(_) => Err(Status::Io),
        }
    }
}

/// Room for payload; given back when dropped.
struct Room<'a> {
    disk: &'a Disk,
    bytes: u64,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.disk.payload.give(self.bytes);
    }
}
