//! What a command line reads, as far as it is declared: the identity of `prebake run`.

use crate::{arguments::Arguments, terminal};
use prebake_fingerprint::{Digest, digest::Context};
use prebake_proto::v1;
use std::{
    collections::HashMap,
    env,
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf, absolute},
};

/// A command, and the files that decide what it does.
pub struct Identity {
    /// The command as a graph of one operator.
    pub graph: v1::Graph,
    /// Digest of what no file says.
    pub arguments: Digest,
    /// The program, then every file named on the command line, then the declared inputs.
    pub inputs: Vec<PathBuf>,
    /// The declared inputs alone.
    pub declared: Vec<PathBuf>,
    /// What was counted, for the user.
    pub summary: String,
    /// Folders on the command line that are neither input nor output.
    pub undeclared: Vec<PathBuf>,
}

impl Identity {
    /// Takes the identity of a command that is about to run.
    ///
    /// # Errors
    /// What to mend: no such program, an input that is not there or holds the output.
    pub fn of(arguments: &Arguments) -> Result<Self, String> {
        let (name, rest) = arguments.command.split_first().ok_or("no command given")?;
        let program = find_program(name).ok_or_else(|| format!("{name}: no such program in PATH"))?;
        let outputs = resolved(&arguments.outputs)?;
        let inputs = resolved(&arguments.inputs)?;
        for input in &inputs {
            if !input.exists() {
                return Err(format!("input {} is not there", input.display()));
            }
            if let Some(output) = outputs.iter().find(|o| o.starts_with(input)) {
                return Err(format!(
                    "output {} lies inside input {}: what it wrote would count as read",
                    output.display(),
                    input.display()
                ));
            }
        }
        let named = named_paths(rest, &outputs, &inputs);
        let environment: HashMap<&String, Option<OsString>> = arguments
            .environment
            .iter()
            .map(|name| (name, env::var_os(name)))
            .collect();
        let directory = env::current_dir().map_err(|e| format!("the working directory: {e}"))?;
        let others = match arguments.declared_only {
            true => Vec::new(),
            false => surroundings(&arguments.ignored),
        };
        let summary = format!(
            "program {} in {}, {} declared inputs, {} named files, {} variables{}",
            program.display(),
            directory.display(),
            inputs.len(),
            named.files.len(),
            environment.len() + others.len(),
            if arguments.declared_only {
                ""
            } else {
                "; all else it reads is watched"
            }
        );
        let graph = graph(arguments, &environment, &directory);
        let outputs = arguments.outputs.iter().map(|o| o.as_os_str().as_encoded_bytes());
        let mut told = outputs.collect::<Vec<_>>().join(&0);
        if !arguments.declared_only {
            told.extend(around(&others)?.0);
        }
        told.extend(terminal::identity());
        let declared = inputs.clone();
        let arguments = Context::Value.digest(&told);
        let inputs = [vec![program], named.files, inputs].concat();
        Ok(Self {
            graph,
            arguments,
            inputs,
            declared,
            summary,
            undeclared: named.folders,
        })
    }
}

/// Variables of the terminal, the login and whoever started this, which differ between runs of one command and which programs
/// that prepare data do not ask for. A `*` stands for any end.
const UNCOUNTED: [&str; 30] = [
    "_",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "TERM",
    "TERM_*",
    "COLORTERM",
    "COLUMNS",
    "LINES",
    "LS_COLORS",
    "WINDOWID",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_SESSION_*",
    "XDG_RUNTIME_DIR",
    "XDG_VTNR",
    "XDG_SEAT",
    "SSH_*",
    "DBUS_*",
    "GPG_*",
    "TMUX*",
    "STY",
    "VTE_VERSION",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "MAKEFLAGS",
    "MAKELEVEL",
    "PREBAKE*",
    "PS1",
];

/// All other variables: the command sees them, and nothing tells which it reads.
fn surroundings(ignored: &[String]) -> Vec<(OsString, OsString)> {
    let is = |name: &OsStr, pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => name.as_encoded_bytes().starts_with(start.as_bytes()),
        None => name == pattern,
    };
    let uncounted = |name: &OsStr| {
        let mut patterns = UNCOUNTED.into_iter().chain(ignored.iter().map(String::as_str));
        patterns.any(|pattern| is(name, pattern))
    };
    let mut counted: Vec<_> = env::vars_os().filter(|(name, _)| !uncounted(name)).collect();
    counted.sort_unstable();
    counted
}

