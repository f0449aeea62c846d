//! Framing of media: a damaged superblock, page or log is refused, and what is accepted is written back alike.

use std::ops::RangeInclusive;

use esker_framing::{
    Epochs, Features, HEADER, Header, LogCursor, Newest, Next, Page, PageId, Record, SLOT, Superblock, newest, seal,
    slots, unseal,
};

/// Bytes of a record's unit.
const UNIT: usize = 512;
/// Bytes of the page behind the slots.
const PAGE: usize = 512;
const WANTED: PageId = PageId { id: 77, place: 3, generations: 1..=9, kind: 2 };
const EPOCHS: Epochs = Epochs { now: 4, since: 0, rise: true };

/// A superblock with any body.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Any<const DETECTS_STALE: bool> {
    header: Header,
    body: Vec<u8>,
}

impl<const DETECTS_STALE: bool> Superblock for Any<DETECTS_STALE> {
    const MAGIC: [u8; 8] = *b"\x89EskFuz\n";
    const VERSION: u16 = 2;
    const KNOWN: Features = Features { compatible: 1, read_only: 1, incompatible: 1 };
    const DETECTS_STALE: bool = DETECTS_STALE;
    const NAME: &'static str = "a fuzzer";
    const LENGTHS: RangeInclusive<usize> = HEADER..=SLOT;

    fn header(&self) -> Header {
        self.header
    }

    fn encode_body(&self) -> Vec<u8> {
        self.body.clone()
    }

    fn decode_body(header: &Header, body: &[u8]) -> Result<Self, &'static str> {
        Ok(Any { header: *header, body: body.to_vec() })
    }
}

fn superblock(generation: u64, len: usize) -> Vec<u8> {
    let header = Header { id: 77, generation, features: Features { read_only: 1, ..Features::NONE } };
    let mut bytes = seal(&Any::<true> { header, body: vec![generation as u8; len] });
    bytes.resize(SLOT, 0);
    bytes
}

/// Two slots, a page and a log.
pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let mut page = vec![0; PAGE];
    Page { id: 77, place: 3, generation: 5, kind: 2, payload: b"a page" }.seal(&mut page);
    let record = |number: u64| {
        let position = number * UNIT as u64;
        Record { log: 77, epoch: 4, number, position, durable: number / 2, kind: 1, payload: b"a change" }.seal(UNIT)
    };
    let rest = [page, (0..6).flat_map(record).collect()].concat();
    let blank = vec![0; SLOT];
    vec![
        [superblock(4, 40), superblock(3, 40), rest.clone()].concat(),
        [blank.clone(), superblock(5, 3000), rest.clone()].concat(),
        [blank.clone(), blank, rest].concat(),
    ]
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let start = slots(input);
    let accepted = [try_slots::<true>(start)?, try_slots::<false>(start)?];
    if accepted[1] && !accepted[0] {
        return Err("a format that detects stale superblocks refused what another accepted".to_string());
    }
    let rest = input.get(2 * SLOT..).unwrap_or_default();
    let (page, log) = rest.split_at(rest.len().min(PAGE));
    Ok(try_page(page)? | try_log(log)? | accepted[0])
}

fn try_slots<const DETECTS_STALE: bool>(start: [&[u8]; 2]) -> Result<bool, String> {
    let sound = start.map(|slot| unseal::<Any<DETECTS_STALE>>(slot).ok());
    for found in sound.iter().flatten() {
        if unseal(&seal(&found.superblock)).as_ref() != Ok(found) {
            return Err("a superblock reads back as another one".to_string());
        }
    }
    match newest::<Any<DETECTS_STALE>>(&[start]) {
        Ok(Newest { header, .. }) => {
            let highest = sound.iter().flatten().map(|found| found.header.generation).max();
            match highest == Some(header.generation) {
                true => Ok(true),
                false => Err("an older superblock counts".to_string()),
            }
        }
        Err(error) if error.to_string().is_empty() => Err("refused without a reason".to_string()),
        Err(_) => Ok(false),
    }
}

fn try_page(bytes: &[u8]) -> Result<bool, String> {
    let Ok(page) = Page::unseal(bytes, &WANTED) else { return Ok(false) };
    let mut again = vec![0; bytes.len()];
    page.seal(&mut again);
    match Page::unseal(&again, &WANTED) == Ok(page) {
        true => Ok(true),
        false => Err("a page reads back as another one".to_string()),
    }
}

fn try_log(bytes: &[u8]) -> Result<bool, String> {
    let mut cursor = LogCursor::new(77, EPOCHS, 0, 0, 0);
    let (mut at, mut number) = (0, 0);
    while let Next::Record(record) = cursor.next(bytes.get(at..).unwrap_or_default(), UNIT) {
        let sealed = record.seal(UNIT);
        if Record::unseal(&sealed) != Some(record) || record.number != number {
            return Err(format!("record {number} reads back as another one"));
        }
        (at, number) = (at + sealed.len(), number + 1);
        cursor.advance(number, at as u64);
    }
    Ok(number > 0)
}
