//! One process's connection to the daemon, and what it got through it.

pub(crate) mod autostart;
pub(crate) mod content_memo;
pub(crate) mod counters;
pub(crate) mod report;
pub(crate) mod ssd_reader;
mod staging;
pub(crate) mod stats;

pub(crate) use staging::Staged;

use crate::clock::Clock;
use crate::connection::channel::{Channel, DEADLINE};
use crate::connection::data_socket::{DataSocket, PACKET_BYTES_MAX};
use crate::connection::folder::Folder;
use crate::error::{Code, Error, Result};
use crate::location::{Location, SEGMENT_BYTES_MAX};
use crate::mapped::blocks::{Access, Blocks, Mapping, Which};
use crate::mapped::gather::gathered;
use crate::mapped::view::View;
use crate::raw::{Held, OfProcess, SharedMemory};
use crate::session::ssd_reader::SsdReader;
use parking_lot::Mutex;
use prebake_fingerprint::Digest;
use prebake_proto::v1::cache_client::CacheClient;
use prebake_proto::v1::{
    self, AcquireRequest, AcquireResponse, Graph, Hello, PlanRequest, PlanResponse, ReleaseRequest, Remember,
    Report, data_request, data_response,
};
use prost::Message;
use staging::Staging;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tonic::transport::Channel as Transport;

/// Of the packets on the data socket.
const PROTOCOL_VERSION: u32 = 4;

/// Items in one request. Bounds its size (about 100 bytes each) and how long the daemon is busy with it.
pub(crate) const ITEMS_MAX: usize = 4096;

/// Blocks of one packet that reports reads: the numbers of each take less than 40 bytes.
const READS_MAX: usize = PACKET_BYTES_MAX / 40 - 2;

/// Longest answer to a call. One to Acquire has the layout of every element it found, up to 1 MiB each; a batch of such
/// is at most some hundreds.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// What a session asks of the items that are open in it.
pub(crate) trait OpenItems: Send + Sync {
    /// Their collection's number.
    fn collection(&self) -> u64;
    /// Tells the daemon what was read and not told yet.
    fn tell_all(&self);
    /// Takes note of where an element that this job computed lies now.
    fn committed(&self, staged: &Staged, location: &v1::Location) -> Result<()>;
}

/// Everything between this process and the daemon. Ends, with its leases, when it is dropped or the process ends.
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) boot_id: u64,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) staging: Staging,
    sockets: OfProcess<Sockets>,
    blocks: Blocks,
    ssd: SsdReader,
    /// Content digests to tell the daemon with the next question.
    pub(crate) learned: Mutex<Vec<Remember>>,
    /// Those whose reads may not be reported yet.
    items: Mutex<Vec<Weak<dyn OpenItems>>>,
    /// Set by the first call that finds the daemon gone, so that no later one waits for it.
    lost: AtomicBool,
}

struct Sockets {
    data: Mutex<DataSocket>,
    channel: Channel,
}

impl Session {
    /// # Errors
    /// `daemon-absent`, `daemon-lost`, `protocol-version`.
    pub(crate) fn open(folder: &Folder, name: &str, clock: Arc<dyn Clock>) -> Result<Session> {
        let mut data = DataSocket::connect(&folder.data_socket())?;
        let channel = Channel::open(folder)?;
        let hello = Hello {
            version: PROTOCOL_VERSION,
            job: name.to_owned(),
        };
        let (answer, fds) = data.exchange(data_request::Kind::Hello(hello))?;
        let (data_response::Kind::Welcome(welcome), [doorbell]) = (answer, fds.as_slice()) else {
            return Err(Error::protocol("not an answer to Hello"));
        };
        let block_bytes = usize::try_from(welcome.block_bytes)
            .ok()
            .filter(|bytes| (1..=SEGMENT_BYTES_MAX).contains(bytes))
            .ok_or_else(|| Error::protocol("a block size out of range"))?;
        Ok(Session {
            id: welcome.session,
            boot_id: welcome.boot_id,
            clock,
            staging: Staging::default(),
            blocks: Blocks::new(block_bytes, SharedMemory::doorbell(doorbell)?),
            ssd: SsdReader::new(block_bytes),
            sockets: OfProcess::new(Sockets {
                data: Mutex::new(data),
                channel,
            }),
            learned: Mutex::default(),
            items: Mutex::default(),
            lost: AtomicBool::new(false),
        })
    }

