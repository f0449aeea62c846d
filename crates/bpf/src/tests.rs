use crate::asm::{Code, Helper, If, Op, Reg, Size};
use crate::btf::{BtfError, Types};
use crate::object::{Map, MapKind};
use crate::{Loaded, object};
use esker_skip::{Ability, skip};

/// Types as a kernel tells them: an integer, a structure with members at bits 0, 64 and 67, one whose name begins like
/// its, and one that holds the first at bit 64 without a name.
fn types() -> Vec<u8> {
    let names = b"\0int\0task\0task_more\0state\0pid\0flag\0outer\0own\0";
    let name = |text: &str| {
        let wanted = format!("\0{text}\0");
        1 + names.windows(wanted.len()).position(|part| part == wanted.as_bytes()).expect("it is there") as u32
    };
    let structure = |of: &str, members: [(&str, u32); 3]| {
        let mut words = vec![name(of), 1 << 31 | 4 << 24 | 3, 16];
        words.extend(members.iter().flat_map(|(member, bit)| [name(member), 1, 5 << 24 | bit]));
        words
    };
    let mut words = vec![name("int"), 1 << 24, 4, 32];
    words.extend(structure("task_more", [("state", 0), ("flag", 64), ("pid", 96)]));
    words.extend(structure("task", [("state", 0), ("pid", 64), ("flag", 67)]));
    words.extend([name("outer"), 4 << 24 | 2, 32, name("own"), 1, 0, 0, 3, 64]);
    let types: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut bytes = vec![0x9f, 0xeb, 1, 0];
    let header = [24, 0, types.len() as u32, types.len() as u32, names.len() as u32];
    bytes.extend(header.iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend_from_slice(&types);
    bytes.extend_from_slice(names);
    bytes
}

#[test]
fn members_lie_where_the_kernel_says() {
    let whole = Types::parse(types());
    let offset = |structure, member| whole.offset(structure, member).ok();
    assert_eq!(offset("task", "pid"), Some(8));
    assert_eq!(offset("task_more", "pid"), Some(12));
    assert!(matches!(whole.offset("task", "int"), Err(BtfError::Absent("task", "int"))));
    assert!(matches!(whole.offset("other", "pid"), Err(BtfError::Absent(..))));
    assert_eq!(offset("task", "flag"), None, "it begins inside a byte");
    assert_eq!([offset("outer", "own"), offset("outer", "pid")], [Some(0), Some(16)], "in a part without a name");
    for len in 0..types().len() {
        let cut = Types::parse(types()[..len].to_vec());
        assert!(matches!(cut.offset("task", "pid"), Err(BtfError::Unknown)), "cut to {len} bytes");
    }
    match Types::of_kernel() {
        Ok(kernel) => {
            assert!(kernel.offset("task_struct", "pid").is_ok_and(|pid| pid > 0));
            assert!(kernel.offset("mm_struct", "pgd").is_ok_and(|pgd| pgd > 0));
            assert_eq!(kernel.tracepoint_arguments("sched_process_exec"), Some(3));
            assert_eq!(kernel.tracepoint_arguments("no_such_tracepoint"), None);
        }
        Err(error) => skip(Ability::Bpf, error),
    }
}

const MAPS: [Map; 2] = [
    Map { name: "out", kind: MapKind::Ring, key: 0, value: 0, entries: 4096 },
    Map { name: "count", kind: MapKind::Array, key: 4, value: 8, entries: 1 },
];

/// Puts out its own thread's number, and counts, when the process of number `tgid` makes a call.
fn watcher(tgid: u32) -> object::Program {
    let mut code = Code::new();
    let out = code.label();
    code.call(Helper::CurrentPidTgid);
    code.store(Size::Double, Reg::R10, -8, Reg::R0);
    code.alu(Op::ShiftRight, Reg::R0, 32);
    code.imm64(Reg::R1, tgid.into());
    code.jump_if(If::Differ, Reg::R0, Reg::R1, out);
    code.map(Reg::R1, "out");
    code.mov(Reg::R2, Reg::R10);
    code.alu(Op::Add, Reg::R2, -8);
    code.mov(Reg::R3, 8);
    code.mov(Reg::R4, 0);
    code.call(Helper::RingOutput);
    code.store(Size::Word, Reg::R10, -12, 0);
    code.map(Reg::R1, "count");
    code.mov(Reg::R2, Reg::R10);
    code.alu(Op::Add, Reg::R2, -12);
    code.call(Helper::MapLookup);
    code.jump_if(If::Equal, Reg::R0, 0, out);
    code.mov(Reg::R1, 1);
    code.atomic_add(Reg::R0, 0, Reg::R1);
    code.bind(out);
    code.mov(Reg::R0, 0);
    code.exit();
    code.finish("watch", "raw_tp/sys_enter")
}

/// `None`, loudly, where the kernel lets no user load programs.
fn loaded() -> Option<Loaded> {
    let mut loaded = match Loaded::new(&[watcher(own_number())], &MAPS) {
        Ok(loaded) => loaded,
        Err(error) => {
            skip(Ability::Bpf, error);
            return None;
        }
    };
    match loaded.attach_raw("watch", "sys_enter") {
        Ok(()) => Some(loaded),
        Err(error) => {
            skip(Ability::Bpf, error);
            None
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the program in the kernel is told what to watch")]
fn own_number() -> u32 {
    std::process::id()
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a call of the system is what is seen")]
fn a_program_made_here_runs_in_the_kernel() {
    let Some(mut loaded) = loaded() else { return };
    let mut ring = loaded.ring("out").expect("the ring is there");
    let count = loaded.array::<u64>("count").expect("the counter is there");
    for _ in 0..10 {
        drop(std::fs::metadata("/"));
    }
    let mut processes = Vec::new();
    let seen = ring.drain(|record| processes.push(u32::from_le_bytes(record[4..8].try_into().expect("eight bytes"))));
    assert!(seen >= 10, "{seen} of ten calls were seen");
    assert!(processes.iter().all(|tgid| *tgid == own_number()), "{processes:?}");
    assert!(count.get(0).expect("the counter is there") >= seen as u64);
    drop(loaded);
    ring.drain(|_| ());
    drop(std::fs::metadata("/"));
    assert_eq!(ring.drain(|_| ()), 0, "nothing runs once the programs are dropped");
}

#[test]
fn what_the_verifier_refuses_is_told_in_its_words() {
    if loaded().is_none() {
        return;
    }
    let mut code = Code::new();
    code.load(Size::Double, Reg::R0, Reg::R3, 0);
    code.exit();
    let mut bad =
        Loaded::new(&[code.finish("bad", "raw_tp/sys_enter")], &[]).expect("it is checked when it is attached");
    let error = bad.attach_raw("bad", "sys_enter").expect_err("a register without a value").to_string();
    assert!(error.contains("R3"), "{error}");
    assert!(bad.attach_raw("absent", "sys_enter").is_err());
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the kernel knows this process by it")]
fn the_kernels_memory_is_read_and_what_is_not_there_is_nothing() {
    let mut peek = match crate::Peek::start() {
        Ok(peek) => peek,
        Err(error) => return skip(Ability::Bpf, error),
    };
    let types = match Types::of_kernel() {
        Ok(types) => types,
        Err(error) => return skip(Ability::Bpf, error),
    };
    let offset = |member| types.offset("task_struct", member).unwrap() as u64;
    let task = peek.own_task();
    let pid = peek.word(task + offset("tgid")) as u32;
    assert_eq!(pid, std::process::id(), "this process' own task");
    assert_eq!(peek.word(8), 0, "nothing is mapped there");
    assert_eq!((peek.page(task | 8), peek.page(0)), (None, None), "no pages");
    let page = task & !4095;
    assert!(peek.page(page).is_some_and(|words| words.iter().any(|word| *word != 0)));
}
