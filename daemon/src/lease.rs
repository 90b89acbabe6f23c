//! Leases: the right to compute an entry, held by one live session, with a fencing token (Gray and
//! Cheriton, 1989). A lease ends by commit, release, deadline or the end of its session.

use crate::session::SessionId;
use prebake_fingerprint::Digest;
use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    time::Duration,
};

/// Grows with each grant; a commit under an older token than the last is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token(pub u64);

#[derive(Debug)]
struct Lease {
    session: SessionId,
    token: Token,
    until: Duration,
}

/// The leases of one collection.
#[derive(Debug, Default)]
pub struct LeaseTable {
    leases: HashMap<Digest, Lease>,
    last: u64,
}

/// Who computes an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// Nobody.
    Nobody,
    /// The session that asks, under this token.
    Caller(Token),
    /// Another live session.
    Other,
}

impl LeaseTable {
    /// Who holds the lease on an entry now. A lease past its deadline is nobody's.
    pub fn holder(&self, entry: &Digest, caller: SessionId, now: Duration) -> Holder {
        match self.leases.get(entry) {
            Some(lease) if lease.until <= now => Holder::Nobody,
            Some(lease) if lease.session == caller => Holder::Caller(lease.token),
            Some(_) => Holder::Other,
            None => Holder::Nobody,
        }
    }

    /// Grants the lease on an entry that nobody holds; true if it was taken over from a holder that
    /// let its deadline pass.
    pub fn grant(&mut self, entry: Digest, session: SessionId, until: Duration) -> (Token, bool) {
        self.last += 1;
        let token = Token(self.last);
        let before = self.leases.insert(
            entry,
            Lease {
                session,
                token,
                until,
            },
        );
        (token, before.is_some())
    }

    /// Whether this session still holds a lease under this token. A late holder keeps it until
    /// somebody else takes it over.
    pub fn is_held(&self, entry: &Digest, session: SessionId, token: Token) -> bool {
        let lease = self.leases.get(entry);
        lease.is_some_and(|lease| lease.session == session && lease.token == token)
    }

    /// Gives a lease back.
    pub fn release(&mut self, entry: Digest, session: SessionId) -> bool {
        self.end(entry, |lease| lease.session == session)
    }

    /// Ends all leases of a session; how many there were.
    pub fn end_session(&mut self, session: SessionId) -> usize {
        let before = self.leases.len();
        self.leases.retain(|_, lease| lease.session != session);
        before - self.leases.len()
    }

    /// Ends the time of a session's leases: who asks for them next is given them, and what it still commits under them is
    /// refused from then on.
    pub fn expire(&mut self, session: SessionId, now: Duration) {
        for lease in self.leases.values_mut().filter(|lease| lease.session == session) {
            lease.until = lease.until.min(now);
        }
    }

    /// Sessions whose leases have time left.
    pub fn live(&self, now: Duration) -> HashSet<SessionId> {
        let live = self.leases.values().filter(|lease| lease.until > now);
        live.map(|lease| lease.session).collect()
    }

    /// Leases of all sessions.
    pub fn count(&self) -> usize {
        self.leases.len()
    }

    /// Sessions that hold a lease now, and the caller.
    pub fn holders(&self, caller: SessionId, now: Duration) -> usize {
        let mut others = self.live(now);
        others.remove(&caller);
        others.len() + 1
    }

    /// Leases of a session.
    pub fn held_by(&self, session: SessionId) -> usize {
        self.leases.values().filter(|l| l.session == session).count()
    }

    fn end(&mut self, entry: Digest, held: impl Fn(&Lease) -> bool) -> bool {
        match self.leases.entry(entry) {
            Entry::Occupied(lease) if held(lease.get()) => {
                lease.remove();
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);
    const SECOND: Duration = Duration::from_secs(1);

    fn entry() -> Digest {
        Digest::try_from(&[7; 32][..]).unwrap()
    }

    #[test]
    fn a_takeover_after_the_deadline_fences_the_first_holder() {
        let mut leases = LeaseTable::default();
        let (first, over) = leases.grant(entry(), A, SECOND);
        assert!(!over);
        assert_eq!(leases.holder(&entry(), B, Duration::ZERO), Holder::Other);
        assert_eq!(leases.holder(&entry(), B, SECOND), Holder::Nobody);
        let (second, over) = leases.grant(entry(), B, 3 * SECOND);
        assert!(over);
        assert!(
            !leases.is_held(&entry(), A, first),
            "a stale token commits nothing"
        );
        assert!(leases.is_held(&entry(), B, second));
        assert!(!leases.release(entry(), A), "nor does it end another's lease");
        assert!(leases.release(entry(), B));
        assert!(
            !leases.is_held(&entry(), B, second),
            "nor does a spent one commit"
        );
    }

    #[test]
    fn a_session_that_is_granted_an_entry_again_commits_under_the_later_token_only() {
        let mut leases = LeaseTable::default();
        let (first, _) = leases.grant(entry(), A, SECOND);
        let (second, _) = leases.grant(entry(), A, 3 * SECOND);
        assert!(!leases.is_held(&entry(), A, first));
        assert!(leases.is_held(&entry(), A, second));
    }

    #[test]
    fn a_dead_session_leaves_nothing_held() {
        let mut leases = LeaseTable::default();
        leases.grant(entry(), A, SECOND);
        assert_eq!(leases.end_session(B), 0);
        assert_eq!(leases.end_session(A), 1);
        assert_eq!(leases.holder(&entry(), B, Duration::ZERO), Holder::Nobody);
    }
}
