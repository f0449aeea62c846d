//! Primitives that the thesis has and no product uses: what an extension knows of its lower ends ([`lowers`]), of the
//! load ([`workload`]), of the stack ([`registrar`]) and of itself ([`work`]). The others are `esker-layer-kit`.

pub mod lowers;
pub mod registrar;
pub mod work;
pub mod workload;
