//! Clones, completions and queues over devices in memory.

use std::cell::RefCell;

use esker_base::Nanos;
use esker_block::Class;
use esker_dev::{Defer, Media, MemoryDevice};
use esker_rt::sim::{SimConfig, twice};
use esker_testkit::{Faulty, Injector};
use proptest::prelude::*;

use super::*;

const SIZE: u64 = 1 << 20;

/// Over a device in memory that follows a plan of faults.
fn io(rt: &Rt, plan: &str) -> (Io, Rc<Injector>) {
    let injector = Injector::new(plan.parse().unwrap());
    let memory = MemoryDevice::over(rt, Media::new(SIZE), 512, Defer::Always(Nanos::micros(5)));
    let device = Faulty::over(rt, Rc::new(memory), &injector);
    (Io::over(rt, &Pool::default(), vec![device]), injector)
}

fn fields(bio: &Bio) -> (Op, ByteRange, Flags, VolumeId, Tag, Vec<u8>) {
    (bio.op.clone(), bio.range, bio.flags, bio.dest, bio.tag, bio.buf.to_vec())
}

proptest! {
    #[test]
    fn a_clone_has_every_field_and_changing_it_leaves_the_original(
        at in 0u64..64, trace: u64, issuer: u32, pid: u32, priority: u8, fua: bool, deep: bool, write: bool,
    ) {
        let sim = esker_rt::Sim::new(SimConfig::seeded(1));
        let (io, _) = io(&sim.rt(), "");
        let bytes: Vec<u8> = (0..1024).map(|i| i as u8).collect();
        let buf = Buf::from_bytes(io.pool(), &bytes);
        let mut bio = if write { Bio::write(at * 512, buf) } else { Bio::read(at * 512, buf) };
        bio.flags.fua = fua;
        bio.tag = Tag { trace, issuer, stream: 3, pid, priority, storage: 2, class: Class::Background };
        bio.dest = VolumeId(9);
        let before = fields(&bio);
        let mut clone = if deep { io.clone_deep(&mut bio) } else { io.clone_bio(&mut bio) };
        if write {
            prop_assert_eq!(fields(&clone), before.clone());
        } else {
            prop_assert_eq!((&clone.op, clone.range, clone.tag), (&bio.op, bio.range, bio.tag));
            prop_assert_eq!(clone.buf.len(), 1024);
        }
        clone.dest = VolumeId(1);
        clone.range = ByteRange::new(0, 512).unwrap();
        if let Some(bytes) = clone.buf.bytes_mut() {
            bytes.fill(0xee);
        }
        prop_assert_eq!(fields(&bio), before);
    }
}

#[test]
fn only_a_deep_clone_copies() {
    let sim = esker_rt::Sim::new(SimConfig::seeded(1));
    let (io, _) = io(&sim.rt(), "");
    let mut bio = Bio::write(0, Buf::zeroed(io.pool(), 4096));
    assert_eq!((io.clone_bio(&mut bio).buf.len(), io.pool().bounced()), (4096, 0));
    assert_eq!((io.clone_deep(&mut bio).buf.len(), io.pool().bounced()), (4096, 4096));
}

#[test]
fn a_completion_sends_a_failed_write_again_without_a_task_or_thread() {
    let (done, held, fired) = twice(SimConfig::seeded(1), |rt| async move {
        let (io, injector) = io(&rt, "error write 1; error write 2");
        let bio = Bio::write(512, Buf::from_bytes(io.pool(), &[7; 512])).to(io.lower(0));
        let done = io.submit_then(bio, retry(3)).await;
        let held = io.read(io.lower(0), 512, 512).await.unwrap().to_vec();
        (done.result.is_ok(), held, injector.fired())
    });
    assert_eq!((done, held, fired), (true, vec![7; 512], 2));
}

#[test]
fn retries_are_bounded_and_then_the_failure_comes_through() {
    let (error, fired) = twice(SimConfig::seeded(1), |rt| async move {
        let (io, injector) = io(&rt, "gone 1");
        let done = io.submit_then(Bio::write(0, Buf::zeroed(io.pool(), 512)).to(io.lower(0)), retry(3)).await;
        assert_eq!(done.buf.len(), 512, "the buffer comes back in every case");
        (done.result.unwrap_err(), injector.fired())
    });
    assert_eq!(error, BioError::Gone("the faulty device".into()));
    assert_eq!(fired, 4);
}

#[test]
fn a_queue_takes_no_more_than_it_holds_and_gives_the_rest_back() {
    twice(SimConfig::seeded(1), |rt| async move {
        let (io, _) = io(&rt, "error write 2");
        let queue = Queue::new(2);
        let ended = Rc::new(RefCell::new(Vec::new()));
        let send = |at: u64| {
            let (ended, mut again) = (ended.clone(), retry(1));
            let bio = Bio::write(at, Buf::zeroed(io.pool(), 512)).to(io.lower(0));
            queue.submit(&io, bio, move |returned| {
                let (at, is_ok) = (returned.bio.offset(), returned.result.is_ok());
                ended.borrow_mut().push((at, is_ok));
                again(returned)
            })
        };
        assert!(send(0).is_ok() && send(512).is_ok());
        let full = send(1024).unwrap_err();
        assert_eq!((full.0.offset(), queue.under_way()), (1024, 2));
        rt.sleep(Nanos::millis(1)).await;
        assert!(send(1024).is_ok());
        rt.sleep(Nanos::millis(1)).await;
        assert_eq!(queue.under_way(), 0);
        assert_eq!(*ended.borrow(), [(512, false), (0, true), (512, true), (1024, true)]);
    });
}

#[test]
fn forks_answer_in_the_order_of_their_requests() {
    twice(SimConfig::seeded(1), |rt| async move {
        let (io, _) = io(&rt, "error write 1");
        let write = |at: u64, byte: u8| Bio::write(at, Buf::from_bytes(io.pool(), &[byte; 512])).to(io.lower(0));
        let dones = io.fork(vec![write(0, 1), write(512, 2)], retry(0)).await;
        let ok: Vec<bool> = dones.iter().map(|done| done.result.is_ok()).collect();
        assert_eq!(ok, [false, true]);
        assert_eq!(dones[1].buf.to_vec(), [2; 512]);
        let returned = io.all(vec![write(0, 3), write(512, 4)], 1).await;
        assert!(returned.iter().all(|r| r.result.is_ok()) && returned[1].bio.offset() == 512);
    });
}

#[test]
fn bad_requests_get_errors_that_say_what_is_wrong() {
    let answers = twice(SimConfig::seeded(1), |rt| async move {
        let (io, _) = io(&rt, "");
        let nowhere = io.submit(Bio::flush()).await.result.unwrap_err().to_string();
        let wide = io.read(io.lower(0), u64::MAX, 512).await.unwrap_err().to_string();
        let nothing = io.read(io.lower(0), 0, 0).await.unwrap_err().to_string();
        let write = io.write(io.lower(0), 1 << 40, Buf::zeroed(io.pool(), 512), false);
        let past_end = write.await.unwrap_err().to_string();
        [nowhere, wide, nothing, past_end]
    });
    let expected = ["volume 65535 is not one of the 1 devices below", "does not fit in 64 bits"];
    let expected = expected.into_iter().chain(["bytes [0, 0) of a device of", "of a device of"]);
    for (answer, expected) in answers.iter().zip(expected) {
        assert!(answer.contains(expected), "\"{answer}\" should say \"{expected}\"");
    }
}
