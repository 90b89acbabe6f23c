//! What is told on standard output. Who reads it may have had enough (`prebake status | head`): that is no error.

use std::{
    io::{self, Write},
    process,
};

/// Tells a line, as `println!` does.
macro_rules! say {
    ($($told:tt)*) => {
        crate::output::text(&(format!($($told)*) + "\n"))
    };
}

/// Tells a text. Ends the process where nobody can be told: nothing is left to be done for them.
pub fn text(told: &str) {
    if let Err(error) = io::stdout().lock().write_all(told.as_bytes()) {
        let has_had_enough = error.kind() == io::ErrorKind::BrokenPipe;
        if !has_had_enough {
            eprintln!("prebake: what was found cannot be told: {error}");
        }
        process::exit(i32::from(!has_had_enough));
    }
}
