//! What a command prints to: a pipe, or a terminal of its own where ours is one. Many programs print otherwise to a terminal:
//! in colours, in columns, line by line.

use rustix::{
    pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt},
    stdio,
    termios::{OptionalActions, isatty, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize},
};
use std::{
    env,
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd},
    process::Stdio,
};

/// Variables by which programs print to a terminal.
const VARIABLES: [&str; 4] = ["TERM", "COLORTERM", "COLUMNS", "NO_COLOR"];

/// What is to be given to a command as its output, and where that is read if it is a terminal.
pub struct Output {
    pub stdio: Stdio,
    pub terminal: Option<File>,
}

impl Output {
    /// In the place of one of ours.
    pub fn instead_of(ours: impl AsFd) -> Self {
        // Without one the command prints as to a pipe.
        match terminal(ours.as_fd()) {
            Ok(Some((stdio, terminal))) => Self {
                stdio,
                terminal: Some(terminal),
            },
            Ok(None) | Err(_) => Self {
                stdio: Stdio::piped(),
                terminal: None,
            },
        }
    }
}

/// What a command's printing depends on beside itself: which of its outputs are terminals, of which kind and width.
pub fn identity() -> Vec<u8> {
    let (out, err) = (stdio::stdout(), stdio::stderr());
    let terminals = [isatty(out), isatty(err)];
    if terminals == [false, false] {
        return Vec::new();
    }
    let wide = tcgetwinsize(if terminals[0] { out } else { err }).map_or(0, |size| size.ws_col);
    let variables = VARIABLES.map(env::var_os);
    format!("{terminals:?} {wide} {variables:?}").into_bytes()
}

fn terminal(ours: BorrowedFd<'_>) -> io::Result<Option<(Stdio, File)>> {
    if !isatty(ours) {
        return Ok(None);
    }
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let read = openpt(flags)?;
    unlockpt(&read)?;
    let written = ioctl_tiocgptpeer(&read, flags)?;
    // Our own terminal does what is left: with both, each line would end twice.
    let mut modes = tcgetattr(&written)?;
    modes.make_raw();
    tcsetattr(&written, OptionalActions::Now, &modes)?;
    tcsetwinsize(&written, tcgetwinsize(ours)?)?;
    Ok(Some((Stdio::from(written), File::from(read))))
}
