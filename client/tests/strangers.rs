//! A daemon that another user runs could serve anything: no client speaks to it.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use prebake_client::{Control, Folder, Job};
use std::{
    fs::{self, Permissions},
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    process::Command,
    time::Duration,
};
use support::{Daemon, binary, options};

/// Nobody, on every Linux.
const STRANGER: u32 = 65_534;
const POLL: Duration = Duration::from_millis(10);
const POLLS_MAX: usize = 1000;

#[test]
fn a_daemon_of_another_user_is_not_spoken_to() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not run: only root may start a program as another user");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let cache = folder.path().join("cache");
    fs::create_dir(&cache).unwrap();
    chown(&cache, Some(STRANGER), None).unwrap();
    // Where it is built others may not look.
    let program = folder.path().join("prebaked");
    fs::copy(binary(), &program).unwrap();
    let mut daemon = Command::new(program)
        .arg("--dir")
        .arg(&cache)
        .uid(STRANGER)
        .spawn()
        .unwrap();
    let socket = cache.join("prebake.sock");
    for _ in 0..POLLS_MAX {
        if std::os::unix::net::UnixStream::connect(&socket).is_ok() {
            break;
        }
        std::thread::sleep(POLL);
    }
    let refused = [
        Job::connect(options(&cache, "victim"))
            .err()
            .map(|e| e.to_string()),
        Control::connect(&Folder::resolve(Some(&cache)).unwrap())
            .err()
            .map(|e| e.to_string()),
    ];
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    for said in refused {
        let said = said.unwrap();
        assert!(
            said.contains("run by user 65534") && said.contains("PREBAKE_DIR"),
            "{said}"
        );
    }
}

#[test]
fn ones_own_daemon_is() {
    let daemon = Daemon::start(&[]);
    drop(daemon.job("mine"));
}
