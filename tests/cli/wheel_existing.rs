//! `cargo cuda wheel --from-wheel`: wheels of other builders.

mod online {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use cargo_cuda::exit_code;
    use cargo_cuda::package::archive::{WheelArchive, WheelFile};
    use cargo_cuda::package::archive_writer;

    use crate::components::site_packages;
    use crate::project::place;
    use crate::support::Finished;
    use crate::wheel_template::files;

    const MODULE: &str = "fast/_native.abi3.so";
    const OLD: &str = "fast-1.0-cp39-abi3-manylinux_2_28_x86_64.whl";
    const NEW: &str = "fast_cu13-1.0-cp39-abi3-manylinux_2_28_x86_64.whl";

    /// A wheel with a module that needs CUDA's runtime, and has `size` bytes of data. `options` are for the linker.
    fn wheel(work: &Path, size: usize, options: &str) -> PathBuf {
        let library = site_packages(13).join("nvidia/cu13/lib/libcudart.so.13");
        let [data, source, module] = ["data", "module.c", "module.so"].map(|name| work.join(name));
        fs::write(&data, vec![7; size]).unwrap();
        let code = format!(
            "__asm__(\".section .rodata\\n.incbin \\\"{}\\\"\\n.text\\n\");\n\
             int cudaRuntimeGetVersion(int *);\nint version(void) {{ int v; return cudaRuntimeGetVersion(&v); }}\n",
            data.display()
        );
        fs::write(&source, code).unwrap();
        let path = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../nvidia/cu13/lib";
        let gcc = Command::new("gcc")
            .args(["-shared", "-fPIC", path, "-o"])
            .args([&module, &source, &library])
            .args(options.split_whitespace())
            .output();
        Finished::of(gcc.unwrap()).succeeded();
        let info = "fast-1.0.dist-info";
        let text = |text: &str| text.as_bytes().to_vec();
        let entries = [
            (MODULE.to_owned(), fs::read(&module).unwrap()),
            (
                format!("{info}/METADATA"),
                text("Metadata-Version: 2.1\nName: fast\nVersion: 1.0\n"),
            ),
            (
                format!("{info}/WHEEL"),
                text("Wheel-Version: 1.0\nTag: cp39-abi3-manylinux_2_28_x86_64\n"),
            ),
        ];
        let entries =
            entries.map(|(path, content)| (path, WheelFile::new(content, false).unwrap()));
        let wheel = WheelArchive::new(info.to_owned(), BTreeMap::from(entries));
        let path = work.join(OLD);
        archive_writer::write(&wheel, &path).unwrap();
        path
    }

    /// `cargo cuda wheel --from-wheel`, which may use 60 MB of memory.
    fn rewrite(wheel: &Path, arguments: &str) -> Finished {
        let script =
            format!("ulimit -d 60000 && exec \"$0\" cuda wheel --from-wheel \"$1\" {arguments}");
        let output = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_cargo-cuda")])
            .arg(wheel)
            .current_dir(wheel.parent().unwrap())
            .output();
        Finished::of(output.unwrap())
    }

    #[test]
    #[ignore = "minutes: a wheel larger than the memory is rewritten"]
    fn a_wheel_larger_than_the_memory_is_rewritten() {
        let work = place("wheel-existing-large");
        let old = wheel(&work, 100_000_000, "");
        rewrite(&old, "--cuda 13").succeeded();
        let new = WheelArchive::open(&work.join("dist").join(NEW)).unwrap();
        let old = WheelArchive::open(&old).unwrap();
        assert_eq!(old.entries[MODULE].digest, new.entries[MODULE].digest);
    }

    #[test]
    fn a_wheel_is_rewritten_for_its_major() {
        let work = place("wheel-existing");
        // A RUNPATH is as good as an RPATH.
        let old = wheel(&work, 10, "-Wl,--enable-new-dtags");
        for name in ["fresh-data", ".cargo-cuda-own"] {
            fs::create_dir(work.join(name)).unwrap();
        }
        let mut expected = files(&work);
        let run = rewrite(&old, "--cuda 13 --out .");
        assert_eq!(run.code, 0, "{run:?}");
        let requirement = "  requires cuda-toolkit[cudart]>=13.0,<14\n";
        assert!(run.stdout.contains(requirement), "{run:?}");
        expected.push(work.join(NEW));
        expected.sort();
        assert_eq!(files(&work), expected);
        let (old, new) = (
            WheelArchive::open(&old),
            WheelArchive::open(&work.join(NEW)),
        );
        let (old, new) = (old.unwrap(), new.unwrap());
        assert_eq!(old.entries[MODULE].digest, new.entries[MODULE].digest);
    }

    #[test]
    fn a_wheel_that_is_wrong_is_not_written() {
        let work = place("wheel-existing-refused");
        let dist = work.join("dist");
        let old = wheel(&work, 10, "-Wl,-rpath,/usr/local/cuda/lib64");
        rewrite(&old, "--cuda 13").failed(
            exit_code::AUDIT,
            &[
                &format!("error: {NEW} was not written, because the audit found errors in it:"),
                &format!("  error[W04]: {MODULE}: "),
                "/usr/local/cuda/lib64",
                "hint: to write the wheel nevertheless: `--allow W04`",
            ],
        );
        assert!(!dist.exists());
        // Nothing that the module needs is in the other major's directory.
        let old = wheel(&work, 10, "-Wl,-rpath,$ORIGIN/../nvidia/cuda_runtime/lib");
        rewrite(&old, "--cuda 13").ended_with(0, &["warning[W07]", "nvidia/cuda_runtime/lib"]);
        fs::remove_dir_all(&dist).unwrap();
        let old = wheel(&work, 10, "-Wl,-rpath,/usr/local/cuda/lib64");
        rewrite(&old, "--cuda 13 --allow W04").succeeded();
        assert_eq!(files(&dist), [dist.join(NEW)]);
        fs::remove_dir_all(&dist).unwrap();

        let old = wheel(&work, 10, "");
        let words = "`libcudart.so.13` of CUDA 13, but the package is for CUDA 12";
        rewrite(&old, "--cuda 12").failed(exit_code::WHEEL, &[words]);
        for several in ["--cuda 12,13", "--cuda 13.4"] {
            rewrite(&old, several).failed(exit_code::USAGE, &["takes one CUDA major"]);
        }
        assert!(!dist.exists(), "{:?}", files(&dist));
    }
}