/// Digest of the variables and the mask of modes. Their values are not kept: some are secrets.
fn around(variables: &[(OsString, OsString)]) -> Result<Digest, String> {
    let status = fs::read_to_string("/proc/self/status").map_err(|e| format!("/proc/self/status: {e}"))?;
    let mask = status
        .lines()
        .find(|line| line.starts_with("Umask:"))
        .unwrap_or_default();
    let mut hasher = Context::Value.hasher();
    let texts = variables
        .iter()
        .flat_map(|(name, value)| [name, value])
        .map(|text| text.as_encoded_bytes());
    for text in texts.chain([mask.as_bytes()]) {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text);
    }
    Ok(hasher.finalize().into())
}

/// The working directory counts because a command may print it.
fn graph(
    arguments: &Arguments,
    environment: &HashMap<&String, Option<OsString>>,
    directory: &Path,
) -> v1::Graph {
    let text = |t: &OsStr| v1::Value {
        kind: Some(match t.to_str() {
            Some(t) => v1::value::Kind::Text(t.into()),
            None => v1::value::Kind::Bytes(t.as_encoded_bytes().to_vec().into()),
        }),
    };
    let null = v1::Value {
        kind: Some(v1::value::Kind::Null(true)),
    };
    let list = |values| v1::Value {
        kind: Some(v1::value::Kind::List(v1::List { values })),
    };
    let entries = environment.iter().map(|(name, value)| {
        let value = value.as_deref().map_or_else(|| null.clone(), text);
        ((*name).clone(), value)
    });
    let environment = v1::Map {
        entries: entries.collect(),
    };
    let command = arguments.command.iter().map(|a| text(a.as_ref())).collect();
    let deterministic = Some(v1::Determinism {
        class: Some(v1::determinism::Class::Deterministic(true)),
    });
    let source = v1::Operator {
        id: "inputs".into(),
        name: "inputs".into(),
        determinism: deterministic.clone(),
        source: Some(v1::Source {
            kind: Some(v1::source::Kind::Arguments(true)),
        }),
        ..Default::default()
    };
    let operator = v1::Operator {
        id: "command".into(),
        name: arguments.command.first().cloned().unwrap_or_default(),
        params: HashMap::from([
            ("arguments".into(), list(command)),
            ("directory".into(), text(directory.as_os_str())),
            (
                "environment".into(),
                v1::Value {
                    kind: Some(v1::value::Kind::Map(environment)),
                },
            ),
        ]),
        determinism: deterministic,
        inputs: vec![v1::Input {
            operator: "inputs".into(),
            port: 0,
        }],
        ..Default::default()
    };
    v1::Graph {
        version: 1,
        operators: vec![source, operator],
        output: "command".into(),
    }
}

#[derive(Default)]
struct Named {
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

/// Files and folders that arguments name: whole, or after `=`.
fn named_paths(arguments: &[String], outputs: &[PathBuf], inputs: &[PathBuf]) -> Named {
    let mut named = Named::default();
    for argument in arguments {
        let after = argument.split_once('=').map(|(_, value)| value);
        let paths = std::iter::once(argument.as_str()).chain(after).map(Path::new);
        for path in paths.filter_map(|p| absolute(p).ok()) {
            let within = |roots: &[PathBuf]| roots.iter().any(|root| path.starts_with(root));
            if within(outputs) || within(inputs) {
                continue;
            }
            if path.is_file() {
                named.files.push(path);
            } else if path.is_dir() {
                named.folders.push(path);
            }
        }
    }
    named
}

fn resolved(paths: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    paths
        .iter()
        .map(|p| absolute(p).map_err(|e| format!("{}: {e}", p.display())))
        .collect()
}

/// As the shell would: with a slash it is a path, else it is looked for in `PATH`.
fn find_program(name: &str) -> Option<PathBuf> {
    let runnable =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    if name.contains('/') {
        return absolute(name).ok().filter(runnable);
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(runnable)
}
