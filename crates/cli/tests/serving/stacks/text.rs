//! Texts of stacks: each layer on each other layer, on files.

use esker_base::Stream;

/// A layer as the soak uses it.
struct Layer {
    kind: &'static str,
    /// NAME stands for the name of the layer, START for the number of the start, SIZE for a size that fits below.
    args: &'static str,
    /// On how many devices it stands.
    ends: usize,
}

const fn layer(kind: &'static str, ends: usize, args: &'static str) -> Layer {
    Layer { kind, args, ends }
}

/// Every layer of the list of kinds; a test compares.
const LAYERS: [Layer; 23] = [
    layer("pass", 1, ""),
    layer("offset", 1, "start=64KiB"),
    layer("concat", 2, ""),
    layer("stripe", 2, "chunk=64KiB"),
    layer("align", 1, ""),
    layer("emulate", 1, "staging=256KiB width=2 ranges=8"),
    layer("crypt", 1, "key=file:DIR/key"),
    layer("delay", 1, "write=50us flush=100us jitter=50us"),
    layer("rate", 1, "iops=20000 bytes=1GiB"),
    layer("error", 1, "probability=1 armed=false"),
    layer("stats", 1, ""),
    layer("tap", 1, "path=DIR/NAME-START.ebt"),
    layer("verify", 1, ""),
    layer("mirror", 2, "region=64KiB clean_after=20ms"),
    layer("logvol", 1, "segment=256KiB size=SIZE"),
    layer("thin", 1, "segment=256KiB ports=\"one=SIZE\""),
    layer("dedup", 1, ""),
    layer("cache", 2, "line=16KiB dirty=0.2 dirty_age=0s clean_share=0.5"),
    layer("reorg", 2, "interval=2s write_buffer=0.5"),
    layer("spindown", 2, "idle_after=20ms pressure=0.3"),
    layer("tier", 2, "devices=\"ssd; sata\" look=50ms epoch=200ms alpha=1 share=1"),
    layer("offload", 2, "idle_after=20ms"),
    layer("shepherd", 1, ""),
];

/// What a volume of `depth` layers below the top may have; twice as much is below it.
const SIZES: [&str; 3] = ["4MiB", "16MiB", "48MiB"];
const FILE_SIZE: &str = "192MiB";

/// A stack of layers on files.
pub struct Sample {
    /// Kinds of layers, top first.
    pub layers: Vec<&'static str>,
    pub text: String,
    /// Files at the bottom.
    pub files: Vec<String>,
    /// Devices above which a layer can be put while the stack is served.
    pub below: Vec<String>,
}

impl Sample {
    /// The text of one start: some kinds make a new file each time.
    pub fn at_start(&self, start: u64) -> String {
        self.text.replace("START", &start.to_string())
    }
}

/// As many stacks as are asked for: every ordered pair in an order of chance, then triples.
pub fn samples(seed: u64, count: u64) -> impl Iterator<Item = Sample> {
    let mut random = Stream::named(seed, "stacks");
    let mut pairs: Vec<[usize; 2]> =
        (0..LAYERS.len()).flat_map(|above| (0..LAYERS.len()).map(move |below| [above, below])).collect();
    for last in (1..pairs.len()).rev() {
        pairs.swap(last, random.below(last as u64 + 1) as usize);
    }
    let mut pairs = pairs.into_iter();
    (0..count).map(move |_| match pairs.next() {
        Some(pair) => sample(&pair),
        None => sample(&[(); 3].map(|()| random.below(LAYERS.len() as u64) as usize)),
    })
}

fn sample(layers: &[usize]) -> Sample {
    let mut sample = Sample {
        layers: layers.iter().map(|layer| LAYERS[*layer].kind).collect(),
        text: String::new(),
        files: Vec::new(),
        below: Vec::new(),
    };
    let top = add(&mut sample, layers, 0);
    sample.text += &format!("export out = {top} nbd=unix:DIR/sock");
    sample
}

/// Writes the chain of `layers` and returns the name that an upper layer stands on.
fn add(sample: &mut Sample, layers: &[usize], depth: usize) -> String {
    let Some((layer, below)) = layers.split_first() else {
        let name = format!("f{}", sample.files.len());
        sample.text += &format!("{name} = file path=DIR/{name}.img size={FILE_SIZE} direct=false; ");
        sample.files.push(name.clone());
        return name;
    };
    let layer = &LAYERS[*layer];
    let ends: Vec<String> = (0..layer.ends).map(|_| add(sample, below, depth + 1)).collect();
    let name = format!("l{}", sample.below.len());
    let args = layer.args.replace("NAME", &name).replace("SIZE", SIZES[depth]);
    sample.text += &format!("{name} = {} {args} on {}; ", layer.kind, ends.join(","));
    let top = if layer.kind == "thin" { format!("{name}.one") } else { name };
    sample.below.push(top.clone());
    top
}

#[test]
fn every_layer_is_in_the_list_and_every_pair_comes_once() {
    let output = crate::harness::esker(&["kinds", "--json"]);
    let kinds: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the kinds are JSON");
    let layers = kinds.as_array().expect("a list").iter().filter(|kind| kind["role"] != "a device");
    let mut named: Vec<&str> = layers.map(|kind| kind["name"].as_str().expect("a kind has a name")).collect();
    let mut own: Vec<&str> = LAYERS.iter().map(|layer| layer.kind).collect();
    named.sort_unstable();
    own.sort_unstable();
    assert_eq!(own, named);
    let count = (LAYERS.len() * LAYERS.len()) as u64;
    let pairs: std::collections::BTreeSet<_> = samples(7, count).map(|sample| sample.layers).collect();
    assert_eq!((pairs.len() as u64, samples(7, count + 1).last().unwrap().layers.len()), (count, 3));
}
