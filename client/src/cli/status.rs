//! What was saved, as a table or JSON.

use crate::Outcome;
use prebake_client::{Control, Folder};
use prebake_proto::leaf::cut;
use prebake_proto::v1::{CollectionStatus, StatusResponse, Totals};
use std::{collections::HashMap, path::Path, process::ExitCode};

/// Refusals in the table, and how much of each; `prebake explain` and JSON have the rest.
const REFUSALS_SHOWN: usize = 4;
const REASON_BYTES_SHOWN: usize = 160;

/// Digits of a digest that people are shown, and may give to have it cleared.
const DIGEST_CHARS: usize = 16;

/// Prints the status of the daemon.
pub fn status(dir: Option<&Path>, json: bool) -> Outcome {
    let status = control(dir)?.status().map_err(|e| e.to_string())?;
    if json {
        say!("{}", serde_json::to_string(&status).map_err(|e| e.to_string())?);
    } else {
        crate::output::text(&table(&status));
    }
    Ok(ExitCode::SUCCESS)
}

/// Evicts until at most `to` bytes are left. Without a size it would be everything, of all users: that has to be said.
pub fn gc(dir: Option<&Path>, to: Option<&str>) -> Outcome {
    let to = to.ok_or(
        "gc needs --to SIZE, the bytes that may stay, and nothing was dropped: write prebake gc --to 10G (--to 0 drops \
         everything, of all users)",
    )?;
    let bytes = parse_bytes(to).ok_or_else(|| format!("{to:?} is no size: write 500M or 20G"))?;
    let freed = control(dir)?.gc(bytes).map_err(|e| e.to_string())?;
    say!(
        "{} segments evicted, {} freed; computing them again would take {:.1} CPU seconds",
        freed.segments_evicted,
        human_bytes(freed.bytes_freed),
        freed.recompute_cpu_seconds
    );
    Ok(ExitCode::SUCCESS)
}

/// Whoever serves the folder.
pub fn control(dir: Option<&Path>) -> Result<Control, String> {
    let folder = Folder::resolve(dir).map_err(|e| e.to_string())?;
    Control::connect(&folder).map_err(|e| e.to_string())
}

fn table(status: &StatusResponse) -> String {
    let mut out = String::new();
    let t = status.totals.clone().unwrap_or_default();
    let served = t.hits + t.follows;
    out += &format!(
        "prebaked {}, up {}\n",
        status.version,
        human_seconds(status.uptime_seconds)
    );
    out += &format!(
        "saved     {} of CPU, {:.2} in money; spent {} computing\n",
        human_seconds(t.cpu_seconds_saved),
        t.money_saved,
        human_seconds(t.cpu_seconds_spent)
    );
    out += &format!(
        "elements  {served} reused ({} hits, {} followed), {} computed{}, {} bypassed\n",
        t.hits,
        t.follows,
        t.misses,
        reasons(&t.miss_reasons),
        t.bypasses
    );
    out += &verified(&t);
    out += &tiers(&t);
    for warning in &status.warnings {
        out += &format!("warning   {warning}\n");
    }
    out += &quarantined(status);
    out += &refusals(status, &t);
    if !status.collections.is_empty() {
        out +=
            "\nPIPELINE                                  ENTRIES      SIZE   REUSED  COMPUTED  CPU SAVED\n";
    }
    for c in &status.collections {
        let name: String = c.pipeline.chars().take(40).collect();
        out += &format!(
            "{name:<40} {:>8} {:>9} {:>8} {:>9} {:>10}{}\n",
            c.entries,
            human_bytes(c.bytes),
            c.hits + c.follows,
            c.misses,
            human_seconds(c.cpu_seconds_saved),
            reasons(&c.miss_reasons)
        );
        out += &more(c);
    }
    if !status.jobs.is_empty() {
        out += "\nJOB                            PID   REUSED  COMPUTED  BYPASSED  CPU SAVED\n";
    }
    for j in &status.jobs {
        let name: String = j.name.chars().take(26).collect();
        out += &format!(
            "{name:<26} {:>7} {:>8} {:>9} {:>9} {:>10}\n",
            j.pid,
            j.hits + j.follows,
            j.misses,
            j.bypasses,
            human_seconds(j.cpu_seconds_saved)
        );
    }
    out
}

/// What is said of a pipeline below its row.
fn more(c: &CollectionStatus) -> String {
    let mut out = String::new();
    out += &compression(c);
    if c.verified > 0 {
        out += &format!(
            "  verified: {} hits, {} did not reproduce, {} of CPU\n",
            c.verified,
            c.mismatches,
            human_seconds(c.verify_cpu_seconds)
        );
    }
    if c.worlds_proven + c.worlds_variant + c.worlds_unproven > 1 {
        out += &format!(
            "  proven in {} worlds (what surrounds a job's code), unproven in {}, variant in {}{}\n",
            c.worlds_proven,
            c.worlds_unproven,
            c.worlds_variant,
            if c.variant.is_empty() {
                String::new()
            } else {
                format!(": {}", cut(c.variant.clone(), REASON_BYTES_SHOWN))
            }
        );
    }
    if c.quarantined {
        out += "  quarantined: it, or something upstream of it, did not reproduce\n";
    }
    if !c.differs.is_empty() {
        out += &format!("  differs from an earlier one: {}\n", c.differs);
    }
    if !c.changed_items.is_empty() {
        out += &format!("  changed: {}\n", c.changed_items.join(", "));
    }
    out
}

