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

/// What they fill: ten of the longest that the client library sends. A call that is sent at once is unfinished for milliseconds.
const BYTES_MAX: usize = 32 << 20;

/// Of a message: whether it is compressed, and its length.
const HEAD_BYTES: usize = 5;

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
        request.map(|body| Body::new(Counted::new(body, number, Arc::clone(self))))
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
        let mut let_go = Vec::new();
        while state.bytes > BYTES_MAX
            && let Some((_, first)) = state.calls.pop_first()
        {
            state.bytes -= first.bytes;
            let_go.extend(first.reader);
        }
        drop(state);
        let_go.into_iter().for_each(Waker::wake);
    }

    fn end(&self, number: u64) {
        let mut state = self.0.lock();
        let ended = state.calls.remove(&number);
        state.bytes -= ended.map_or(0, |call| call.bytes);
    }
}

/// A body, whose message is complete for its reader only once the call's end has come: until then these bytes are all that is held of
/// it, and not what is made of them, which may be a hundred times as large.
struct Counted {
    body: Body,
    number: u64,
    of: Arc<Unfinished>,
    head: Vec<u8>,
    seen: usize,
    /// What completes the message.
    last: Option<Frame<Bytes>>,
    /// What came after it: trailers, or nothing.
    end: Option<Option<Frame<Bytes>>>,
}

impl Counted {
    fn new(body: Body, number: u64, of: Arc<Unfinished>) -> Self {
        Self {
            body,
            number,
            of,
            head: Vec::with_capacity(HEAD_BYTES),
            seen: 0,
            last: None,
            end: None,
        }
    }

    /// Whether a frame's bytes complete the message: a flag and the length, then as many bytes (gRPC over HTTP/2).
    fn completes(&mut self, bytes: &[u8]) -> bool {
        let missing = HEAD_BYTES - self.head.len();
        self.head.extend_from_slice(&bytes[..missing.min(bytes.len())]);
        self.seen += bytes.len();
        match self.head[..] {
            [_, a, b, c, d] => self.seen >= HEAD_BYTES + u32::from_be_bytes([a, b, c, d]) as usize,
            _ => false,
        }
    }
}

impl hyper::body::Body for Counted {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(end) = &mut self.end {
            return Poll::Ready(end.take().map(Ok));
        }
        if !self.of.is_kept(self.number, context.waker()) {
            let why = format!(
                "calls of which the end has not come fill {BYTES_MAX} bytes, and this one began first: send it at once, or again"
            );
            return Poll::Ready(Some(Err(Error::new(Kind::Exhausted, "unfinished", why).into())));
        }
        loop {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(context)).transpose()?;
            let Some(bytes) = frame.as_ref().and_then(Frame::data_ref) else {
                let Some(last) = self.last.take() else {
                    return Poll::Ready(frame.map(Ok));
                };
                self.end = Some(frame);
                return Poll::Ready(Some(Ok(last)));
            };
            self.of.add(self.number, bytes.len());
            if self.last.is_some() {
                if bytes.is_empty() {
                    continue;
                }
                let why = "a call has one message, and this one has more";
                return Poll::Ready(Some(Err(Error::new(Kind::Invalid, "bad-request", why).into())));
            }
            let bytes = bytes.clone();
            if !self.completes(&bytes) {
                return Poll::Ready(frame.map(Ok));
            }
            self.last = frame;
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.of.end(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use http_body_util::{BodyExt, StreamBody};
    use tokio::sync::mpsc::{Sender, channel};
    use tokio_stream::wrappers::ReceiverStream;

    /// A message of three bytes.
    const MESSAGE: [u8; 8] = [0, 0, 0, 0, 3, 7, 7, 7];

    fn call(of: &Arc<Unfinished>) -> (Sender<Result<Frame<Bytes>, Status>>, Body) {
        let (sender, receiver) = channel(9);
        let body = Body::new(StreamBody::new(ReceiverStream::new(receiver)));
        (sender, of.counted(Request::new(body)).into_body())
    }

    fn send(to: &Sender<Result<Frame<Bytes>, Status>>, bytes: &'static [u8]) {
        to.try_send(Ok(Frame::data(Bytes::from_static(bytes)))).unwrap();
    }

    /// The bytes that are there.
    fn next(body: &mut Body) -> Result<Bytes, Status> {
        let frame = body.frame().now_or_never().unwrap().unwrap();
        Ok(frame?.into_data().unwrap())
    }

    #[test]
    fn a_message_is_whole_once_its_call_has_ended() {
        for at in 0..MESSAGE.len() {
            let of = Arc::default();
            let (sender, mut body) = call(&of);
            let (first, rest) = MESSAGE.split_at(at);
            send(&sender, first);
            assert_eq!(next(&mut body).unwrap(), first);
            send(&sender, rest);
            assert!(
                body.frame().now_or_never().is_none(),
                "nobody makes anything of it yet"
            );
            assert_eq!(of.0.lock().bytes, MESSAGE.len());
            drop(sender);
            assert_eq!(next(&mut body).unwrap(), rest);
            assert!(body.frame().now_or_never().unwrap().is_none());
            drop(body);
            assert_eq!(of.0.lock().bytes, 0);
        }
    }

    #[test]
    fn a_second_message_is_refused() {
        let of = Arc::default();
        let (sender, mut body) = call(&of);
        send(&sender, &MESSAGE);
        send(&sender, &MESSAGE);
        let refused = next(&mut body).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    }
}
