//! Questions about the whole daemon, for people and dashboards.

use crate::connection::channel::{Channel, DEADLINE};
use crate::connection::folder::Folder;
use crate::error::Result;
use prebake_proto::v1::control_client::ControlClient;
use prebake_proto::v1::{
    ClearRequest, ClearResponse, DiagnoseRequest, DiagnoseResponse, ExplainRequest, ExplainResponse,
    GcRequest, GcResponse, StatusRequest, StatusResponse, SyncRequest, SyncResponse,
};
use std::time::Duration;

/// Deleting or syncing all that is cached takes as long as the disk needs.
const DISK_DEADLINE: Duration = Duration::from_secs(300);

/// A connection without a session.
pub struct Control(Channel);

impl Control {
    /// # Errors
    /// `daemon-absent` if no daemon runs in the folder. None is started: a fresh one would have nothing to tell.
    pub fn connect(folder: &Folder) -> Result<Control> {
        Channel::open(folder).map(Control)
    }

    /// What the daemon holds and saved.
    ///
    /// # Errors
    /// `daemon-lost`.
    pub fn status(&self) -> Result<StatusResponse> {
        let mut client = ControlClient::new(self.0.transport()?);
        self.0.wait(DEADLINE, client.status(StatusRequest {}))
    }

    /// Why the caller's jobs missed or were refused, newest first: at a place of their code (`train.py:41`), in the
    /// collection of a digest, in a job; the last one if `target` is empty.
    ///
    /// # Errors
    /// `daemon-lost`.
    pub fn explain(&self, target: String) -> Result<ExplainResponse> {
        let mut client = ControlClient::new(self.0.transport()?);
        self.0.wait(DEADLINE, client.explain(ExplainRequest { target }))
    }

    /// What looks wrong in how the caller's jobs use the cache.
    ///
    /// # Errors
    /// `daemon-lost`.
    pub fn diagnose(&self) -> Result<DiagnoseResponse> {
        let mut client = ControlClient::new(self.0.transport()?);
        self.0.wait(DEADLINE, client.diagnose(DiagnoseRequest {}))
    }

    /// Ends the quarantine of the caller's subgraphs whose digests begin so.
    ///
    /// # Errors
    /// `invalid` if these are no digits of a digest, `daemon-lost`.
    pub fn clear(&self, digest: String) -> Result<ClearResponse> {
        let mut client = ControlClient::new(self.0.transport()?);
        self.0.wait(DISK_DEADLINE, client.clear(ClearRequest { digest }))
    }

    /// Evicts until the SSD tier holds at most so many bytes.
    ///
    /// # Errors
    /// `daemon-lost`.
    pub fn gc(&self, ssd_bytes_max: u64) -> Result<GcResponse> {
        let mut client = ControlClient::new(self.0.transport()?);
        let request = GcRequest { ssd_bytes_max };
        self.0.wait(DISK_DEADLINE, client.gc(request))
    }

    /// Makes every published entry durable.
    ///
    /// # Errors
    /// `daemon-lost`.
    pub fn sync(&self) -> Result<SyncResponse> {
        let mut client = ControlClient::new(self.0.transport()?);
        self.0.wait(DISK_DEADLINE, client.sync(SyncRequest {}))
    }
}
