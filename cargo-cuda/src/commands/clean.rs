//! `cargo cuda clean`: removes target directories that are no longer used.

use std::time::Duration;

use clap::Args;
use cuda_build::compile::{output_store, remove_outputs};
use cuda_find_core::cache::required_cache_dir;
use cuda_find_core::{env::Env, root::Root};

use crate::failure::Result;
use crate::isolated_build::directory;
use crate::output::human_size;
use crate::project::WorkspaceOptions;
use crate::{output, toolkits};

/// Remove target directories that no build has used for 30 days
#[derive(Args, Clone, Debug)]
pub struct CleanArgs {
    /// Remove what compilers made for all projects, instead of target directories
    #[arg(long)]
    images: bool,
    /// With --images: remove only what no build has used for this time, such as 14d
    #[arg(long, value_name = "DAYS", requires = "images", value_parser = parse_days)]
    unused: Option<Duration>,
    #[command(flatten)]
    workspace: WorkspaceOptions,
}

const UNUSED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Removes the directories, and returns a line for each.
pub fn run(arguments: &CleanArgs, env: &Env, root: &Root) -> Result<String> {
    if arguments.images {
        return remove_images(env, arguments.unused);
    }
    let workspace = arguments.workspace.load(root, env)?;
    let base = toolkits::builds_directory(env, workspace.as_ref())?;
    let mut text = String::new();
    if root.is_dir(&base) {
        // A directory is moved before it is removed, so that no build finds only a part of its contents. If this
        // command is killed, the next one removes the rest.
        let removed = output::TemporaryDirectory::below(&base)?;
        for path in directory::unused_for(root, &base, UNUSED) {
            let name = path.file_name().unwrap_or_default();
            output::rename(&path, &removed.path().join(name))?;
            text.push_str(&format!("removed {}\n", path.display()));
        }
    }
    if text.is_empty() {
        let base = base.display();
        text = format!("no directory below {base} has been unused for 30 days\n");
    }
    Ok(text)
}

/// Reads a number of days such as `14d`.
fn parse_days(text: &str) -> Result<Duration, String> {
    let days = text
        .strip_suffix('d')
        .and_then(|days| days.parse::<u32>().ok());
    let days = days.ok_or("write a number of days, such as 14d")?;
    Ok(Duration::from_secs(24 * 60 * 60) * days)
}

fn remove_images(env: &Env, unused: Option<Duration>) -> Result<String> {
    required_cache_dir(env)?;
    let directory = output_store(env).unwrap_or_default();
    let size = human_size(remove_outputs(&directory, unused)?);
    Ok(format!("removed {size} from {}\n", directory.display()))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the directories")]
mod tests {
    use std::fs;

    use super::*;
    use crate::project::WorkspaceUse;

    #[test]
    fn what_an_interrupted_clean_left_is_removed() {
        let cache = tempfile::tempdir().unwrap();
        let base = cache.path().join("cargo-cuda");
        for directory in [
            ".cargo-cuda-killed/13.4-a/debug",
            "13.4-a/.cuda",
            "13.5-b/.cuda",
        ] {
            fs::create_dir_all(base.join(directory)).unwrap();
        }
        fs::write(base.join(".cargo-cuda-killed/13.4-a/debug/x"), "").unwrap();
        for (directory, days) in [("13.4-a", 31), ("13.5-b", 29)] {
            let record = fs::File::create(base.join(directory).join(".cuda/components.json"));
            let time = std::time::SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60);
            record.unwrap().set_modified(time).unwrap();
        }
        let arguments = CleanArgs {
            unused: None,
            images: false,
            workspace: WorkspaceOptions {
                workspace: WorkspaceUse::Ignored,
                ..WorkspaceOptions::default()
            },
        };
        let env = Env::from_pairs([("CUDA_BUILD_CACHE_DIR", cache.path())]);
        let text = run(&arguments, &env, &Root::system()).unwrap();
        assert_eq!(text, format!("removed {}\n", base.join("13.4-a").display()));
        let left: Vec<_> = fs::read_dir(&base)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["13.5-b"]);
    }
}
