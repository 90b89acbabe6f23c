//! A process that uses the cache.

use crate::autostart;
use crate::channel::DEADLINE;
use crate::clock::{Clock, SystemClock};
use crate::collection::Collection;
use crate::error::{Code, Result};
use crate::folder::Folder;
use crate::session::Session;
use prebake_proto::v1::{Graph, PlanRequest};
use std::path::PathBuf;
use std::sync::Arc;

/// How to connect.
#[derive(Default)]
pub struct Options {
    /// The folder to meet the daemon in; see [`Folder::resolve`].
    pub folder: Option<PathBuf>,
    /// What a person calls this job.
    pub name: String,
    /// Whether to start a daemon if none runs.
    pub autostart: bool,
    /// Where its binary is, if the caller knows.
    pub daemon: Option<PathBuf>,
    /// The clock; the machine's if None.
    pub clock: Option<Arc<dyn Clock>>,
}

/// A connection to the daemon: one session, which ends with its leases when the last handle made through it is dropped or
/// the process ends. A forked child must make its own (see [`crate::after_fork`]).
#[derive(Clone)]
pub struct Job(Arc<Session>);

impl Job {
    /// Connects, and starts a daemon before if asked to.
    ///
    /// # Errors
    /// `daemon-absent`, `daemon-lost`, `socket-path-too-long`, `protocol-version`.
    pub fn connect(options: Options) -> Result<Job> {
        let folder = Folder::resolve(options.folder.as_deref())?;
        let clock = options.clock.unwrap_or_else(|| Arc::new(SystemClock::default()));
        let open = || Session::open(&folder, &options.name, Arc::clone(&clock));
        let session = match open() {
            Err(error) if error.code() == Code::DaemonAbsent && options.autostart => {
                autostart::start(&folder, options.daemon.as_deref())?;
                autostart::wait(&folder, &*clock, open)?
            }
            session => session?,
        };
        Ok(Job(Arc::new(session)))
    }

    /// Changes with each start of the daemon.
    #[must_use]
    pub fn boot_id(&self) -> u64 {
        self.0.boot_id
    }

    /// Names a graph's collection.
    ///
    /// # Errors
    /// `bad-graph`, `too-large`, `daemon-lost`, `forked`.
    pub fn plan(&self, graph: Graph) -> Result<Collection> {
        let request = PlanRequest {
            session: self.0.id,
            graph: Some(graph.clone()),
        };
        let plan = self
            .0
            .call(DEADLINE, |mut c| async move { c.plan(request).await })
            .map_err(|e| match e.code() {
                Code::Invalid => e.with_code(Code::BadGraph),
                _ => e,
            })?;
        Collection::new(Arc::clone(&self.0), &graph, plan)
    }

    /// Sends what was not reported yet, for as long as the job lives: to be called before the process ends.
    pub fn reporter(&self) -> impl Fn() + Send + Sync + use<> {
        let session = Arc::downgrade(&self.0);
        move || {
            if let Some(session) = session.upgrade() {
                session.report();
            }
        }
    }
}
