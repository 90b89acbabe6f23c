//! A budget of bytes: what is reserved is counted until its reservation is dropped.

use crate::{
    error::{Error, Kind, Result},
    system::sync::AtomicU64,
};
use std::sync::{Arc, atomic::Ordering};

/// So many bytes, shared by everyone who reserves from it.
#[derive(Debug)]
pub struct Budget {
    bytes_max: u64,
    used: AtomicU64,
    code: &'static str,
}

/// Bytes taken from a budget; dropping it gives them back.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    /// A budget of `bytes_max`; `code` names it in errors.
    pub fn new(bytes_max: u64, code: &'static str) -> Arc<Self> {
        Arc::new(Self {
            bytes_max,
            used: AtomicU64::new(0),
            code,
        })
    }

    /// Takes bytes, or says that they are not to be had.
    ///
    /// # Errors
    /// `Exhausted` with the budget's code.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Reservation> {
        self.take(bytes)?;
        Ok(Reservation {
            budget: Arc::clone(self),
            bytes,
        })
    }

    /// A reservation of nothing, to grow.
    pub fn nothing(self: &Arc<Self>) -> Reservation {
        Reservation {
            budget: Arc::clone(self),
            bytes: 0,
        }
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The limit.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    fn take(&self, bytes: u64) -> Result<()> {
        self.used
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= self.bytes_max)
            })
            .map(|_| ())
            .map_err(|used| {
                let max = self.bytes_max;
                Error::new(
                    Kind::Exhausted,
                    self.code,
                    format!("{bytes} bytes do not fit: {used} of {max} are in use"),
                )
            })
    }
}

impl Reservation {
    /// Makes it larger or smaller.
    ///
    /// # Errors
    /// `Exhausted` if it cannot grow that far; it is unchanged then.
    pub fn resize(&mut self, bytes: u64) -> Result<()> {
        if bytes > self.bytes {
            self.budget.take(bytes - self.bytes)?;
        } else {
            self.budget.used.fetch_sub(self.bytes - bytes, Ordering::AcqRel);
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Counts bytes that are already there, even beyond the limit: found at start, or measured.
    pub fn set(&mut self, bytes: u64) {
        self.budget.used.fetch_add(bytes, Ordering::AcqRel);
        self.budget.used.fetch_sub(self.bytes, Ordering::AcqRel);
        self.bytes = bytes;
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_return_their_bytes_and_never_exceed_the_limit() {
        let budget = Budget::new(100, "ram-full");
        let mut a = budget.reserve(60).unwrap();
        assert_eq!(budget.reserve(41).unwrap_err().code(), "ram-full");
        assert!(a.resize(101).is_err());
        assert_eq!(budget.used(), 60);
        a.resize(10).unwrap();
        let b = budget.reserve(90).unwrap();
        assert_eq!(budget.used(), 100);
        drop((a, b));
        assert_eq!(budget.used(), 0);
    }
}
