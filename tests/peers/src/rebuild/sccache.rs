//! The server of sccache. It starts the compilers, so its CPU time is a part of what a build uses.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Not sccache's default, which another server may use.
pub const PORT: &str = "42261";

pub struct Server(Child);

impl Server {
    /// Starts a server whose cache is a new directory.
    ///
    /// # Errors
    /// sccache is not on `PATH`, or it does not accept connections within five seconds.
    pub fn start(cache: &Path) -> io::Result<Self> {
        fs::create_dir_all(cache)?;
        let mut command = Command::new("sccache");
        command
            .env("SCCACHE_START_SERVER", "1")
            .env("SCCACHE_NO_DAEMON", "1")
            .env("SCCACHE_IDLE_TIMEOUT", "0")
            .env("SCCACHE_SERVER_PORT", PORT)
            .env("SCCACHE_DIR", cache)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let server = Self(command.spawn()?);
        for _ in 0..100 {
            if TcpStream::connect(format!("127.0.0.1:{PORT}")).is_ok() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(io::Error::other("sccache accepts no connection"))
    }

    /// Seconds of CPU time of the server so far, with the processes it has waited for.
    pub fn cpu(&self) -> f64 {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap_or_default();
        // The second field, in parentheses, is the name. The fields 14 to 17 are times in ticks.
        let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
        let times = after_name.split_whitespace().skip(11).take(4);
        let ticks: f64 = times.filter_map(|field| field.parse::<f64>().ok()).sum();
        // SAFETY: no pointer is passed.
        ticks / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
