//! Requests of FUSE: what is read of one lies in its message, and a message that is none is refused.

use esker_front_fuse::proto::abi::{
    BatchForgetIn, CreateIn, ForgetOne, InHeader, IoctlIn, LinkIn, MkdirIn, MknodIn, ReadIn, Rename2In, SetAttrIn,
    SetXattrIn, WRITE_HEAD, WriteIn, opcode,
};
use esker_front_fuse::proto::{Op, Request};

/// The last operation that the kernel has.
const LAST: u32 = opcode::COPY_FILE_RANGE_64;

fn message(number: u32, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let len = (size_of::<InHeader>() + body.len()) as u32;
    let mut bytes = [len.to_ne_bytes(), number.to_ne_bytes()].concat();
    bytes.extend(7u64.to_ne_bytes());
    bytes.resize(size_of::<InHeader>(), 1);
    [bytes, body].concat()
}

/// Each operation with the arguments of most, and those that have names or payloads.
pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let zeroes = |bytes: usize| vec![0; bytes];
    let mut all: Vec<Vec<u8>> = (1..=LAST).map(|number| message(number, &[&zeroes(88), b"name\0other\0"])).collect();
    all.push(message(opcode::SYMLINK, &[b"name\0target\0"]));
    all.push(message(opcode::MKNOD, &[&zeroes(size_of::<MknodIn>()), b"name\0"]));
    all.push(message(opcode::MKDIR, &[&zeroes(size_of::<MkdirIn>()), b"name\0"]));
    all.push(message(opcode::RENAME2, &[&zeroes(size_of::<Rename2In>()), b"from\0to\0"]));
    all.push(message(opcode::LINK, &[&zeroes(size_of::<LinkIn>()), b"name\0"]));
    all.push(message(opcode::CREATE, &[&zeroes(size_of::<CreateIn>()), b"name\0"]));
    all.push(message(opcode::SETATTR, &[&zeroes(size_of::<SetAttrIn>())]));
    all.push(message(opcode::READDIRPLUS, &[&zeroes(size_of::<ReadIn>())]));
    let mut value = zeroes(size_of::<SetXattrIn>());
    value[0] = 5;
    all.push(message(opcode::SETXATTR, &[&value, b"user.a\0value"]));
    let mut ioctl = zeroes(size_of::<IoctlIn>());
    ioctl[24] = 4;
    all.push(message(opcode::IOCTL, &[&ioctl, &[0; 4]]));
    let mut batch = zeroes(size_of::<BatchForgetIn>());
    batch[0] = 2;
    all.push(message(opcode::BATCH_FORGET, &[&batch, &[3; 2 * size_of::<ForgetOne>()]]));
    let mut write = zeroes(size_of::<WriteIn>());
    write[16] = 100;
    all.push(message(opcode::WRITE, &[&write, &[9; 100]]));
    all
}

/// Names and values that a request holds.
fn pieces<'a>(op: &Op<'a>) -> Vec<&'a [u8]> {
    match *op {
        Op::Lookup(name) | Op::Unlink(name) | Op::Rmdir(name) | Op::RemoveXattr(name) | Op::GetXattr(name, _) => {
            vec![name]
        }
        Op::Mknod(made, _) | Op::Mkdir(made) | Op::Create(made, _) => vec![made.name],
        Op::Symlink { name, target } => vec![name, target],
        Op::Rename(renamed) => vec![renamed.from, renamed.to],
        Op::Link { name, .. } => vec![name],
        _ => Vec::new(),
    }
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let Ok(request) = Request::parse(input, input.len()) else { return Ok(false) };
    if Request::unique_of(input) != Some(request.unique) || Request::opcode_of(input) != Some(request.opcode) {
        return Err("a request has another head than its message".to_string());
    }
    let pieces = pieces(&request.op);
    if pieces.iter().any(|piece| piece.contains(&0)) {
        return Err(format!("a name goes on behind its end: {:?}", request.op));
    }
    let mut held: usize = pieces.iter().map(|piece| piece.len() + 1).sum();
    match request.op {
        Op::SetXattr { name, value, .. } => held += name.len() + 1 + value.len(),
        Op::Ioctl(_, bytes) => held += bytes.len(),
        Op::BatchForget(forgets) => held += forgets.count() * size_of::<ForgetOne>(),
        Op::Write { size, .. } => held += size as usize,
        _ => {}
    }
    if held > input.len() - size_of::<InHeader>() {
        return Err(format!("{held} bytes are read from a message of {}", input.len()));
    }
    // A write is the same from its head alone.
    if let Op::Write { .. } = request.op {
        let again = Request::parse(&input[..WRITE_HEAD], input.len());
        if again != Ok(request) {
            return Err(format!("{again:?} from the head of {request:?}"));
        }
    }
    Ok(true)
}
