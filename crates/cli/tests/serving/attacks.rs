//! What hostile clients do, one function each, over a bare socket. Each says whether the server answered as it must.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use esker_base::Stream;

/// An attack on the server behind a socket.
pub type Attack = fn(&Path, &mut Stream) -> io::Result<bool>;

/// All of them by name. Those before [`HOLDERS`] make the server hold as much memory for them as it is willing to.
pub const ATTACKS: &[(&str, Attack)] = &[
    ("reads without taking a reply", never_reads),
    ("reads of sizes that fill half of their memory", reads_odd_sizes),
    ("takes half a reply", takes_half_a_reply),
    ("asks for status without taking a reply", asks_status),
    ("requests of 1 GiB and more", oversized),
    ("unknown options", unknown_options),
    ("options without end", floods_options),
    ("options that are too long", long_options),
    ("a handshake byte by byte", slow_handshake),
    ("connections without a word", floods_connections),
    ("garbage instead of requests", garbage),
    ("payloads cut off", cuts_payload),
    ("requests past the end", past_the_end),
    ("unknown commands and flags", unknown_commands),
    ("unknown client flags", unknown_client_flags),
    ("garbage instead of TLS", garbage_for_tls),
];
/// Attacks that hold payload.
pub const HOLDERS: usize = 4;

/// A server that has not answered by then fails the attack's test.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a client that does not read stays.
const STAY: Duration = Duration::from_millis(700);
const EXPORT: &[u8] = b"vol";

mod opt {
    pub const EXPORT_NAME: u32 = 1;
    pub const STARTTLS: u32 = 5;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const SET_META_CONTEXT: u32 = 10;
}

mod cmd {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const BLOCK_STATUS: u16 = 7;
}

/// Answers, as the protocol numbers them.
mod told {
    pub const INVAL: u32 = 22;
    pub const NO_SPACE: u32 = 28;
    pub const OVERFLOW: u32 = 75;
    pub const ACK: u32 = 1;
    pub const UNSUPPORTED: u32 = 0x8000_0001;
    pub const TOO_BIG: u32 = 0x8000_0009;
}

/// A connection with no manners of its own.
struct Wire(UnixStream);

