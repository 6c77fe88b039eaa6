//! libFuzzer's door to [`signpost_fuzz::yaml`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| signpost_fuzz::yaml(data));
