//! Streams of snapshots: what is taken lies inside the snapshot, in order and as much as was announced, and reads alike
//! when it is written back. Each input is tried as it is, and with right checksums, so that what lies behind them is
//! reached.

use esker_framing::RECORD_HEADER;
use esker_framing::superblock::reseal;
use esker_layer_thin::stream::{Decoder, Encoder, HEAD, Item, StreamError, StreamHead};

fn stream(start: u64, base: u128) -> Vec<u8> {
    let name = "monday".to_string();
    let head = StreamHead { content: 9, base, bytes: 1 << 20, block: 512, start, data: 1536, name };
    let items = [
        Item::Data { at: start, data: vec![7; 512] },
        Item::Zero { at: start + 4096, len: (1 << 19) - start - 4096 },
        Item::Data { at: 1 << 19, data: vec![8; 1024] },
    ];
    written(&head, &items)
}

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let whole = stream(0, 0);
    vec![whole[..whole.len() / 2].to_vec(), whole, stream(4096, 5)]
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let as_it_is = try_stream(input)?;
    let mut mended = input.to_vec();
    mend(&mut mended);
    Ok(try_stream(&mended)? || as_it_is)
}

fn try_stream(bytes: &[u8]) -> Result<bool, String> {
    match read(bytes) {
        Ok((head, items)) => match read(&written(&head, &items)) {
            Ok(again) if again == (head, items) => Ok(true),
            again => Err(format!("a stream that was taken reads otherwise when it is written back: {again:?}")),
        },
        Err(error) if error.to_string().is_empty() => Err("refused without a reason".to_string()),
        Err(_) => Ok(false),
    }
}

fn read(bytes: &[u8]) -> Result<(StreamHead, Vec<Item>), StreamError> {
    let mut decoder = Decoder::new(bytes)?;
    let (mut items, mut at, mut data) = (Vec::new(), decoder.head().start, 0);
    loop {
        let item = decoder.next_item()?;
        let (start, len) = match &item {
            Item::Data { at, data } => (*at, data.len() as u64),
            Item::Zero { at, len } => (*at, *len),
            Item::End => {
                assert_eq!(data, decoder.head().data, "the amount of data was announced");
                return Ok((decoder.head().clone(), items));
            }
        };
        assert!(start >= at && start + len <= decoder.head().bytes, "in order and inside the snapshot");
        at = start + len;
        data += if matches!(item, Item::Data { .. }) { len } else { 0 };
        items.push(item);
    }
}

fn written(head: &StreamHead, items: &[Item]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, head).expect("memory takes it");
    for item in items {
        let done = match item {
            Item::Data { at, data } => encoder.data(*at, data),
            Item::Zero { at, len } => encoder.zero(*at..at + len),
            Item::End => Ok(()),
        };
        done.expect("memory takes it");
    }
    encoder.end().expect("memory takes it");
    bytes
}

/// Gives the head and the records that follow it right checksums.
fn mend(bytes: &mut [u8]) {
    let Some((head, mut rest)) = bytes.split_at_mut_checked(HEAD) else { return };
    reseal(head);
    while let Some(length) = rest.get(8..12).map(|length| u32::from_le_bytes(length.try_into().expect("4 bytes"))) {
        let len = RECORD_HEADER + length as usize;
        let Some((record, behind)) = rest.split_at_mut_checked(len.next_multiple_of(8)) else { return };
        record[..4].fill(0);
        let sum = crc32fast::hash(&record[..len]);
        record[..4].copy_from_slice(&sum.to_le_bytes());
        rest = behind;
    }
}
