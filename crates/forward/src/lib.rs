//! The plan's table into the kernel: render, read, diff, apply.
