//! The daemon's configuration file.

use prebake_daemon::Config;

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(config) = toml::from_str::<Config>(text) {
        let _ = config.check();
    }
}
