//! Configuration: a TOML file, overridden by flags. Unknown keys are refused: a typo must not
//! silently mean the default.

use crate::{
    error::{Error, Kind, Result},
    limits::cgroup,
    memory::BLOCK_BYTES,
};
use serde::Deserialize;
use std::{net::SocketAddr, path::PathBuf};

/// What `sun_path` holds besides its terminating zero (unix(7)).
const SOCKET_PATH_LEN_MAX: usize = 107;

/// Share of the machine's or the container's memory for the RAM tier if nothing is said.
const RAM_SHARE: u64 = 8;

/// RAM if the machine's memory cannot be read.
const RAM_BYTES_DEFAULT: u64 = 1 << 30;

/// SSD if nothing is said: a few ImageNets' worth of decoded samples is for the user to grant.
const SSD_BYTES_DEFAULT: u64 = 32 << 30;

/// Least RAM budget that can work at all: a few blocks for writers and readers, and one to keep.
pub const RAM_BYTES_MIN: u64 = 10 * BLOCK_BYTES;

/// Least SSD budget: one segment being written beside one kept.
pub const SSD_BYTES_MIN: u64 = 16 << 20;

/// Median of cloud list prices for a vCPU hour, in dollars, 2026.
const CPU_HOUR_PRICE_DEFAULT: f64 = 0.04;

/// The daemon's settings.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Folder of sockets, segments and index.
    pub dir: PathBuf,
    /// RAM tier, bytes of shared memory.
    pub ram_bytes: u64,
    /// SSD tier, bytes on disk, index included.
    pub ssd_bytes: u64,
    /// Serve /metrics on this loopback address too, for those who send the token in
    /// `<dir>/metrics.token`.
    pub metrics_address: Option<SocketAddr>,
    /// What a CPU hour costs, to say what was saved.
    pub cpu_hour_price: f64,
    /// Exit after so many seconds without a job; 0 is never.
    pub idle_exit_seconds: u64,
    /// Close a segment after so many milliseconds without a commit.
    pub segment_idle_ms: u64,
    /// Make blocks of huge pages where the kernel has some. Off, they are made of small ones: for a host that takes unused memory
    /// back from its virtual machines, and gives it again slowly.
    pub huge_pages: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            dir: PathBuf::new(),
            ram_bytes: memory_bytes().map_or(RAM_BYTES_DEFAULT, |b| (b / RAM_SHARE).max(RAM_BYTES_MIN)),
            ssd_bytes: SSD_BYTES_DEFAULT,
            metrics_address: None,
            cpu_hour_price: CPU_HOUR_PRICE_DEFAULT,
            idle_exit_seconds: 0,
            segment_idle_ms: 5_000,
            huge_pages: true,
        }
    }
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// `config` with what to mend.
    pub fn read(path: &std::path::Path) -> Result<Self> {
        let bad = |e: String| Error::new(Kind::Invalid, "config", format!("{}: {e}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| bad(e.to_string()))?;
        toml::from_str(&text).map_err(|e| bad(e.to_string()))
    }

    /// Checks that the daemon can work with these settings, before anything is touched.
    ///
    /// # Errors
    /// `config` or `socket-path-too-long` with what to mend.
    pub fn check(&self) -> Result<()> {
        let bad = |message: String| Err(Error::new(Kind::Invalid, "config", message));
        if self.dir.as_os_str().is_empty() {
            return bad("no folder given: set --dir".into());
        }
        if self.ram_bytes < RAM_BYTES_MIN {
            return bad(format!("ram_bytes {} is under {}", self.ram_bytes, RAM_BYTES_MIN));
        }
        if self.ssd_bytes < SSD_BYTES_MIN {
            return bad(format!("ssd_bytes {} is under {SSD_BYTES_MIN}", self.ssd_bytes));
        }
        if self.metrics_address.is_some_and(|a| !a.ip().is_loopback()) {
            return bad("metrics_address must be a loopback address".into());
        }
        if !(self.cpu_hour_price >= 0.0 && self.cpu_hour_price.is_finite()) {
            return bad("cpu_hour_price must be a number from 0 up".into());
        }
        for socket in [self.socket(), self.data_socket(), self.metrics_socket()] {
            let len = socket.as_os_str().len();
            if len > SOCKET_PATH_LEN_MAX {
                return Err(Error::new(
                    Kind::Invalid,
                    "socket-path-too-long",
                    format!(
                        "{} has {len} bytes, Unix sockets take {SOCKET_PATH_LEN_MAX}: choose a shorter --dir",
                        socket.display()
                    ),
                ));
            }
        }
        Ok(())
    }

    /// gRPC.
    pub fn socket(&self) -> PathBuf {
        self.dir.join("prebake.sock")
    }

    /// Descriptors.
    pub fn data_socket(&self) -> PathBuf {
        self.dir.join("data.sock")
    }

    /// Metrics over HTTP.
    pub fn metrics_socket(&self) -> PathBuf {
        self.dir.join("metrics.sock")
    }
}

/// What the machine has, or the container may.
fn memory_bytes() -> Option<u64> {
    let (machine, container) = (machine_ram_bytes(), cgroup::memory_max());
    machine.into_iter().chain(container).min()
}

fn machine_ram_bytes() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_and_an_impossible_value_are_refused() {
        assert!(toml::from_str::<Config>("ram_byte = 1").is_err());
        let good = Config {
            dir: "/tmp/p".into(),
            ..Config::default()
        };
        good.check().unwrap();
        let bad = |change: fn(&mut Config)| {
            let mut config = good.clone();
            change(&mut config);
            config.check().unwrap_err().code()
        };
        assert_eq!(bad(|c| c.ram_bytes = 1), "config");
        assert_eq!(bad(|c| c.ssd_bytes = 1), "config");
        assert_eq!(
            bad(|c| c.metrics_address = Some("1.2.3.4:80".parse().unwrap())),
            "config"
        );
        assert_eq!(bad(|c| c.dir = "d".repeat(120).into()), "socket-path-too-long");
    }
}
