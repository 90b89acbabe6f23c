//! Writes the inputs that fuzzing begins with: `cargo run -p prebake-fuzz --example seeds`, once after a format changed.

use arrow_ipc as ipc;
use prebake_fingerprint::Graph;
use prebake_fuzz::{push, take_apart};
use prebake_proto::v1::{self, data_request::Kind as Ask};
use prost::Message;
use std::{error::Error, fs, ops::Range, path::Path};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const GRAPH: &str = r#"{"version":1,"output":"b","operators":[
    {"id":"a","name":"files","source":{"files":{}},"determinism":{"deterministic":true}},
    {"id":"b","name":"decode","inputs":[{"operator":"a"}],"determinism":{"deterministic":true}}]}"#;

fn main() -> Result<()> {
    let graph: v1::Graph = serde_json::from_str(GRAPH)?;
    let canonical = Graph::try_from(graph.clone()).map_err(|e| e.to_string())?;
    keep("graph", "wire", &graph.encode_to_vec())?;
    keep("graph", "canonical", canonical.canonical())?;
    segments()?;
    values()?;
    packets(&graph)?;
    requests(graph)?;
    flight(&canonical)?;
    let layout = r#"{"kind":"run","parts":[["stdout",2],[{"folder":{"output":0,"path":"","mode":493}},0],[{"file":{"output":0,"path":"a/b","mode":420}},3],[{"link":{"output":1,"path":"l","target":"/outside"}},0]],"made":1}"#;
    for (name, layout) in [
        ("honest", layout.to_owned()),
        ("above", layout.replace("a/b", "../../outside/file")),
        ("absolute", layout.replace("a/b", "/tmp/file")),
        (
            "link",
            layout.replace(r#""output":0,"path":"a/b""#, r#""output":1,"path":"link/file""#),
        ),
        ("setuid", layout.replace("420", "2541")),
    ] {
        keep("archive", name, &parts(&[layout.as_bytes(), b"hithe"]))?;
    }
    let list = br#"{"contents":["/etc/hosts"],"looks":["a"],"lists":["/tmp"]}"#;
    keep("reads", "list", &parts(&[list]))?;
    keep(
        "config",
        "all",
        b"dir = \"/tmp/x\"\nram_bytes = 100000000\nmetrics_address = \"127.0.0.1:9\"\ncpu_hour_price = 0.1\n",
    )
}

fn segments() -> Result<()> {
    let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("../daemon/tests/formats/2");
    for entry in fs::read_dir(formats.join("segments"))? {
        let path = entry?.path();
        let file_name = path
            .file_stem()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let name = file_name.rsplit('-').next().unwrap_or_default();
        if let Some(bytes) = take_apart(&fs::read(&path)?, name) {
            keep("segment", &name[..8], &bytes)?;
            for (lie, bytes) in
                lies(&bytes).ok_or("a segment's parts are others than it was taken apart into")?
            {
                keep("segment", &format!("{}-{lie}", &name[..8]), &bytes)?;
            }
            let mut start = bytes;
            push(
                &mut start,
                br#"[{"domain":"uid 0","graph":"00","item":"f0","reason":"other","at_ns":1}]"#,
            );
            push(&mut start, b"");
            keep("start", &name[..8], &start)?;
        }
    }
    Ok(())
}

/// The same segment, with a number in its record batch that is not true. Coverage alone does not find them: each lies
/// behind comparisons of eight bytes.
fn lies(honest: &[u8]) -> Option<Vec<(&'static str, Vec<u8>)>> {
    let (_, schema) = part(honest, 0)?;
    let (message_at, _) = part(honest, schema.end)?;
    // A marker and a length stand before the message.
    let message_at = message_at + 8;
    let message = ipc::root_as_message(honest.get(message_at..)?).ok()?;
    let batch = message.header_as_record_batch()?;
    let (table, buffers) = (batch._tab, batch.buffers()?);
    let rows_at = message_at + table.loc() + usize::from(table.vtable().get(ipc::RecordBatch::VT_LENGTH));
    let buffer_at = |n: usize| Some(std::ptr::from_ref(buffers.get(n)).addr() - honest.as_ptr().addr());
    let inputs_at = buffer_at(INPUTS)?;
    let lies = [
        ("one-row-more", rows_at, batch.length() + 1),
        ("rows-without-end", rows_at, i64::MAX),
        ("outside", inputs_at, i64::MAX - 7),
        ("of-another-column", inputs_at, buffers.get(NAMES).offset()),
    ];
    let lie = |(name, at, value): (_, usize, i64)| {
        let mut bytes = honest.to_vec();
        bytes
            .get_mut(at..at + size_of::<i64>())?
            .copy_from_slice(&value.to_le_bytes());
        Some((name, bytes))
    };
    lies.into_iter().map(lie).collect()
}

/// Places of buffers in a segment's record batch: fingerprints of inputs, and where names end.
const INPUTS: usize = 4;
const NAMES: usize = 6;

/// Where the part whose length stands at a place begins, and all of it.
fn part(bytes: &[u8], at: usize) -> Option<(usize, Range<usize>)> {
    let begin = at + size_of::<u16>();
    let len = bytes.get(at..begin)?.try_into().map(u16::from_le_bytes).ok()?;
    Some((begin, begin..begin + usize::from(len)))
}

fn values() -> Result<()> {
    let mut frame = vec![5, 0, 0];
    // A block that is as it was, of five bytes.
    push(&mut frame, &[5, 0, 0, 0x80, 1, 2, 3, 4, 5]);
    keep("values", "plain", &frame)?;
    let mut frame = vec![20, 0, 0];
    // LZ4: one literal, then 18 bytes from one back, and a last literal.
    push(&mut frame, &[6, 0, 0, 0, 0x1e, 7, 1, 0, 0x10, 8]);
    keep("values", "lz4", &frame)
}

fn packets(graph: &v1::Graph) -> Result<()> {
    let asks = [
        Ask::Plan(graph.encode_to_vec().into()),
        Ask::Acquire(acquire()),
        Ask::Stage(v1::Stage { bytes: 4096 }),
        Ask::Map(v1::MapBlocks {
            segment: 1,
            blocks: vec![0, 1],
            resident: false,
        }),
        Ask::Report(v1::Report {
            collection: 1,
            hits: 1,
            ..Default::default()
        }),
        Ask::ReadAhead(v1::ReadAhead {
            take: Some(0),
            ring: true,
            ..Default::default()
        }),
        Ask::Memo(v1::MemoRequest::default()),
        Ask::World(v1::WorldRequest::default()),
    ];
    let mut all = Vec::new();
    for ask in asks {
        all.push(0);
        push(&mut all, &v1::DataRequest { kind: Some(ask) }.encode_to_vec());
    }
    keep("packets", "all", &all)
}

fn requests(graph: v1::Graph) -> Result<()> {
    let plan = v1::PlanRequest {
        session: 0,
        graph: Some(graph),
    };
    let element = v1::Element {
        fingerprint: vec![1; 32].into(),
        ..Default::default()
    };
    let commit = v1::CommitRequest {
        collection: 1,
        elements: vec![element],
        ..Default::default()
    };
    let messages = [
        (0, plan.encode_to_vec()),
        (1, acquire().encode_to_vec()),
        (2, commit.encode_to_vec()),
        (4, v1::MemoRequest::default().encode_to_vec()),
        (7, Vec::new()),
        (9, v1::ExplainRequest::default().encode_to_vec()),
    ];
    let mut all = Vec::new();
    for (method, message) in messages {
        all.push(method);
        push(&mut all, &message);
    }
    keep("requests", "all", &all)
}

fn flight(graph: &Graph) -> Result<()> {
    let digest = graph.digest().to_string();
    for (name, method) in [("info", 0), ("ticket", 2), ("put", 4)] {
        let mut all = vec![method];
        if method == 4 || method == 0 {
            all.extend([1, 1]);
        }
        push(&mut all, digest.as_bytes());
        push(&mut all, b"header");
        keep("flight", name, &all)?;
    }
    Ok(())
}

fn acquire() -> v1::AcquireRequest {
    let item = v1::Item {
        fingerprint: vec![1; 32].into(),
        name: "f".into(),
    };
    v1::AcquireRequest {
        collection: 1,
        wanted: vec![item],
        leases_max: 1,
        lease_ms: 1000,
        ..Default::default()
    }
}

fn parts(all: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What stands last takes all that is left, and has no length.
    if let Some((last, others)) = all.split_last().filter(|(_, others)| !others.is_empty()) {
        others.iter().for_each(|part| push(&mut bytes, part));
        bytes.extend(*last);
    } else {
        all.iter().for_each(|part| push(&mut bytes, part));
    }
    bytes
}

fn keep(target: &str, name: &str, bytes: &[u8]) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder)?;
    Ok(fs::write(folder.join(format!("seed-{name}")), bytes)?)
}
