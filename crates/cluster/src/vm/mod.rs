//! A guest with a stock kernel: what this machine's kernel lacks runs there.
//!
//! [`Image::prepare`] gets Debian's kernel with all its modules, [`Vm::boot`] starts it under qemu,
//! [`Vm::run`] runs programs in it. They are this machine's programs: the guest sees the host's
//! files, read-only below a tmpfs. Only `/run`, `/dev`, `/proc` and `/sys` are its own.
//!
//! The guest's processors are emulated, since hosts of tests seldom let guests have their own ones.
//! Measured on two processors with kernel 6.1 and 1 GiB:
//! * `boot`, until commands are taken: 4 s of processor time; 3.1 s at best, 5.0 to 10.6 s beside
//!   compilers (20 boots at a load of 5 to 10), 20 s at a load of 20. With the kernel unpacked by the
//!   guest instead of by `prepare` it takes 3 s more.
//! * `prepare`: 10 s the first time, then 0.2 ms. It leaves 474 MB in its folder.
//! * `run`: 50 to 100 ms for a program that does nothing. What computes takes 25 to 50 times as long
//!   as on the host.
//! * Memory of the host: 280 MB after the boot.
//!
//! What holds in the guest:
//! * `eth0` is 10.0.2.15; the host's 127.0.0.1 (of the namespace that the guest was booted in) is
//!   10.0.2.2. The guest's own 127.0.0.1 is its own.
//! * The guest keeps what it has seen of the host's files. What the host writes after the boot it may
//!   miss: send it through standard input. What the guest writes is gone with it.
//! * The kernel loads its modules itself, or `modprobe` does.
//! * A caller who goes away ends the command. A process that a command left in the background stays,
//!   and must not count on the command's standard output.

mod boot;
mod channel;
mod error;
mod image;
mod options;
mod qemu;
mod ready;
mod scoped;
mod state;

pub use boot::Vm;
pub use channel::{Output, serve};
pub use error::Error;
pub use image::Image;
pub use options::{Forward, Options, Server};
pub use scoped::Scoped;
