//! The daemon's one error type, and its one mapping to gRPC.

use rustix::io::Errno;
use std::{fmt, io};

/// What went wrong, in kinds that a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The request itself is wrong; repeating it will not help.
    Invalid,
    /// Not there, or not the caller's: the two are one answer, so that nobody can probe.
    NotFound,
    /// The session ended or never was.
    SessionLost,
    /// RAM, disk or descriptors ran out; the caller computes without storing.
    Exhausted,
    /// The operating system refused an operation.
    Io,
    /// Stored bytes do not match their digest or their format.
    Corrupt,
    /// A part of a protocol that the daemon does not have.
    Unsupported,
}

/// An error with a stable code, a message that says what to do, and its cause.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    code: &'static str,
    message: String,
    source: Option<io::Error>,
}

/// The daemon's result.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of this kind. `code` is stable: it is counted in metrics and named in the docs.
    pub fn new(kind: Kind, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            code,
            message: message.into(),
            source: None,
        }
    }

    /// An operating system error, with what was attempted.
    pub fn io(what: impl fmt::Display, source: io::Error) -> Self {
        let full = matches!(
            source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        );
        // Not of a disk: what was to be done can be done once some are closed.
        let errno = source.raw_os_error().map(Errno::from_raw_os_error);
        let none_left = matches!(errno, Some(Errno::MFILE | Errno::NFILE));
        let (kind, code, advice) = match (full, none_left) {
            (true, _) => (Kind::Exhausted, "disk-full", ""),
            (_, true) => (
                Kind::Exhausted,
                "no-descriptors",
                "; raise the daemon's RLIMIT_NOFILE (ulimit -n, LimitNOFILE=)",
            ),
            _ => (Kind::Io, "io", ""),
        };
        Self {
            kind,
            code,
            message: format!("{what}: {source}{advice}"),
            source: Some(source),
        }
    }

    /// Memory that the system does not give. Shared memory is a file of its, so that it may say that no space is left.
    pub fn memory(what: impl fmt::Display, errno: Errno) -> Self {
        match errno {
            Errno::NOMEM | Errno::NOSPC => Self::new(
                Kind::Exhausted,
                "no-memory",
                format!(
                    "{what}: {errno}; give the daemon less to use (--ram-bytes), or its container more memory"
                ),
            ),
            _ => Self::io(what, errno.into()),
        }
    }

    /// Bytes on disk that are not what their digest or format says.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(Kind::Corrupt, "corrupt", message)
    }

    /// Memory that could not be mapped.
    pub fn mapping(source: &io::Error) -> Self {
        Self::memory(
            "mapping shared memory",
            Errno::from_io_error(source).unwrap_or(Errno::IO),
        )
    }

    /// Whether the machine is at fault: its disk, its memory, its descriptors.
    pub fn is_of_system(&self) -> bool {
        self.source.is_some() || self.code == "no-memory"
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether what was asked for is not there.
    pub fn is_absent(&self) -> bool {
        let source = self.source.as_ref();
        source.is_some_and(|e| e.kind() == io::ErrorKind::NotFound)
    }

    /// Its stable code.
    pub fn code(&self) -> &'static str {
        self.code
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.message, self.code)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|e| e as _)
    }
}

impl From<Error> for tonic::Status {
    fn from(e: Error) -> Self {
        let code = match e.kind {
            Kind::Invalid => tonic::Code::InvalidArgument,
            Kind::NotFound => tonic::Code::NotFound,
            Kind::SessionLost => tonic::Code::FailedPrecondition,
            Kind::Exhausted => tonic::Code::ResourceExhausted,
            Kind::Io => tonic::Code::Unavailable,
            Kind::Corrupt => tonic::Code::DataLoss,
            Kind::Unsupported => tonic::Code::Unimplemented,
        };
        Self::new(code, e.to_string())
    }
}
