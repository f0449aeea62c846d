//! What is known of devices.

use esker_block::Buf;

use super::*;

fn lowers(count: usize) -> Lowers {
    Lowers::new(&vec![Limits::plain(1 << 20, 512); count])
}

fn read(at: u64) -> Bio {
    Bio::read(at, Buf::described(512, 0))
}

#[test]
fn the_arm_is_where_the_last_request_left_it() {
    let lowers = lowers(2);
    assert_eq!(lowers.state(0).unwrap().head, ArmState { at: 0, way: Way::Unknown });
    lowers.sent(0, &read(8192)).unwrap();
    assert_eq!(lowers.state(0).unwrap().head, ArmState { at: 8704, way: Way::Up });
    lowers.sent(0, &read(4096)).unwrap();
    lowers.sent(0, &Bio::flush()).unwrap();
    assert_eq!(lowers.state(0).unwrap().head, ArmState { at: 4608, way: Way::Down });
    assert_eq!(lowers.state(0).unwrap().in_flight, 3);
}

#[test]
fn the_closest_arm_is_chosen_and_ties_go_to_the_first() {
    let lowers = lowers(3);
    lowers.sent(1, &read(100 * 512)).unwrap();
    assert_eq!(lowers.closest(&[0, 1, 2], 0), Some(0));
    assert_eq!(lowers.closest(&[2, 1, 0], 0), Some(2));
    assert_eq!(lowers.closest(&[0, 1, 2], 90 * 512), Some(1));
    lowers.report(1, Event::Unplug).unwrap();
    assert_eq!(lowers.closest(&[0, 1, 2], 90 * 512), Some(0));
    assert_eq!((lowers.closest(&[1], 0), lowers.closest(&[7], 0)), (None, None));
}

#[test]
fn each_event_reaches_each_handler_exactly_once() {
    let lowers = Rc::new(lowers(2));
    let calls: Rc<RefCell<Vec<(u8, usize, Event)>>> = Rc::default();
    let handler = |who: u8| {
        let calls = calls.clone();
        move |lower: usize, event: Event| calls.borrow_mut().push((who, lower, event))
    };
    lowers.on(None, None, handler(1)).unwrap();
    lowers.on(Some(1), Some(Event::Unplug), handler(2)).unwrap();
    let third = lowers.on(None, Some(Event::Plug), handler(3)).unwrap();
    let gone = || read(0).fail(BioError::Gone("d".into()));
    lowers.answered(1, &gone()).unwrap();
    lowers.answered(1, &gone()).unwrap();
    assert!(!lowers.report(1, Event::Unplug).unwrap(), "it is gone already");
    assert!(lowers.report(1, Event::Plug).unwrap());
    assert!(lowers.forget(third) && !lowers.forget(third));
    assert!(lowers.report(0, Event::Unplug).unwrap());
    let (plug, unplug) = (Event::Plug, Event::Unplug);
    assert_eq!(*calls.borrow(), [(1, 1, unplug), (2, 1, unplug), (1, 1, plug), (3, 1, plug), (1, 0, unplug)]);
    assert_eq!(lowers.state(1).unwrap().failed, 2);
}

#[test]
fn lower_ends_that_are_not_there_are_an_error() {
    let lowers = lowers(2);
    let wrong = NoLower { lower: 2, count: 2 };
    assert_eq!(lowers.sent(2, &Bio::flush()), Err(wrong));
    assert_eq!(lowers.answered(2, &Bio::flush().ok()), Err(wrong));
    assert_eq!(lowers.state(2).map(drop), Err(wrong));
    assert_eq!(lowers.characteristics(2).map(drop), Err(wrong));
    assert_eq!(lowers.report(2, Event::Plug), Err(wrong));
    assert_eq!(lowers.on(Some(2), None, |_, _| {}), Err(wrong));
    assert_eq!(lowers.characteristics(1).unwrap().size, 1 << 20);
    assert_eq!(wrong.to_string(), "there is no lower device 2; there are 2");
}
