"""A CUDA root whose compilers count how often they are called."""

import os
import pathlib
import subprocess

from measure import measured

# What nvcc starts once for each file that is compiled as a whole, and once for each capability of each file: its
# compiler to PTX, and from there to SASS.
PROGRAMS = ["bin/cudafe++", "nvvm/bin/cicc", "bin/ptxas"]


def link_entries(source: pathlib.Path, to: pathlib.Path, *excepted: str) -> None:
    to.mkdir(parents=True, exist_ok=True)
    for entry in source.iterdir():
        if entry.name not in excepted:
            (to / entry.name).symlink_to(entry)


class Counted:
    """Links to a real toolkit, nvcc among them. The programs above are scripts in front of the real ones."""

    def __init__(self, root: pathlib.Path, ours: pathlib.Path):
        nvcc, self.version = subprocess.check_output([ours, "nvcc"], text=True).split()
        real = pathlib.Path(nvcc).parent.parent
        self.root, self.log = root, root / "calls"
        link_entries(real, root, "bin", "nvvm")
        link_entries(real / "bin", root / "bin", "cudafe++", "ptxas")
        link_entries(real / "nvvm", root / "nvvm", "bin")
        link_entries(real / "nvvm/bin", root / "nvvm/bin", "cicc")
        # The neighbours look for the libraries under the names of NVIDIA's installers.
        for name in ["lib64", "lib"]:
            if not (root / name).exists():
                (root / name).symlink_to(real / "lib")
        for program in PROGRAMS:
            (root / program).write_text(f"#!/bin/sh\necho {program} >> '{self.log}'\nexec '{real / program}' \"$@\"\n")
            (root / program).chmod(0o755)
        self.forget()

    def forget(self) -> None:
        self.log.write_text("")

    def calls(self) -> tuple[int, int]:
        """Files compiled as a whole, and images."""
        lines = self.log.read_text().splitlines()
        return lines.count(PROGRAMS[0]), lines.count(PROGRAMS[1])

    def has_exactly(self, archive: pathlib.Path, capabilities: list[str], all_of_them: list[str], files: int) -> bool:
        """Whether an archive has as many images for each of these capabilities, and none for others.

        The `cc` crate also links device code, into one more image. A program has only that one.
        """
        listed = measured([self.root / "bin/cuobjdump", "--list-elf", archive])[1]
        count = {name: listed.count(f".sm_{name}.cubin") for name in all_of_them}
        expected = count[capabilities[0]]
        return expected in (files, files + 1) and all(
            count[name] == (expected if name in capabilities else 0) for name in all_of_them
        )

    def root_only(self) -> dict[str, str]:
        """For `cargo cuda`, which sets every variable for build scripts that the user has not set."""
        return {"CUDA_HOME": str(self.root)}

    def environment(self) -> dict[str, str]:
        """Everything that one of the neighbours requires."""
        names = ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR", "CUDAToolkit_ROOT"]
        return dict.fromkeys(names, str(self.root)) | {
            "NVCC": str(self.root / "bin/nvcc"),
            "CUDACXX": str(self.root / "bin/nvcc"),
            "CUDA_COMPUTE_CAP": "80",
            "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
        }
