//! libFuzzer's door to [`signpost_fuzz::ndp`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| signpost_fuzz::ndp(data));
