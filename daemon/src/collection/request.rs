//! What a session asks a collection for, and what it is told.

use crate::{collection::lease::Token, segment::Location, session::SessionId};
use prebake_fingerprint::Digest;
use std::{sync::Arc, time::Duration};

/// What the caller is told about one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is there.
    Hit(Location),
    /// The caller computes it under this token.
    Granted(Token),
    /// Another session computes it.
    Held,
    /// Nobody does, and the caller has leases enough.
    Free,
    /// Compute it and do not store it: there is no room for this collection now.
    Bypass,
}

/// An item asked for.
#[derive(Debug, Clone)]
pub struct Item {
    /// Its input fingerprint.
    pub fingerprint: Digest,
    /// What a person calls it.
    pub name: String,
}

/// What one session asks for.
pub struct Request<'a> {
    /// Who asks.
    pub session: SessionId,
    /// Cannot go on without.
    pub wanted: &'a [Item],
    /// Will need too.
    pub ahead: &'a [Item],
    /// Leases it takes at once.
    pub leases_max: usize,
    /// How long it may hold them.
    pub lease: Duration,
    /// All that it may ever want.
    pub items: u64,
}

/// Answers to a [`Request`]: wanted first, then ahead.
pub struct Answers {
    /// One for each item.
    pub answers: Vec<Answer>,
    /// Leases taken over from holders that let their deadline pass.
    pub takeovers: u64,
    /// The caller has nothing to do but wait.
    pub wait: bool,
    /// Why nothing of it is served nor stored, if that is so.
    pub quarantined: Option<Arc<str>>,
}
