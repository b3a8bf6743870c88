//! `peers` and the name of a benchmark.

use std::process::ExitCode;

use peers::{cold_build, parts, rebuild, search, search_once, view};

const USAGE: &str = "\
usage: peers <benchmark>

  cold-build [rounds]             CPU time and crates of a cold build, for each build dependency
  rebuild [rounds] [name part ...]
                                  what is compiled again after a change, and how long it takes
  module [rounds]                 a small module: NVRTC and nvcc
  images [rounds]                 a library from kept images of four capabilities
  build-once module | library     our side of both: what a build script does
  search <venv> [rounds]          finding CUDA: cuda-build, CMake, cuda-pathfinder
  find                            our side of it: one search with the variables of this process
  search-once <place> [repeats]   searches a place, for a system call tracer
  view <site-packages> <lndir> [rounds]
                                  one root: cargo cuda view, cp -rs, lndir
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("", [].as_slice()),
    };
    let result = match command {
        "cold-build" => cold_build::run(rest),
        "rebuild" => rebuild::run(rest),
        "module" => parts::module(rest),
        "images" => parts::images(rest),
        "build-once" => parts::build_once(rest),
        "search" => search::run(rest),
        "find" => search::find(),
        "search-once" => search_once::run(rest),
        "view" => view::run(rest),
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
