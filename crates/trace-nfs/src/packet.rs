//! One line of a trace: eight fixed fields, then names with values.
//!
//! ```text
//! TIME SENDER RECEIVER TRANSPORT VERSION XID NUMBER OPERATION [STATUS] NAME VALUE ...
//! 999316802.796958 31.03f2 30.0801 U C3 fcdc4183 6 read fh 6189...0100 off 59e000 count 2000
//! ```
//!
//! `VERSION` is `C` for a call or `R` for a reply, and the version of NFS. Only replies have a status. Numbers are
//! hexadecimal but for times, which are seconds. Quotes hold a token with spaces together. The reader looks for the
//! names that it knows and passes over all others: traces hold names without values, and `name = value`.

use esker_base::Nanos;

/// Digits of the longest handle: 64 bytes in version 3 of NFS.
const HANDLE_DIGITS_MAX: usize = 128;
/// Digits of one summand of a handle's number.
const PIECE_DIGITS: usize = 16;
/// Largest time in seconds: the year 2286. Larger numbers are damage.
const SECONDS_MAX: u64 = 9_999_999_999;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
const FRACTION_DIGITS: usize = 9;

/// Why a line is no packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PacketFlaw {
    /// It begins with no digit: a comment or a heading, which is passed over.
    #[error("the line begins with no digit")]
    Foreign,
    /// Fixed fields are missing.
    #[error("the line has fewer than eight fields")]
    Short,
    /// The time is no number of seconds.
    #[error("the time is no number of seconds up to {SECONDS_MAX}")]
    Time,
    /// Neither `C` nor `R` with a version.
    #[error("the fifth field is none of C2, C3, R2 and R3")]
    Direction,
    /// No transaction id.
    #[error("the transaction id is no hexadecimal number")]
    Xid,
}

/// Whose packet it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// A client asks.
    Call,
    /// The server answers.
    Reply {
        /// Whether the status is `OK`.
        is_ok: bool,
    },
}

/// One packet.
#[derive(Clone, Debug)]
pub struct Packet<'a> {
    /// Since 1970.
    pub time: Nanos,
    /// Whose it is.
    pub direction: Direction,
    /// The transaction id.
    pub xid: u64,
    /// Name of the operation.
    pub operation: &'a [u8],
    /// What else it tells.
    pub attributes: Attributes<'a>,
}

/// The values of a packet that a replay uses: the first of each name.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Attributes<'a> {
    /// `fh`, as [`handle`] numbers it.
    pub handle: Option<u64>,
    /// `fh2`.
    pub handle2: Option<u64>,
    /// `name` or `fn`.
    pub name: Option<&'a [u8]>,
    /// `name2`, `fn2` or `sdata`.
    pub name2: Option<&'a [u8]>,
    /// `count` or `tcount`.
    pub count: Option<u64>,
    /// `off` or `offset`.
    pub offset: Option<u64>,
    /// `size`.
    pub size: Option<u64>,
    /// `ftype`: 1 is a file, 2 a directory.
    pub kind: Option<u64>,
    /// `mode`.
    pub mode: Option<u64>,
    /// `atime`.
    pub atime: Option<Nanos>,
    /// `mtime`.
    pub mtime: Option<Nanos>,
    /// `LONGPKT`: the recorder cut the packet.
    pub is_cut: bool,
}

