//! No change is missing from `esker:written`, whichever way it comes.

use esker_block::{Bio, Buf, Device};

use super::*;

const PIECE: u64 = 64 << 10;
const STACK: &str = "d = memory size=32MiB; vm = thin segment=64KiB ports=\"db=1MiB\" on d; ";

/// Numbers of the pieces that an export's map says were changed.
async fn changed(server: &Running, export: &str) -> Vec<u64> {
    let client = server.client(export).await;
    let size = client.remote().size;
    let list = client.status(Context::Written, ByteRange::new(0, size).unwrap(), false).await.unwrap();
    assert_eq!(list.iter().map(|extent| extent.len).sum::<u64>(), size);
    let mut at = 0;
    let mut pieces = Vec::new();
    for extent in &list {
        let end = at + extent.len;
        pieces.extend((at / PIECE..end.div_ceil(PIECE)).filter(|_| extent.flags == 1));
        at = end;
    }
    pieces
}

async fn write(server: &Running, export: &str, piece: u64) {
    let client = server.client(export).await;
    client.write(piece * PIECE, Slice::heap(vec![7; 4096]), false).await.unwrap();
}

async fn order(server: &Running, text: &str) {
    let words = text.split(' ').map(str::to_string).collect();
    server.ask(Command::Order { device: "vm".into(), words }).await.unwrap_or_else(|e| panic!("{text}: {e}"));
}

/// A write of a front beside NBD, such as a vhost-user socket: it has the export from [`Served::export`].
async fn write_through(front: &impl Device, piece: u64) {
    let bio = Bio::write(piece * PIECE, Buf::from_bytes(&Pool::default(), &[9; 4096]));
    assert!(front.submit(bio).await.result.is_ok());
}

#[test]
fn every_door_and_range_order_marks_one_map_that_lasts_over_live_changes() {
    in_world(|rt, dir| async move {
        let text = format!(
            "{STACK}st = stats on vm.db; export vol = st nbd=unix:DIR/sock; export twin = st nbd=unix:DIR/sock; \
             export far = d nbd=unix:DIR/sock"
        );
        let served = start(&rt, &dir, &text).unwrap();
        let front = served.export("vol").unwrap();
        let server = Running::of(&rt, served);
        assert!(changed(&server, "vol").await.is_empty());
        write(&server, "vol", 1).await;
        write_through(&front, 3).await;
        assert_eq!(changed(&server, "vol").await, [1, 3]);
        let clone = RangeCommand::Clone { from: PIECE, len: 4096, to: 5 * PIECE };
        let moved = RangeCommand::Move { from: 3 * PIECE, len: 4096, to: 7 * PIECE };
        let delete = RangeCommand::Delete { at: 8 * PIECE, len: 4096 };
        let ranges = Command::Remap { export: "vol".into(), ops: vec![clone, moved, delete] };
        server.ask(ranges).await.unwrap();
        assert_eq!(changed(&server, "vol").await, [1, 3, 5, 7, 8]);
        let insert = Command::Insert { device: "p = pass".into(), above: "st".into(), patience_ms: 1000 };
        server.ask(insert).await.unwrap();
        write_through(&front, 9).await;
        server.ask(Command::Remove { name: "st".into(), patience_ms: 1000 }).await.unwrap();
        write(&server, "twin", 10).await;
        for export in ["vol", "twin"] {
            assert_eq!(changed(&server, export).await, [1, 3, 5, 7, 8, 9, 10], "{export}");
        }
        assert_eq!(changed(&server, "far").await.len(), 512, "what stands below changes, too, at places unknown here");
    });
}

#[test]
fn a_roll_back_marks_all_of_every_export_on_its_port_and_what_changes_no_content_marks_nothing() {
    in_world(|rt, dir| async move {
        let text = format!(
            "{STACK}al = align block=512 on vm.db; export vol = vm.db nbd=unix:DIR/sock; \
             export al = al nbd=unix:DIR/sock"
        );
        let server = Running::new(&rt, &dir, &text);
        write(&server, "vol", 1).await;
        for text in
            ["snapshot db db-old", "list", "usage", "clone db db-copy", "dedup db db-copy", "resize db-copy 2MiB"]
        {
            order(&server, text).await;
        }
        let all: Vec<u64> = (0..16).collect();
        assert_eq!(
            (changed(&server, "vol").await, changed(&server, "al").await),
            (vec![1], all.clone()),
            "its places are unknown"
        );
        order(&server, "rollback db db-old force").await;
        assert_eq!((changed(&server, "vol").await, changed(&server, "al").await), (all.clone(), all));
    });
}

#[test]
fn what_a_resize_gains_or_cuts_off_is_marked_and_a_refused_one_marks_nothing() {
    in_world(|rt, dir| async move {
        let text = format!("{STACK}export vol = vm.db nbd=unix:DIR/sock");
        let server = Running::new(&rt, &dir, &text);
        let resize = |bytes| Command::Resize { export: "vol".into(), bytes, patience_ms: 1000 };
        for bytes in [0, 100, 9 << 40] {
            assert!(server.ask(resize(bytes)).await.is_err());
        }
        assert!(changed(&server, "vol").await.is_empty());
        order(&server, "resize db 1088KiB").await;
        assert_eq!(changed(&server, "vol").await, [16]);
        server.ask(resize(18 * PIECE)).await.unwrap();
        assert_eq!(changed(&server, "vol").await, [16, 17]);
        server.ask(resize(14 * PIECE)).await.unwrap();
        server.ask(resize(16 * PIECE)).await.unwrap();
        assert_eq!(changed(&server, "vol").await, [14, 15]);
    });
}
