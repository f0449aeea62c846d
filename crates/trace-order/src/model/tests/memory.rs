//! Files in memory.

use esker_trace_calls::words::MapFlags;

use super::*;

const PAGE: u64 = 4096;

impl Story {
    fn maps(&mut self, thread: u32, fd: i32, offset: u64, address: i64) -> &mut Story {
        let flags = MapFlags::PROT_READ | MapFlags::MAP_SHARED;
        let call = Call::Map { fd: Fd(fd), address: 0, len: 4 * PAGE, offset, flags };
        self.act(thread, call, Outcome::Done(address))
    }

    fn faults(&mut self, thread: u32, address: u64) -> &mut Story {
        self.ok(thread, Call::PageFault { address, len: PAGE })
    }

    fn unmaps(&mut self, thread: u32, address: u64, pages: u64) -> &mut Story {
        self.ok(thread, Call::Unmap { address, len: pages * PAGE })
    }

    /// What a fault became: the slot and offset that it touches, if its map is known.
    fn touched(&self, action: u32) -> Option<(i32, u64)> {
        match self.compiled().step(action).call {
            Call::MapTouch { fd, offset, len: PAGE, write: false } => Some((fd.0, offset)),
            Call::PageFault { .. } => None,
            ref other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_fault_touches_the_file_that_is_mapped_there_also_when_its_descriptor_is_closed() {
    let mut story = Story::new(1, &["/a", "/b"]);
    story.opens(0, "/a", OpenFlags::READ, 3).maps(0, 3, 8 * PAGE, 0x10000).ok(0, close(3)).faults(0, 0x12000);
    story.opens(0, "/b", OpenFlags::READ, 3).maps(0, 3, 0, 0x14000).faults(0, 0x14000).faults(0, 0x18000);
    story.unmaps(0, 0x12000, 1).faults(0, 0x12000).faults(0, 0x13000);
    let (first, second) = (story.touched(3).expect("known"), story.touched(6).expect("known"));
    assert_eq!((first.1, second.1), (10 * PAGE, 0));
    assert_ne!(first.0, second.0);
    assert_eq!(story.touched(7), None, "behind both");
    assert_eq!(story.touched(9), None, "in the hole");
    assert_eq!(story.touched(10), Some((first.0, 11 * PAGE)), "what is left behind the hole");
    let made = |action| story.compiled().step(action).slots.clone();
    assert_eq!(made(1), [SlotEffect::Made(Fd(first.0))]);
    assert_eq!(made(8), [], "parts of the map are left");
}

#[test]
fn faults_come_after_the_map_and_before_its_end_and_have_no_order_among_each_other() {
    let mut story = Story::new(3, &["/a"]);
    story.opens(0, "/a", OpenFlags::READ, 3).maps(0, 3, 0, 0x10000);
    story.faults(1, 0x10000).faults(2, 0x11000).faults(1, 0x12000).unmaps(0, 0x10000, 4);
    assert_eq!(story.usual(), set(&[(1, 2), (1, 3), (1, 4), (3, 5), (4, 5)]));
    let end = story.compiled().step(5).slots.clone();
    assert!(matches!(end[..], [SlotEffect::Closed(_)]), "{end:?}");
}

#[test]
fn an_address_that_is_used_again_is_another_map() {
    let mut story = Story::new(2, &["/a", "/b"]);
    story.opens(0, "/a", OpenFlags::READ, 3).maps(0, 3, 0, 0x10000).faults(1, 0x10000).unmaps(0, 0x10000, 4);
    story.opens(0, "/b", OpenFlags::READ, 4).maps(0, 4, 0, 0x10000).faults(1, 0x10000);
    assert_ne!(story.touched(2).expect("known").0, story.touched(6).expect("known").0);
    // Moved and grown, it is the same.
    story.act(0, Call::Remap { address: 0x10000, len: 4 * PAGE, new_len: 8 * PAGE }, Outcome::Done(0x40000));
    story.faults(1, 0x45000).faults(1, 0x10000);
    assert_eq!(story.touched(8), Some((story.touched(6).expect("known").0, 5 * PAGE)));
    assert_eq!(story.touched(9), None);
}

#[test]
fn a_new_process_has_its_makers_maps_until_it_runs_a_program() {
    let mut story = Story::new(1, &["/a", "/bin/x"]);
    story.trace.processes.push(process(101));
    story.trace.threads.push(thread(101, 1));
    story.opens(0, "/a", OpenFlags::READ, 3).maps(0, 3, 0, 0x10000);
    story.act(0, Call::Clone { flags: CloneFlags::empty(), child: Some(ThreadId(1)) }, Outcome::Done(101));
    story.unmaps(0, 0x10000, 4).faults(1, 0x11000).ok(1, Call::Exec { file: file("/bin/x") }).faults(1, 0x11000);
    let (slot, offset) = story.touched(4).expect("known");
    assert_eq!((offset, story.touched(6)), (PAGE, None));
    let made = story.compiled().step(2).slots.clone();
    assert!(made.iter().any(|effect| matches!(effect, SlotEffect::Copied { to, .. } if to.0 == slot)), "{made:?}");
    let gone = story.compiled().step(5).slots.clone();
    assert!(gone.contains(&SlotEffect::Closed(Fd(slot))), "{gone:?}");
}
