//! One batch of moves: read in order, written in order, each with as few requests as the order allows.

use std::collections::BTreeMap;

use esker_block::{Bio, BioError, Buf};

use super::order::runs;
use super::{Move, Moved, Report, Settings};
use crate::io::Io;
use esker_block::split::LowerAddress;

/// Bytes of one request at most; larger ones gain nothing.
const REQUEST_MAX: u64 = 1 << 20;

/// Moves a batch; no other task touches its bytes. What fails is not moved. What was read is held by its destination,
/// because no two moves have one.
pub(super) async fn batch(io: &Io, settings: &Settings, mut batch: Vec<Move>, moved: Moved<'_>, report: &mut Report) {
    let mut failed = Vec::new();
    let mut held = read_all(io, settings, &mut batch, &mut failed, report).await;
    batch.retain(|one| held.contains_key(&one.to));
    write_all(io, settings, &mut batch, &mut held, &mut failed, report).await;
    if settings.durable {
        flush(io, &mut batch, &mut failed).await;
    }
    if !batch.is_empty() {
        match moved(io, &batch).await {
            Ok(()) => report.moved += batch.iter().map(|one| one.len).sum::<u64>(),
            Err(error) => failed.extend(batch.iter().map(|one| (*one, error.clone()))),
        }
    }
    report.failed.append(&mut failed);
}

type Failed = Vec<(Move, BioError)>;

/// Reads all sources, in order. What cannot be read together is read one by one, so that one bad sector costs one move.
async fn read_all(
    io: &Io,
    settings: &Settings,
    batch: &mut [Move],
    failed: &mut Failed,
    report: &mut Report,
) -> BTreeMap<LowerAddress, Buf> {
    let runs = runs(batch, |one| one.from, REQUEST_MAX);
    let request = |moves: &[Move]| {
        let len = moves.iter().map(|one| one.len).sum::<u64>();
        let buf = Buf::unique(io.pool(), len as usize);
        Bio::read(moves[0].from.at, buf).to(io.lower(moves[0].from.lower)).tagged(settings.tag)
    };
    let returned = io.all(runs.iter().map(|run| request(&batch[run.clone()])).collect(), settings.width).await;
    report.reads += returned.len() as u64;
    let mut held = BTreeMap::new();
    for (run, returned) in runs.into_iter().zip(returned) {
        let moves = &batch[run];
        match returned.result {
            Ok(_) => hand_out(&mut held, moves, returned.bio.buf),
            Err(error) if moves.len() == 1 => failed.push((moves[0], error)),
            Err(_) => {
                let alone = moves.iter().map(|one| request(std::slice::from_ref(one))).collect();
                for (one, returned) in moves.iter().zip(io.all(alone, settings.width).await) {
                    report.reads += 1;
                    match returned.result {
                        Ok(_) => drop(held.insert(one.to, returned.bio.buf)),
                        Err(error) => failed.push((*one, error)),
                    }
                }
            }
        }
    }
    held
}

fn hand_out(held: &mut BTreeMap<LowerAddress, Buf>, moves: &[Move], mut buf: Buf) {
    if let [one] = moves {
        held.insert(one.to, buf);
        return;
    }
    let mut at = 0;
    for one in moves {
        held.insert(one.to, buf.slice(at, one.len as usize));
        at += one.len as usize;
    }
}

/// Writes what was read to all destinations, in order. What fails leaves the batch.
async fn write_all(
    io: &Io,
    settings: &Settings,
    batch: &mut Vec<Move>,
    held: &mut BTreeMap<LowerAddress, Buf>,
    failed: &mut Failed,
    report: &mut Report,
) {
    let runs = runs(batch, |one| one.to, REQUEST_MAX);
    let mut request = |moves: &[Move]| {
        let bufs = moves.iter().map(|one| held.remove(&one.to).expect("only what was read is written")).collect();
        let first: LowerAddress = moves[0].to;
        Bio::write(first.at, Buf::chain(bufs)).to(io.lower(first.lower)).tagged(settings.tag)
    };
    let returned = io.all(runs.iter().map(|run| request(&batch[run.clone()])).collect(), settings.width).await;
    report.writes += returned.len() as u64;
    let before = failed.len();
    for (run, returned) in runs.into_iter().zip(returned) {
        if let Err(error) = returned.result {
            failed.extend(batch[run].iter().map(|one| (*one, error.clone())));
        }
    }
    let lost: Vec<Move> = failed[before..].iter().map(|(one, _)| *one).collect();
    batch.retain(|one| !lost.contains(one));
}

/// Makes the destinations durable; those that cannot be leave the batch.
async fn flush(io: &Io, batch: &mut Vec<Move>, failed: &mut Failed) {
    let mut lowers: Vec<usize> = batch.iter().map(|one| one.to.lower).collect();
    lowers.sort_unstable();
    lowers.dedup();
    for lower in lowers {
        if let Err(error) = io.flush(io.lower(lower)).await {
            let (lost, kept) = batch.drain(..).partition(|one| one.to.lower == lower);
            *batch = kept;
            let lost: Vec<Move> = lost;
            failed.extend(lost.into_iter().map(|one| (one, error.clone())));
        }
    }
}
