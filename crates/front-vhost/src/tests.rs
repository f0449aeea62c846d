//! Rings in virtual time, driven as a guest would; hostile guests; monitors on a real socket.

mod driver;
mod hostile;
mod monitor;
mod requests;
mod survival;
