//! How this process speaks with the daemon: sockets, packets and gRPC, and the folder that both know.

pub(crate) mod channel;
pub(crate) mod control;
pub(crate) mod data_socket;
pub(crate) mod folder;
pub(crate) mod socket;
