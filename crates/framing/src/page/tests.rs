use super::*;

const PAGE: usize = 4096;

fn sealed() -> Vec<u8> {
    let mut out = vec![9; PAGE];
    Page { id: 77, place: 5, generation: 12, kind: 3, payload: &[1; 900] }.seal(&mut out);
    out
}

fn wanted() -> PageId {
    PageId { id: 77, place: 5, generations: 0..=12, kind: 3 }
}

#[test]
fn the_layout_is_that_of_the_page() {
    let at = [
        offset_of!(RawPage, checksum),
        offset_of!(RawPage, kind),
        offset_of!(RawPage, reserved),
        offset_of!(RawPage, place),
        offset_of!(RawPage, id),
        offset_of!(RawPage, generation),
        offset_of!(RawPage, length),
        offset_of!(RawPage, reserved2),
    ];
    assert_eq!((at, size_of::<RawPage>()), ([0, 4, 6, 8, 16, 32, 40, 44], PAGE_HEADER));
}

#[test]
fn a_page_reads_back_and_every_damaged_byte_is_noticed() {
    let bytes = sealed();
    let page = Page::unseal(&bytes, &wanted()).unwrap();
    assert_eq!((page.generation, page.payload), (12, &[1; 900][..]));
    for at in 0..PAGE {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert_eq!(Page::unseal(&damaged, &wanted()), Err(PageError::Checksum), "byte {at}");
    }
    assert_eq!(Page::unseal(&[0; PAGE], &wanted()), Err(PageError::Checksum), "a page that was never written");
    assert_eq!(Page::unseal(&bytes[..40], &wanted()), Err(PageError::Checksum));
}

#[test]
fn a_torn_page_is_never_taken_for_a_whole_one() {
    let old = sealed();
    let mut new = vec![0; PAGE];
    Page { id: 77, place: 5, generation: 12, kind: 3, payload: &[2; PAGE - PAGE_HEADER] }.seal(&mut new);
    for cut in (512..PAGE).step_by(512) {
        for [front, back] in [[&old, &new], [&new, &old]] {
            let torn = [&front[..cut], &back[cut..]].concat();
            assert_eq!(Page::unseal(&torn, &wanted()), Err(PageError::Checksum), "cut at {cut}");
        }
    }
}

#[test]
fn a_misdirected_or_stale_page_is_refused() {
    let bytes = sealed();
    let read = |change: &dyn Fn(&mut PageId)| {
        let mut wanted = wanted();
        change(&mut wanted);
        Page::unseal(&bytes, &wanted).map(|page| page.place)
    };
    assert_eq!(read(&|_| ()), Ok(5));
    assert_eq!(read(&|wanted| wanted.place = 6), Err(PageError::Other(5)));
    assert_eq!(read(&|wanted| wanted.id = 78), Err(PageError::Other(5)));
    assert_eq!(read(&|wanted| wanted.kind = 4), Err(PageError::Other(5)));
    assert_eq!(read(&|wanted| wanted.generations = 13..=13), Err(PageError::Generation(12)), "stale");
    assert_eq!(read(&|wanted| wanted.generations = 0..=11), Err(PageError::Generation(12)), "of a later state");
}

#[test]
#[should_panic(expected = "a payload of 4049 bytes")]
fn a_payload_that_does_not_fit_is_a_mistake_of_the_caller() {
    Page { id: 1, place: 1, generation: 1, kind: 1, payload: &[0; PAGE - PAGE_HEADER + 1] }.seal(&mut [0; PAGE]);
}
