//! Calls that clients have not sent to their end. Each may be megabytes long, a connection may have many, and nobody need ever end
//! one: what all of them fill together is bounded.

use crate::error::{Error, Kind};
use hyper::{
    Request,
    body::{Body as _, Bytes, Frame},
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};
use tonic::{Status, body::Body};

/// What they fill: twenty of the longest that the client library sends. A call that is sent at once is unfinished for milliseconds.
const BYTES_MAX: usize = 64 << 20;

/// A stream of many messages, which has memory of its own (`PUT_BYTES`).
const PUT: &str = "/arrow.flight.protocol.FlightService/DoPut";

/// All of them. Where they are too much, the one that began first is let go: whoever sends on has ended before.
#[derive(Default)]
pub struct Unfinished(Mutex<State>);

#[derive(Default)]
struct State {
    calls: BTreeMap<u64, Call>,
    bytes: usize,
    last: u64,
}

#[derive(Default)]
struct Call {
    bytes: usize,
    reader: Option<Waker>,
}

impl Unfinished {
    /// A call whose body counts until its message was read.
    pub fn counted(self: &Arc<Self>, request: Request<Body>) -> Request<Body> {
        if request.uri().path() == PUT || request.body().is_end_stream() {
            return request;
        }
        let mut state = self.0.lock();
        state.last += 1;
        let number = state.last;
        state.calls.insert(number, Call::default());
        drop(state);
        let of = Arc::clone(self);
        request.map(|body| Body::new(Counted { body, number, of }))
    }

    /// False if it was let go. Its reader is woken when it is.
    fn is_kept(&self, number: u64, reader: &Waker) -> bool {
        let mut state = self.0.lock();
        let call = state.calls.get_mut(&number);
        call.map(|call| match &mut call.reader {
            Some(known) => known.clone_from(reader),
            none => *none = Some(reader.clone()),
        })
        .is_some()
    }

    fn add(&self, number: u64, bytes: usize) {
        let mut state = self.0.lock();
        let Some(call) = state.calls.get_mut(&number) else {
            return;
        };
        call.bytes += bytes;
        state.bytes += bytes;
        while state.bytes > BYTES_MAX
            && let Some((_, first)) = state.calls.pop_first()
        {
            state.bytes -= first.bytes;
            first.reader.into_iter().for_each(Waker::wake);
        }
    }

    fn end(&self, number: u64) {
        let mut state = self.0.lock();
        let ended = state.calls.remove(&number);
        state.bytes -= ended.map_or(0, |call| call.bytes);
    }
}

struct Counted {
    body: Body,
    number: u64,
    of: Arc<Unfinished>,
}

impl hyper::body::Body for Counted {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if !self.of.is_kept(self.number, context.waker()) {
            let why = format!(
                "calls of which the end has not come fill {BYTES_MAX} bytes, and this one began first: send it at once, or again"
            );
            return Poll::Ready(Some(Err(Error::new(Kind::Exhausted, "unfinished", why).into())));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame {
            self.of.add(self.number, frame.data_ref().map_or(0, Bytes::len));
        }
        Poll::Ready(frame)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.of.end(self.number);
    }
}
