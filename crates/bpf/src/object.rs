//! Programs and maps as the object file that a loader takes, made in memory.
//!
//! One section for each program, named by its type as loaders expect it; one section `maps` with a definition for each
//! map; one relocation for each instruction that names a map.

use object::write::{Object, Relocation, Symbol, SymbolId, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationFlags, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
};

/// `R_BPF_64_64`: the two words of a 64-bit immediate.
const R_BPF_64_64: u32 = 1;

/// Helpers that read memory of the kernel and of processes are given to programs under this licence only.
const LICENCE: &[u8] = b"Dual MIT/GPL\0";

/// A program that was assembled.
#[derive(Clone, Debug)]
pub struct Program {
    /// By which it is loaded.
    pub name: &'static str,
    /// Its type and where it is attached, such as `raw_tp/sys_enter`.
    pub section: &'static str,
    /// Instructions.
    pub bytes: Vec<u8>,
    /// Offsets of instructions that name maps.
    pub maps: Vec<(u64, &'static str)>,
}

/// What kind of map, with its number in `enum bpf_map_type`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum MapKind {
    Hash = 1,
    Array = 2,
    PerCpuArray = 6,
    Ring = 27,
}

/// A map, shared by programs and their loader.
#[derive(Clone, Copy, Debug)]
pub struct Map {
    /// By which programs name it.
    pub name: &'static str,
    /// What kind.
    pub kind: MapKind,
    /// Bytes of a key.
    pub key: u32,
    /// Bytes of a value.
    pub value: u32,
    /// Entries; of a ring, bytes (a power of two, and whole pages).
    pub entries: u32,
}

impl Map {
    /// `struct bpf_map_def`: kind, key, value, entries, flags.
    fn definition(&self) -> Vec<u8> {
        [self.kind as u32, self.key, self.value, self.entries, 0].iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

/// The object file.
///
/// # Panics
/// If a program names a map that is not there: a mistake of its author.
pub fn write(programs: &[Program], maps: &[Map]) -> Vec<u8> {
    let mut file = Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
    let licence = file.add_section(Vec::new(), b"license".to_vec(), SectionKind::Data);
    file.append_section_data(licence, LICENCE, 1);
    let symbols = add_maps(&mut file, maps);
    for program in programs {
        let section = file.add_section(Vec::new(), program.section.as_bytes().to_vec(), SectionKind::Text);
        file.append_section_data(section, &program.bytes, 8);
        file.add_symbol(symbol(program.name, 0, program.bytes.len() as u64, SymbolKind::Text, section));
        for (offset, map) in &program.maps {
            let (_, symbol) =
                symbols.iter().find(|(name, _)| name == map).expect("a program names maps that are there");
            let flags = RelocationFlags::Elf { r_type: R_BPF_64_64 };
            let relocation = Relocation { offset: *offset, symbol: *symbol, addend: 0, flags };
            file.add_relocation(section, relocation).expect("the kind of relocation is known");
        }
    }
    file.write().expect("memory takes all that is written")
}

fn add_maps(file: &mut Object<'_>, maps: &[Map]) -> Vec<(&'static str, SymbolId)> {
    if maps.is_empty() {
        return Vec::new();
    }
    let section = file.add_section(Vec::new(), b"maps".to_vec(), SectionKind::Data);
    let add = |map: &Map| {
        let definition = map.definition();
        let at = file.append_section_data(section, &definition, 4);
        (map.name, file.add_symbol(symbol(map.name, at, definition.len() as u64, SymbolKind::Data, section)))
    };
    maps.iter().map(add).collect()
}

fn symbol(name: &str, value: u64, size: u64, kind: SymbolKind, section: object::write::SectionId) -> Symbol {
    Symbol {
        name: name.as_bytes().to_vec(),
        value,
        size,
        kind,
        scope: SymbolScope::Dynamic,
        weak: false,
        section: SymbolSection::Section(section),
        flags: SymbolFlags::None,
    }
}
