//! Logs of off-loaded writes: what is read is sound, and reading ends.

use esker_base::ByteRange;
use esker_layer_offload::check;
use esker_layer_offload::format::{AREA_START, Content, Record, SLOT, place};
use esker_layer_offload::superblock::Superblock;

const AREA: u64 = 8192;

fn superblock() -> Superblock {
    let mut superblock = Superblock::new(77, 64 << 10, AREA, 512);
    (superblock.sequence, superblock.epoch) = (3, 2);
    superblock
}

/// A log of these contents, each of one block, in records one after the other.
fn log(superblock: &Superblock, contents: &[Content]) -> Vec<u8> {
    let mut bytes = vec![0; (AREA_START + AREA) as usize];
    let slot = (superblock.sequence % 2 * SLOT) as usize;
    bytes[slot..][..512].copy_from_slice(&superblock.encode());
    let mut position = superblock.first;
    for (number, content) in (superblock.number..).zip(contents) {
        let range = match content {
            Content::Skip => ByteRange::new(0, 0),
            _ => ByteRange::new(number * 512, 512),
        };
        let range = range.expect("a small number");
        let record = Record {
            number,
            epoch: superblock.epoch,
            position,
            range,
            content: *content,
            durable: superblock.durable.min(number),
        };
        let at = place(superblock, position) as usize;
        bytes[at..][..512].copy_from_slice(&record.encode(superblock));
        position = record.end(superblock);
    }
    bytes
}

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    // The payload of each record is zeroes.
    let data = Content::Data(crc32fast::hash(&[0; 512]));
    let zeroes = Content::Zeroes { no_unmap: true };
    let short = superblock();
    let mut late = superblock();
    (late.first, late.number, late.since, late.durable) = (3 * AREA - 2048, 40, 40, 41);
    vec![log(&short, &[data, zeroes, data]), log(&late, &[data, Content::Skip, zeroes, data]), vec![0; 9000]]
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let mut reads = 0u64;
    let verdict = check::check(&mut |at, out| {
        reads += 1;
        // What an input lacks is zero.
        let rest = input.get(at as usize..).unwrap_or(&[]);
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        out[len..].fill(0);
        Ok(())
    });
    if reads > input.len() as u64 + 10 {
        return Err(format!("{reads} reads of {} bytes", input.len()));
    }
    match verdict {
        Err(error) if error.to_string().is_empty() => Err("refused without a reason".to_string()),
        Err(_) => Ok(false),
        Ok(verdict) => sound(&verdict).map(|()| true),
    }
}

fn sound(verdict: &check::Verdict) -> Result<(), String> {
    let superblock = &verdict.superblock;
    let mut position = superblock.first;
    for (number, record) in (superblock.number..).zip(&verdict.records) {
        if (record.number, record.position) != (number, position) {
            return Err(format!("record {number} is not behind the one before"));
        }
        if record.range.end() > superblock.home || record.end(superblock) - superblock.first > superblock.area {
            return Err(format!("record {number} leaves the volume or its log"));
        }
        position = record.end(superblock);
    }
    let volume = verdict.records.iter().map(|record| record.range.len()).sum::<u64>();
    match verdict.newest <= volume {
        true => Ok(()),
        false => Err("more is newest than was written".to_string()),
    }
}
