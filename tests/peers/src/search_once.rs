//! One search and nothing else, so that a system call tracer sees what a search does.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use cuda_build::Component;
use cuda_build::internal::select::Request;
use cuda_build::internal::select::{Need, Part};
use cuda_build::internal::{Env, Root, Search, Target};

/// # Errors
/// No place was given, or it holds no NVRTC.
pub fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let place = arguments.first().ok_or("which place is to be searched?")?;
    let repeats: usize = arguments.get(1).map_or(Ok(1), |text| text.parse())?;
    let env = Env::from_pairs([("CUDA_BUILD_SOURCES", "argument")]);
    let env = env.with("CUDA_BUILD_ROOTS", place);
    let (root, target) = (
        Root::system(),
        Target::from_triple("x86_64-unknown-linux-gnu")?,
    );
    let request = Request {
        needs: vec![Need::new(Component::Cudart, Part::Headers, "to measure")],
        ..Request::default()
    };
    let search = Search {
        root: &root,
        env: &env,
        target: &target,
        places: Vec::new(),
    };
    let mut toolkit = search.find(&request)?;
    let start = Instant::now();
    for _ in 1..repeats {
        toolkit = search.find(&request)?;
    }
    if repeats > 1 {
        eprintln!(
            "{:?} a search, after the first",
            start.elapsed() / u32::try_from(repeats - 1)?
        );
    }
    println!(
        "CUDA {}, {} components, in {}",
        toolkit.version(),
        toolkit.components().len(),
        Path::new(place).display()
    );
    Ok(())
}
