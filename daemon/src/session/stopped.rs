//! Whether a process is held still: by a signal, by a debugger, or with the container that it is in. Such a one computes
//! nothing, and whoever waits for it would wait until somebody lets it go on.

use std::{fs, time::Duration};

/// While somebody waits for a process it is looked at so often.
pub const LOOK: Duration = Duration::from_millis(250);

/// Where control groups lie on a system that has one hierarchy of them.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Whether a process does not run until it is told to. False if that cannot be known.
pub fn is_stopped(pid: u32) -> bool {
    if pid == 0 {
        return false;
    }
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    matches!(state.as_deref().and_then(state_of), Some('T' | 't')) || is_frozen(pid)
}

/// The state in a line of `/proc/pid/stat` (proc_pid_stat(5)): behind the name, in which anything may stand.
fn state_of(line: &str) -> Option<char> {
    line.rsplit_once(") ")?.1.chars().next()
}

/// Whether the control group of a process is frozen (`cgroup.freeze`, docker pause).
fn is_frozen(pid: u32) -> bool {
    let Ok(groups) = fs::read_to_string(format!("/proc/{pid}/cgroup")) else {
        return false;
    };
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let events = group.map(|group| format!("{CGROUPS}{group}/cgroup.events"));
    let events = events.and_then(|path| fs::read_to_string(path).ok());
    events.is_some_and(|events| events.lines().any(|line| line == "frozen 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_hide_the_state() {
        assert_eq!(state_of("12 (a) T (b)) S 1 12"), Some('S'));
        assert_eq!(state_of("12 (python) T 1 12"), Some('T'));
        assert_eq!(state_of(""), None);
        assert!(!is_stopped(0) && !is_stopped(std::process::id()));
    }
}
