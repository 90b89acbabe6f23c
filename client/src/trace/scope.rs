//! Where a path lies: what is declared, what is temporary, what is the machine's, and the rest.

use std::env;
use std::path::{Path, PathBuf, absolute};

/// Folders for what is not to last. Shared memory is named below `/dev/shm`.
const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Declared: its content counts anyway.
    Input,
    /// Declared: the command may write there, and finds nothing there.
    Output,
    /// The command may write there, and nothing of it lasts.
    Temporary,
    /// Devices and what the kernel says of machine and processes, which is no data.
    Machine,
    Elsewhere,
}

/// What a command line declares, and where it runs.
pub(super) struct Scope {
    pub(super) directory: PathBuf,
    inputs: Vec<PathBuf>,
    outputs: Vec<PathBuf>,
    temporary: Vec<PathBuf>,
    caches: Vec<PathBuf>,
}

impl Scope {
    pub(super) fn new(inputs: &[PathBuf], outputs: &[PathBuf]) -> Scope {
        let both = |paths: &[PathBuf]| paths.iter().flat_map(|p| [resolved(p), p.clone()]).collect();
        let temporary = TEMPORARY.iter().map(PathBuf::from);
        let temporary: Vec<_> = temporary
            .chain(env::var_os("TMPDIR").map(PathBuf::from))
            .collect();
        let below_home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cache"));
        let caches = env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(below_home);
        let caches: Vec<_> = caches.into_iter().collect();
        Scope {
            directory: env::current_dir().unwrap_or_default(),
            inputs: both(inputs),
            outputs: both(outputs),
            temporary: both(&temporary),
            caches: both(&caches),
        }
    }

    pub(super) fn outputs(&self) -> &[PathBuf] {
        &self.outputs
    }

    /// Whether programs keep there what they can make again.
    pub(super) fn is_cache(&self, path: &Path) -> bool {
        self.caches.iter().any(|root| path.starts_with(root)) && !path.starts_with(&self.directory)
    }

    /// Whether an output lies below: the command may make it for that.
    pub(super) fn leads_to_output(&self, path: &Path) -> bool {
        self.outputs.iter().any(|output| output.starts_with(path))
    }

    /// By a path without links. A job may work inside a temporary folder: its working directory is not temporary then.
    pub(super) fn place(&self, path: &Path) -> Place {
        let within = |roots: &[PathBuf]| roots.iter().any(|root| path.starts_with(root));
        let depth = |root: &Path| root.components().count();
        if within(&self.inputs) {
            return Place::Input;
        }
        if within(&self.outputs) {
            return Place::Output;
        }
        let temporary = self.temporary.iter().filter(|root| path.starts_with(root));
        if let Some(deepest) = temporary.map(|root| depth(root)).max()
            && (!path.starts_with(&self.directory) || depth(&self.directory) <= deepest)
        {
            return Place::Temporary;
        }
        match ["/proc", "/sys", "/dev"]
            .iter()
            .any(|root| path.starts_with(root))
        {
            true => Place::Machine,
            false => Place::Elsewhere,
        }
    }
}

/// Without links, as far as it is there.
fn resolved(path: &Path) -> PathBuf {
    let whole = absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let mut there = whole.as_path();
    loop {
        if let Ok(found) = there.canonicalize() {
            let below = whole
                .strip_prefix(there)
                .ok()
                .filter(|p| !p.as_os_str().is_empty());
            return below.map_or_else(|| found.clone(), |below| found.join(below));
        }
        match there.parent() {
            Some(parent) => there = parent,
            None => return whole,
        }
    }
}
