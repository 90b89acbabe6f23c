//! Randomness, injected: names of segments, keys of tags, tokens. Tests inject a generator of their own, so that a failure
//! can be repeated.

use crate::error::{Error, Kind, Result};

/// Where the daemon gets its random bytes from.
pub trait Random: Send + Sync + 'static {
    /// Fills all of `bytes`.
    ///
    /// # Errors
    /// `io` if the operating system has none to give.
    fn fill(&self, bytes: &mut [u8]) -> Result<()>;
}

/// The operating system's generator: `getrandom(2)`.
#[derive(Debug, Default)]
pub struct SystemRandom;

/// The kernel gives as many bytes at once without being interrupted.
const AT_ONCE: usize = 256;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        for part in bytes.chunks_mut(AT_ONCE) {
            let len = part.len();
            let got = rustix::rand::getrandom(part, rustix::rand::GetRandomFlags::empty());
            if got != Ok(len) {
                return Err(Error::new(
                    Kind::Io,
                    "io",
                    "the operating system gave no random bytes",
                ));
            }
        }
        Ok(())
    }
}
