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

/// Leases of one session in one collection: sixteen threads that each have as many as they ever ask for. More would be
/// memory that a job takes by asking, and is outside the budget.
pub const LEASES_MAX: usize = 16 << 10;

/// What one session has here.
#[derive(Debug, Default)]
struct Holdings {
    leases: usize,
    /// When the time of the last of them ends, if none was given back since.
    until: Duration,
}

/// The leases of one collection.
#[derive(Debug, Default)]
pub struct LeaseTable {
    leases: HashMap<Digest, Lease>,
    /// Of all that have some: questions are not to take longer the more leases there are.
    sessions: HashMap<SessionId, Holdings>,
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
        let lease = Lease {
            session,
            token,
            until,
        };
        let before = self.leases.insert(entry, lease);
        if let Some(before) = &before {
            self.let_go(before.session, 1);
        }
        let held = self.sessions.entry(session).or_default();
        held.leases += 1;
        held.until = held.until.max(until);
        (token, before.is_some())
    }

    /// Counts leases of a session that ended.
    fn let_go(&mut self, session: SessionId, ended: usize) {
        if let Entry::Occupied(mut held) = self.sessions.entry(session) {
            held.get_mut().leases -= ended.min(held.get().leases);
            if held.get().leases == 0 {
                held.remove();
            }
        }
    }

    /// Whether this session still holds a lease under this token. A late holder keeps it until
    /// somebody else takes it over.
    pub fn is_held(&self, entry: &Digest, session: SessionId, token: Token) -> bool {
        let lease = self.leases.get(entry);
        lease.is_some_and(|lease| lease.session == session && lease.token == token)
    }

    /// Gives a lease back.
    pub fn release(&mut self, entry: Digest, session: SessionId) -> bool {
        self.end_if(entry, |lease| lease.session == session)
    }

    /// Gives back the lease that was granted under this token. One granted since, also to the same session, stays: another
    /// of its threads computes under it.
    pub fn give_back(&mut self, entry: Digest, session: SessionId, token: Token) -> bool {
        self.end_if(entry, |lease| lease.session == session && lease.token == token)
    }

    /// Ends the lease on an entry, whoever holds it.
    pub fn end(&mut self, entry: Digest) {
        self.end_if(entry, |_| true);
    }

    /// Ends all leases of a session; how many there were.
    pub fn end_session(&mut self, session: SessionId) -> usize {
        let ended = self.sessions.remove(&session);
        if ended.is_some() {
            self.leases.retain(|_, lease| lease.session != session);
        }
        ended.map_or(0, |held| held.leases)
    }

    /// Ends the time of a session's leases: who asks for them next is given them, and what it still commits under them is
    /// refused from then on.
    pub fn expire(&mut self, session: SessionId, now: Duration) {
        let Some(held) = self.sessions.get_mut(&session) else {
            return;
        };
        held.until = held.until.min(now);
        for lease in self.leases.values_mut().filter(|lease| lease.session == session) {
            lease.until = lease.until.min(now);
        }
    }

    /// Sessions whose leases have time left.
    pub fn live(&self, now: Duration) -> HashSet<SessionId> {
        let live = self.sessions.iter().filter(|(_, held)| held.until > now);
        live.map(|(session, _)| *session).collect()
    }

    /// Leases of all sessions.
    pub fn count(&self) -> usize {
        self.leases.len()
    }

    /// Sessions that hold a lease now, and the caller.
    pub fn holders(&self, caller: SessionId, now: Duration) -> usize {
        let others = self.sessions.iter();
        others
            .filter(|(session, held)| **session != caller && held.until > now)
            .count()
            + 1
    }

    /// Leases of a session.
    pub fn held_by(&self, session: SessionId) -> usize {
        self.sessions.get(&session).map_or(0, |held| held.leases)
    }

    fn end_if(&mut self, entry: Digest, held: impl Fn(&Lease) -> bool) -> bool {
        match self.leases.entry(entry) {
            Entry::Occupied(lease) if held(lease.get()) => {
                let session = lease.remove().session;
                self.let_go(session, 1);
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
        assert!(!leases.give_back(entry(), A, first), "nor does a late one end it");
        assert!(leases.is_held(&entry(), A, second));
        assert!(leases.give_back(entry(), A, second));
    }

    /// What is counted of sessions, counted anew.
    fn counted(leases: &LeaseTable, session: SessionId) -> usize {
        leases
            .leases
            .values()
            .filter(|lease| lease.session == session)
            .count()
    }

    #[test]
    fn sessions_are_counted_as_their_leases_are() {
        // Every sequence of five of these.
        let entries = [0, 1].map(|n| Digest([n; 32]));
        type Step = fn(&mut LeaseTable, [Digest; 2]);
        let steps: [Step; 7] = [
            |t, [one, _]| _ = t.grant(one, A, SECOND),
            |t, [one, _]| _ = t.grant(one, B, SECOND),
            |t, [_, other]| _ = t.grant(other, A, SECOND),
            |t, [one, _]| _ = t.release(one, A),
            |t, [one, _]| _ = t.release(one, B),
            |t, _| _ = t.end_session(A),
            |t, _| t.expire(B, Duration::ZERO),
        ];
        for sequence in 0..steps.len().pow(5) {
            let mut leases = LeaseTable::default();
            for place in 0..5 {
                steps[sequence / steps.len().pow(place) % steps.len()](&mut leases, entries);
                for session in [A, B] {
                    assert_eq!(leases.held_by(session), counted(&leases, session), "{sequence}");
                }
                let live = leases
                    .leases
                    .values()
                    .filter(|lease| lease.until > Duration::ZERO);
                let live: HashSet<_> = live.map(|lease| lease.session).collect();
                assert!(live.is_subset(&leases.live(Duration::ZERO)), "{sequence}");
            }
        }
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
