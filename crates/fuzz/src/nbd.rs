//! NBD: both sides' machines hold no more than their bounds, and serve no request that breaks its export's limits.

use esker_base::ByteRange;
use esker_front_nbd::proto::feed::{Event, Feeder};
use esker_front_nbd::proto::request::Header;
use esker_front_nbd::proto::wire::{MAX_OPTION, MAX_PAYLOAD, OPTION, cmd, cmd_flag, opt};
use esker_front_nbd::proto::{
    Context, Contexts, ExportInfo, Exports, Form, Heard, Need, Op, Remote, Replies, Request, Session, Terms, TlsMode,
};

const SIZE: u64 = 1 << 20;
const BLOCK: u32 = 512;
/// A machine that needs more steps than this for one input does not get on.
const STEPS_MAX: usize = 1 << 17;

fn option(code: u32, data: &[u8]) -> Vec<u8> {
    let len = (data.len() as u32).to_be_bytes();
    [&OPTION.to_be_bytes()[..], &code.to_be_bytes(), &len, data].concat()
}

/// A choice of the export "disk", with the requests for information that `wants` names.
fn choice(wants: &[u16]) -> Vec<u8> {
    let mut data = [&4u32.to_be_bytes()[..], b"disk", &(wants.len() as u16).to_be_bytes()].concat();
    wants.iter().for_each(|want| data.extend(want.to_be_bytes()));
    data
}

fn contexts(names: &[&str]) -> Vec<u8> {
    let mut data = [&4u32.to_be_bytes()[..], b"disk", &(names.len() as u32).to_be_bytes()].concat();
    for name in names {
        data.extend((name.len() as u32).to_be_bytes());
        data.extend(name.bytes());
    }
    data
}

fn requests() -> Vec<Request> {
    let range = ByteRange::new(4096, 1024).expect("inside the export");
    let ops = [
        Op::Read { range, whole: false },
        Op::Write { range, fua: true },
        Op::Flush,
        Op::Trim { range, fua: false },
        Op::WriteZeroes { range, fua: false, no_hole: true, fast: false },
        Op::BlockStatus { range, one: false, contexts: Contexts::default() },
        Op::Cache { range },
        Op::Resize { bytes: 8192 },
    ];
    ops.into_iter().enumerate().map(|(cookie, op)| Request { cookie: cookie as u64, op }).collect()
}

const FORMS: [Form; 3] = [Form::Simple, Form::Structured, Form::Extended];

fn all_contexts() -> Contexts {
    Context::ALL.into_iter().collect()
}

pub(crate) fn session_corpus() -> Vec<Vec<u8>> {
    let conversation = |form: Form| {
        let mut bytes = 3u32.to_be_bytes().to_vec();
        bytes.extend(option(opt::LIST, &[]));
        bytes.extend(option(opt::INFO, &choice(&[1, 2, 3])));
        if form != Form::Simple {
            let negotiated = if form == Form::Extended { opt::EXTENDED_HEADERS } else { opt::STRUCTURED_REPLY };
            bytes.extend(option(negotiated, &[]));
            bytes.extend(option(opt::LIST_META_CONTEXT, &contexts(&["base:", "esker:"])));
            bytes.extend(option(opt::SET_META_CONTEXT, &contexts(&Context::ALL.map(Context::name))));
        }
        bytes.extend(option(opt::GO, &choice(&[3])));
        for request in requests() {
            bytes.extend(request.encode(form).expect("a short range"));
            if matches!(request.op, Op::Write { .. }) {
                bytes.extend([0xaa; 1024]);
            }
        }
        if form == Form::Extended {
            let flags = cmd_flag::PAYLOAD_LEN;
            bytes.extend(Header { flags, command: cmd::BLOCK_STATUS, cookie: 9, offset: 512, len: 16 }.encode(form));
            bytes.extend([&1024u64.to_be_bytes()[..], &1u32.to_be_bytes(), &2u32.to_be_bytes()].concat());
        }
        bytes.extend(Replies::goodbye(form));
        bytes
    };
    let old = [&3u32.to_be_bytes()[..], &option(opt::EXPORT_NAME, b"disk")].concat();
    let secured = [&3u32.to_be_bytes()[..], &option(opt::STARTTLS, &[]), &conversation(Form::Structured)[4..]].concat();
    FORMS.map(conversation).into_iter().chain([old, secured]).collect()
}

pub(crate) fn try_session(input: &[u8]) -> Result<bool, String> {
    let disk = ExportInfo { cache: true, contexts: all_contexts(), ..ExportInfo::new("disk", SIZE, BLOCK) };
    let exports = Exports::new(vec![disk, ExportInfo::new("other", SIZE, 4096)]).map_err(|e| e.to_string())?;
    let mut feeder = Feeder::new(Session::new(exports).with_tls(TlsMode::On));
    let mut began = false;
    // Two pieces, so that messages are cut somewhere.
    for piece in [&input[..input.len() / 2], &input[input.len() / 2..]] {
        for event in feeder.feed(piece) {
            match event {
                Event::Began { .. } => began = true,
                Event::Serve(request) if !began => return Err(format!("{request:?} before an export was chosen")),
                Event::Serve(Request { op, .. }) => check_op(&op)?,
                _ => {}
            }
        }
        if feeder.held() > MAX_OPTION as usize {
            return Err(format!("{} bytes are held back", feeder.held()));
        }
    }
    Ok(began)
}

