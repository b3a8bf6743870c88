//! How many steps run at once: as many as Cargo allows.

use jobserver::{Acquired, Client};

use crate::env::Env;

/// Permission to run steps.
///
/// A build script may always run one process. For each further one it takes a token from the
/// jobserver, which Cargo shares with rustc, `cc` and make; without a jobserver, `NUM_JOBS` is the
/// limit.
#[derive(Debug)]
pub struct Workers {
    jobserver: Option<Client>,
    limit: usize,
}

/// Permission for one step; it ends when the value is dropped.
pub(super) struct Token {
    taken: Vec<Acquired>,
    /// How many processes the step may run at once.
    pub(super) threads: usize,
}

impl Workers {
    /// What Cargo allows this build script.
    #[must_use]
    pub fn of_cargo(env: &Env) -> Self {
        let jobs = env.peek("NUM_JOBS").and_then(|jobs| jobs.to_str());
        // SAFETY: the file descriptors in `CARGO_MAKEFLAGS` are those of Cargo's jobserver: nothing
        // in this process opens files before the build script calls this crate and gives them away.
        #[allow(unsafe_code, reason = "the jobserver is inherited as file descriptors")]
        let jobserver = unsafe { Client::from_env() };
        Self {
            jobserver,
            limit: jobs.and_then(|jobs| jobs.parse().ok()).unwrap_or(1),
        }
    }

    /// One step after the other.
    #[must_use]
    pub fn one() -> Self {
        Self {
            jobserver: None,
            limit: 1,
        }
    }

    /// Permission to start one of `ready` steps while `running` others run. If there are more
    /// processors than steps, the step may run several processes.
    pub(super) fn take(&self, running: usize, ready: usize) -> Option<Token> {
        let free = self
            .limit
            .max(1)
            .checked_sub(running)
            .filter(|&free| free > 0)?;
        let mut token = Token {
            taken: Vec::new(),
            threads: 0,
        };
        let wanted = (free / ready.max(1)).max(1);
        while token.threads < wanted {
            let is_first = running == 0 && token.threads == 0;
            if !is_first && let Some(jobserver) = &self.jobserver {
                match jobserver.try_acquire() {
                    Ok(Some(acquired)) => token.taken.push(acquired),
                    _ => break,
                }
            }
            token.threads += 1;
        }
        (token.threads > 0).then_some(token)
    }
}
