"""Builds this package with `cargo cuda`: the hooks of PEP 517 and PEP 660, which pip, uv and `python -m build` call."""

import json
import shutil
import subprocess
import sys


def _call(hook, directory, config_settings):
    program = shutil.which("cargo-cuda")
    if program is None:
        sys.exit(
            "error: `cargo cuda` is not on `PATH` (needed to build this package)\n"
            "hint: install it with `cargo install --locked --git https://github.com/cuda-build/cuda-build cargo-cuda`"
        )
    settings = json.dumps(config_settings or {})
    command = [program, "cuda", "pep517", hook, directory, "--python", sys.executable, "--config-settings", settings]
    finished = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if finished.returncode != 0:
        sys.exit(finished.returncode)
    # The last line is the name of the result. The lines before it are maturin's.
    return finished.stdout.decode().splitlines()[-1]


def get_requires_for_build_wheel(config_settings=None):
    # maturin is in `requires`; for `bindings = "cffi"`, it needs another package.
    try:
        import maturin
    except ImportError:
        return []
    return maturin.get_requires_for_build_wheel(config_settings)


get_requires_for_build_editable = get_requires_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _call("build-wheel", wheel_directory, config_settings)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _call("build-editable", wheel_directory, config_settings)


def build_sdist(sdist_directory, config_settings=None):
    return _call("build-sdist", sdist_directory, config_settings)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    return _call("prepare-metadata", metadata_directory, config_settings)


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel
