//! What a client was promised, sector by sector: which writes were sent, answered, and covered by an answered flush.
//! After a kill each sector must hold, whole, a write that is no older than what was promised for it.

use std::fmt;
use std::ops::Range;

use esker_base::digest::mix;

/// What no write is torn below.
const SECTOR: usize = 512;
const WORDS: usize = SECTOR / 8;

/// A write under way. Writes under way never overlap, so the versions of a sector are ordered by time.
#[derive(Clone, Copy)]
pub struct Write {
    sector: usize,
    count: usize,
    version: u64,
}

/// A sector that holds less than was promised.
pub struct Lost {
    sector: usize,
    promised: u64,
    sent: u64,
    found: u64,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lost { sector, promised, sent, found } = self;
        write!(
            f,
            "sector {sector}: write {promised} was promised and {sent} sent last, but it holds {found:#x} or a mix"
        )
    }
}

/// The book of one export.
pub struct Ledger {
    /// The last write sent to each sector; 0 is what the export began with, zeroes.
    sent: Vec<u64>,
    /// The last write of each sector that must survive.
    promised: Vec<u64>,
    /// The last write of each sector that was answered, by the server that lives.
    current: Vec<u64>,
    /// The writes of each sector that wrote zeroes, in their order.
    zeroed: Vec<Vec<u64>>,
    /// The last write of each sector before a trim, plus one; until a later write, anything may be there.
    trimmed: Vec<u64>,
    /// Answered writes that no flush covers yet, and how many were covered before them.
    answered: Vec<Write>,
    covered: usize,
    version: u64,
    /// Writes that were promised to survive, in all.
    pub promises: u64,
}

impl Ledger {
    /// For an export of `bytes` zeroes.
    pub fn new(bytes: u64) -> Ledger {
        let sectors = bytes as usize / SECTOR;
        let none = vec![0; sectors];
        Ledger {
            sent: none.clone(),
            promised: none.clone(),
            current: none.clone(),
            zeroed: vec![vec![0]; sectors],
            trimmed: none,
            answered: Vec::new(),
            covered: 0,
            version: 0,
            promises: 0,
        }
    }

    /// Bytes of the export.
    pub fn bytes(&self) -> u64 {
        (self.sent.len() * SECTOR) as u64
    }

    /// Notes that a write of `len` bytes at `at` is sent, and gives its content.
    pub fn send(&mut self, at: u64, len: usize) -> (Write, Vec<u8>) {
        let write = self.begin(at, len);
        (write, write.sectors().flat_map(|sector| content(sector, write.version)).collect())
    }

    /// Notes that `len` bytes of zeroes at `at` are sent.
    pub fn send_zeroes(&mut self, at: u64, len: usize) -> Write {
        let write = self.begin(at, len);
        self.zeroed[write.sectors()].iter_mut().for_each(|zeroed| zeroed.push(write.version));
        write
    }

    /// Notes that a trim of `len` bytes at `at` is sent.
    pub fn trim(&mut self, at: u64, len: usize) {
        let trim = self.begin(at, len);
        self.trimmed[trim.sectors()].fill(trim.version);
    }

    fn begin(&mut self, at: u64, len: usize) -> Write {
        self.version += 1;
        let write = Write { sector: at as usize / SECTOR, count: len / SECTOR, version: self.version };
        self.sent[write.sectors()].fill(write.version);
        write
    }

    /// Notes that a write was answered; `durable` says whether it had FUA.
    pub fn answer(&mut self, write: Write, durable: bool) {
        self.current[write.sectors()].fill(write.version);
        match durable {
            true => self.promise(write),
            false => self.answered.push(write),
        }
    }

    /// A flush begins: it covers what is answered now.
    pub fn flush_begins(&self) -> usize {
        self.covered + self.answered.len()
    }

    /// The flush that began so was answered.
    pub fn flush_ends(&mut self, begun: usize) {
        let count = begun.saturating_sub(self.covered);
        let kept = self.answered.drain(..count).collect::<Vec<_>>();
        self.covered += count;
        kept.into_iter().for_each(|write| self.promise(write));
    }

    fn promise(&mut self, write: Write) {
        let promised = &mut self.promised[write.sectors()];
        promised.iter_mut().for_each(|version| *version = write.version.max(*version));
        self.promises += 1;
    }

    /// Checks what a server that was started anew gives back for the bytes at `at`, which is what its successor must
    /// give back at least; the sectors that hold something else.
    pub fn check(&mut self, at: u64, bytes: &[u8]) -> Vec<Lost> {
        let mut lost = Vec::new();
        for (sector, found) in sectors(at, bytes) {
            let promised = self.promised[sector];
            match self.find(sector, found, promised) {
                Ok(version) => (self.promised[sector], self.current[sector]) = (version, version),
                Err(_) if self.trimmed[sector] > promised => self.current[sector] = promised,
                Err(other) => lost.push(other),
            }
        }
        lost
    }

