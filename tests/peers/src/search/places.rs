//! Three places made of the same wheels: as pip leaves them, as NVIDIA's installer does, and as
//! Debian does. Files are hard links, so nothing is stored twice.

use std::error::Error;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where CUDA is, and the variables that say so.
pub struct Place {
    pub name: &'static str,
    /// What a user of that place has set.
    pub variables: Vec<(&'static str, PathBuf)>,
    /// Before `/usr/bin:/bin` on `PATH`.
    pub path: PathBuf,
    /// The environment of the Python that has cuda-pathfinder.
    pub python: PathBuf,
}

pub fn places(venv: &Path, scratch: &Path) -> Result<Vec<Place>, Box<dyn Error>> {
    let wheels = site_packages(venv)?.join("nvidia/cu13");
    if !wheels.join("bin/nvcc").is_file() {
        return Err(format!("{} holds no bin/nvcc", wheels.display()).into());
    }
    let installed = scratch.join("usr/local/cuda-13.4");
    installed_root(&wheels, &installed)?;
    let debian = scratch.join("debian/usr");
    debian_root(&wheels, &debian)?;
    let bare = scratch.join("bare");
    bare_python(venv, &bare)?;
    Ok(vec![
        Place {
            name: "pip's wheels in an active virtual environment",
            // CMake knows nothing of wheels: it is told, and still has to look.
            variables: vec![
                ("VIRTUAL_ENV", venv.to_owned()),
                ("CUDAToolkit_ROOT", wheels),
            ],
            path: venv.join("bin"),
            python: venv.to_owned(),
        },
        Place {
            name: "A root as NVIDIA's installer leaves it, named by `CUDA_PATH`, its nvcc on `PATH`",
            variables: vec![("CUDA_PATH", installed.clone())],
            path: installed.join("bin"),
            python: bare.clone(),
        },
        Place {
            name: "A root as Debian leaves it, its nvcc on `PATH`",
            variables: vec![
                // What the real `/usr` needs nobody to say.
                ("CMAKE_PREFIX_PATH", debian.clone()),
                ("LD_LIBRARY_PATH", debian.join("lib/x86_64-linux-gnu")),
            ],
            path: debian.join("bin"),
            python: bare,
        },
    ])
}

/// cuda-pathfinder and no wheels of CUDA, which it would find first.
fn bare_python(venv: &Path, bare: &Path) -> Result<(), Box<dyn Error>> {
    let mut make = Command::new(venv.join("bin/python"));
    if !make
        .args(["-m", "venv", "--without-pip"])
        .arg(bare)
        .status()?
        .success()
    {
        return Err("no bare virtual environment could be made".into());
    }
    Ok(copy(
        &site_packages(venv)?.join("cuda/pathfinder"),
        &site_packages(bare)?.join("cuda/pathfinder"),
    )?)
}

pub fn site_packages(venv: &Path) -> Result<PathBuf, Box<dyn Error>> {
    for entry in fs::read_dir(venv.join("lib"))? {
        let packages = entry?.path().join("site-packages");
        if packages.is_dir() {
            return Ok(packages);
        }
    }
    Err(format!("{} is no virtual environment", venv.display()).into())
}

/// `targets/x86_64-linux` with links to it, link names, `version.json`, a profile with `_TARGET_DIR_`.
fn installed_root(wheels: &Path, root: &Path) -> io::Result<()> {
    let target = root.join("targets/x86_64-linux");
    copy(&wheels.join("include"), &target.join("include"))?;
    libraries(&wheels.join("lib"), &target.join("lib"))?;
    copy(&wheels.join("bin"), &root.join("bin"))?;
    copy(&wheels.join("nvvm"), &root.join("nvvm"))?;
    symlink("targets/x86_64-linux/include", root.join("include"))?;
    symlink("targets/x86_64-linux/lib", root.join("lib64"))?;
    let json = "{\n   \"cuda\" : {\n      \"name\" : \"CUDA SDK\",\n      \"version\" : \"13.4.3\"\n   }\n}\n";
    fs::write(root.join("version.json"), json)?;
    profile(
        &root.join("bin"),
        "TOP = $(_HERE_)/..\nCICC_PATH = $(TOP)/nvvm/bin\nNVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice\n\
         PATH += $(CICC_PATH):$(_HERE_):\nINCLUDES += \"-I$(TOP)/$(_TARGET_DIR_)/include\" $(_SPACE_)\n\
         SYSTEM_INCLUDES += \"-isystem\" \"$(TOP)/$(_TARGET_DIR_)/include/cccl\" $(_SPACE_)\n\
         LIBRARIES =+ $(_SPACE_) \"-L$(TOP)/$(_TARGET_DIR_)/lib/stubs\" \"-L$(TOP)/$(_TARGET_DIR_)/lib\"\n",
    )
}

/// Headers in `include`, libraries in the multiarch directory, programs apart, `bin/nvcc` a script;
/// a profile without `TOP` and `INCLUDES`.
fn debian_root(wheels: &Path, root: &Path) -> io::Result<()> {
    let own = root.join("lib/nvidia-cuda-toolkit");
    copy(&wheels.join("include"), &root.join("include"))?;
    libraries(&wheels.join("lib"), &root.join("lib/x86_64-linux-gnu"))?;
    copy(&wheels.join("bin"), &own.join("bin"))?;
    copy(&wheels.join("nvvm/bin"), &own.join("bin"))?;
    copy(&wheels.join("nvvm/libdevice"), &own.join("libdevice"))?;
    fs::create_dir_all(root.join("bin"))?;
    let nvcc = root.join("bin/nvcc");
    fs::write(
        &nvcc,
        format!(
            "#!/bin/sh\nexec {} \"$@\"\n",
            own.join("bin/nvcc").display()
        ),
    )?;
    fs::set_permissions(&nvcc, fs::Permissions::from_mode(0o755))?;
    let text = format!(
        "NVVMIR_LIBRARY_DIR = {}/libdevice\nPATH += $(_HERE_):\n\
         LIBRARIES =+ $(_SPACE_) -L{1}/stubs -L{1}\n",
        own.display(),
        root.join("lib/x86_64-linux-gnu").display()
    );
    profile(&own.join("bin"), &text)
}

/// The wheel's own is a hard link, which must not be written through.
fn profile(bin: &Path, text: &str) -> io::Result<()> {
    fs::remove_file(bin.join("nvcc.profile"))?;
    fs::write(bin.join("nvcc.profile"), text)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::hard_link(fs::canonicalize(entry.path())?, to)?;
        }
    }
    Ok(())
}

/// As [`copy`], and `libcublas.so` beside `libcublas.so.13`.
fn libraries(from: &Path, to: &Path) -> io::Result<()> {
    copy(from, to)?;
    for entry in fs::read_dir(from)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some((stem, _)) = name.split_once(".so.") {
            symlink(&name, to.join(format!("{stem}.so")))?;
        }
    }
    Ok(())
}
