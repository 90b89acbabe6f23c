//! Which part of a script's pipelines has another identity in each process.

use super::Finding;
use serde::Deserialize;
use std::collections::HashMap;
use std::fs;
use std::process::Command;

/// Options of the interpreter that take a value beside them.
const WITH_VALUE: [&str; 2] = ["-W", "-X"];

/// Two hash seeds that order sets of strings differently in nearly every case.
const SEEDS: [&str; 2] = ["1", "2718281828"];

/// Differences named: one is enough to begin with.
const FOUND_MAX: usize = 8;

/// What the Python side (`prebake.doctor.unstable`) writes of one object it identified.
#[derive(Deserialize)]
struct Seen {
    name: String,
    digest: String,
    #[serde(default)]
    leaves: Vec<Leaf>,
}

#[derive(Deserialize, PartialEq)]
struct Leaf {
    path: String,
    kind: String,
    digest: String,
    shown: String,
}

/// Runs a Python command twice and compares what it identified, in the order it did.
pub fn find(command: &[String]) -> Result<Vec<Finding>, String> {
    let [first, second] = SEEDS.map(|seed| run(command, seed));
    let (first, second) = (first?, second?);
    let mut found = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for one in &first {
        // The same object may be identified many times; the n-th time is compared with the n-th.
        let nth = places.entry(one.name.clone()).or_default();
        let other = second.iter().filter(|other| other.name == one.name).nth(*nth);
        *nth += 1;
        if let Some(other) = other.filter(|other| other.digest != one.digest) {
            found.push(differing(one, other));
        }
    }
    found.dedup_by(|a, b| a.found == b.found);
    found.truncate(FOUND_MAX);
    if first.is_empty() {
        let fix = "give the command that runs a pipeline through prebake.wrap or prebake.cached";
        return Ok(vec![Finding::warn("unstable", "it identified nothing", fix)]);
    }
    if found.is_empty() {
        let found_nothing = format!("{} identities, the same in both processes", first.len());
        found.push(Finding::ok("unstable", found_nothing));
    }
    Ok(found)
}

fn run(command: &[String], seed: &str) -> Result<Vec<Seen>, String> {
    let (interpreter, arguments) = command.split_first().ok_or("give a command: python train.py")?;
    let folder = Temporary::new()?;
    let report = folder.0.join("identities.json");
    // The interpreter's own options stay before the module.
    let mut own = 0;
    while arguments
        .get(own)
        .is_some_and(|a| a.starts_with('-') && a != "-m" && a != "-c")
    {
        own += if WITH_VALUE.contains(&&*arguments[own]) {
            2
        } else {
            1
        };
    }
    let (options, script) = arguments.split_at(own.min(arguments.len()));
    let status = Command::new(interpreter)
        .args(options)
        .args(["-m", "prebake.doctor.unstable"])
        .arg(&report)
        .args(script)
        .env("PYTHONHASHSEED", seed)
        .status()
        .map_err(|e| format!("{interpreter}: {e}"))?;
    let text =
        fs::read(&report).map_err(|e| format!("{interpreter} ended with {status} and told nothing: {e}"))?;
    serde_json::from_slice(&text).map_err(|e| format!("what {interpreter} told is not understood: {e}"))
}

/// The first leaf that differs, or that none is known.
fn differing(one: &Seen, other: &Seen) -> Finding {
    let leaf = one.leaves.iter().find(|leaf| !other.leaves.contains(leaf));
    let what = match leaf {
        None => format!("{}: its identity differs", one.name),
        Some(leaf) => {
            let now = other
                .leaves
                .iter()
                .find(|o| o.path == leaf.path && o.kind == leaf.kind);
            let now = now.map_or("(none)", |now| &*now.shown);
            let values = match leaf.shown.is_empty() && now.is_empty() {
                true => String::new(),
                false => format!(": {} in one process, {now} in the other", leaf.shown),
            };
            format!("{}: {} {} differs{values}", one.name, leaf.kind, leaf.path)
        }
    };
    let fix = "make it the same in every process: a constant, a sorted list in place of a set, a fixed seed";
    Finding::fail("unstable", what, fix)
}

/// A folder of our own, removed at the end.
struct Temporary(std::path::PathBuf);

impl Temporary {
    fn new() -> Result<Self, String> {
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .map_err(|e| e.to_string())?;
        let name = format!("prebake-doctor-{:016x}", u64::from_ne_bytes(random));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
