//! `prebake run`: a command is run once on the same inputs; after that what it left is put back.

use crate::{
    Outcome,
    archive::{Archive, Before, Part},
    arguments::Arguments,
    command::{self, Ran},
    identity::Identity,
    status::{human_bytes, human_seconds},
};
use prebake_client::{Acquired, Items, Job, Made, Options};
use std::{
    env,
    io::{self, Write},
    os::unix::process::ExitStatusExt,
    path::{PathBuf, absolute},
    process::ExitCode,
    time::Duration,
};

/// Runs or replays. The exit code is the command's.
pub fn run(dir: Option<PathBuf>, arguments: Arguments) -> Outcome {
    let identity = Identity::of(&arguments)?;
    // Whoever closed stderr wants none of this, and the command is to run all the same.
    let warn = |text: String| drop(writeln!(io::stderr(), "prebake: {text}"));
    let note = |text: String| {
        if !arguments.quiet {
            warn(text);
        }
    };
    note(format!("counted {}", identity.summary));
    for folder in &identity.undeclared {
        note(format!(
            "{} is a folder and not declared: its content does not count",
            folder.display()
        ));
    }
    let outputs: Result<Vec<_>, _> = arguments.outputs.iter().map(absolute).collect();
    let outputs = outputs.map_err(|e| format!("an output: {e}"))?;
    if env::var("PREBAKE").is_ok_and(|v| v == "off") {
        return finish(&plain(&arguments)?);
    }
    let leased = lease(dir, &identity, &arguments.command);
    let items = match leased {
        Ok(Leased::There(items)) => match put_back(&items, &outputs) {
            Ok(archive) => {
                // Half of it may be printed by now: to run the command as well would print that again.
                print(&archive).map_err(|e| format!("printing what the recorded run printed: {e}"))?;
                items.report();
                note(format!(
                    "replayed {} files, {}",
                    archive.files(),
                    human_bytes(archive.bytes())
                ));
                return Ok(ExitCode::SUCCESS);
            }
            Err(why) => {
                note(format!("not replayed: {why}"));
                return finish(&plain(&arguments)?);
            }
        },
        Ok(Leased::Mine(items)) => items,
        Ok(Leased::No(why)) => {
            note(format!("not cached: {why}"));
            return finish(&plain(&arguments)?);
        }
        Err(e) => {
            warn(format!("running without the cache: {e}"));
            return finish(&plain(&arguments)?);
        }
    };
    let before = Before::look(&outputs);
    let ran = plain(&arguments);
    match ran
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|ran| keep(&items, ran, &outputs, &before?))
    {
        Ok(kept) => note(kept),
        Err(why) => {
            let _ = items.release(&[0]);
            note(format!("not cached: {why}"));
        }
    }
    finish(&ran?)
}

enum Leased {
    /// It was done before, or another process just did it.
    There(Items),
    /// It is ours to do.
    Mine(Items),
    /// It is nobody's to cache.
    No(String),
}

fn lease(dir: Option<PathBuf>, identity: &Identity, command: &[String]) -> prebake_client::Result<Leased> {
    let name = command.first().cloned().unwrap_or_default();
    let options = Options {
        folder: dir,
        name: format!("run {name}"),
        autostart: true,
        ..Options::default()
    };
    let collection = Job::connect(options)?.plan(identity.graph.clone())?;
    let items = collection.call(&command.join(" "), identity.arguments, &identity.inputs)?;
    // Ctrl-C ends this process by the signal: there is nothing to give up in between.
    let Acquired { compute, bypass } = items.acquire(&[0], &[], 1, &mut || false)?;
    Ok(match (compute.is_empty(), bypass.into_values().next()) {
        (_, Some(why)) => Leased::No(why),
        (false, None) => Leased::Mine(items),
        (true, None) => Leased::There(items),
    })
}

fn put_back(items: &Items, outputs: &[PathBuf]) -> Result<Archive, String> {
    let element = items.get(0, false).map_err(|e| e.to_string())?;
    let (view, layout) = element.ok_or("it was evicted a moment ago")?;
    let archive = Archive::decode(&layout, view.as_slice())?;
    if !archive.covers(outputs) {
        return Err("the output holds files that the recorded run did not write".into());
    }
    archive.restore(outputs)?;
    Ok(archive)
}

fn print(archive: &Archive) -> io::Result<()> {
    let write =
        |mut to: Box<dyn Write>, part: &Part| to.write_all(archive.stream(part)).and_then(|()| to.flush());
    write(Box::new(io::stdout()), &Part::Stdout)?;
    write(Box::new(io::stderr()), &Part::Stderr)
}

fn keep(items: &Items, ran: &Ran, outputs: &[PathBuf], before: &Before) -> Result<String, String> {
    if !ran.status.success() {
        return Err(format!("it failed ({})", ran.status));
    }
    let mut archive = Archive::default();
    archive.parts.push((Part::Stdout, ran.stdout.clone()?));
    archive.parts.push((Part::Stderr, ran.stderr.clone()?));
    archive.collect(outputs, before)?;
    let parts: Vec<&[u8]> = archive.parts.iter().map(|(_, bytes)| bytes.as_slice()).collect();
    let cost = Made {
        cpu_ns: nanoseconds(ran.cpu),
        io_ns: 0,
        read_back: false,
    };
    let stored = items.put(0, &archive.layout(), &parts, cost).and_then(|stored| {
        items.commit()?;
        Ok(stored)
    });
    match stored.map_err(|e| e.to_string())? {
        true => Ok(format!(
            "kept {} files, {} of CPU",
            archive.files(),
            human_seconds(ran.cpu.as_secs_f64())
        )),
        false => Err("an input changed while it ran, or what it left is too large".into()),
    }
}

fn plain(arguments: &Arguments) -> Result<Ran, String> {
    command::run(&arguments.command).map_err(|e| format!("{}: {e}", arguments.command.join(" ")))
}

/// As a shell reports it: 128 and the signal for a command that was killed.
fn finish(ran: &Ran) -> Outcome {
    let code = ran
        .status
        .code()
        .unwrap_or_else(|| 128 + ran.status.signal().unwrap_or(0));
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
