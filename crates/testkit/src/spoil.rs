//! A way down that lies: it stores other bytes than it was given.

use esker_block::{Bio, Buf, Ctx, Extension, Flow, Kind, KindError, Layer, Make, Op, Param, ParamType, Role, Step};

/// Flips a bit of some bytes of the medium in every write.
pub static SPOIL: Kind = Kind {
    role: Role::Modifier,
    ..Kind::layer(
        "spoil",
        "Spoils what is written.",
        &[
            Param::required("at", ParamType::Size, "The byte that it changes."),
            Param::with_default(
                "every",
                ParamType::Size,
                "0",
                "It changes each byte so far behind another too; 0: only one.",
            ),
        ],
        build,
    )
};

struct Spoil {
    at: u64,
    every: u64,
}

impl Spoil {
    fn spoils(&self, at: u64) -> bool {
        at == self.at || self.every > 0 && at > self.at && (at - self.at).is_multiple_of(self.every)
    }
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let spoil = Spoil { at: make.args.int("at"), every: make.args.int("every") };
    Ok(Layer::single(spoil, make.lowers[0].clone()))
}

impl Extension for Spoil {
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        if bio.op == Op::Write {
            let mut bytes = bio.buf.to_vec();
            let places = (bio.offset()..).zip(&mut bytes);
            places.filter(|(at, _)| self.spoils(*at)).for_each(|(_, byte)| *byte ^= 1);
            bio.buf = Buf::from_bytes(ctx.pool, &bytes);
        }
        Step::Now(Flow::Down)
    }
}
