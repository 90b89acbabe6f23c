//! A process that uses the cache.

use crate::clock::{Clock, SystemClock};
use crate::collection::Collection;
use crate::connection::channel::DEADLINE;
use crate::connection::folder::Folder;
use crate::error::{Code, Result};
use crate::location::{Location, Span};
use crate::mapped::view::View;
use crate::session::Session;
use crate::session::autostart;
use parking_lot::Mutex;
use prebake_proto::leaf;
use prebake_proto::v1::{Graph, RefusedRequest};
use std::collections::HashSet;
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
pub struct Job {
    session: Arc<Session>,
    /// Refusals told, so that each costs one call.
    told: Arc<Mutex<HashSet<[String; 3]>>>,
}

/// Refusals that one process tells: a pipeline has tens of objects, and the daemon keeps the last few of all jobs.
const REFUSALS_MAX: usize = 64;

/// Bytes of a refusal's reason that are sent: a line or two for a person.
const REASON_BYTES_MAX: usize = 1024;

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
                let starting = autostart::start(&folder, options.daemon.as_deref())?;
                autostart::wait(&folder, &starting, &*clock, open)?
            }
            session => session?,
        };
        Ok(Job {
            session: Arc::new(session),
            told: Arc::default(),
        })
    }

    /// Changes with each start of the daemon.
    #[must_use]
    pub fn boot_id(&self) -> u64 {
        self.session.boot_id
    }

    /// The elements in these spans, side by side, as another process of this user found them in this start of the daemon
    /// (see [`crate::Items::spans`]); None if one was evicted since.
    ///
    /// # Errors
    /// `daemon-lost`, `protocol` for what is no span, `forked`.
    pub fn gather(&self, spans: &[Span]) -> Result<Option<View>> {
        self.session.check()?;
        // Here too: whoever reads nothing else must let go of what is evicted. A daemon that is gone evicts nothing.
        let _ = self.session.listen();
        let runs = spans.iter().map(|span| Location::try_from(*span));
        let runs: Vec<Location> = runs.collect::<Result<_>>()?;
        self.session.gather(&runs)
    }

    /// Names a graph's collection.
    ///
    /// # Errors
    /// `bad-graph`, `too-large`, `daemon-lost`, `forked`.
    pub fn plan(&self, mut graph: Graph) -> Result<Collection> {
        leaf::trim(&mut graph);
        Collection::plan(Arc::clone(&self.session), graph).map_err(|e| match e.code() {
            Code::Invalid => e.with_code(Code::BadGraph),
            _ => e,
        })
    }

    /// Tells the daemon what is not cached and why, to be explained: a code of R20 to R42 (M18 for an item whose computation
    /// failed), the reason in words, and where the user wrote it. Once for each; what does not arrive is not worth failing
    /// for.
    pub fn refused(&self, code: &str, reason: &str, location: &str) {
        let cut = |text: &str| leaf::cut(text.to_owned(), REASON_BYTES_MAX);
        let refusal = [cut(code), cut(reason), cut(location)];
        {
            let mut told = self.told.lock();
            if told.len() >= REFUSALS_MAX || !told.insert(refusal.clone()) {
                return;
            }
        }
        let [code, reason, location] = refusal;
        let request = RefusedRequest {
            session: self.session.id,
            code,
            reason,
            location,
        };
        let _ = self
            .session
            .call(DEADLINE, |mut c| async move { c.refused(request).await });
    }

    /// Sends what was not reported yet, for as long as the job lives: to be called before the process ends.
    pub fn reporter(&self) -> impl Fn() + Send + Sync + use<> {
        let session = Arc::downgrade(&self.session);
        move || {
            if let Some(session) = session.upgrade() {
                session.report();
            }
        }
    }
}
