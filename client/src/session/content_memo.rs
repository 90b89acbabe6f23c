//! Content digests of files, which the daemon keeps for all jobs.

use crate::connection::channel::DEADLINE;
use crate::connection::data_socket::PACKET_BYTES_MAX;
use crate::error::{Error, Result};
use crate::files::content::Memo;
use crate::session::{ITEMS_MAX, Session};
use prebake_fingerprint::{Digest, FileStat};
use prebake_proto::v1::{self, MemoRequest, Remember, data_request, data_response};
use prost::Message;

impl Session {
    /// Tells the daemon what was learned of files since the last question.
    pub(crate) fn flush_learned(&self) {
        if !self.learned.lock().is_empty() {
            let _ = self.memo(&[]);
        }
    }

    fn memo(&self, ask: &[FileStat]) -> Result<Vec<Option<Digest>>> {
        let remember = {
            let mut learned = self.learned.lock();
            let count = learned.len().min(ITEMS_MAX);
            learned.drain(..count).collect()
        };
        let request = MemoRequest {
            session: self.id,
            ask: ask.iter().map(wire).collect(),
            remember,
        };
        let answer = match request.encoded_len() <= PACKET_BYTES_MAX {
            true => match self.exchange(data_request::Kind::Memo(request))? {
                data_response::Kind::Recalled(recalled) => recalled,
                _ => return Err(Error::protocol("not an answer to Memo")),
            },
            false => self.call(DEADLINE, |mut c| async move { c.memo(request).await })?,
        };
        if answer.content_digests.len() != ask.len() {
            return Err(Error::protocol("not an answer to Memo"));
        }
        Ok(answer
            .content_digests
            .iter()
            .map(|d| Digest::try_from(d.as_ref()).ok())
            .collect())
    }
}

/// A memo that cannot be asked knows nothing: files are read.
impl Memo for Session {
    fn ask(&self, stats: &[FileStat]) -> Vec<Option<Digest>> {
        let answers = stats
            .chunks(ITEMS_MAX)
            .flat_map(|asked| self.memo(asked).unwrap_or_else(|_| vec![None; asked.len()]));
        answers.collect()
    }

    fn remember(&self, known: &[(FileStat, Digest)]) {
        let learned = known.iter().map(|(stat, digest)| Remember {
            stat: Some(wire(stat)),
            content_digest: digest.0.to_vec().into(),
        });
        self.learned.lock().extend(learned);
    }
}

fn wire(stat: &FileStat) -> v1::FileStat {
    v1::FileStat {
        device: stat.device,
        inode: stat.inode,
        size: stat.size,
        mtime_ns: stat.mtime_ns,
        ctime_ns: stat.ctime_ns,
    }
}
