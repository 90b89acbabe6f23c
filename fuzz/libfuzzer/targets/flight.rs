#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| prebake_fuzz::run("flight", bytes));
