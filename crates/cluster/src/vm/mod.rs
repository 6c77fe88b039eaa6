//! A guest with a stock kernel: what this machine's kernel lacks runs there.
