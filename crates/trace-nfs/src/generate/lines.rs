//! The fixed fields of generated lines.

const SERVER: &str = "30.0801";
const MICROS: u64 = 1_000_000;
/// Of so many users one speaks version 2.
const OLD_OF: usize = 10;

/// Version of NFS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dialect {
    Two,
    Three,
}

impl Dialect {
    /// That of a user's machine.
    pub(super) fn of(user: usize) -> Dialect {
        if user % OLD_OF == OLD_OF - 1 { Dialect::Two } else { Dialect::Three }
    }

    fn digit(self) -> char {
        match self {
            Dialect::Two => '2',
            Dialect::Three => '3',
        }
    }

    /// Number of an operation (RFC 1094, RFC 1813). Version 2 has no `access`.
    fn number(self, operation: &str) -> u8 {
        let [two, three] = match operation {
            "getattr" => [1, 1],
            "setattr" => [2, 2],
            "lookup" => [4, 3],
            "access" => [1, 4],
            "read" => [6, 6],
            "write" => [8, 7],
            "create" => [9, 8],
            "mkdir" => [14, 9],
            "remove" => [10, 12],
            "rename" => [11, 14],
            "link" => [12, 15],
            _ => [0, 0],
        };
        if self == Dialect::Two { two } else { three }
    }
}

/// The two lines of an operation.
pub(super) struct LineWriter<'a> {
    pub(super) user: usize,
    pub(super) xid: u32,
    pub(super) operation: &'a str,
}

impl LineWriter<'_> {
    pub(super) fn call(&self, time: u64, rest: &str) -> String {
        let client = self.client();
        self.line(time, [&client, SERVER], 'C', rest)
    }

    pub(super) fn reply(&self, time: u64, rest: &str) -> String {
        let client = self.client();
        self.line(time, [SERVER, &client], 'R', rest)
    }

    fn client(&self) -> String {
        format!("31.{:04x}", self.user)
    }

    fn line(&self, time: u64, [from, to]: [&str; 2], direction: char, rest: &str) -> String {
        let (seconds, micros) = (time / MICROS, time % MICROS);
        let (dialect, xid, operation) = (Dialect::of(self.user), self.xid, self.operation);
        let (version, number) = (dialect.digit(), dialect.number(operation));
        format!("{seconds}.{micros:06} {from} {to} U {direction}{version} {xid:x} {number:x} {operation} {rest}")
    }
}
