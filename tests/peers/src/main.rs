//! What `peers.py` runs of cuda-build, each as a process: `nvcc`, `find`, `view DIRECTORY PLACE`, `build-once`.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use cuda_build::view::ViewPlace;
use cuda_build::{Build, Component, Engine, Library, Module, Toolkit, View};
use cuda_find_core::{
    env::Env,
    root::Root,
    search::SearchContext,
    select::{Need, Part, Request},
    target::Target,
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["nvcc"] => {
            let toolkit = search(Request {
                needs: vec![
                    need(Component::Nvcc, Part::Tools),
                    need(Component::Cudart, Part::Archive),
                ],
                toolkit: ">=13".parse()?,
                ..Request::default()
            })?;
            let nvcc = toolkit.tool(Component::Nvcc, "nvcc").ok_or("no nvcc")?;
            println!("{} {}", nvcc.display(), toolkit.version());
        }
        ["find"] => find()?,
        ["view", directory, place] => view(Path::new(directory), Path::new(place))?,
        // What a build script does; the variables of the process are those of a build script.
        ["build-once", "module", source] => {
            let module = Module::new(source).engine(Engine::Nvrtc).std("c++17");
            Build::new()?.module(module).run()?;
        }
        ["build-once", "library"] => {
            let library = Library::new("kernels").include("kernels");
            Build::new()?.library(library.glob("kernels/*.cu")).run()?;
        }
        _ => return Err("peers.py is the program to run".into()),
    }
    Ok(())
}

fn need(component: Component, part: Part) -> Need {
    Need::new(component, part, "to measure")
}

fn search(request: Request) -> Result<Toolkit, Box<dyn Error>> {
    let target = Target::from_triple("x86_64-unknown-linux-gnu")?;
    let (root, env) = (Root::system(), Env::from_process());
    let search = SearchContext {
        root: &root,
        env: &env,
        target: &target,
        places: Vec::new(),
        runs_nvcc: true,
    };
    Ok(search.find(&request)?)
}

/// One search with the variables of this process.
fn find() -> Result<(), Box<dyn Error>> {
    let mut needs = vec![need(Component::Nvcc, Part::Tools)];
    for component in [
        Component::Cudart,
        Component::Cublas,
        Component::Cufft,
        Component::Nvrtc,
    ] {
        needs.extend([Part::Headers, Part::Shared].map(|part| need(component, part)));
    }
    let toolkit = search(Request {
        needs,
        ..Request::default()
    })?;
    let names = toolkit.components().iter();
    let names: Vec<&str> = names.map(|found| found.component.id()).collect();
    println!("found: {}", names.join(" "));
    Ok(())
}

/// What a build script pays that has its toolkit: a view that exists.
fn view(directory: &Path, place: &Path) -> Result<(), Box<dyn Error>> {
    let target = Target::from_triple("x86_64-unknown-linux-gnu")?;
    let (root, env) = (Root::system(), Env::default());
    let search = SearchContext {
        root: &root,
        env: &env,
        target: &target,
        places: vec![directory.to_owned()],
        runs_nvcc: true,
    };
    let toolkit = search.find(&Request {
        alternatives: vec![vec![need(Component::Cudart, Part::Headers)]],
        take_everything: true,
        ..Request::default()
    })?;
    let place = ViewPlace::below(place, &target);
    View::create(&toolkit, &place, &root, &Env::from_process())?;
    let mut milliseconds = Vec::new();
    for _ in 0..100 {
        let start = Instant::now();
        if View::create(&toolkit, &place, &root, &Env::from_process())?.was_made() {
            return Err("an existing view was made again".into());
        }
        milliseconds.push(start.elapsed().as_secs_f64() * 1e3);
    }
    milliseconds.sort_by(f64::total_cmp);
    println!(
        "In a process that runs already, warm, of 100: least {:.2} ms wall, median {:.2} ms",
        milliseconds[0], milliseconds[50]
    );
    Ok(())
}
