//! Where a caller's world stands among those of a collection, and what is kept of what it found.

use crate::{
    cache::{Cache, collection_notes, domain},
    collection::{Collection, worlds::State},
    error::{Error, Kind, Result},
    index::Space,
    session::Session,
};
use prebake_fingerprint::Digest;
use prebake_proto::{
    leaf::cut,
    v1::{self, world_request::Found, world_response::Standing},
};
use prost::Message;

/// Bytes of a description: a digest for each of some hundred files and variables.
const DESCRIPTION_BYTES_MAX: usize = 48 << 10;

/// Bytes of what differs, in words.
const WHY_BYTES_MAX: usize = 1024;

/// Where a caller's world stands, after what it found.
///
/// # Errors
/// `bad-request` for what is no digest or too long; `no-collection`.
pub fn stand(cache: &Cache, session: &Session, ask: v1::WorldRequest) -> Result<v1::WorldResponse> {
    let collection = cache.catalog.get(ask.collection, &domain(session))?;
    let bad = |what: &str| Error::new(Kind::Invalid, "bad-request", what.to_owned());
    let digest = |bytes: &[u8]| Digest::try_from(bytes).map_err(|_| bad("a world or variant is a digest"));
    let world = digest(&ask.world)?;
    if ask.description.len() > DESCRIPTION_BYTES_MAX {
        return Err(bad("the description of a world is too long"));
    }
    let found = match ask.found {
        None => None,
        Some(Found::Agrees(_)) => Some(None),
        Some(Found::Differs(variant)) => Some(Some((digest(&variant.key)?, cut(variant.why, WHY_BYTES_MAX)))),
    };
    let mut state = collection.worlds.state();
    if !std::mem::replace(&mut state.read, true) {
        let key = collection_notes::key(&collection.domain, collection.graph.digest());
        let value = cache.index.get(Space::Worlds, &key).ok().flatten();
        if let Some(record) = value.and_then(|value| v1::Worlds::decode(&value[..]).ok()) {
            state.recall(record);
        }
        state.match_found();
    }
    let differs = matches!(found, Some(Some(_)));
    let mut changed = found.is_some_and(|found| state.learn(world, found, ask.part));
    // Segments whose rows could not be read yet were made in some world that is not known here.
    let begins = ask.begins && collection.is_empty() && collection.is_loaded();
    let (mut standing, new) = state.stand(world, begins, ask.part);
    changed |= new;
    if state.first == Some(world) && state.description.is_empty() && !ask.description.is_empty() {
        state.description = ask.description.to_vec();
        changed = true;
    }
    let kept = if changed {
        keep(cache, &collection, &state, differs)
    } else {
        Ok(())
    };
    drop(state);
    if let Err(error) = kept {
        cache.metrics.errors.with_label_values(&[error.code()]).inc();
        if differs {
            // An earlier record may say that this world is proven, and a restart would believe it.
            tracing::warn!(%error, "what other processes found to differ could not be written: it is computed again");
            cache.disown(&collection);
        }
    }
    if let Standing::Unproven(unproven) = &mut standing {
        let mut sessions = cache.sessions.all();
        sessions.retain(|other| other.id != session.id && other.collections().contains(&collection.id));
        unproven.others = !sessions.is_empty();
        let (cpu_ns, rows) = collection.cost();
        unproven.cost_ns = cpu_ns.checked_div(rows).unwrap_or(0);
    }
    Ok(v1::WorldResponse {
        standing: Some(standing),
    })
}

/// Writes what is known of a collection's worlds. Without it they are compared again after a restart. What `differs` needs no
/// room, and no crash brings back what was known before; if it cannot be written, nothing is known.
fn keep(cache: &Cache, collection: &Collection, state: &State, differs: bool) -> Result<()> {
    let key = collection_notes::key(&collection.domain, collection.graph.digest());
    let record = (key.clone(), state.record().encode_to_vec());
    if !differs {
        cache
            .index_space
            .claim(collection_notes::records(&record.1), &cache.ssd)?;
        return cache.index.put(Space::Worlds, &[record]);
    }
    let written = cache.index.put(Space::Worlds, &[record]);
    let written = written.or_else(|_| cache.index.remove(Space::Worlds, &key));
    written.and_then(|()| cache.index.flush())
}
