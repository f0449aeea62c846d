//! `pass`: the smallest layer. It changes nothing and counts nothing.

use esker_block::{Bio, Ctx, Extension, Flow, Kind, KindError, Layer, Make, Step};

/// The manifest.
pub static KIND: Kind = Kind::layer("pass", "Passes every request on unchanged.", &[], build);

struct Pass;

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    crate::transparent(make, Pass)
}

impl Extension for Pass {
    fn completes(&self) -> bool {
        false
    }

    #[inline]
    fn issue(&self, _: &mut Ctx<'_>, _: &mut Bio) -> Step<Flow> {
        Step::Now(Flow::Down)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_changes() {
        crate::testing::check_conforms("vol = memory size=1MiB | pass");
    }
}
