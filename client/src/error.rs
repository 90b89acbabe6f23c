//! The one error of this crate.

use rustix::io::Errno;

/// Why a call failed: a stable code for programs, a message for people.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    code: Code,
    message: String,
}

/// What kind of failure it is. The words of [`Code::as_str`] are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Nothing serves this folder, and no daemon was or could be started.
    DaemonAbsent,
    /// The daemon went away or does not answer in time.
    DaemonLost,
    /// The path of the socket does not fit the kernel's limit.
    SocketPathTooLong,
    /// The daemon speaks another version of the protocol.
    ProtocolVersion,
    /// The daemon broke the protocol.
    Protocol,
    /// The graph was refused.
    BadGraph,
    /// The daemon refused a request as wrong.
    Invalid,
    /// The daemon has no memory or disk to spare now.
    Exhausted,
    /// The system gives the daemon no memory, or no descriptors to it or to this process: somebody must raise a limit.
    NoResources,
    /// A message or an element is larger than its limit.
    TooLarge,
    /// An input file is not there or cannot be read.
    InputMissing,
    /// An input file kept changing while it was read.
    InputUnstable,
    /// Elements of one batch differ in layout.
    Ragged,
    /// The handle was made before `fork` by another process.
    Forked,
    /// The caller asked to stop waiting.
    Interrupted,
    /// Anything else.
    Internal,
}

impl Code {
    /// The stable name, such as `daemon-lost`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Code::DaemonAbsent => "daemon-absent",
            Code::DaemonLost => "daemon-lost",
            Code::SocketPathTooLong => "socket-path-too-long",
            Code::ProtocolVersion => "protocol-version",
            Code::Protocol => "protocol",
            Code::BadGraph => "bad-graph",
            Code::Invalid => "invalid",
            Code::Exhausted => "exhausted",
            Code::NoResources => "no-resources",
            Code::TooLarge => "too-large",
            Code::InputMissing => "input-missing",
            Code::InputUnstable => "input-unstable",
            Code::Ragged => "ragged",
            Code::Forked => "forked",
            Code::Interrupted => "interrupted",
            Code::Internal => "internal",
        }
    }
}

impl Error {
    /// An error of this kind; the message should say what to do.
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error {
            code,
            message: message.into(),
        }
    }

    /// What kind of failure it is.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// The same failure under another code.
    pub(crate) fn with_code(mut self, code: Code) -> Error {
        self.code = code;
        self
    }

    pub(crate) fn lost(what: impl std::fmt::Display) -> Error {
        Error::new(
            Code::DaemonLost,
            format!("the daemon is gone or does not answer ({what}): connect again, or compute without it"),
        )
    }

    pub(crate) fn protocol(what: impl std::fmt::Display) -> Error {
        Error::new(
            Code::Protocol,
            format!(
                "the daemon broke the protocol ({what}): restart it with the same version as this client"
            ),
        )
    }

    /// What the kernel drops or does not open for want of room in the process can be asked for again.
    pub(crate) fn no_descriptors() -> Error {
        Error::new(
            Code::NoResources,
            "this process has no descriptors left for what is cached: raise RLIMIT_NOFILE (ulimit -n)",
        )
    }

    /// What the system refused to open.
    pub(crate) fn open(error: &std::io::Error) -> Error {
        match Errno::from_io_error(error) {
            Some(Errno::MFILE | Errno::NFILE) => Error::no_descriptors(),
            _ => Error::internal(error),
        }
    }

    pub(crate) fn internal(what: impl std::fmt::Display) -> Error {
        Error::new(Code::Internal, what.to_string())
    }
}

/// Shorthand of this crate.
pub type Result<T> = std::result::Result<T, Error>;
