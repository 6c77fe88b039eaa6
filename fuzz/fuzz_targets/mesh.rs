//! libFuzzer's door to [`signpost_fuzz::mesh::mesh`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| signpost_fuzz::mesh::mesh(data));
