//! Ports: the upper ports of a volume manager, and where each of them leads in the logical space.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use esker_base::ByteRange;
use esker_base::units::parse_size;
use esker_block::{Bio, BioError, Op, RangeOp};

use super::catalogue::is_sound_name;

/// An upper port.
pub struct Port {
    /// Name of the volume that it leads to.
    pub name: String,
    /// Bytes that it offers: all that the volume has, once it is open; before, those that the stack text asks for.
    pub bytes: Cell<u64>,
    /// Where the volume lies; or why there is none.
    pub window: RefCell<Result<Window, String>>,
    /// The layer above that was built for its size, if one was.
    pub kept: RefCell<Option<String>>,
}

/// Where a volume lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// First logical byte.
    pub start: u64,
    /// Whether it never changes.
    pub read_only: bool,
}

/// Reads `NAME=SIZE,NAME=SIZE`.
///
/// # Errors
/// What is wrong, and what would be right.
pub fn parse(text: &str, block: u64) -> Result<Vec<Port>, String> {
    let (mut ports, mut names) = (Vec::new(), BTreeSet::new());
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, size) = part.split_once('=').ok_or(format!("port \"{part}\" has no size; write {part}=SIZE"))?;
        let bytes = parse_size(size).map_err(|e| format!("port \"{part}\": the size is to be {}", e.wanted()))?;
        if !is_sound_name(name) {
            return Err(format!("port \"{name}\": a name has up to 64 letters, digits, `_` and `-`, no `-` first"));
        }
        if !names.insert(name) {
            return Err(format!("port \"{name}\" stands twice"));
        }
        if bytes == 0 || !bytes.is_multiple_of(block) {
            return Err(format!("port \"{part}\": a size is a multiple of {block} bytes, and not 0"));
        }
        let closed = "it is not open yet".to_string();
        let (name, bytes, window) = (name.to_string(), Cell::new(bytes), RefCell::new(Err(closed)));
        ports.push(Port { name, bytes, window, kept: RefCell::default() });
    }
    match ports.is_empty() {
        true => Err("it has no port; name the volumes that are used, such as ports=\"db=10GiB,home=1TiB\"".to_string()),
        false => Ok(ports),
    }
}

impl Port {
    /// Sends a request on to where the volume lies.
    ///
    /// # Errors
    /// There is no volume, or it is one that never changes.
    pub fn redirect(&self, bio: &mut Bio) -> Result<(), BioError> {
        let window = self.window.borrow();
        let Window { start, read_only } =
            *window.as_ref().map_err(|why| BioError::Latched(format!("{why}.").into()))?;
        if read_only && bio.changes_data() {
            return Err(BioError::ReadOnly(format!("snapshot \"{}\"", self.name).into()));
        }
        match &mut bio.op {
            Op::Flush => {}
            Op::Ranges(ops) => ops.iter_mut().for_each(|op| *op = moved(op, start)),
            Op::Read | Op::Write | Op::Zero | Op::Discard | Op::Extents => bio.range = shifted(bio.range, start),
        }
        Ok(())
    }
}

fn shifted(range: ByteRange, by: u64) -> ByteRange {
    ByteRange::new(by + range.start(), range.len()).expect("volumes lie inside the logical space")
}

fn moved(op: &RangeOp, by: u64) -> RangeOp {
    match *op {
        RangeOp::Clone { src, dst } => RangeOp::Clone { src: shifted(src, by), dst: by + dst },
        RangeOp::Move { src, dst } => RangeOp::Move { src: shifted(src, by), dst: by + dst },
        RangeOp::Delete { at } => RangeOp::Delete { at: shifted(at, by) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_names_with_sizes() {
        let ports = parse("db=10MiB, home=4096", 4096).unwrap_or_else(|e| panic!("{e}"));
        let read: Vec<(&str, u64)> = ports.iter().map(|port| (port.name.as_str(), port.bytes.get())).collect();
        assert_eq!(read, [("db", 10 << 20), ("home", 4096)]);
        for (text, words) in [
            ("", "no port"),
            ("db", "has no size; write db=SIZE"),
            ("db=much", "the size is to be"),
            ("a.b=1MiB", "port \"a.b\""),
            ("db=1MiB,db=2MiB", "stands twice"),
            ("db=100", "multiple of 4096"),
            ("db=0", "not 0"),
        ] {
            let error = parse(text, 4096).err().unwrap_or_else(|| panic!("{text}"));
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn requests_are_led_to_where_the_volume_lies() {
        let port = &parse("db=1MiB", 4096).unwrap_or_else(|e| panic!("{e}"))[0];
        let mut bio = Bio::discard(4096, 8192);
        assert!(matches!(port.redirect(&mut bio), Err(BioError::Latched(_))));
        *port.window.borrow_mut() = Ok(Window { start: 1 << 40, read_only: false });
        port.redirect(&mut bio).unwrap();
        assert_eq!(bio.range, ByteRange::new((1 << 40) + 4096, 8192).unwrap());
        let src = ByteRange::new(0, 4096).unwrap();
        let mut bio = Bio::ranges([RangeOp::Clone { src, dst: 8192 }]);
        port.redirect(&mut bio).unwrap();
        let there = ByteRange::new(1 << 40, 4096).unwrap();
        assert_eq!(bio.op, Op::Ranges([RangeOp::Clone { src: there, dst: (1 << 40) + 8192 }].into()));
        *port.window.borrow_mut() = Ok(Window { start: 0, read_only: true });
        assert!(matches!(port.redirect(&mut Bio::discard(0, 4096)), Err(BioError::ReadOnly(_))));
    }
}
