//! A guest's memory: whatever lies in its rings and requests, each is given back once, and the disk works afterwards.

use std::rc::Rc;
use std::sync::Arc;

use esker_base::Nanos;
use esker_dev::{Defer, Media, MemoryDevice};
use esker_front_vhost::ring::{Addresses, Ring};
use esker_front_vhost::{Config, Disk, Guest, Memory};
use esker_rt::mem::Pool;
use esker_rt::{Rt, Sim, SimConfig};
use vm_memory::{Bytes, GuestAddress};

const MEMORY_BYTES: usize = 64 << 10;
const DISK_BYTES: u64 = 32 << 10;
const RING_LEN: u16 = 8;
/// The input is the beginning of the memory: table, available ring, and behind them whatever requests refer to.
const AVAILABLE: u64 = 16 * RING_LEN as u64;
const FIRST: u64 = 256;
const USED: u64 = 0x4000;
const DATA: u32 = 0x5000;

fn descriptor(addr: u64, len: u32, flags: u16, next: u16) -> Vec<u8> {
    [&addr.to_le_bytes()[..], &len.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat()
}

fn header(kind: u32, sector: u64) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat()
}

/// Memory with one request whose descriptors begin at the table's first.
fn memory(table: &[Vec<u8>], rest: &[u8]) -> Vec<u8> {
    let mut bytes = table.concat();
    bytes.resize(AVAILABLE as usize, 0);
    // No flags, one head, which is 0.
    bytes.extend([0, 0, 1, 0]);
    bytes.resize(FIRST as usize, 0);
    bytes.extend(rest);
    bytes
}

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let status = descriptor(FIRST + 255, 1, 2, 0);
    let one = |kind, sector, data: Vec<u8>, rest: &[u8]| {
        let table = [descriptor(FIRST, 16, 1, 1), data, status.clone()];
        memory(&table, &[header(kind, sector), rest.to_vec()].concat())
    };
    let ranges = [header(0, 8), [&8u32.to_le_bytes()[..], &[0; 4]].concat()].concat();
    let inner = [descriptor(FIRST, 16, 1, 1), status.clone()].concat();
    vec![
        one(0, 3, descriptor(u64::from(DATA), 4096, 3, 2), &[]),
        one(1, 8, descriptor(u64::from(DATA), 1024, 1, 2), &[]),
        one(11, 0, descriptor(FIRST + 16, 16, 1, 2), &ranges),
        one(13, 0, descriptor(FIRST + 16, 16, 1, 2), &ranges),
        one(8, 0, descriptor(u64::from(DATA), 20, 3, 2), &[]),
        memory(&[descriptor(FIRST + 16, 32, 4, 0)], &[header(4, 0), inner].concat()),
    ]
}

/// Tries one input; accepted if the guest was given something back.
pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    let input = input[..input.len().min(USED as usize)].to_vec();
    sim.try_block_on(async move { serve(&rt, &input).await }).map_err(|halt| format!("a request was lost: {halt:?}"))?
}

async fn serve(rt: &Rt, input: &[u8]) -> Result<bool, String> {
    let device = MemoryDevice::over(rt, Media::new(DISK_BYTES), 512, Defer::Always(Nanos::micros(1)));
    let disk = Rc::new(Disk::new(rt, &Pool::default(), "fuzz", Rc::new(device), Config::tiny()));
    let memory = Memory::from_ranges(&[(GuestAddress(0), MEMORY_BYTES)]).map_err(|e| e.to_string())?;
    let guest = Arc::new(Guest::new(memory).map_err(|e| e.to_string())?);
    guest.write_slice(input, GuestAddress(0)).map_err(|e| e.to_string())?;
    let taken = run(&disk, &guest).await?;
    let answered = disk.counters.requests.get();
    // The head for which a ring is left alone is taken and not answered.
    if answered > taken || taken > answered + 1 {
        return Err(format!("{taken} heads were taken, {answered} given back"));
    }
    guest.write_slice(&[0; MEMORY_BYTES], GuestAddress(0)).map_err(|e| e.to_string())?;
    guest.write_slice(&corpus()[0], GuestAddress(0)).map_err(|e| e.to_string())?;
    let status = GuestAddress(FIRST + 255);
    guest.write_obj(0xffu8, status).map_err(|e| e.to_string())?;
    let (after, told) = (run(&disk, &guest).await?, guest.read_obj::<u8>(status).map_err(|e| e.to_string())?);
    if (after, told) == (1, 0) {
        Ok(answered > 0)
    } else {
        Err(format!("a good read afterwards: {after}, status {told}"))
    }
}

/// Serves a new ring until nothing is under way; tells how many heads it took.
async fn run(disk: &Rc<Disk>, guest: &Arc<Guest>) -> Result<u64, String> {
    let ring = Ring::new(disk, 0);
    ring.set_features(false, true);
    ring.set_memory(guest.clone());
    let at = Addresses { table: 0, available: AVAILABLE, used: USED };
    ring.set_len(u32::from(RING_LEN)).and_then(|()| ring.set_addresses(at)).map_err(|e| e.to_string())?;
    ring.enable(true);
    ring.start(None).map_err(|e| e.to_string())?;
    ring.drain();
    ring.idle().await;
    Ok(u64::from(ring.stop().await))
}
