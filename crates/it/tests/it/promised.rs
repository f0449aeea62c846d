//! A load on an export whose server is killed, and what the next server must give back. Each sector holds a whole
//! version. It is no older than the last one that a flush covered, and no newer than the last one that was sent.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_base::{ByteRange, Stream as Random};
use esker_front_nbd::Client;
use esker_front_nbd::client::Fault;
use esker_rt::mem::Slice;
use esker_rt::sync::join_all;

/// What no write is torn below.
const SECTOR: usize = 512;
/// Of so many steps of a writer one is a flush, and some are reads.
const STEPS: u64 = 10;
const READS: std::ops::Range<u64> = 1..3;

/// Versions of one block: the last that a flush covered, the last that was answered, the last that was sent.
#[derive(Clone, Copy, Default, Debug)]
struct Versions {
    durable: u64,
    answered: u64,
    sent: u64,
}

/// The connection was lost.
#[derive(Debug)]
struct Lost;

/// No server refuses a request of the load.
fn lost(fault: Fault) -> Lost {
    match fault {
        Fault::Server(_) => panic!("a request was refused: {fault}"),
        _ => Lost,
    }
}

/// What a load was promised, block by block.
pub struct Promised {
    blocks: RefCell<Vec<Versions>>,
    /// Bytes of a block.
    len: u64,
    writers: u64,
    /// Blocks that were read and compared.
    checks: Cell<u64>,
    /// Writes that a flush covered.
    flushed: Cell<u64>,
}

impl Promised {
    /// For the first blocks of an export, and a load of so many writers.
    pub fn new(blocks: u64, len: u64, writers: u64) -> Rc<Promised> {
        let blocks = RefCell::new(vec![Versions::default(); blocks as usize]);
        Rc::new(Promised { blocks, len, writers, checks: Cell::new(0), flushed: Cell::new(0) })
    }

    /// Blocks that were read and compared.
    pub fn checks(&self) -> u64 {
        self.checks.get()
    }

    /// Writes that a flush covered, without those of [`Promised::fill`].
    pub fn flushed(&self) -> u64 {
        self.flushed.get()
    }

    fn count(&self) -> u64 {
        self.blocks.borrow().len() as u64
    }

    fn range(&self, block: u64) -> ByteRange {
        ByteRange::new(block * self.len, self.len).unwrap()
    }

    /// The content of a block in this version.
    fn content(&self, block: u64, version: u64) -> Vec<u8> {
        let mut bytes = vec![0; self.len as usize];
        Random::named(version, &format!("block {block}")).fill(&mut bytes);
        bytes
    }

    /// Writes every block, durably.
    pub async fn fill(&self, client: &Client) {
        for block in 0..self.count() {
            self.write(client, block).await.unwrap();
        }
        client.flush().await.unwrap();
        self.blocks.borrow_mut().iter_mut().for_each(|versions| versions.durable = versions.sent);
    }

    /// Checks every block after a kill. What is there now may still be lost until the next flush; what was sent and is
    /// not there never comes.
    pub async fn judge(&self, client: &Client, when: &str) {
        join_all((0..self.writers).map(|writer| async move {
            for block in (writer..self.count()).step_by(self.writers as usize) {
                let Versions { durable, .. } = self.versions(block);
                let oldest = self.check(client, block, durable, when).await.unwrap();
                self.blocks.borrow_mut()[block as usize].answered = oldest;
            }
        }))
        .await;
    }

    /// Reads a block, and gives the oldest version in it. No request to it is under way.
    async fn check(&self, client: &Client, block: u64, oldest: u64, when: &str) -> Result<u64, Lost> {
        let found = client.read(self.range(block)).await.map_err(lost)?;
        let versions = self.versions(block);
        let contents: Vec<(u64, Vec<u8>)> =
            (oldest..=versions.sent).map(|version| (version, self.content(block, version))).collect();
        let version_at = |sector: usize| {
            let at = sector * SECTOR..(sector + 1) * SECTOR;
            let known = contents.iter().find(|(_, content)| content[at.clone()] == found[at.clone()]);
            known.unwrap_or_else(|| panic!("{when}: sector {sector} of block {block} lost {versions:?}")).0
        };
        self.checks.set(self.checks.get() + 1);
        Ok((0..self.len as usize / SECTOR).map(version_at).min().expect("a block has sectors"))
    }

    fn versions(&self, block: u64) -> Versions {
        self.blocks.borrow()[block as usize]
    }

    async fn write(&self, client: &Client, block: u64) -> Result<(), Lost> {
        let version = self.versions(block).sent + 1;
        self.blocks.borrow_mut()[block as usize].sent = version;
        let bytes = Slice::heap(self.content(block, version));
        client.write(self.range(block).start(), bytes, false).await.map_err(lost)?;
        self.blocks.borrow_mut()[block as usize].answered = version;
        Ok(())
    }

    async fn flush(&self, client: &Client) -> Result<(), Lost> {
        let covered: Vec<u64> = self.blocks.borrow().iter().map(|versions| versions.answered).collect();
        client.flush().await.map_err(lost)?;
        for (versions, covered) in self.blocks.borrow_mut().iter_mut().zip(covered) {
            if covered > versions.durable {
                versions.durable = covered;
                self.flushed.set(self.flushed.get() + 1);
            }
        }
        Ok(())
    }

    /// Writes, reads and flushes until the server dies. Each writer has blocks of its own.
    pub async fn load(&self, client: &Client, seed: u64) {
        let writers = (0..self.writers).map(|writer| {
            let random = Random::named(seed, &format!("writer {writer}"));
            self.until_it_dies(client, writer, random)
        });
        join_all(writers).await;
    }

    async fn until_it_dies(&self, client: &Client, writer: u64, mut random: Random) {
        let own = (self.count() - writer).div_ceil(self.writers);
        loop {
            let block = random.below(own) * self.writers + writer;
            let went = match random.below(STEPS) {
                0 => self.flush(client).await,
                choice if READS.contains(&choice) => {
                    let answered = self.versions(block).answered;
                    self.check(client, block, answered, "under load").await.map(drop)
                }
                _ => self.write(client, block).await,
            };
            if went.is_err() {
                return;
            }
        }
    }
}
