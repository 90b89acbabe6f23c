//! `prebaked`: arguments, configuration, runtime, signals.

use clap::Parser;
use prebake_daemon::{
    Config, Error, Result,
    memory::{close_inherited, heap},
    server::Server,
};
use std::{net::SocketAddr, path::PathBuf, process::ExitCode};
use tokio::signal::unix::{SignalKind, signal};

/// Prebake's node daemon: computes preprocessing once and serves it to every job.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Folder of sockets, segments and index.
    #[arg(long, env = "PREBAKE_DIR")]
    dir: Option<PathBuf>,
    /// Configuration file (TOML); flags override it.
    #[arg(long)]
    config: Option<PathBuf>,
    /// RAM tier in bytes.
    #[arg(long)]
    ram_bytes: Option<u64>,
    /// SSD tier in bytes.
    #[arg(long)]
    ssd_bytes: Option<u64>,
    /// Serve /metrics on this loopback address too; wants the token in <dir>/metrics.token.
    #[arg(long)]
    metrics_address: Option<SocketAddr>,
    /// Exit after so many seconds without a job.
    #[arg(long)]
    idle_exit: Option<u64>,
}

impl Args {
    fn config(self) -> Result<Config> {
        let mut config = self
            .config
            .as_deref()
            .map_or_else(|| Ok(Config::default()), Config::read)?;
        config.dir = self.dir.unwrap_or(config.dir);
        config.ram_bytes = self.ram_bytes.unwrap_or(config.ram_bytes);
        config.ssd_bytes = self.ssd_bytes.unwrap_or(config.ssd_bytes);
        config.metrics_address = self.metrics_address.or(config.metrics_address);
        config.idle_exit_seconds = self.idle_exit.unwrap_or(config.idle_exit_seconds);
        Ok(config)
    }
}

/// sled's own threads tell of the same fault twice a second, for ever; that the index failed is said by its owner.
const LOGGED: &str = "info,sled=off";

fn main() -> ExitCode {
    close_inherited();
    heap::begin();
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("PREBAKE_LOG")
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(LOGGED)),
        )
        .with_writer(std::io::stderr)
        .init();
    match Args::parse().config().and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("prebaked: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(config: Config) -> Result<()> {
    // Two workers serve hundreds of jobs: warm reads never come here, and disk work has its own threads.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Error::io("starting the runtime", e))?;
    runtime.block_on(async {
        // A file past the size limit (`ulimit -f`) is then an error of its write, and not the daemon's end.
        let file_too_large = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
        let _caught = signal(file_too_large).map_err(|e| Error::io("signals", e))?;
        let server = Server::start(config)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(|e| Error::io("signals", e))?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(|e| Error::io("signals", e))?;
        server
            .run(async move {
                tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
            })
            .await
    })
}