    /// Checks what the living server gives back for the bytes at `at`, to which no write is under way.
    pub fn check_answered(&self, at: u64, bytes: &[u8]) -> Vec<Lost> {
        let wrong = |(sector, found)| {
            let current = self.current[sector];
            self.find(sector, found, current).err().filter(|_| self.trimmed[sector] <= current)
        };
        sectors(at, bytes).filter_map(wrong).collect()
    }

    /// The write that a sector holds, if it is none older than `oldest`.
    fn find(&self, sector: usize, found: &[u8], oldest: u64) -> Result<u64, Lost> {
        let told = u64::from_le_bytes(std::array::from_fn(|i| found[i]));
        let sent = self.sent[sector];
        let version = match found.iter().all(|byte| *byte == 0) {
            true => self.zeroed[sector].iter().copied().find(|version| *version >= oldest),
            false => Some(told).filter(|told| found == content(sector, *told)),
        };
        version.filter(|version| (oldest..=sent).contains(version)).ok_or(Lost {
            sector,
            promised: oldest,
            sent,
            found: told,
        })
    }

    /// The server is gone: what was answered and not flushed is not promised any more.
    pub fn server_died(&mut self) {
        self.covered += self.answered.len();
        self.answered.clear();
    }
}

impl Write {
    fn sectors(self) -> Range<usize> {
        self.sector..self.sector + self.count
    }
}

/// The sectors of `bytes`, which lie at `at`, with their numbers.
fn sectors(at: u64, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    bytes.chunks_exact(SECTOR).enumerate().map(move |(index, found)| (at as usize / SECTOR + index, found))
}

/// What `version` writes to `sector`; its own version comes first.
fn content(sector: usize, version: u64) -> Vec<u8> {
    let word = |index: usize| match (version, index) {
        (0, _) => 0,
        (_, 0) => version,
        _ => mix(version ^ mix((sector * WORDS + index) as u64)),
    };
    (0..WORDS).flat_map(|index| word(index).to_le_bytes()).collect()
}

fn check(disk: &[u8], book: &mut Ledger) -> bool {
    book.check(0, disk).is_empty()
}

#[test]
fn a_promise_is_kept_by_the_write_or_a_later_one_and_by_nothing_else() {
    let mut book = Ledger::new(2048);
    assert!(check(&[0; 2048], &mut book), "an export begins with zeroes");
    let (first, old) = book.send(0, 1024);
    book.answer(first, false);
    let mut disk = [&old[..], &[0; 1024]].concat();
    assert!(check(&[0; 2048], &mut Ledger::new(2048)) && book.check(1024, &disk[1024..]).is_empty());
    let begun = book.flush_begins();
    let (second, new) = book.send(0, 512);
    book.answer(second, false);
    book.flush_ends(begun);
    assert!(!check(&[0; 2048], &mut book), "the first write was flushed");
    assert!(check(&disk, &mut book), "the second was answered after the flush began");
    disk[..512].copy_from_slice(&new);
    assert!(check(&disk, &mut book), "or it is there all the same");
    disk[..512].copy_from_slice(&old[..512]);
    assert!(!check(&disk, &mut book), "what was there once stays");
    disk[..512].copy_from_slice(&new);
    disk[300] ^= 1;
    assert!(!check(&disk, &mut book), "a sector is whole");
    disk[300] ^= 1;
    disk.copy_within(512..1024, 1024);
    assert!(!check(&disk, &mut book), "a sector of another place is no content");
}

#[test]
fn what_a_dead_server_answered_without_a_flush_is_not_promised_by_the_next_flush() {
    let mut book = Ledger::new(512);
    let (write, _) = book.send(0, 512);
    book.answer(write, false);
    book.server_died();
    book.flush_ends(book.flush_begins());
    assert!(check(&[0; 512], &mut book));
    let (forced, bytes) = book.send(0, 512);
    book.answer(forced, true);
    assert!(!check(&[0; 512], &mut book) && check(&bytes, &mut book));
}

#[test]
fn zeroes_are_a_write_as_others_and_a_trim_ends_what_was_promised() {
    let mut book = Ledger::new(512);
    let (write, bytes) = book.send(0, 512);
    book.answer(write, true);
    assert_eq!(book.check_answered(0, &[0; 512]).len(), 1, "zeroes were there before");
    let zeroes = book.send_zeroes(0, 512);
    assert!(check(&[0; 512], &mut Ledger::new(512)) && book.check_answered(0, &bytes).is_empty(), "not answered yet");
    book.answer(zeroes, true);
    assert!(!check(&bytes, &mut book) && check(&[0; 512], &mut book));
    book.trim(0, 512);
    assert!(check(&[7; 512], &mut book) && book.check_answered(0, &bytes).is_empty(), "anything may be there");
    let (last, bytes) = book.send(0, 512);
    book.answer(last, true);
    assert!(check(&bytes, &mut book) && !check(&[7; 512], &mut book));
}