    /// Whether this process made the session; a forked child did not.
    pub(crate) fn is_here(&self) -> bool {
        self.sockets.is_here()
    }

    /// # Errors
    /// `forked` in a child of the process that connected.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_here() {
            return Ok(());
        }
        Err(Error::new(
            Code::Forked,
            "this handle belongs to the parent process: connect again after fork",
        ))
    }

    /// Makes a call. `deadline` is [`DEADLINE`] unless the daemon was asked to wait.
    pub(crate) fn call<T, F>(
        &self,
        deadline: Duration,
        call: impl FnOnce(CacheClient<Transport>) -> F,
    ) -> Result<T>
    where
        F: Future<Output = std::result::Result<tonic::Response<T>, tonic::Status>>,
    {
        let channel = &self.sockets.channel;
        self.unless_lost(|| {
            let client = CacheClient::new(channel.transport()?).max_decoding_message_size(ANSWER_BYTES_MAX);
            channel.wait(deadline, call(client))
        })
    }

    /// Whether a call found the daemon gone.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    fn unless_lost<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check()?;
        if self.is_lost() {
            return Err(Error::lost("it was lost before"));
        }
        let result = call();
        if matches!(&result, Err(e) if e.code() == Code::DaemonLost) {
            // To a daemon that is only slow the session must end too, or others wait for its leases.
            if !self.lost.swap(true, Ordering::Relaxed) {
                self.sockets.data.lock().close();
            }
        }
        result
    }

    /// Staging memory of at least so many bytes, in place of the last.
    pub(crate) fn stage(&self, bytes: usize) -> Result<SharedMemory> {
        let request = data_request::Kind::Stage(v1::Stage { bytes: bytes as u64 });
        let (answer, fds) = self.unless_lost(|| self.sockets.data.lock().exchange(request))?;
        match (answer, fds.as_slice()) {
            (data_response::Kind::Staged(staged), [fd]) => {
                let given = usize::try_from(staged.bytes).unwrap_or(0);
                if given < bytes {
                    return Err(Error::protocol("less staging memory than asked for"));
                }
                SharedMemory::staging(fd, given)
            }
            _ => Err(Error::protocol("not an answer to Stage")),
        }
    }

    /// Names a graph's collection: on the data socket, where it takes a fraction of the time, if it fits a packet.
    pub(crate) fn plan(&self, graph: Graph) -> Result<PlanResponse> {
        if graph.encoded_len() > PACKET_BYTES_MAX {
            let request = PlanRequest {
                session: self.id,
                graph: Some(graph),
            };
            return self.call(DEADLINE, |mut c| async move { c.plan(request).await });
        }
        match self.exchange(data_request::Kind::Plan(graph.encode_to_vec().into()))? {
            data_response::Kind::Planned(planned) => Ok(planned),
            _ => Err(Error::protocol("not an answer to Plan")),
        }
    }

    /// Where this job's world stands in a collection.
    pub(crate) fn world(&self, ask: v1::WorldRequest) -> Result<v1::world_response::Standing> {
        match self.exchange(data_request::Kind::World(ask))? {
            data_response::Kind::World(v1::WorldResponse {
                standing: Some(standing),
            }) => Ok(standing),
            _ => Err(Error::protocol("not an answer to World")),
        }
    }

    /// Asks on the data socket for what comes without descriptors.
    pub(crate) fn exchange(&self, ask: data_request::Kind) -> Result<data_response::Kind> {
        let (answer, _) = self.unless_lost(|| self.sockets.data.lock().exchange(ask))?;
        Ok(answer)
    }

    /// Acquire without waiting, and without leases if `locate`: in a fraction of the time. None if question or answer is too long
    /// for that; then nothing was leased.
    pub(crate) fn acquire_at_once(
        &self,
        request: &AcquireRequest,
        locate: bool,
    ) -> Result<Option<AcquireResponse>> {
        if request.encoded_len() > PACKET_BYTES_MAX {
            return Ok(None);
        }
        let ask = match locate {
            true => data_request::Kind::Locate(request.clone()),
            false => data_request::Kind::Acquire(request.clone()),
        };
        match self.exchange(ask) {
            Ok(data_response::Kind::Located(located)) => Ok(Some(located)),
            Ok(_) => Err(Error::protocol("not an answer to Acquire")),
            Err(error) if error.code() == Code::TooLarge => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Unmaps and returns evicted blocks.
    pub(crate) fn listen(&self) -> Result<()> {
        self.unless_lost(|| self.blocks.listen(&self.sockets.data))
    }

    /// Maps the blocks of these elements, as far as they are there.
    pub(crate) fn map<'a>(
        &self,
        access: Access,
        locations: impl Iterator<Item = &'a Location>,
        which: Which,
    ) -> Result<Mapping> {
        self.unless_lost(|| self.blocks.map(access, &self.sockets.data, locations, which))
    }

    /// Enters these bytes into the page tables, if they are mapped. False where the kernel cannot.
    pub(crate) fn populate(&self, access: Access, location: &Location) -> bool {
        self.blocks.populate(access, location)
    }

    /// Whether an element that was to be mapped cannot be had any more.
    pub(crate) fn is_gone(&self, mapping: &Mapping, location: &Location) -> bool {
        self.blocks.is_gone(mapping, location)
    }

    /// Whether the element is mapped.
    pub(crate) fn reaches(&self, access: Access, location: &Location) -> bool {
        self.blocks.reaches(access, location)
    }

    /// The element's bytes, to be written to: those in the cache if they are mapped for it, else a copy; None if they are gone.
    pub(crate) fn view(&self, location: &Location) -> Result<Option<View>> {
        if !self.reaches(Access::Private, location) {
            self.map(Access::Private, std::iter::once(location), Which::Resident)?;
        }
        if let Some(lent) = self.blocks.hand_out(location) {
            return Ok(Some(View::lent(lent)));
        }
        // It is on SSD, or an array over it is alive, or was written to.
        self.gather(std::slice::from_ref(location))
    }

    /// The same where they lie, to be read.
    pub(crate) fn reading(&self, location: &Location) -> Result<Option<View>> {
        let held = self.hold(std::slice::from_ref(location))?;
        match held.and_then(|mut held| held.pop()) {
            Some(held) => Ok(Some(View::held(held))),
            None => self.gather(std::slice::from_ref(location)),
        }
    }

    /// A copy of the cached bytes of these, side by side; None if some are gone.
    pub(crate) fn gather(&self, runs: &[Location]) -> Result<Option<View>> {
        if let Some(held) = self.hold(runs)? {
            return Ok(Some(View::owned(gathered(held))));
        }
        let length = runs.iter().map(|run| run.bytes.len()).sum();
        let mut read = Ok(false);
        let view = View::copied(length, |out| {
            read = self.unless_lost(|| {
                self.ssd.copy(&self.sockets.data, runs, out, |part, out| {
                    self.copy_held(part, out)
                })
            });
        });
        match read {
            Err(error) if matches!(error.code(), Code::Exhausted | Code::NoResources) => {}
            read => return Ok(read?.then_some(view)),
        }
        // There is no memory to read ahead: perhaps there is for their blocks.
        self.map(Access::Reading, runs.iter(), Which::All)?;
        Ok(self.blocks.hold(runs).map(|held| View::owned(gathered(held))))
    }

    fn copy_held(&self, part: &Location, out: &mut [u8]) -> bool {
        let held = self.blocks.hold(std::slice::from_ref(part));
        let held = held.and_then(|mut held| held.pop());
        held.map(|held| out.copy_from_slice(held.as_slice())).is_some()
    }

    /// The bytes of those that have any, which are mapped now if they were not and are in RAM: with one call for each segment.
    fn hold(&self, runs: &[Location]) -> Result<Option<Vec<Held>>> {
        if let Some(held) = self.blocks.hold(runs) {
            return Ok(Some(held));
        }
        self.map(Access::Reading, runs.iter(), Which::Resident)?;
        Ok(self.blocks.hold(runs))
    }

    /// Whether some of these bytes were not in RAM when last asked for.
    pub(crate) fn is_on_ssd(&self, location: &Location) -> bool {
        self.blocks.is_on_ssd(location)
    }

    /// What becomes known of the order in which elements will be read. Whoever says so first asks for [`Session::room`].
    pub(crate) fn expect(&self, access: Access, mut locations: Vec<Location>) -> Result<()> {
        self.map(access, locations.iter(), Which::Resident)?;
        locations.retain(|location| !self.reaches(access, location));
        self.unless_lost(|| self.ssd.expect(&self.sockets.data, locations))
    }

    /// How many bytes more are worth expecting; 0 while all that is read is in RAM.
    pub(crate) fn room(&self) -> usize {
        if self.blocks.must_read() {
            self.ssd.room()
        } else {
            0
        }
    }

    /// Changes whenever what was expected has to be said again.
    pub(crate) fn breaks(&self) -> u64 {
        self.ssd.breaks()
    }

    /// What was expected is another order's.
    pub(crate) fn expect_anew(&self) {
        self.ssd.forget();
        self.blocks.ask_again();
    }

    /// Bytes that were read from SSD since last asked.
    pub(crate) fn take_from_ssd(&self) -> u64 {
        let (bytes, resident) = self.ssd.take_from_ssd();
        if resident {
            self.blocks.ask_again();
        }
        bytes
    }

    /// The block an element starts in, which its reads are counted for.
    pub(crate) fn block_of(&self, location: &Location) -> (u64, u32) {
        self.blocks.block_of(location)
    }

    /// Lists items among those that are reported at exit.
    pub(crate) fn adopt(&self, items: Weak<dyn OpenItems>) {
        let mut all = self.items.lock();
        all.retain(|known| known.strong_count() > 0);
        all.push(items);
    }

    /// Tells the daemon all that it was not told yet. Does nothing in a forked child.
    pub(crate) fn report(&self) {
        if self.is_here() {
            let items: Vec<_> = self.items.lock().iter().filter_map(Weak::upgrade).collect();
            for items in items {
                items.tell_all();
            }
            self.flush_learned();
            self.wait_until_told();
        }
    }

    /// Tells what was read, without waiting until the daemon has heard it. What does not arrive is not worth failing for.
    pub(crate) fn tell(&self, collection: u64, mut report: Report) {
        let reads = std::mem::take(&mut report.reads);
        let mut parts = reads.chunks(READS_MAX);
        loop {
            // Outcomes go with the first part.
            let part = Report {
                collection,
                reads: parts.next().unwrap_or_default().to_vec(),
                ..std::mem::take(&mut report)
            };
            let told = self.unless_lost(|| self.sockets.data.lock().tell(data_request::Kind::Report(part)));
            if told.is_err() || parts.len() == 0 {
                return;
            }
        }
    }

    /// Gives leases back: others may compute these items then.
    pub(crate) fn give_back(&self, collection: u64, fingerprints: &[Digest]) -> Result<()> {
        for some in fingerprints.chunks(ITEMS_MAX) {
            let request = ReleaseRequest {
                session: self.id,
                collection,
                fingerprints: some.iter().map(|f| f.0.to_vec().into()).collect(),
            };
            self.call(DEADLINE, |mut c| async move { c.release(request).await })?;
        }
        Ok(())
    }

    /// Waits until the daemon has heard all that it was told: packets are taken in turn.
    pub(crate) fn wait_until_told(&self) {
        let nothing = data_request::Kind::Return(v1::Return::default());
        let _ = self.unless_lost(|| self.sockets.data.lock().exchange(nothing));
    }
}
