//! What clients call a Unix socket. gRPC's C++ library, and so pyarrow, sends the socket's path as `:authority`, percent-encoded;
//! Java's sends it as it is. Neither is a host name, and h2 refuses such a request before anybody here sees it. Nobody asks for
//! the authority, so its bytes that no host name has are replaced as they come in. Each by one other: HPACK's tables keep
//! their sizes, and what refers to the header later finds the name replaced.

use super::connection_limit::Admitted;
use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::UnixStream,
};
use tonic::transport::server::{Connected, UdsConnectInfo};

/// A client's connection.
pub struct Named {
    stream: UnixStream,
    frames: Frames,
    _admitted: Admitted,
}

impl Named {
    /// A connection of which nothing was read yet.
    pub fn new(stream: UnixStream, admitted: Admitted) -> Self {
        Self {
            stream,
            frames: Frames::default(),
            _admitted: admitted,
        }
    }
}

/// HTTP/2's preface, and the head of a frame: RFC 9113, 3.4 and 4.1.
const PREFACE_LEN: usize = 24;
const HEAD_LEN: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;
const PRIORITY_LEN: usize = 5;

/// The header, and its place in HPACK's table (RFC 7541, appendix A). The C++ library does not use that.
const AUTHORITY: &[u8] = b":authority";
const AUTHORITY_PLACE: u8 = 1;

/// Where in the client's bytes a connection is.
#[derive(Debug)]
struct Frames {
    /// Bytes before the next that matters.
    skip: usize,
    head: [u8; HEAD_LEN],
    head_len: usize,
    /// The next byte tells how long this frame's padding is.
    padded: bool,
    priority: bool,
    /// Bytes of header fields left in this frame, and of padding behind them.
    fields: usize,
    padding: usize,
    at: At,
}

/// Where in a block of header fields: RFC 7541, 6.
#[derive(Debug, Clone, Copy)]
enum At {
    Field,
    /// In a number whose value does not matter; then a string, if so.
    Number {
        string: Option<Text>,
    },
    Length(Text),
    LongLength {
        text: Text,
        huffman: bool,
        len: usize,
        shift: u32,
    },
    String {
        text: Text,
        replace: bool,
        left: usize,
    },
}

/// What a string is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    /// Of a header: whether it is that of the authority, as far as it was seen.
    Name(bool),
    Authority,
    Value,
}

impl Default for Frames {
    fn default() -> Self {
        Self {
            skip: PREFACE_LEN,
            head: [0; HEAD_LEN],
            head_len: 0,
            padded: false,
            priority: false,
            fields: 0,
            padding: 0,
            at: At::Field,
        }
    }
}

impl Frames {
    /// Replaces what is no host name in bytes just read.
    fn pass(&mut self, mut bytes: &mut [u8]) {
        while let Some(len) = bytes.len().checked_sub(self.skip) {
            let (_, rest) = bytes.split_at_mut(self.skip);
            self.skip = 0;
            if len == 0 {
                return;
            }
            let (byte, rest) = rest.split_at_mut(1);
            self.byte(&mut byte[0]);
            bytes = rest;
        }
        self.skip -= bytes.len();
    }

    fn byte(&mut self, byte: &mut u8) {
        if self.padded {
            self.padded = false;
            self.padding = usize::from(*byte);
            self.begin_fields(1);
        } else if self.fields > 0 {
            self.fields -= 1;
            self.at = self.at.next(byte);
            if self.fields == 0 {
                self.skip = self.padding;
            }
        } else {
            self.head[self.head_len] = *byte;
            self.head_len += 1;
            if self.head_len == HEAD_LEN {
                self.head_len = 0;
                self.frame();
            }
        }
    }

    fn frame(&mut self) {
        let [a, b, c, kind, flags, ..] = self.head;
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        if kind != HEADERS && kind != CONTINUATION {
            self.skip = len;
            return;
        }
        (self.fields, self.padding) = (len, 0);
        if kind == HEADERS {
            self.at = At::Field;
            self.padded = flags & PADDED != 0 && len > 0;
            self.priority = flags & PRIORITY != 0;
            if !self.padded {
                self.begin_fields(0);
            }
        }
    }

    /// Once it is known what lies around the fields.
    fn begin_fields(&mut self, before: usize) {
        let priority = if std::mem::take(&mut self.priority) {
            PRIORITY_LEN
        } else {
            0
        };
        let payload = self.fields - before;
        self.skip = priority.min(payload);
        self.fields = payload.saturating_sub(priority + self.padding);
        if self.fields == 0 {
            self.skip = payload;
        }
    }
}

impl At {
    fn next(self, byte: &mut u8) -> Self {
        match self {
            Self::Field => Self::field(*byte),
            Self::Number { .. } if *byte & 0x80 != 0 => self,
            Self::Number { string } => string.map_or(Self::Field, Self::Length),
            Self::Length(text) => {
                let (huffman, len) = (*byte & 0x80 != 0, usize::from(*byte & 0x7f));
                match len {
                    0x7f => Self::LongLength {
                        text,
                        huffman,
                        len,
                        shift: 0,
                    },
                    _ => Self::string(text, huffman, len),
                }
            }
            Self::LongLength {
                text,
                huffman,
                len,
                shift,
            } => {
                let more = usize::from(*byte & 0x7f).checked_shl(shift).unwrap_or(0);
                let len = len.saturating_add(more);
                match *byte & 0x80 {
                    0 => Self::string(text, huffman, len),
                    _ => Self::LongLength {
                        text,
                        huffman,
                        len,
                        shift: shift.saturating_add(7),
                    },
                }
            }
            Self::String { text, replace, left } => {
                if replace && matches!(*byte, b'%' | b'/') {
                    *byte = b'-';
                }
                let text = match text {
                    Text::Name(is) => Text::Name(is && AUTHORITY.iter().nth_back(left - 1) == Some(byte)),
                    text => text,
                };
                match left {
                    1 => Self::behind(text),
                    _ => Self::String {
                        text,
                        replace,
                        left: left - 1,
                    },
                }
            }
        }
    }

    fn field(byte: u8) -> Self {
        // What a field is, by its first bits; the rest of the byte is a number, or begins a longer one.
        let (bits, literal) = match byte {
            0x80.. => (0x7f, false),
            0x40.. => (0x3f, true),
            0x20.. => (0x1f, false),
            _ => (0x0f, true),
        };
        let index = byte & bits;
        let string = literal.then_some(match index {
            0 => Text::Name(true),
            AUTHORITY_PLACE => Text::Authority,
            _ => Text::Value,
        });
        match string {
            _ if index == bits => Self::Number { string },
            Some(text) => Self::Length(text),
            None => Self::Field,
        }
    }

    fn string(text: Text, huffman: bool, len: usize) -> Self {
        let text = match text {
            Text::Name(_) => Text::Name(!huffman && len == AUTHORITY.len()),
            text => text,
        };
        match len {
            0 => Self::behind(text),
            // A code of bits cannot be replaced in place. None of these clients uses it.
            left => Self::String {
                text,
                replace: text == Text::Authority && !huffman,
                left,
            },
        }
    }

    fn behind(text: Text) -> Self {
        match text {
            Text::Name(true) => Self::Length(Text::Authority),
            Text::Name(false) => Self::Length(Text::Value),
            _ => Self::Field,
        }
    }
}

impl Connected for Named {
    type ConnectInfo = UdsConnectInfo;

    fn connect_info(&self) -> UdsConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Named {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        self.frames.pass(&mut into.filled_mut()[before..]);
        read
    }
}

impl AsyncWrite for Named {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
