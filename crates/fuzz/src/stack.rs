//! Stack texts: what is read can be written in both forms and reads back equal, and checking it never panics.

use esker_stack::Spec;

const TEXTS: [&str; 6] = [
    "vol = file path=data/d1.img size=64GiB | delay read=2ms @ nbd=unix:run/vol.sock",
    "d1 = memory size=1MiB; d2 = memory size=\"1 MiB\\u{41}\"; s = stripe chunk=64KiB on d1,d2; export vol = s read_only=true",
    "[device.d1]\nkind = \"file\"\npath = \"a.img\"\n\n[device.s]\nkind = \"concat\"\non = [\"d1\", \"d1\"]\nx = 0.25\n",
    "[device.a]\nkind = \"pass\"\non = \"a\"\n[[export]]\nname = \"v\"\ndevice = \"a.p\"\nnbd = \"tcp:[::1]:0\"\nread_only = true\n",
    "d = memory size=1MiB; mount m = whole at=\"/m n\" cache=none options=\"ro,a=b c\" on d",
    "[device.a]\nkind = \"null\"\n[[mount]]\nfs = \"ram\"\nat = \"/mnt/x\"\ndevice = \"a\"\noptions = [\"size=1\", \"x\"]\n",
];

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    TEXTS.iter().map(|text| text.as_bytes().to_vec()).collect()
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let Ok(text) = std::str::from_utf8(input) else { return Ok(false) };
    let spec = match Spec::parse("fuzz", text) {
        Ok(spec) => spec,
        Err(errors) if errors.list().is_empty() => return Err("refused without a reason".to_string()),
        Err(_) => return Ok(false),
    };
    if spec.check(esker_kinds::ALL).is_err() {
        return Ok(false);
    }
    for written in [spec.to_toml(), spec.to_line()] {
        match Spec::parse("written", &written) {
            Ok(again) if again == spec => {}
            Ok(_) => return Err(format!("reads back as something else: {written}")),
            Err(errors) => return Err(format!("does not read back: {errors}\n{written}")),
        }
    }
    Ok(true)
}
