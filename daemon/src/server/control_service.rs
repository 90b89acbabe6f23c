//! The `Control` service: status, gc, sync.

use super::identity::{peer, require_owner};
use crate::{
    cache::{Cache, domain_of},
    error::Error,
    explain::{self, diagnose, status},
    system::task,
    tier::ssd::Why,
};
use prebake_proto::v1;
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// Serves control requests.
pub struct Service(pub Arc<Cache>);

type Reply<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl v1::control_server::Control for Service {
    async fn status(&self, request: Request<v1::StatusRequest>) -> Reply<v1::StatusResponse> {
        let peer = peer(&request)?;
        let cache = Arc::clone(&self.0);
        // With a thousand jobs it takes milliseconds, for which others' hits would wait.
        let found = task::blocking(move || status::of(&cache, peer)).await;
        Ok(Response::new(found.map_err(|_| Error::corrupt("status failed"))?))
    }

    async fn gc(&self, request: Request<v1::GcRequest>) -> Reply<v1::GcResponse> {
        require_owner(&request)?;
        let cache = Arc::clone(&self.0);
        let bytes_max = request.into_inner().ssd_bytes_max;
        let work = move || {
            let before = status::Disk::of(&cache);
            cache.ssd.shrink(bytes_max, Why::Asked);
            before.since(&cache)
        };
        let response = task::blocking(work).await;
        Ok(Response::new(response.map_err(|_| Error::corrupt("gc failed"))?))
    }

    async fn sync(&self, request: Request<v1::SyncRequest>) -> Reply<v1::SyncResponse> {
        require_owner(&request)?;
        let cache = Arc::clone(&self.0);
        let done = task::blocking(move || cache.sync()).await;
        done.map_err(|_| Error::corrupt("sync failed"))??;
        Ok(Response::new(v1::SyncResponse {}))
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Reply<v1::ExplainResponse> {
        let peer = peer(&request)?;
        let cache = Arc::clone(&self.0);
        let work = move || explain::explain(&cache, &domain_of(peer), &request.get_ref().target);
        let explanations = task::blocking(work).await;
        let explanations = explanations.map_err(|_| Error::corrupt("explaining failed"))?;
        Ok(Response::new(v1::ExplainResponse { explanations }))
    }

    async fn clear(&self, request: Request<v1::ClearRequest>) -> Reply<v1::ClearResponse> {
        let peer = peer(&request)?;
        let cache = Arc::clone(&self.0);
        let work = move || {
            let cleared = cache.clear(&domain_of(peer), &request.get_ref().digest)?;
            Ok::<_, Error>(
                cleared
                    .into_iter()
                    .map(|q| status::quarantined(&cache, q))
                    .collect(),
            )
        };
        let cleared = task::blocking(work).await;
        let cleared = cleared.map_err(|_| Error::corrupt("clearing failed"))??;
        Ok(Response::new(v1::ClearResponse { cleared }))
    }

    async fn diagnose(&self, request: Request<v1::DiagnoseRequest>) -> Reply<v1::DiagnoseResponse> {
        let peer = peer(&request)?;
        let cache = Arc::clone(&self.0);
        let work = move || diagnose::diagnose(&cache, &domain_of(peer));
        let found = task::blocking(work).await;
        Ok(Response::new(
            found.map_err(|_| Error::corrupt("looking failed"))?,
        ))
    }
}