impl<'a> Packet<'a> {
    /// The packet of a line.
    ///
    /// # Errors
    /// Why it is none.
    pub fn read(line: &'a [u8]) -> Result<Packet<'a>, PacketFlaw> {
        if !line.first().is_some_and(u8::is_ascii_digit) {
            return Err(PacketFlaw::Foreign);
        }
        let mut tokens = Tokens(line);
        let mut field = || tokens.next().map(|token| token.bytes).ok_or(PacketFlaw::Short);
        let (time, _sender, _receiver, _transport) = (field()?, field()?, field()?, field()?);
        let (version, xid, _number, operation) = (field()?, field()?, field()?, field()?);
        let time = seconds(time).ok_or(PacketFlaw::Time)?;
        let xid = hexadecimal(xid).ok_or(PacketFlaw::Xid)?;
        let direction = match version {
            b"C2" | b"C3" => Direction::Call,
            b"R2" | b"R3" => Direction::Reply { is_ok: tokens.next().ok_or(PacketFlaw::Short)?.bytes == b"OK" },
            _ => return Err(PacketFlaw::Direction),
        };
        Ok(Packet { time, direction, xid, operation, attributes: Attributes::read(tokens) })
    }
}

impl<'a> Attributes<'a> {
    fn read(mut tokens: Tokens<'a>) -> Attributes<'a> {
        let mut found = Attributes::default();
        while let Some(token) = tokens.next() {
            match token.bytes {
                _ if token.is_quoted => {}
                b"LONGPKT" => found.is_cut = true,
                b"fh" => first(&mut found.handle, tokens.value(), handle),
                b"fh2" => first(&mut found.handle2, tokens.value(), handle),
                b"name" | b"fn" => first(&mut found.name, tokens.value(), Some),
                b"name2" | b"fn2" | b"sdata" => first(&mut found.name2, tokens.value(), Some),
                b"count" | b"tcount" => first(&mut found.count, tokens.value(), hexadecimal),
                b"off" | b"offset" => first(&mut found.offset, tokens.value(), hexadecimal),
                b"size" => first(&mut found.size, tokens.value(), hexadecimal),
                b"ftype" => first(&mut found.kind, tokens.value(), hexadecimal),
                b"mode" => first(&mut found.mode, tokens.value(), hexadecimal),
                b"atime" => first(&mut found.atime, tokens.value(), seconds),
                b"mtime" => first(&mut found.mtime, tokens.value(), seconds),
                _ => {}
            }
        }
        found
    }
}

fn first<'a, T>(slot: &mut Option<T>, text: Option<&'a [u8]>, read: impl FnOnce(&'a [u8]) -> Option<T>) {
    if slot.is_none() {
        *slot = text.and_then(read);
    }
}

/// A token without its quotes.
struct Token<'a> {
    bytes: &'a [u8],
    is_quoted: bool,
}

/// The tokens of the rest of a line.
struct Tokens<'a>(&'a [u8]);

impl<'a> Tokens<'a> {
    /// The next token as a value: a sign of equality before it does not count.
    fn value(&mut self) -> Option<&'a [u8]> {
        let token = self.next()?;
        match token.bytes {
            b"=" if !token.is_quoted => self.next().map(|token| token.bytes),
            bytes => Some(bytes),
        }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
        let start = self.0.iter().position(|byte| !is_space(byte))?;
        let rest = &self.0[start..];
        if let Some(quoted) = rest.strip_prefix(b"\"") {
            let end = quoted.iter().position(|byte| *byte == b'"');
            self.0 = end.map_or(&[], |end| &quoted[end + 1..]);
            return Some(Token { bytes: &quoted[..end.unwrap_or(quoted.len())], is_quoted: true });
        }
        let end = rest.iter().position(is_space).unwrap_or(rest.len());
        self.0 = &rest[end..];
        Some(Token { bytes: &rest[..end], is_quoted: false })
    }
}

/// The number of a file handle: the sum of its pieces of 16 hexadecimal digits. None has the number 0.
pub fn handle(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > HANDLE_DIGITS_MAX {
        return None;
    }
    let pieces = text.chunks(PIECE_DIGITS).map(hexadecimal);
    let sum = pieces.into_iter().try_fold(0u64, |sum, piece| Some(sum.wrapping_add(piece?)))?;
    Some(sum.max(1))
}

/// A hexadecimal number of at most 64 bits.
fn hexadecimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > PIECE_DIGITS {
        return None;
    }
    text.iter().try_fold(0, |number, byte| Some(number << 4 | u64::from(char::from(*byte).to_digit(16)?)))
}

/// Seconds with a fraction.
fn seconds(text: &[u8]) -> Option<Nanos> {
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let (whole, fraction) = (parts.next()?, parts.next().unwrap_or_default());
    let whole = decimal(whole).filter(|whole| *whole <= SECONDS_MAX)?;
    let fraction = &fraction[..fraction.len().min(FRACTION_DIGITS)];
    let nanos = if fraction.is_empty() { 0 } else { decimal(fraction)? };
    let scale = (fraction.len()..FRACTION_DIGITS).fold(1, |scale, _| scale * 10);
    Some(Nanos(whole * NANOS_PER_SECOND + nanos * scale))
}

fn decimal(text: &[u8]) -> Option<u64> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    let number = text.iter().try_fold(0u64, |number, byte| number.checked_mul(10)?.checked_add(digit(byte)?));
    number.filter(|_| !text.is_empty())
}
