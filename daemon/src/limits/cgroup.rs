//! How much memory a container may have: the limit of the control group that this process is in (cgroups(7)).

use std::path::{Path, PathBuf};

/// Where both versions are mounted by convention; a container sees its own group there.
const ROOT: &str = "/sys/fs/cgroup";

/// Version 1 says so large a number for no limit: the largest multiple of a page.
const NO_LIMIT_MIN: u64 = 1 << 60;

/// The lowest limit of memory of this process's group and of those around it, in bytes; None if there is none.
pub fn memory_max() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    lowest(&groups, |path| std::fs::read_to_string(path).ok())
}

/// `groups` is as in `/proc/PID/cgroup`: number, controllers and path, one group a line.
fn lowest(groups: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let limits = groups.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next(), fields.next(), fields.next());
        let group = path.unwrap_or_default().trim_start_matches('/');
        let (mount, file) = match controllers {
            Some("") => ("", "memory.max"),
            Some(all) if all.split(',').any(|one| one == "memory") => ("memory", "memory.limit_in_bytes"),
            _ => return Vec::new(),
        };
        let mount = Path::new(ROOT).join(mount);
        let within: PathBuf = mount.join(group);
        // Where the path is the host's and the mount is the container's, only the last of them is there.
        let around = within.ancestors().take_while(|folder| folder.starts_with(&mount));
        around.filter_map(|folder| read(&folder.join(file))).collect()
    });
    limits
        .filter_map(|text| text.trim().parse().ok())
        .filter(|bytes| *bytes < NO_LIMIT_MIN)
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(groups: &str, files: &[(&str, &str)]) -> Option<u64> {
        let read = |path: &Path| {
            let known = files.iter().find(|(name, _)| path == Path::new(ROOT).join(name));
            known.map(|(_, text)| (*text).to_owned())
        };
        lowest(groups, read)
    }

    #[test]
    fn the_lowest_limit_around_counts() {
        let two = [
            ("a/b/memory.max", "max\n"),
            ("a/memory.max", "1000\n"),
            ("memory.max", "2000\n"),
        ];
        assert_eq!(found("0::/a/b\n", &two), Some(1000));
        assert_eq!(found("0::/\n", &two), Some(2000));
        assert_eq!(found("0::/a/b\n", &two[..1]), None);
        let one = [
            ("memory/a/memory.limit_in_bytes", "3000\n"),
            ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        let groups = "5:cpu,memory:/a\n4:cpu:/b\n0::/\n";
        assert_eq!(found(groups, &one), Some(3000));
        assert_eq!(found(groups, &one[1..]), None);
    }

    #[test]
    fn a_container_that_sees_its_own_group_only() {
        let seen = [("memory/memory.limit_in_bytes", "4000")];
        assert_eq!(found("4:memory:/docker/0123\n", &seen), Some(4000));
    }
}
