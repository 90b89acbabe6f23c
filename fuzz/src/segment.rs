//! A segment's file: its footer and its rows, under seals that match, since a seal only tells of chance.
//!
//! Bytes are four parts, so that none of them is the zeros between them: the schema's message, the record batch's,
//! all that is behind the head, and the footer.

use crate::{memory_file::MemoryFile, parts::Parts};
use arrow_ipc as ipc;
use prebake_daemon::segment::{SEAL_LEN, SegmentName, VALUES_AT, description::Record, footer, seal};

const MAGIC: &[u8; 6] = b"ARROW1";
/// Magic, and zeros to a multiple of eight.
const SCHEMA_AT: usize = 8;
const TRAILER_LEN: usize = 4 + MAGIC.len();
/// Footer metadata: digest of the rows.
const ROWS: &str = "prebake.rows";
/// What the files of the corpus are called.
pub const NAME: &str = "00112233445566778899aabbccddeeff";

pub fn run(bytes: &[u8]) {
    let Some(file) = assemble(&mut Parts(bytes)) else {
        return;
    };
    let Some(name) = SegmentName::parse(NAME) else {
        return;
    };
    let file = MemoryFile::new(file);
    let _ = Record::read(&file, name);
    let Ok(footer) = footer(&file, name) else {
        return;
    };
    let digest = footer.rows_digest(&file).unwrap_or_default();
    let Ok(rows) = footer.rows(&file, &digest) else {
        return;
    };
    let (table, places) = (rows.table(), rows.places());
    assert_eq!(rows.items().len(), table.len(), "rows are lost");
    for row in 0..table.len() {
        let end = table.start(row) + table.element_len(row);
        assert!(end <= footer.value_len(), "an element lies outside the values");
        assert!(places.get(row).is_some(), "the place of an element is lost");
    }
}

/// Rows of the segment that bytes make; None if it cannot be read.
pub fn rows(bytes: &[u8]) -> Option<u64> {
    let file = MemoryFile::new(assemble(&mut Parts(bytes))?);
    let footer = footer(&file, SegmentName::parse(NAME)?).ok()?;
    let digest = footer.metadata.get(ROWS)?;
    footer.rows(&file, digest).ok()?;
    Record::read(&file, SegmentName::parse(NAME)?).ok()?;
    Some(footer.rows_len())
}

/// The file that four parts are of, under a seal that matches and with the right digest of its rows. None if they
/// cannot be one.
pub fn assemble(parts: &mut Parts<'_>) -> Option<Vec<u8>> {
    let (schema, batch) = (parts.next()?, parts.next()?);
    let (body, end) = (parts.next()?, parts.next()?);
    let head_len = usize::try_from(VALUES_AT).ok()?;
    let zeros = head_len.checked_sub(SCHEMA_AT + schema.len() + batch.len())?;
    let mut file = MAGIC.to_vec();
    file.resize(SCHEMA_AT, 0);
    file.extend(schema);
    file.extend(vec![0; zeros]);
    file.extend(batch);
    file.extend(body);
    let footer_at = file.len() + usize::try_from(SEAL_LEN).ok()?;
    let mut whole = close(&file, footer_at, end);
    // The digest of the rows can be known once there is a footer that says where they are.
    let known = SegmentName::parse(NAME).and_then(|name| {
        let file = MemoryFile::new(whole.clone());
        footer(&file, name).ok()?.rows_digest(&file).ok()
    });
    if let Some((digest, at)) = known.zip(rows_at(end)) {
        let mut end = end.to_vec();
        end.get_mut(at..at + digest.len())?
            .copy_from_slice(digest.as_bytes());
        whole = close(&file, footer_at, &end);
    }
    Some(whole)
}

fn close(file: &[u8], footer_at: usize, footer: &[u8]) -> Vec<u8> {
    let head = &file[..usize::try_from(VALUES_AT).unwrap_or(file.len())];
    let seal = seal(head, footer_at as u64, footer);
    let len = i32::try_from(footer.len()).unwrap_or(i32::MAX).to_le_bytes();
    [file, &seal, footer, &len, MAGIC].concat()
}

/// Where in a footer the digest of the rows stands.
fn rows_at(footer: &[u8]) -> Option<usize> {
    let parsed = ipc::root_as_footer(footer).ok()?;
    let metadata = parsed.custom_metadata()?;
    let digest = metadata.iter().find(|pair| pair.key() == Some(ROWS))?.value()?;
    Some(digest.as_ptr().addr() - footer.as_ptr().addr())
}

/// The parts of a file that the daemon wrote; its name is put in place of its own. None if it is none.
pub fn take_apart(file: &[u8], name: &str) -> Option<Vec<u8>> {
    let renamed = replace(file, name.as_bytes(), NAME.as_bytes());
    let (file, magic) = renamed.split_last_chunk::<{ MAGIC.len() }>()?;
    let (file, len) = file.split_last_chunk::<{ TRAILER_LEN - MAGIC.len() }>()?;
    let footer_at = file
        .len()
        .checked_sub(usize::try_from(i32::from_le_bytes(*len)).ok()?)?;
    let (file, footer) = file.split_at(footer_at);
    let (file, _) = file.split_at(footer_at.checked_sub(usize::try_from(SEAL_LEN).ok()?)?);
    let (head, body) = file.split_at_checked(usize::try_from(VALUES_AT).ok()?)?;
    let parsed = ipc::root_as_footer(footer).ok()?;
    let batch_at = usize::try_from(parsed.recordBatches()?.get(0).offset()).ok()?;
    let (schema, batch) = head.split_at_checked(batch_at)?;
    let schema = schema.get(SCHEMA_AT..)?;
    let used = schema.iter().rposition(|byte| *byte != 0)? + 1;
    let mut parts = Vec::new();
    for part in [
        &schema[..used.next_multiple_of(8).min(schema.len())],
        batch,
        body,
        footer,
    ] {
        Parts::push(&mut parts, part);
    }
    (magic == MAGIC).then_some(parts)
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut replaced = bytes.to_vec();
    for at in 0..bytes.len().saturating_sub(from.len()) {
        if bytes[at..].starts_with(from) {
            replaced[at..at + to.len()].copy_from_slice(to);
        }
    }
    replaced
}
