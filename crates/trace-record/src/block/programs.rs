//! The programs at the block tracepoints. Each knows the numbers of one device, and leaves at once for any other.
//!
//! A bio names its disk and partition. Its sector is one of the disk already, also where it was sent to a partition; so
//! is a request's. The programs of a partition take what begins in its range, and count sectors from its beginning. A
//! flush has no place: it is the partition's if it was sent there. The flush that a driver gets serves all partitions.

use esker_bpf::asm::Label;
use esker_bpf::load::ArrayMap;
use esker_bpf::{
    BpfError, BtfError, Code, Counters, Helper, If, Loaded, Map, MapKind, Op, Program, Reg, Ring, Size, Types,
};

use super::device::{BlockDevice, Part};
use super::wire::{self, Tracepoint};

const RING: &str = "ring";
const LOST: &str = "lost";

// The stack of each program, below the frame.
const COUNTERS: Counters = Counters { map: LOST, key: -4 };
const POINTER: i16 = -16;
const RECORD: i16 = POINTER - wire::RECORD_BYTES;

/// Where the running kernel keeps what the programs read.
#[derive(Clone, Copy, Debug)]
struct Places {
    bio_device: i32,
    bio_sector: i32,
    bio_bytes: i32,
    bio_flags: i32,
    device_disk: i32,
    device_number: i32,
    disk_major: i32,
    disk_minor: i32,
    request_queue: i32,
    request_sector: i32,
    request_bytes: i32,
    request_flags: i32,
    request_part: i32,
    queue_disk: i32,
    task_leader: i32,
    task_name: i32,
}

impl Places {
    fn of(types: &Types) -> Result<Places, BtfError> {
        let range = types.offset("bio", "bi_iter")?;
        Ok(Places {
            bio_device: types.offset("bio", "bi_bdev")?,
            bio_sector: range + types.offset("bvec_iter", "bi_sector")?,
            bio_bytes: range + types.offset("bvec_iter", "bi_size")?,
            bio_flags: types.offset("bio", "bi_opf")?,
            device_disk: types.offset("block_device", "bd_disk")?,
            device_number: types.offset("block_device", "bd_dev")?,
            disk_major: types.offset("gendisk", "major")?,
            disk_minor: types.offset("gendisk", "first_minor")?,
            request_queue: types.offset("request", "q")?,
            request_sector: types.offset("request", "__sector")?,
            request_bytes: types.offset("request", "__data_len")?,
            request_flags: types.offset("request", "cmd_flags")?,
            request_part: types.offset("request", "part")?,
            queue_disk: types.offset("request_queue", "disk")?,
            task_leader: types.offset("task_struct", "group_leader")?,
            task_name: types.offset("task_struct", "comm")?,
        })
    }
}

