//! Pieces of a stopped thread's memory, as a call's specification asks for them.

use std::io::IoSliceMut;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use crate::calls::{ARRAY_MAX, BLOCK_BYTES, Extent, ITEMS_MAX, Item, TEXT_MAX};

/// Bytes of a page: a text is read up to the end of the one that it lies in, then on.
const PAGE: u64 = 4096;

/// Lowest address of a process: what is below is a number.
const LOWEST: u64 = 65536;

/// What was read, in the order of the items.
pub(crate) type Pieces = [Option<Vec<u8>>; ITEMS_MAX];

/// Reads all items of a call of a thread; `result` is what the call returned, if it has. Absent is what cannot be read.
pub(crate) fn read_items(thread: Pid, items: &[Item], args: &[u64; 6], result: i64) -> Pieces {
    let mut pieces = Pieces::default();
    for (piece, item) in pieces.iter_mut().zip(items) {
        let at = args[item.arg];
        if at >= LOWEST {
            *piece = read_item(thread, at, item.what, args, result);
        }
    }
    pieces
}

fn read_item(thread: Pid, at: u64, what: Extent, args: &[u64; 6], result: i64) -> Option<Vec<u8>> {
    let times = |count: u64, size: u16| count.saturating_mul(u64::from(size)).min(u64::from(ARRAY_MAX)) as usize;
    match what {
        Extent::Text => read_text(thread, at),
        Extent::Bytes(len) => read_bytes(thread, at, usize::from(len)),
        Extent::Array { size, count } => read_bytes(thread, at, times(args[count], size)),
        Extent::Returned(size) => read_bytes(thread, at, times(result.max(0) as u64, size)),
        Extent::Pointers { count } => {
            let pointers = read_bytes(thread, at, times(args[count], 8))?;
            let mut blocks = Vec::new();
            for pointer in pointers.chunks_exact(8) {
                let address = u64::from_le_bytes(pointer.try_into().expect("eight bytes"));
                blocks.extend_from_slice(pointer);
                blocks.extend(read_bytes(thread, address, usize::from(BLOCK_BYTES))?);
            }
            Some(blocks)
        }
    }
}

fn read_bytes(thread: Pid, at: u64, len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len];
    let remote = RemoteIoVec { base: at as usize, len };
    let read = process_vm_readv(thread, &mut [IoSliceMut::new(&mut bytes)], &[remote]).ok()?;
    (read == len).then_some(bytes)
}

/// Up to the first zero, and with it.
fn read_text(thread: Pid, at: u64) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    while text.len() < TEXT_MAX as usize {
        let from = at + text.len() as u64;
        let len = (PAGE - from % PAGE).min(u64::from(TEXT_MAX) - text.len() as u64);
        let part = read_bytes(thread, from, len as usize)?;
        if let Some(end) = part.iter().position(|byte| *byte == 0) {
            text.extend_from_slice(&part[..=end]);
            return Some(text);
        }
        text.extend(part);
    }
    Some(text)
}