fn check_op(op: &Op) -> Result<(), String> {
    let Some(range) = op.range() else { return Ok(()) };
    let is_sound = range.end() <= SIZE && !range.is_empty() && range.is_aligned(u64::from(BLOCK));
    let fits = op.payload() <= MAX_PAYLOAD as usize;
    if is_sound && fits { Ok(()) } else { Err(format!("{op:?} is served")) }
}

/// A client with one request of each kind under way.
fn asking(form: Form) -> Replies {
    let selected = if form == Form::Simple { Contexts::default() } else { all_contexts() };
    let contexts = selected.iter().map(|context| (context.id(), context)).collect();
    let terms = Terms { form, contexts: selected };
    let remote = Remote { size: SIZE, flags: u16::MAX, contexts, terms, ..Remote::default() };
    let mut replies = Replies::new(&remote);
    requests().into_iter().for_each(|request| drop(replies.ask(request)));
    replies
}

pub(crate) fn replies_corpus() -> Vec<Vec<u8>> {
    let simple = |cookie: u64, data: &[u8]| {
        [&0x6744_6698u32.to_be_bytes()[..], &0u32.to_be_bytes(), &cookie.to_be_bytes(), data].concat()
    };
    let chunk = |flags: u16, kind: u16, cookie: u64, data: &[u8]| {
        let head = [&0x668e_33efu32.to_be_bytes()[..], &flags.to_be_bytes(), &kind.to_be_bytes()].concat();
        [&head[..], &cookie.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
    };
    let data = [&4096u64.to_be_bytes()[..], &[7; 512]].concat();
    let hole = [&4608u64.to_be_bytes()[..], &512u32.to_be_bytes()].concat();
    let status = [1u32, 512, 0, 512, 3].iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let error = [&5u32.to_be_bytes()[..], &2u16.to_be_bytes(), b"no"].concat();
    let simple_all = [simple(0, &[7; 1024]), simple(1, &[]), simple(2, &[]), simple(3, &[]), simple(4, &[])].concat();
    let chunks =
        [chunk(0, 1, 0, &data), chunk(1, 2, 0, &hole), chunk(1, 5, 5, &status), chunk(1, 0x8001, 1, &error)].concat();
    let long = |flags: u16, kind: u16, cookie: u64, offset: u64, data: &[u8]| {
        let head = [&0x6e8a_278cu32.to_be_bytes()[..], &flags.to_be_bytes(), &kind.to_be_bytes()].concat();
        [&head[..], &cookie.to_be_bytes(), &offset.to_be_bytes(), &(data.len() as u64).to_be_bytes(), data].concat()
    };
    let extents = |id: u32| {
        let head = [id.to_be_bytes(), 1u32.to_be_bytes()].concat();
        [&head[..], &1024u64.to_be_bytes(), &3u64.to_be_bytes()].concat()
    };
    let long_all = [
        long(0, 1, 0, 4096, &data),
        long(1, 2, 0, 4096, &hole),
        long(0, 6, 5, 4096, &extents(1)),
        long(1, 6, 5, 4096, &extents(2)),
        long(1, 0x8001, 1, 4096, &error),
    ]
    .concat();
    // The first byte says which way of replying the client agreed to.
    [simple_all, chunks, long_all].iter().zip(0u8..).map(|(bytes, form)| [&[form][..], bytes].concat()).collect()
}

pub(crate) fn try_replies(input: &[u8]) -> Result<bool, String> {
    let Some((mode, mut bytes)) = input.split_first() else { return Ok(false) };
    let mut replies = asking(FORMS[usize::from(mode % 3)]);
    let mut answered = false;
    for _ in 0..STEPS_MAX {
        let (len, is_payload) = match replies.need() {
            Need::Message(len) => (len, false),
            Need::Payload(len) | Need::Skip(len) => (len, true),
            Need::Nothing => return Ok(answered),
        };
        if len > MAX_PAYLOAD as usize {
            return Err(format!("the client needs {len} bytes at once"));
        }
        let Some((now, rest)) = bytes.split_at_checked(len) else { return Ok(answered) };
        bytes = rest;
        let heard = if is_payload { replies.taken() } else { replies.message(now) };
        match heard {
            Ok(Heard::Done { .. }) => answered = true,
            Ok(Heard::Data { range, .. }) if range.end() > SIZE => return Err(format!("data for {range}")),
            Ok(_) => {}
            Err(_) => return Ok(answered),
        }
    }
    Err("the client does not get on".to_string())
}
