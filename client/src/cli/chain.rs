//! The entries of a command: lists of what it reads, and at the end its result (see `reads`).

use crate::{arguments::Arguments, command::Ran, identity::Identity, status::human_seconds};
use prebake_client::{
    Acquired, Collection, Items, Job, Made, Options, Result,
    archive::{Archive, Before, Part, now_seconds},
    trace::{
        Report,
        reads::{self, Reads},
    },
};
use prebake_fingerprint::{Digest, digest::Context};
use std::path::PathBuf;

/// Lists of one chain. Each is there because a run read more than those before told, which happens seldom more than once or
/// twice for one change of the inputs.
const LISTS_MAX: usize = 16;

/// What is to be done.
pub enum Leased {
    /// It was done before, or another process just did it: what it left.
    There(Items, Box<Archive>),
    /// It is ours to do.
    Mine(Items),
    /// It is nobody's to cache.
    No(String),
}

/// The same of one entry, which may be a list.
enum Entry {
    There(Items),
    Mine(Items),
    No(String),
}

/// The way from what is declared to a result.
pub struct Chain<'a> {
    collection: Collection,
    identity: &'a Identity,
    outputs: &'a [PathBuf],
    name: String,
    declared_only: bool,
    /// All lists met so far.
    known: Reads,
    /// What was under their names when they were met.
    digest: Digest,
}

impl<'a> Chain<'a> {
    /// Connects to the daemon.
    ///
    /// # Errors
    /// Why it is not there.
    pub fn connect(
        dir: Option<PathBuf>,
        identity: &'a Identity,
        arguments: &Arguments,
        outputs: &'a [PathBuf],
    ) -> Result<Self> {
        let program = arguments.command.first().cloned().unwrap_or_default();
        let options = Options {
            folder: dir,
            name: format!("run {program}"),
            autostart: true,
            ..Options::default()
        };
        let collection = Job::connect(options)?.plan(identity.graph.clone())?;
        let known = Reads::default();
        Ok(Self {
            collection,
            identity,
            outputs,
            name: arguments.command.join(" "),
            declared_only: arguments.declared_only,
            digest: known.now(outputs, &Report::default()).digest,
            known,
        })
    }

    /// Follows the lists to a result, or to where there is none.
    ///
    /// # Errors
    /// If the daemon goes away.
    pub fn walk(&mut self) -> Result<Leased> {
        for _ in 0..=LISTS_MAX {
            let (items, digest) = self.entry(&self.known, &Report::default())?;
            self.digest = digest;
            let items = match lease(items)? {
                Entry::There(items) => items,
                Entry::Mine(items) => return Ok(Leased::Mine(items)),
                Entry::No(why) => return Ok(Leased::No(why)),
            };
            let Some((view, layout)) = items.get(0, false)? else {
                return Ok(Leased::No("it was evicted a moment ago".into()));
            };
            match Reads::decode(&layout, view.as_slice()) {
                Some(more) => self.known = self.known.and(&more),
                None => {
                    let archive = Archive::decode(&layout, view.as_slice());
                    return Ok(archive.map_or_else(Leased::No, |a| Leased::There(items, Box::new(a))));
                }
            }
            items.report();
        }
        Ok(Leased::No(format!(
            "it read something else in each of {LISTS_MAX} runs"
        )))
    }

    /// The entry that is found by what is declared and what is under the names of a list.
    fn entry(&self, known: &Reads, report: &Report) -> Result<(Items, Digest)> {
        let now = known.now(self.outputs, report);
        let digest = match known.is_empty() {
            true => self.identity.arguments,
            false => Context::Value.digest(&[self.identity.arguments.0, now.digest.0].concat()),
        };
        let inputs = [self.identity.inputs.as_slice(), &now.files].concat();
        // The first is no result of this name: the next ones are not misses because something changed.
        let name = match known.is_empty() && !self.declared_only {
            true => &format!("what {} reads", self.name),
            false => &self.name,
        };
        let items = self.collection.call(name, digest, &inputs)?;
        Ok((items, now.digest))
    }

    /// Keeps what a run left, under `items`, which is leased. What was kept, in words.
    ///
    /// # Errors
    /// Why not.
    pub fn keep(&self, items: &Items, ran: &Ran, before: &Before) -> std::result::Result<String, String> {
        if !ran.status.success() {
            return Err(format!("it failed ({})", ran.status));
        }
        let mut archive = Archive {
            made: now_seconds(),
            parts: Vec::new(),
        };
        archive.parts.push((Part::Stdout, ran.stdout.clone()?));
        archive.parts.push((Part::Stderr, ran.stderr.clone()?));
        archive.collect(self.outputs, before)?;
        let stored = match &ran.report {
            None => put(items, &archive, ran),
            Some(report) => self.keep_traced(items, &archive, ran, report),
        };
        if !stored? {
            return Err("an input changed while it ran, or what it left is too large".into());
        }
        items.commit().map_err(|e| e.to_string())?;
        let (files, cpu) = (archive.files(), human_seconds(ran.cpu.as_secs_f64()));
        Ok(format!("kept {files} files, {cpu} of CPU"))
    }

    fn keep_traced(
        &self,
        items: &Items,
        archive: &Archive,
        ran: &Ran,
        report: &Report,
    ) -> std::result::Result<bool, String> {
        reads::check(report)?;
        // What it was found by must be what it ran on.
        if self.known.now(self.outputs, &Report::default()).digest != self.digest {
            return Err("R23 a file that it looks for, or a folder, changed while it ran".into());
        }
        let more = self.known.more(report);
        if more.is_empty() {
            reads::check_stamps(report)?;
            return put(items, archive, ran);
        }
        let next = self.entry(&self.known.and(&more), report);
        let next = match next.and_then(|(next, _)| lease(next)) {
            Ok(Entry::Mine(next)) => Some(next),
            // Another one that began elsewhere came to the same.
            Ok(Entry::There(_)) => None,
            Ok(Entry::No(why)) => return Err(why),
            Err(e) => return Err(e.to_string()),
        };
        // Its files are fingerprinted by now: it is the next entry's only if they are those that were read, and this entry's
        // list only if what it is found by held still all the while.
        reads::check_stamps(report)?;
        let (layout, list) = more.encode()?;
        let listed = items.put(0, layout, &[&list], Made::default());
        if !listed.map_err(|e| e.to_string())? {
            return Ok(false);
        }
        next.map_or(Ok(true), |next| {
            let stored = put(&next, archive, ran);
            next.commit().map_err(|e| e.to_string())?;
            stored
        })
    }
}

fn lease(items: Items) -> Result<Entry> {
    // Ctrl-C ends this process by the signal: there is nothing to give up in between.
    let Acquired { compute, bypass } = items.acquire(&[0], &[], 1, &mut || false)?;
    Ok(match (compute.is_empty(), bypass.into_values().next()) {
        (_, Some(why)) => Entry::No(why),
        (false, None) => Entry::Mine(items),
        (true, None) => Entry::There(items),
    })
}

fn put(items: &Items, archive: &Archive, ran: &Ran) -> std::result::Result<bool, String> {
    let parts: Vec<&[u8]> = archive.parts.iter().map(|(_, bytes)| bytes.as_slice()).collect();
    let cost = Made {
        cpu_ns: u64::try_from(ran.cpu.as_nanos()).unwrap_or(u64::MAX),
        io_ns: 0,
        read_back: false,
    };
    items
        .put(0, &archive.layout(), &parts, cost)
        .map_err(|e| e.to_string())
}
