//! Requests of an io_uring.

use super::*;
use crate::calls::requests::ENTRY_BYTES;

const RING: u64 = 0xffff_8000;
const READ: u8 = 22;
const NOP: u8 = 0;
const CLOSE: u8 = 19;
const LINK: u8 = 4;
const FIXED: u8 = 1;
const SILENT: u8 = 64;
const POLL: u8 = 6;

impl Bench {
    fn seeing() -> Bench {
        let mut bench = Bench::new();
        bench.assembler.see_requests();
        bench.make_ring(0);
        bench.told.0.clear();
        bench
    }

    fn make_ring(&mut self, flags: u32) {
        let params = [[0; 8].as_slice(), &flags.to_le_bytes()].concat();
        self.take(1, 100, 100, What::Ring { ring: RING });
        self.enter(1, 100, libc::SYS_io_uring_setup, [4, 0x1000, 0, 0, 0, 0], Some(&params));
        self.exit(2, 100, libc::SYS_io_uring_setup, 7);
    }

    /// The kernel takes a request of this number in a thread.
    fn request(&mut self, time: u64, thread: u32, request: u64, entry: [u8; 2], fd: i32) -> &mut Bench {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..2].copy_from_slice(&entry);
        bytes[4..8].copy_from_slice(&fd.to_le_bytes());
        let (ring, opcode) = (RING, entry[0]);
        self.take(time, thread, 100, What::Request { request, ring, opcode, entry: &bytes, items: [None; 2] })
    }

    /// It ends, in a thread of which nothing is known.
    fn end_request(&mut self, time: u64, request: u64, result: i32) -> &mut Bench {
        self.take(time, 9999, 9999, What::RequestEnd { request, result })
    }

    fn finish(&mut self, time: u64) -> &mut Bench {
        self.assembler.finish(1000 + time, &mut self.told);
        self
    }
}

#[test]
fn requests_under_way_at_once_are_in_threads_of_their_own() {
    let mut bench = Bench::seeing();
    bench.request(10, 100, 1, [READ, 0], 3).request(11, 100, 2, [READ, 0], 4).check(&[]);
    bench.end_request(20, 2, 9);
    bench.check(&["thread 1 = 100 of 0", "0 clone (2, 2) Done(100)", "1 pread (11, 20) Done(9)"]);
    bench.end_request(21, 1, -5);
    bench.check(&["thread 2 = 100 of 0", "0 clone (2, 2) Done(100)", "2 pread (10, 21) Failed(EIO)"]);
    // The thread that was left last goes on.
    bench.request(30, 100, 1, [READ, 0], 3).end_request(35, 1, 9).check(&["2 pread (30, 35) Done(9)"]);
}

#[test]
fn linked_requests_follow_each_other_and_what_was_cancelled_did_nothing() {
    let mut bench = Bench::seeing();
    bench.request(10, 100, 1, [READ, LINK], 3).request(11, 100, 2, [READ, LINK], 3).request(12, 100, 3, [READ, 0], 3);
    bench.end_request(20, 1, 9).end_request(30, 2, 8).end_request(31, 3, -libc::ECANCELED);
    let told =
        ["thread 1 = 100 of 0", "0 clone (2, 2) Done(100)", "1 pread (10, 20) Done(9)", "1 pread (20, 30) Done(8)"];
    bench.check(&told);
    bench.request(40, 100, 1, [NOP, 0], -1).end_request(41, 1, 0).check(&[]);
}

#[test]
fn a_submission_counts_what_no_action_shows() {
    let mut bench = Bench::seeing();
    bench.request(10, 100, 1, [READ, 0], 3).take(11, 100, 100, What::RequestRefused).end_request(12, 1, 9);
    bench.told.0.clear();
    let submit = |bench: &mut Bench, count| {
        bench.enter(9, 100, libc::SYS_io_uring_enter, [7, count, 0, 0, 0, 0], None);
        bench.exit(13, 100, libc::SYS_io_uring_enter, count as i64);
    };
    submit(&mut bench, 2);
    bench.check(&["0 io_uring_enter (9, 13) Done(2)"]);
    submit(&mut bench, 2);
    bench.check(&["warning UringUnseen 2", "0 io_uring_enter (9, 13) Done(2)"]);
    // No trace has a call for this.
    bench.request(20, 100, 1, [46, 0], 3).end_request(21, 1, 0);
    bench.check(&["warning UringUnseen 1", "1 io_uring_enter (20, 21) Done(1)"]);
}