/// Programs that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The kernel refuses them.
    #[error(transparent)]
    Refused(#[from] BpfError),
    /// The kernel's structures are not as they should be.
    #[error("{0}; recording takes Linux 5.15 or newer")]
    Types(#[from] BtfError),
    /// A tracepoint has other arguments.
    #[error("this kernel has no tracepoint {0} as it is known; recording takes Linux 5.15 to 6.18, or blktrace")]
    Tracepoint(&'static str),
}

/// The programs, running.
pub(super) struct Programs {
    /// None once they have ended.
    loaded: Option<Loaded>,
    lost: ArrayMap<u64>,
    pub ring: Ring,
}

impl Programs {
    /// Loads and starts them. The ring has `ring_bytes`, a power of two.
    pub(super) fn start(device: &BlockDevice, ring_bytes: u32) -> Result<Programs, ProgramError> {
        let types = Types::of_kernel()?;
        for tracepoint in Tracepoint::ALL {
            if types.tracepoint_arguments(tracepoint.name()) != Some(tracepoint.arguments()) {
                return Err(ProgramError::Tracepoint(tracepoint.name()));
            }
        }
        let writer = Writer { places: Places::of(&types)?, disk: device.disk, part: device.part };
        let maps = [
            Map { name: RING, kind: MapKind::Ring, key: 0, value: 0, entries: ring_bytes },
            Map { name: LOST, kind: MapKind::Array, key: 4, value: 8, entries: 1 },
        ];
        let mut loaded = Loaded::new(&Tracepoint::ALL.map(|tracepoint| writer.program(tracepoint)), &maps)?;
        let (lost, ring) = (loaded.array(LOST)?, loaded.ring(RING)?);
        // A request that is seen from its middle on has no beginning in the trace: ends are attached first.
        for tracepoint in Tracepoint::ALL.into_iter().rev() {
            loaded.attach_raw(tracepoint.name(), tracepoint.name())?;
        }
        Ok(Programs { loaded: Some(loaded), lost, ring })
    }

    /// Ends the programs. What they have put out is still in the ring, and nothing more comes.
    pub(super) fn halt(&mut self) {
        self.loaded = None;
    }

    /// Events for which the ring had no room.
    pub(super) fn lost(&self) -> u64 {
        self.lost.get(0).unwrap_or(0)
    }
}

/// What makes the programs of one device.
struct Writer {
    places: Places,
    disk: (u32, u32),
    part: Option<Part>,
}

impl Writer {
    fn program(&self, tracepoint: Tracepoint) -> Program {
        let (name, section) = match tracepoint {
            Tracepoint::BioQueued => ("block_bio_queue", "raw_tp/block_bio_queue"),
            Tracepoint::Issued => ("block_rq_issue", "raw_tp/block_rq_issue"),
            Tracepoint::Completed => ("block_rq_complete", "raw_tp/block_rq_complete"),
            Tracepoint::BioCompleted => ("block_bio_complete", "raw_tp/block_bio_complete"),
        };
        let mut code = Code::new();
        let out = code.label();
        code.mov(Reg::R9, Reg::R1);
        code.store(Size::Double, Reg::R10, RECORD + wire::ERROR, 0);
        match tracepoint {
            Tracepoint::BioQueued => self.take_bio(&mut code, 0, out),
            Tracepoint::BioCompleted => self.take_bio(&mut code, 8, out),
            Tracepoint::Issued => self.take_request(&mut code, out),
            Tracepoint::Completed => {
                self.take_request(&mut code, out);
                // Only so much of it is completed now.
                code.load(Size::Double, Reg::R1, Reg::R9, 16);
                code.store(Size::Word, Reg::R10, RECORD + wire::BYTES, Reg::R1);
                code.load(Size::Double, Reg::R1, Reg::R9, 8);
                code.store(Size::Word, Reg::R10, RECORD + wire::ERROR, Reg::R1);
            }
        }
        if let Some(part) = self.part {
            self.only_in(&mut code, part, out);
        }
        self.put_out(&mut code, tracepoint);
        code.end_at(out);
        code.finish(name, section)
    }

    /// `R6` = the bio, `R7` = its device; the record has its range and flags. Away if it goes to another disk.
    fn take_bio(&self, code: &mut Code, argument: i16, out: Label) {
        let places = self.places;
        code.load(Size::Double, Reg::R6, Reg::R9, argument);
        follow(code, Reg::R7, Reg::R6, places.bio_device);
        code.jump_if(If::Equal, Reg::R7, 0, out);
        follow(code, Reg::R8, Reg::R7, places.device_disk);
        self.only_disk(code, out);
        code.fetch(RECORD + wire::PLACE, 8, Reg::R6, places.bio_sector);
        code.fetch(RECORD + wire::BYTES, 4, Reg::R6, places.bio_bytes);
        code.fetch_many(RECORD + wire::FLAGS, 4, Reg::R6, places.bio_flags);
    }

    /// `R6` = the request, `R7` = the device that it was sent to or 0; the record has its range and flags. Away if it
    /// goes to another disk.
    fn take_request(&self, code: &mut Code, out: Label) {
        let places = self.places;
        code.load(Size::Double, Reg::R6, Reg::R9, 0);
        follow(code, Reg::R7, Reg::R6, places.request_queue);
        follow(code, Reg::R8, Reg::R7, places.queue_disk);
        self.only_disk(code, out);
        follow(code, Reg::R7, Reg::R6, places.request_part);
        code.fetch(RECORD + wire::PLACE, 8, Reg::R6, places.request_sector);
        code.fetch(RECORD + wire::BYTES, 4, Reg::R6, places.request_bytes);
        code.fetch_many(RECORD + wire::FLAGS, 4, Reg::R6, places.request_flags);
    }

    /// Away unless `R8` is the disk.
    fn only_disk(&self, code: &mut Code, out: Label) {
        for (place, number) in [(self.places.disk_major, self.disk.0), (self.places.disk_minor, self.disk.1)] {
            code.fetch(POINTER, 4, Reg::R8, place);
            code.load(Size::Double, Reg::R1, Reg::R10, POINTER);
            code.imm64(Reg::R2, number.into());
            code.jump_if(If::Differ, Reg::R1, Reg::R2, out);
        }
    }

    /// Away unless the record is of the partition; its sector becomes one of the partition.
    fn only_in(&self, code: &mut Code, part: Part, out: Label) {
        let [inside, has_no_place, done] = [(); 3].map(|()| code.label());
        code.load(Size::Word, Reg::R1, Reg::R10, RECORD + wire::BYTES);
        code.jump_if(If::Equal, Reg::R1, 0, has_no_place);
        code.load(Size::Double, Reg::R1, Reg::R10, RECORD + wire::PLACE);
        code.imm64(Reg::R2, part.start);
        // What begins before the partition is far behind its end then.
        code.alu(Op::Sub, Reg::R1, Reg::R2);
        code.imm64(Reg::R2, part.sectors);
        code.jump_if(If::Below, Reg::R1, Reg::R2, inside);
        code.jump(out);
        code.bind(has_no_place);
        code.jump_if(If::Equal, Reg::R7, 0, done);
        code.fetch(POINTER, 4, Reg::R7, self.places.device_number);
        code.load(Size::Double, Reg::R1, Reg::R10, POINTER);
        // The kernel's own form of both numbers.
        code.imm64(Reg::R2, (part.number.0 << 20 | part.number.1).into());
        code.jump_if(If::Differ, Reg::R1, Reg::R2, out);
        code.jump(done);
        code.bind(inside);
        code.store(Size::Double, Reg::R10, RECORD + wire::PLACE, Reg::R1);
        code.bind(done);
    }

    /// Completes the record of what `R6` points to, with the process of the running thread, and puts it out.
    fn put_out(&self, code: &mut Code, tracepoint: Tracepoint) {
        code.store(Size::Double, Reg::R10, RECORD + wire::ADDRESS, Reg::R6);
        code.store(Size::Word, Reg::R10, RECORD + wire::TRACEPOINT, tracepoint as i32);
        code.call(Helper::CurrentPidTgid);
        code.alu(Op::ShiftRight, Reg::R0, 32);
        code.store(Size::Word, Reg::R10, RECORD + wire::PROCESS, Reg::R0);
        code.call(Helper::CurrentTask);
        code.mov(Reg::R8, Reg::R0);
        follow(code, Reg::R7, Reg::R8, self.places.task_leader);
        code.fetch_many(RECORD + wire::NAME, wire::NAME_BYTES, Reg::R7, self.places.task_name);
        code.call(Helper::KtimeGetNs);
        code.store(Size::Double, Reg::R10, RECORD + wire::TIME, Reg::R0);
        code.mov(Reg::R2, Reg::R10);
        code.alu(Op::Add, Reg::R2, i32::from(RECORD));
        code.mov(Reg::R3, i32::from(wire::RECORD_BYTES));
        code.put_out(RING, COUNTERS);
    }
}

/// `to` = the pointer at `base + offset`, or 0.
fn follow(code: &mut Code, to: Reg, base: Reg, offset: i32) {
    code.fetch(POINTER, 8, base, offset);
    code.load(Size::Double, to, Reg::R10, POINTER);
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_skip::{Ability, skip};

    #[test]
    fn the_kernel_takes_the_programs_of_a_disk_and_of_a_partition() {
        let part = Part { number: (4095, 1), start: 1 << 40, sectors: 1 << 33 };
        for part in [None, Some(part)] {
            let name = "none".to_string();
            let device = BlockDevice { name, disk: (4095, 0), part, size: 0, has_queues: true };
            match Programs::start(&device, 1 << 16) {
                Ok(programs) => assert_eq!(programs.lost(), 0),
                Err(ProgramError::Refused(BpfError::Refused { why, .. })) if why.contains("R1") => panic!("{why}"),
                Err(error) => skip(Ability::Bpf, error),
            }
        }
    }
}
