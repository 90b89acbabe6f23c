//! Requests of the services, as messages of the right kind that hold anything.

use crate::{
    daemon::{Daemon, PATIENCE, daemon},
    parts::Parts,
};
use prebake_proto::v1::{self, cache_client::CacheClient, control_client::ControlClient};
use prost::Message;
use tonic::{Code, Status};

/// More requests are no other case.
const REQUESTS_MAX: usize = 16;
/// Nobody else holds what is waited for.
const WAIT_MS_MAX: u32 = 1;

/// Which method is called, and with which message.
pub fn run(bytes: &[u8]) {
    let daemon = daemon();
    let mut parts = Parts(bytes);
    for _ in 0..REQUESTS_MAX {
        let method = parts.byte();
        let Some(message) = parts.next() else {
            break;
        };
        let answer = daemon
            .runtime
            .block_on(async { tokio::time::timeout(PATIENCE, call(&daemon, method, message)).await });
        match answer {
            Ok(Some(Err(status))) => must_have_a_code(&status),
            Ok(_) => {}
            Err(_) => panic!("method {method} is not answered"),
        }
    }
}

/// Errors are ours, each with its code, or the transport's; never one of a task that is gone.
fn must_have_a_code(status: &Status) {
    let is_lost = matches!(status.code(), Code::Unknown | Code::Cancelled);
    assert!(!is_lost, "a request ends without an answer: {status}");
}

macro_rules! methods {
    ($daemon:ident, $number:ident, $bytes:ident, cache: [$($place:literal $method:ident $message:ident),*],
     control: [$($control_place:literal $control:ident $control_message:ident),*]) => {
        match $number % 12 {
            $($place => {
                let mut message = v1::$message::decode($bytes).ok()?;
                message.session = $daemon.session();
                bounded(&mut message);
                let answer = CacheClient::new($daemon.services()).$method(message).await;
                Some(answer.map(drop))
            })*
            $($control_place => {
                let message = v1::$control_message::decode($bytes).ok()?;
                let answer = ControlClient::new($daemon.services()).$control(message).await;
                Some(answer.map(drop))
            })*
            _ => None,
        }
    };
}

/// None if the bytes are no message of this kind.
async fn call(daemon: &Daemon, method: u8, bytes: &[u8]) -> Option<Result<(), Status>> {
    methods!(daemon, method, bytes,
        cache: [0 plan PlanRequest, 1 acquire AcquireRequest, 2 commit CommitRequest, 3 release ReleaseRequest,
                4 memo MemoRequest, 5 refused RefusedRequest, 6 mismatch MismatchRequest],
        control: [7 status StatusRequest, 8 gc GcRequest, 9 explain ExplainRequest, 10 diagnose DiagnoseRequest,
                  11 clear ClearRequest])
}

/// Requests that wait do so briefly.
trait Waits {
    fn wait_briefly(&mut self) {}
}

impl Waits for v1::AcquireRequest {
    fn wait_briefly(&mut self) {
        self.wait_ms = self.wait_ms.min(WAIT_MS_MAX);
    }
}
impl Waits for v1::PlanRequest {}
impl Waits for v1::CommitRequest {}
impl Waits for v1::ReleaseRequest {}
impl Waits for v1::MemoRequest {}
impl Waits for v1::RefusedRequest {}
impl Waits for v1::MismatchRequest {}

fn bounded(message: &mut impl Waits) {
    message.wait_briefly();
}
