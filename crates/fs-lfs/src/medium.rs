//! The device: bytes, superblocks, logs, and the latest checkpoint among them.

mod logs;
mod superblocks;

use std::rc::Rc;

use esker_block::{Buf, Device};
use esker_layer_kit::Io;
use esker_rt::Rt;
use esker_rt::mem::Pool;

use crate::error::LfsError;

pub use logs::{FoundLog, Latest, SyncedLog};
pub use superblocks::{Chosen, SuperblockCopy};

/// Requests to a device.
#[derive(Clone)]
pub struct ImageDevice {
    io: Io,
    size: u64,
    unit: u64,
    transfer: u64,
}

impl ImageDevice {
    /// Of a device.
    pub fn new(rt: &Rt, device: Rc<dyn Device>) -> ImageDevice {
        let (size, unit) = (device.size(), u64::from(device.limits().block).max(1));
        let transfer = u64::from(device.limits().transfer_max) / unit * unit;
        ImageDevice { io: Io::over(rt, &Pool::default(), vec![device]), size, unit, transfer: transfer.max(unit) }
    }

    /// The world.
    pub fn rt(&self) -> &Rt {
        self.io.rt()
    }

    /// Bytes of the device.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of a block of the device.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Memory for answers.
    pub fn pool(&self) -> &Pool {
        self.io.pool()
    }

    /// Bytes of the device. Those behind its end are zeroes.
    ///
    /// # Errors
    /// What the device answers.
    pub async fn read(&self, at: u64, len: usize) -> Result<Vec<u8>, LfsError> {
        let mut bytes = Vec::with_capacity(len);
        self.read_pieces(at, len, &mut |piece| bytes.extend_from_slice(piece)).await?;
        bytes.resize(len, 0);
        Ok(bytes)
    }

    /// Reads bytes of the device up to its end, and gives them piece by piece, in order and without a copy.
    ///
    /// # Errors
    /// What the device answers.
    pub async fn read_pieces(&self, at: u64, len: usize, each: &mut dyn FnMut(&[u8])) -> Result<(), LfsError> {
        let end = at.saturating_add(len as u64).min(self.size);
        let mut from = at / self.unit * self.unit;
        while from < end {
            let step = (end - from).next_multiple_of(self.unit).min(self.transfer).min(self.size - from);
            let mut read = self.io.read(self.io.lower(0), from, step as usize).await?;
            let skip = at.saturating_sub(from).min(step) as usize;
            let keep = (end - from).min(step) as usize;
            read.slice(skip, keep - skip).for_each_piece(each);
            from += step;
        }
        Ok(())
    }

    /// Writes whole blocks of the device.
    ///
    /// # Errors
    /// What the device answers.
    pub async fn write(&self, at: u64, bytes: &[u8]) -> Result<(), LfsError> {
        self.put(at, Buf::from_bytes(self.io.pool(), bytes)).await
    }

    /// The same without a copy.
    ///
    /// # Errors
    /// What the device answers.
    pub async fn put(&self, at: u64, mut bytes: Buf) -> Result<(), LfsError> {
        let transfer = self.transfer as usize;
        if bytes.len() <= transfer {
            return Ok(self.io.write(self.io.lower(0), at, bytes, false).await?);
        }
        for from in (0..bytes.len()).step_by(transfer) {
            let part = bytes.slice(from, transfer.min(bytes.len() - from));
            self.io.write(self.io.lower(0), at + from as u64, part, false).await?;
        }
        Ok(())
    }

    /// The same, and makes these bytes durable. Earlier writes need [`ImageDevice::flush`].
    ///
    /// # Errors
    /// What the device answers.
    pub async fn put_durably(&self, at: u64, bytes: Buf) -> Result<(), LfsError> {
        if bytes.len() as u64 <= self.transfer {
            return Ok(self.io.write(self.io.lower(0), at, bytes, true).await?);
        }
        self.put(at, bytes).await?;
        self.flush().await
    }

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// What the device answers.
    pub async fn flush(&self) -> Result<(), LfsError> {
        Ok(self.io.flush(self.io.lower(0)).await?)
    }
}
