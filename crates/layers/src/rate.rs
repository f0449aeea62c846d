//! `rate`: a bound on requests and bytes per second, first come, first served.

use esker_base::{Bucket, Nanos};
use esker_block::{Bio, Ctx, Extension, Flow, Kind, KindError, Layer, Make, Param, ParamType, Step};

const PARAMS: &[Param] = &[
    Param::optional("iops", ParamType::Count, "Requests per second; by default unlimited."),
    Param::optional("bytes", ParamType::Size, "Bytes read and written per second; by default unlimited."),
    Param::with_default("burst", ParamType::Span, "100ms", "Unused time that a burst may catch up on."),
];

/// The manifest.
pub static KIND: Kind =
    Kind { cost: Nanos(100), ..Kind::layer("rate", "Bounds requests and bytes per second.", PARAMS, build) };

struct Rate {
    /// 0 is unlimited, as for [`Nanos::transfer`].
    iops: u64,
    bytes: u64,
    requests: Bucket,
    payload: Bucket,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let [iops, bytes] = ["iops", "bytes"].map(|name| make.args.int_opt(name));
    if [iops, bytes].contains(&Some(0)) || (iops, bytes) == (None, None) {
        return Err(KindError::Unfit(format!("{}: give iops, bytes or both, each above 0", make.name)));
    }
    let bucket = || Bucket::new(make.args.span("burst"), make.rt.now());
    let rate = Rate { iops: iops.unwrap_or(0), bytes: bytes.unwrap_or(0), requests: bucket(), payload: bucket() };
    crate::transparent(make, rate)
}

impl Extension for Rate {
    fn completes(&self) -> bool {
        false
    }

    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let now = ctx.rt.now();
        let request = self.requests.take(now, Nanos::transfer(1, self.iops));
        let payload = self.payload.take(now, Nanos::transfer(bio.buf.len() as u64, self.bytes));
        let go = request.max(payload);
        if go <= now {
            return Step::Now(Flow::Down);
        }
        Step::After(ctx.rt.sleep_until(go), Flow::Down)
    }
}

#[cfg(test)]
mod tests;
