//! How a cache is put together at start: over the machine, or over one of a test.

use crate::{
    cache::{
        Cache,
        descriptors::Descriptors,
        recovery::{self, Report},
    },
    collection::{catalog::Catalog, graphs::Graphs},
    config::Config,
    error::{Error, Kind, Result},
    history::{misses::Misses, refusals::Refusals},
    index::{self, IndexStore},
    limits::{budget::Budget, cgroup},
    memory::BLOCK_BYTES,
    metrics::Metrics,
    quarantine::Quarantine,
    segment::Blocks,
    session::Sessions,
    system::{
        clock::{Clock, SystemClock},
        random::{Random, SystemRandom},
    },
    tier::{IndexSpace, ram::RamTier, ssd::SsdTier},
    vfs::{OsVfs, Vfs},
};
use std::sync::Arc;

/// Of what its container may have the daemon keeps one part in so many for itself: its heap, its index, dirty pages.
const OWN_MEMORY_SHARE: u64 = 4;

/// What a cache runs on. All that differs from run to run comes from here.
pub struct Host {
    /// Segments and lists.
    pub vfs: Arc<dyn Vfs>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Names and keys.
    pub random: Arc<dyn Random>,
    /// What outlives the process besides files.
    pub index: Arc<dyn IndexStore>,
    /// What was wrong with the index.
    pub problem: Option<Error>,
}

impl Host {
    /// The machine, with the index in the daemon's folder.
    pub fn system(config: &Config) -> Self {
        let (index, problem) = index::open_or_rebuild(&config.dir);
        Self {
            vfs: Arc::new(OsVfs),
            clock: Arc::new(SystemClock::default()),
            random: Arc::new(SystemRandom),
            index,
            problem,
        }
    }
}

impl Cache {
    /// The cache that earlier runs left, and what was found of them.
    ///
    /// # Errors
    /// If the folder cannot be read, or the list of what did not reproduce is damaged.
    pub fn open(
        config: Config,
        host: impl FnOnce(&Config) -> Host,
        descriptors: Descriptors,
    ) -> Result<(Arc<Self>, Report)> {
        let host = host(&config);
        let vfs = Arc::clone(&host.vfs);
        let cache = Arc::new(build(config, host, descriptors)?);
        let report = recovery::run(&cache, &*vfs)?;
        Ok((cache, report))
    }
}

fn build(config: Config, host: Host, descriptors: Descriptors) -> Result<Cache> {
    let Host {
        vfs,
        clock,
        random,
        index,
        problem,
    } = host;
    let quarantine = Quarantine::open(config.dir.clone(), Arc::clone(&vfs))?;
    let metrics = Metrics::new(&*index)
        .map(Arc::new)
        .map_err(|e| Error::new(Kind::Invalid, "metrics", e.to_string()))?;
    let mut warnings: Vec<_> = problem.iter().map(ToString::to_string).collect();
    let ram_bytes = ram_bytes(&config, descriptors, &mut warnings);
    let ram = Arc::new(RamTier::new(ram_bytes, config.huge_pages)?);
    ram.opened().keep(descriptors.files());
    let on_evict = {
        let (metrics, index) = (Arc::clone(&metrics), Arc::clone(&index));
        move |evicted: &crate::tier::ssd::Evicted| {
            metrics.evictions.with_label_values(&["ssd"]).inc();
            metrics
                .evicted_bytes
                .with_label_values(&["ssd"])
                .inc_by(evicted.file_bytes);
            metrics.evicted_cost.inc_by(evicted.summary.cpu_ns as f64 / 1e9);
            let name = evicted.segment.path().file_name().unwrap_or_default();
            let _ = index.remove(index::Space::Segments, name.as_encoded_bytes());
        }
    };
    let ssd = SsdTier::new(
        config.dir.join("segments"),
        Budget::new(config.ssd_bytes, "ssd-full"),
        Arc::clone(&vfs),
        Arc::clone(&clock),
        Arc::clone(&random),
        Arc::clone(&ram),
        on_evict,
    );
    ssd.faults().count_in(metrics.errors.clone());
    let index_space = IndexSpace::new(ssd.side_reservation()?, index.bytes_on_disk());
    let boot_id = clock.wall_ns().unsigned_abs();
    Ok(Cache {
        config,
        catalog: Catalog::new(random),
        graphs: Graphs::default(),
        sessions: Sessions::at_most(descriptors.sessions()),
        misses: Misses::default(),
        refusals: Refusals::default(),
        quarantine,
        ram,
        ssd: Arc::new(ssd),
        index,
        index_space,
        metrics,
        clock,
        boot_id,
        warnings,
    })
}

/// What is configured, or less if the process may not have so much; then it is said.
fn ram_bytes(config: &Config, descriptors: Descriptors, warnings: &mut Vec<String>) -> u64 {
    let mut bytes = config.ram_bytes;
    // Past a container's limit nothing is refused: the daemon is killed.
    if let Some(limit) = cgroup::memory_max() {
        let most = limit - limit / OWN_MEMORY_SHARE;
        if most < bytes {
            bytes = most;
            warnings.push(format!(
                "the memory limit of the daemon's cgroup, {limit} bytes, is enough for {most} bytes of the RAM tier: raise it \
                 or set --ram-bytes"
            ));
        }
    }
    // Each block is a descriptor.
    let most = descriptors.blocks().saturating_mul(BLOCK_BYTES);
    if most < bytes {
        bytes = most;
        warnings.push(format!(
            "{} descriptors are enough for {most} bytes of the RAM tier and {} jobs at once: raise RLIMIT_NOFILE \
             (ulimit -n, LimitNOFILE=)",
            descriptors.count(),
            descriptors.sessions()
        ));
    }
    for warning in &*warnings {
        tracing::warn!("{warning}");
    }
    bytes.max(crate::config::RAM_BYTES_MIN)
}