#[test]
fn what_the_kernel_takes_by_itself_is_of_the_thread_that_made_the_ring() {
    let mut bench = Bench::seeing();
    bench.make_ring(2);
    bench.take(3, 100, 100, What::Fork { child: 101, flags: libc::CLONE_THREAD as u64 });
    bench.told.0.clear();
    bench.request(10, 101, 1, [READ, 0], 3).end_request(20, 1, 9);
    bench.check(&["thread 2 = 100 of 0", "0 clone (2, 2) Done(100)", "2 pread (10, 20) Done(9)"]);
    bench.enter(30, 100, libc::SYS_io_uring_enter, [7, 5, 0, 0, 0, 0], None).exit(31, 100, libc::SYS_io_uring_enter, 5);
    bench.check(&["0 io_uring_enter (30, 31) Done(5)"]);
}

#[test]
fn a_slot_is_a_descriptor_until_it_is_emptied() {
    let mut bench = Bench::seeing();
    let register = |bench: &mut Bench, operation, items: Option<&[u8]>| {
        bench.take(5, 100, 100, What::Ring { ring: RING });
        bench.enter(5, 100, libc::SYS_io_uring_register, [7, operation, 0x1000, 2, 0, 0], items);
        bench.exit(6, 100, libc::SYS_io_uring_register, 0);
    };
    let fds = [4_i32, -1].map(i32::to_le_bytes).concat();
    register(&mut bench, 2, Some(&fds));
    bench.check(&["0 io_uring_register (5, 6) Done(0)", "0 dup (6, 6) Done(1048574)"]);
    bench.request(10, 100, 1, [READ, FIXED], 0).end_request(20, 1, 9);
    bench.check(&["thread 1 = 100 of 0", "0 clone (6, 6) Done(100)", "1 pread (10, 20) Done(9)"]);
    // Nothing is in the other slot, and what an update puts there is not read.
    bench.request(21, 100, 1, [READ, FIXED], 1).end_request(22, 1, -9);
    bench.check(&["warning UringUnseen 1", "1 io_uring_enter (21, 22) Done(1)"]);
    register(&mut bench, 3, None);
    bench.check(&["0 io_uring_register (5, 6) Done(0)", "0 close (6, 6) Done(0)"]);
    bench.request(30, 100, 1, [CLOSE, 0], 4).end_request(31, 1, 0).check(&["1 close (30, 31) Done(0)"]);
}

#[test]
fn a_request_whose_end_is_not_told_has_no_result_and_is_lost_unless_it_is_silent() {
    let mut bench = Bench::seeing();
    // The place of the first is used again, so it has ended; the second ends with the recording.
    bench.request(10, 100, 1, [READ, SILENT], 3).request(20, 100, 1, [READ, SILENT], 3);
    bench.check(&["thread 1 = 100 of 0", "0 clone (2, 2) Done(100)", "1 pread (10, 20) Unknown"]);
    bench.request(21, 100, 2, [POLL, 0], 3).finish(30).check(&["1 pread (20, 30) Unknown"]);
    let mut bench = Bench::seeing();
    bench.request(10, 100, 1, [READ, 0], 3).request(20, 100, 1, [READ, 0], 3);
    bench.check(&[
        "warning LostEvents 1",
        "thread 1 = 100 of 0",
        "0 clone (2, 2) Done(100)",
        "1 pread (10, 20) Unknown",
    ]);
    bench.take(21, 100, 100, What::End);
    bench.finish(30).check(&["warning LostEvents 1", "1 pread (20, 30) Unknown"]);
}
