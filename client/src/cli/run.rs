//! `prebake run`: a command is run once on the same inputs; after that what it left is put back.

use crate::{
    Outcome,
    arguments::Arguments,
    chain::{Chain, Leased},
    command::{self, Ran, Watch},
    identity::Identity,
    status::{human_bytes, human_seconds},
};
use prebake_client::{
    Items,
    archive::{Archive, Before, Part, now_seconds},
};
use std::{
    env,
    io::{self, Write},
    os::unix::process::ExitStatusExt,
    path::{PathBuf, absolute},
    process::ExitCode,
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
    if env::var_os("PREBAKE").is_some_and(|v| v == "off") {
        return finish(&plain(&arguments)?);
    }
    let leased = Chain::connect(dir, &identity, &arguments, &outputs).and_then(|mut chain| {
        let leased = chain.walk()?;
        Ok((chain, leased))
    });
    let (chain, items) = match leased {
        Ok((_, Leased::There(items, archive))) => {
            let done = match arguments.verify {
                true => verified(&arguments, &items, &archive, &outputs),
                false => replayed(&arguments, &items, &archive, &outputs),
            };
            return done.unwrap_or_else(|why| {
                note(why);
                finish(&plain(&arguments)?)
            });
        }
        Ok((chain, Leased::Mine(items))) => (chain, items),
        Ok((_, Leased::No(why))) => {
            note(format!("not cached: {why}"));
            return finish(&plain(&arguments)?);
        }
        Err(e) => {
            warn(format!("running without the cache: {e}"));
            return finish(&plain(&arguments)?);
        }
    };
    let before = Before::look(&outputs);
    let watch = Watch {
        inputs: &identity.declared,
        outputs: &outputs,
    };
    let watch = (!arguments.declared_only).then_some(&watch);
    let ran = command::run(&arguments.command, watch).map_err(|e| failed(&arguments, &e));
    match ran
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|ran| chain.keep(&items, ran, &before?))
    {
        Ok(kept) => note(kept),
        Err(why) => {
            let _ = items.release(&[0]);
            note(format!("not cached: {why}"));
        }
    }
    finish(&ran?)
}

/// Puts back what a command left.
///
/// # Errors
/// Why it was not begun.
fn replayed(
    arguments: &Arguments,
    items: &Items,
    archive: &Archive,
    outputs: &[PathBuf],
) -> Result<Outcome, String> {
    put_back(archive, outputs).map_err(|why| format!("not replayed: {why}"))?;
    // Half of it may be printed by now: to run the command as well would print that again.
    if let Err(e) = print(archive) {
        return Ok(Err(format!("printing what the recorded run printed: {e}")));
    }
    items.report();
    if !arguments.quiet {
        let (files, bytes) = (archive.files(), human_bytes(archive.bytes()));
        let age = human_seconds(now_seconds().saturating_sub(archive.made) as f64);
        let _ = writeln!(
            io::stderr(),
            "prebake: replayed {files} files, {bytes}, made {age} ago: times and random numbers in them are of then"
        );
    }
    Ok(Ok(ExitCode::SUCCESS))
}

/// Runs a command whose result is there, and compares what it leaves. What it leaves is the user's in any case.
///
/// # Errors
/// Why it was not begun.
fn verified(
    arguments: &Arguments,
    items: &Items,
    archive: &Archive,
    outputs: &[PathBuf],
) -> Result<Outcome, String> {
    let input = items.input(0).map_err(|e| e.to_string())?;
    if !archive.covers(outputs) {
        return Err("not verified: the output holds files that the recorded run did not write".into());
    }
    archive.remove(outputs)?;
    let before = Before::look(outputs)?;
    let ran = match plain(arguments) {
        Ok(ran) => ran,
        Err(why) => return Ok(Err(why)),
    };
    let told = compared(&ran, archive, outputs, &before).map(|differs| {
        let same_input = items.input(0).is_ok_and(|now| now == input && now.is_some());
        (differs, same_input)
    });
    let cpu_ns = u64::try_from(ran.cpu.as_nanos()).unwrap_or(u64::MAX);
    let (text, differs) = match told {
        Err(why) => (format!("not verified: {why}"), false),
        Ok((_, false)) => ("not verified: an input changed while it ran".to_owned(), false),
        Ok((None, true)) => {
            items.verified(cpu_ns);
            items.report();
            (format!("verified {} files", archive.files()), false)
        }
        Ok((Some(why), true)) => {
            let told = items.mismatch(0, &why, cpu_ns);
            (
                told.unwrap_or_else(|e| {
                    format!("did not reproduce ({why}), and the daemon could not be told: {e}")
                }),
                true,
            )
        }
    };
    if differs || !arguments.quiet {
        let _ = writeln!(io::stderr(), "prebake: {text}");
    }
    Ok(match differs && ran.status.success() {
        true => Ok(ExitCode::FAILURE),
        false => finish(&ran),
    })
}

/// In words, how what a run left differs from what is stored.
///
/// # Errors
/// Why it cannot be compared.
fn compared(
    ran: &Ran,
    archive: &Archive,
    outputs: &[PathBuf],
    before: &Before,
) -> Result<Option<String>, String> {
    if !ran.status.success() {
        return Err(format!("it failed ({})", ran.status));
    }
    let mut made = Archive::default();
    made.parts.push((Part::Stdout, ran.stdout.clone()?));
    made.parts.push((Part::Stderr, ran.stderr.clone()?));
    made.collect(outputs, before)?;
    Ok(archive.difference(&made, outputs))
}

fn put_back(archive: &Archive, outputs: &[PathBuf]) -> Result<(), String> {
    if !archive.covers(outputs) {
        return Err("the output holds files that the recorded run did not write".into());
    }
    archive.restore(outputs)
}

fn print(archive: &Archive) -> io::Result<()> {
    let write =
        |mut to: Box<dyn Write>, part: &Part| to.write_all(archive.stream(part)).and_then(|()| to.flush());
    write(Box::new(io::stdout()), &Part::Stdout)?;
    write(Box::new(io::stderr()), &Part::Stderr)
}

fn plain(arguments: &Arguments) -> Result<Ran, String> {
    command::run(&arguments.command, None).map_err(|e| failed(arguments, &e))
}

fn failed(arguments: &Arguments, error: &io::Error) -> String {
    format!("{}: {error}", arguments.command.join(" "))
}

/// As a shell reports it: 128 and the signal for a command that was killed.
fn finish(ran: &Ran) -> Outcome {
    let code = ran
        .status
        .code()
        .unwrap_or_else(|| 128 + ran.status.signal().unwrap_or(0));
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}
