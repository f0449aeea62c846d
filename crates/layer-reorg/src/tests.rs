//! What holds for the layer as a whole, and for its pure parts.

mod layer;
mod power;
mod pure;