/// What LZ4 makes of its values, if that was looked at.
fn compression(c: &CollectionStatus) -> String {
    if c.lz4_sample_ratio <= 0.0 {
        return String::new();
    }
    let disk = human_bytes(c.bytes_on_disk);
    match c.lz4_bytes {
        0 => format!(
            "  on disk: {disk}, as it is: LZ4 would make {:.2} of it\n",
            c.lz4_sample_ratio
        ),
        bytes => format!(
            "  on disk: {disk}, {} by LZ4 as {}: {:.2}\n",
            human_bytes(bytes),
            human_bytes(c.lz4_bytes_on_disk),
            c.lz4_bytes_on_disk as f64 / bytes as f64
        ),
    }
}

/// How many of each code since ever, and the last few of the caller's own.
fn refusals(status: &StatusResponse, totals: &Totals) -> String {
    if totals.refusals.is_empty() {
        return String::new();
    }
    let mut out = format!("refused  {}: see prebake explain\n", reasons(&totals.refusals));
    for r in status.refusals.iter().take(REFUSALS_SHOWN) {
        let reason = cut(r.reason.clone(), REASON_BYTES_SHOWN);
        out += &format!("  {} {}: {reason} {} ({})\n", r.code, r.title, r.location, r.job);
    }
    out
}

/// What did not reproduce and is not served.
fn quarantined(status: &StatusResponse) -> String {
    let mut out = String::new();
    for q in &status.quarantined {
        let digest = q
            .subgraph_digest
            .get(..DIGEST_CHARS)
            .unwrap_or(&q.subgraph_digest);
        out += &format!(
            "quarantine {digest} {}: {} {} did not reproduce for {} ({}); see prebake verify --clear\n",
            q.pipeline, q.operator, q.location, q.item, q.reason
        );
    }
    out
}

/// What was computed again to be compared, if anything was.
fn verified(t: &Totals) -> String {
    match t.verified {
        0 => String::new(),
        hits => format!(
            "verified  {hits} hits, {} did not reproduce; {} of CPU\n",
            t.mismatches,
            human_seconds(t.verify_cpu_seconds)
        ),
    }
}

fn tiers(t: &Totals) -> String {
    format!(
        "memory    {} of {}; {} read\ndisk      {} of {}; {} read; {} segments evicted, {} of CPU to compute again\n",
        human_bytes(t.ram_bytes),
        human_bytes(t.ram_budget_bytes),
        human_bytes(t.bytes_from_ram),
        human_bytes(t.ssd_bytes),
        human_bytes(t.ssd_budget_bytes),
        human_bytes(t.bytes_from_ssd),
        t.evictions,
        human_seconds(t.evicted_recompute_cpu_seconds)
    )
}

/// ` (297 new graph, 3 input changed)`.
fn reasons(reasons: &HashMap<String, u64>) -> String {
    let mut reasons: Vec<_> = reasons.iter().filter(|(_, n)| **n > 0).collect();
    reasons.sort();
    let words: Vec<_> = reasons.iter().map(|(why, n)| format!("{n} {why}")).collect();
    if words.is_empty() {
        String::new()
    } else {
        format!(" ({})", words.join(", "))
    }
}

/// Bytes with a binary unit.
pub fn human_bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

/// Seconds, minutes or hours.
pub fn human_seconds(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.1} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return None,
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written_as_people_do() {
        assert_eq!(parse_bytes("20G"), Some(20 << 30));
        assert_eq!(parse_bytes("512 kib"), Some(512 << 10));
        assert_eq!(parse_bytes("7x"), None);
        assert_eq!(parse_bytes("99999999999T"), None);
        assert_eq!(human_bytes(1536), "1.5 KiB");
        assert_eq!(human_seconds(90.0), "90.0 s");
    }

    #[test]
    fn what_lz4_makes_of_a_pipeline_is_said_where_that_is_known() {
        let said = |lz4_bytes, lz4_bytes_on_disk, lz4_sample_ratio| {
            compression(&CollectionStatus {
                bytes_on_disk: 3 << 20,
                lz4_bytes,
                lz4_bytes_on_disk,
                lz4_sample_ratio,
                ..Default::default()
            })
        };
        assert_eq!(said(0, 0, 0.0), "");
        assert_eq!(
            said(0, 0, 0.991),
            "  on disk: 3.0 MiB, as it is: LZ4 would make 0.99 of it\n"
        );
        assert_eq!(
            said(4 << 20, 2 << 20, 0.47),
            "  on disk: 3.0 MiB, 4.0 MiB by LZ4 as 2.0 MiB: 0.50\n"
        );
    }
}
