use super::*;

fn head() -> StreamHead {
    StreamHead {
        content: 0x0123_4567_89ab_cdef_0011_2233_4455_6677,
        base: 5,
        bytes: 1 << 20,
        block: 512,
        start: 1024,
        data: 1536,
        name: "db-monday".to_string(),
    }
}

fn stream(head: &StreamHead) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, head).unwrap();
    encoder.data(1024, &[7; 512]).unwrap();
    encoder.zero(4096..1 << 19).unwrap();
    encoder.data(1 << 19, &[8; 1024]).unwrap();
    encoder.end().unwrap();
    bytes
}

fn read(bytes: &[u8]) -> Result<(StreamHead, Vec<Item>), StreamError> {
    let mut decoder = Decoder::new(bytes)?;
    let mut items = Vec::new();
    loop {
        match decoder.next_item()? {
            Item::End => return Ok((decoder.head().clone(), items)),
            item => items.push(item),
        }
    }
}

#[test]
fn a_stream_reads_as_it_was_written() {
    let golden = include_bytes!("../../golden/stream-v1.bin");
    assert!(stream(&head()) == golden, "the format has changed: a new version, or a mistake");
    let (found, items) = read(golden).unwrap();
    assert_eq!(found, head());
    let expected = [
        Item::Data { at: 1024, data: vec![7; 512] },
        Item::Zero { at: 4096, len: (1 << 19) - 4096 },
        Item::Data { at: 1 << 19, data: vec![8; 1024] },
    ];
    assert_eq!(items, expected);
}

#[test]
fn the_head_keeps_the_promises_of_the_common_header() {
    esker_framing::conformance::check_single(&head());
}

#[test]
fn a_stream_that_is_cut_anywhere_says_so_and_a_damaged_byte_is_found() {
    let whole = stream(&head());
    for len in 0..whole.len() {
        let error = read(&whole[..len]).unwrap_err();
        assert!(matches!(error, StreamError::Cut(at) if at == len as u64), "{len} bytes: {error}");
    }
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x40;
        assert!(read(&damaged).is_err(), "byte {at}");
    }
    let longer = [whole.clone(), vec![0]].concat();
    assert!(matches!(read(&longer), Err(StreamError::Trailing(at)) if at == whole.len() as u64));
}

#[test]
fn records_out_of_order_or_outside_the_snapshot_are_refused() {
    let check = |write: fn(&mut Encoder<&mut Vec<u8>>), words: &str| {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, &StreamHead { data: 512, ..head() }).unwrap();
        write(&mut encoder);
        encoder.end().unwrap();
        let error = read(&bytes).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    check(|to| to.data(0, &[1; 512]).unwrap(), "place out of range");
    check(|to| to.data(1 << 20, &[1; 512]).unwrap(), "place out of range");
    check(|to| to.data(1024, &[1; 100]).unwrap(), "place out of range");
    check(|to| to.data(1024, &[1; 1024]).unwrap(), "amount of data");
    check(|to| to.data(1024, &[]).unwrap(), "place out of range");
    check(|_| {}, "amount of data");
    check(|to| to.zero(1024..1024).unwrap(), "place out of range");
    let twice = |to: &mut Encoder<&mut Vec<u8>>| (0..2).for_each(|_| to.zero(2048..4096).unwrap());
    check(twice, "place out of range");
    check(|to| to.record(9, &[0; 16]).unwrap(), "kind out of range");
    check(|to| to.record(DATA, &[0; 4]).unwrap(), "length out of range");
    check(|to| to.data(1024, &vec![1; 1 << 20]).unwrap(), "damaged at byte");
}

#[test]
fn a_head_with_numbers_that_no_esker_writes_is_refused() {
    let check = |head: StreamHead, words: &str| {
        let error = read(&seal(&head)).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    check(StreamHead { content: 0, ..head() }, "content number");
    check(StreamHead { base: head().content, ..head() }, "content number");
    check(StreamHead { block: 1000, ..head() }, "block");
    check(StreamHead { bytes: 0, ..head() }, "size");
    check(StreamHead { start: (1 << 20) + 512, ..head() }, "start");
    check(StreamHead { data: 1 << 20, ..head() }, "amount of data");
    check(StreamHead { name: "a b".into(), ..head() }, "name");
    assert!(
        matches!(read(&[7; 400]), Err(StreamError::Foreign)) && matches!(read(&[0; 400]), Err(StreamError::Foreign))
    );
    let mut newer = seal(&head());
    newer[8] = 2;
    esker_framing::superblock::reseal(&mut newer);
    assert!(read(&newer).unwrap_err().to_string().contains("format version 2"));
}