impl Wire {
    /// Connects and takes the greeting.
    fn connect(socket: &Path) -> io::Result<Wire> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut wire = Wire(stream);
        wire.take(18)?;
        Ok(wire)
    }

    /// The same, up to the options.
    fn hello(socket: &Path) -> io::Result<Wire> {
        let mut wire = Wire::connect(socket)?;
        wire.send(&3u32.to_be_bytes())?;
        Ok(wire)
    }

    /// The same, up to the requests. Also the size of the export.
    fn begin(socket: &Path) -> io::Result<(Wire, u64)> {
        let mut wire = Wire::hello(socket)?;
        wire.option(opt::EXPORT_NAME, EXPORT)?;
        let told = wire.take(10)?;
        Ok((wire, u64::from_be_bytes(std::array::from_fn(|i| told[i]))))
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn take(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn option_head(&mut self, option: u32, len: u32) -> io::Result<()> {
        self.send(&[&b"IHAVEOPT"[..], &option.to_be_bytes(), &len.to_be_bytes()].concat())
    }

    fn option(&mut self, option: u32, data: &[u8]) -> io::Result<()> {
        self.option_head(option, data.len() as u32)?;
        self.send(data)
    }

    /// The kind of the next option reply.
    fn option_reply(&mut self) -> io::Result<u32> {
        let head = self.take(20)?;
        let word = |at: usize| u32::from_be_bytes(std::array::from_fn(|i| head[at + i]));
        self.take(word(16) as usize)?;
        Ok(word(12))
    }

    /// Takes option replies until one is the last of its option.
    fn acknowledged(&mut self) -> io::Result<bool> {
        loop {
            match self.option_reply()? {
                told::ACK => return Ok(true),
                kind if kind & 0x8000_0000 != 0 => return Ok(false),
                _ => {}
            }
        }
    }

    fn request(&mut self, flags: u16, command: u16, offset: u64, len: u32) -> io::Result<()> {
        let magic = 0x2560_9513u32.to_be_bytes();
        let words = [&magic[..], &flags.to_be_bytes(), &command.to_be_bytes(), &[7; 8], &offset.to_be_bytes()];
        self.send(&[&words.concat()[..], &len.to_be_bytes()].concat())
    }

    /// The error of the next simple reply.
    fn error(&mut self) -> io::Result<u32> {
        let head = self.take(16)?;
        Ok(u32::from_be_bytes(std::array::from_fn(|i| head[4 + i])))
    }

    /// Whether the server ends the connection, whatever it still says.
    fn is_ended(&mut self) -> io::Result<bool> {
        let mut rest = [0; 4096];
        loop {
            match self.0.read(&mut rest) {
                Ok(0) => return Ok(true),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(true),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends what the server may refuse to take any time: it has ended the connection then.
    fn send_until_ended(&mut self, bytes: &[u8]) -> io::Result<bool> {
        match self.send(bytes) {
            Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                Ok(true)
            }
            other => other.and_then(|()| self.is_ended()),
        }
    }
}

fn random_bytes(random: &mut Stream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

fn never_reads(socket: &Path, _: &mut Stream) -> io::Result<bool> {
    let (mut wire, _) = Wire::begin(socket)?;
    for _ in 0..128 {
        wire.request(0, cmd::READ, 0, 32 << 20)?;
    }
    sleep(STAY);
    Ok(true)
}

fn reads_odd_sizes(socket: &Path, _: &mut Stream) -> io::Result<bool> {
    let (mut wire, _) = Wire::begin(socket)?;
    for _ in 0..128 {
        wire.request(0, cmd::READ, 0, (1 << 20) + 512)?;
    }
    sleep(STAY);
    Ok(true)
}

fn takes_half_a_reply(socket: &Path, _: &mut Stream) -> io::Result<bool> {
    let (mut wire, _) = Wire::begin(socket)?;
    for _ in 0..4 {
        wire.request(0, cmd::READ, 0, 16 << 20)?;
    }
    wire.take(16 + (8 << 20))?;
    sleep(STAY);
    Ok(true)
}

fn asks_status(socket: &Path, _: &mut Stream) -> io::Result<bool> {
    let mut wire = Wire::hello(socket)?;
    wire.option(opt::STRUCTURED_REPLY, &[])?;
    let name = [&(EXPORT.len() as u32).to_be_bytes()[..], EXPORT].concat();
    let query = b"base:allocation";
    let chosen = [&name[..], &1u32.to_be_bytes(), &(query.len() as u32).to_be_bytes(), query].concat();
    if !wire.acknowledged()? {
        return Ok(false);
    }
    for (option, data) in [(opt::SET_META_CONTEXT, chosen), (opt::GO, [&name[..], &[0, 0]].concat())] {
        wire.option(option, &data)?;
        if !wire.acknowledged()? {
            // Refused with a reason, because the export has as many connections as it takes.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    for _ in 0..128 {
        wire.request(0, cmd::BLOCK_STATUS, 0, 32 << 20)?;
    }
    sleep(STAY);
    Ok(true)
}

fn oversized(socket: &Path, _: &mut Stream) -> io::Result<bool> {
    let (mut wire, _) = Wire::begin(socket)?;
    wire.request(0, cmd::READ, 0, u32::MAX)?;
    // Both are true of it.
    let refused = [told::OVERFLOW, told::INVAL].contains(&wire.error()?);
    wire.request(0, cmd::WRITE, 0, 1 << 30)?;
    Ok(wire.is_ended()? && refused)
}

fn unknown_options(socket: &Path, random: &mut Stream) -> io::Result<bool> {
    let mut wire = Wire::hello(socket)?;
    for _ in 0..50 {
        let len = random.below(4096) as usize;
        wire.option(0x4242 + random.below(1000) as u32, &random_bytes(random, len))?;
        if wire.option_reply()? != told::UNSUPPORTED {
            return Ok(false);
        }
    }
    Ok(true)
}

fn floods_options(socket: &Path, _: &mut Stream) -> io::Result<bool> {
    let mut wire = Wire::hello(socket)?;
    for sent in 0..5000 {
        if wire.option_head(0x4242, 0).and_then(|()| wire.option_reply()).is_err() {
            return Ok(sent >= 1024);
        }
    }
    Ok(false)
}

fn long_options(socket: &Path, random: &mut Stream) -> io::Result<bool> {
    let mut wire = Wire::hello(socket)?;
    wire.option(0x4242, &random_bytes(random, 1 << 20))?;
    let refused = wire.option_reply()? == told::TOO_BIG;
    wire.option_head(0x4242, u32::MAX)?;
    Ok(wire.is_ended()? && refused)
}

fn slow_handshake(socket: &Path, _: &mut Stream) -> io::Result<bool> {
    let mut wire = Wire::connect(socket)?;
    for byte in [&3u32.to_be_bytes()[..], b"IHAVEOPT"].concat() {
        wire.send(&[byte])?;
        sleep(STAY / 12);
    }
    Ok(true)
}

fn floods_connections(socket: &Path, _: &mut Stream) -> io::Result<bool> {
    let open: Vec<UnixStream> = (0..12).map(|_| UnixStream::connect(socket)).collect::<io::Result<_>>()?;
    sleep(STAY / 4);
    drop(open);
    for _ in 0..50 {
        drop(UnixStream::connect(socket)?);
    }
    Ok(true)
}

fn garbage(socket: &Path, random: &mut Stream) -> io::Result<bool> {
    let (mut wire, _) = Wire::begin(socket)?;
    wire.send_until_ended(&random_bytes(random, 64 << 10))
}

fn cuts_payload(socket: &Path, random: &mut Stream) -> io::Result<bool> {
    let (mut wire, _) = Wire::begin(socket)?;
    wire.request(0, cmd::WRITE, 0, 1 << 20)?;
    wire.send(&random_bytes(random, 700_000))?;
    Ok(true)
}

fn past_the_end(socket: &Path, random: &mut Stream) -> io::Result<bool> {
    let (mut wire, size) = Wire::begin(socket)?;
    wire.request(0, cmd::READ, size - 512, 4096)?;
    let read = wire.error()? == told::INVAL;
    wire.request(0, cmd::WRITE, size, 4096)?;
    wire.send(&random_bytes(random, 4096))?;
    let written = wire.error()? == told::NO_SPACE;
    wire.request(0, cmd::READ, u64::MAX - 100, 4096)?;
    let wrapped = wire.error()? == told::INVAL;
    wire.request(0, cmd::READ, size - 512, 512)?;
    let goes_on = wire.error()? == 0 && wire.take(512).is_ok();
    Ok(read && written && wrapped && goes_on)
}

fn unknown_commands(socket: &Path, random: &mut Stream) -> io::Result<bool> {
    let (mut wire, _) = Wire::begin(socket)?;
    for _ in 0..100 {
        wire.request(0, 100 + random.below(1000) as u16, random.next_u64(), random.next_u64() as u32)?;
        wire.request(0x8000, cmd::READ, 0, 4096)?;
        if [wire.error()?, wire.error()?] != [told::INVAL; 2] {
            return Ok(false);
        }
    }
    Ok(true)
}

fn unknown_client_flags(socket: &Path, _: &mut Stream) -> io::Result<bool> {
    let mut wire = Wire::connect(socket)?;
    wire.send(&u32::MAX.to_be_bytes())?;
    wire.is_ended()
}

fn garbage_for_tls(socket: &Path, random: &mut Stream) -> io::Result<bool> {
    let mut wire = Wire::hello(socket)?;
    wire.option(opt::STARTTLS, &[])?;
    let agreed = wire.acknowledged()?;
    Ok(wire.send_until_ended(&random_bytes(random, 8 << 10))? && agreed)
}
