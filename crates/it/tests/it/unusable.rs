//! Metadata that cannot be used: the extension says why and refuses requests, and the rest of the stack works.

use std::path::Path;

use esker_block::{Bio, BioError, Buf, Device};
use esker_rt::mem::Pool;
use esker_rt::real::{Reactor, RealConfig};
use esker_stack::{Spec, Stack};

/// What reads of a mirror's volume and of a device beside it answer, when its members begin with these bytes.
fn answers(dir: &Path, heads: [&[u8]; 2]) -> [Result<(), BioError>; 2] {
    for (name, head) in ["a.img", "b.img"].into_iter().zip(heads) {
        let bytes = [head, &vec![0; (1 << 20) - head.len()]].concat();
        std::fs::write(dir.join(name), bytes).unwrap();
    }
    let at = dir.display();
    let text = format!(
        "a = file path={at}/a.img direct=false; b = file path={at}/b.img direct=false; vol = mirror on a, b; \
         beside = memory size=64KiB"
    );
    let spec = Spec::parse("stack", &text).unwrap();
    let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
    let rt = reactor.rt();
    reactor.block_on(async move {
        let stack = Stack::build(&rt, &Pool::default(), esker_kinds::ALL, &spec).unwrap();
        let mut answers = Vec::new();
        for name in ["vol", "beside"] {
            let bio = Bio::read(0, Buf::unique(stack.pool(), 4096));
            answers.push(stack.device(name).unwrap().submit(bio).await.result.map(drop));
        }
        answers.try_into().unwrap()
    })
}

fn check_refused(heads: [&[u8]; 2], why: &str) {
    let dir = tempfile::tempdir().unwrap();
    let [volume, beside] = answers(dir.path(), heads);
    let told = volume.unwrap_err().to_string();
    assert!(told.contains(why), "\"{told}\" should say \"{why}\"");
    assert_eq!(beside, Ok(()));
    assert_eq!(std::fs::read(dir.path().join("a.img")).unwrap()[..heads[0].len()], *heads[0], "nothing is overwritten");
}

#[test]
fn a_mirror_over_something_else_refuses_and_the_rest_of_the_stack_works() {
    check_refused([b"somebody's file system", b""], "holds no superblock of a mirror");
}

#[test]
fn a_mirror_with_damaged_superblocks_refuses_and_the_rest_of_the_stack_works() {
    let superblock = esker_layer_mirror::superblock::Superblock::new(7, 2, 1 << 19, 4096);
    let mut bytes = superblock.encode(0);
    bytes[100] ^= 1;
    check_refused([&bytes, b""], "a superblock whose checksum is wrong");
}

#[test]
fn blank_members_are_used() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(answers(dir.path(), [b"", b""]), [Ok(()), Ok(())]);
}
