//! The edits.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::random::Random;
use super::tree::{DIRECTORIES, Tree};
use crate::package::Compiler;

/// Who has to notice an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Cargo, by dates of files and directories, and then the script.
    Cargo,
    /// The script, which runs in any case.
    Script,
}

/// Number of kinds of edits.
const KINDS: usize = 33;

impl Tree {
    /// Makes one edit, and returns what it was.
    pub fn edit(&mut self, random: &mut Random, reach: Reach) -> String {
        loop {
            let kind = random.below(KINDS);
            if let Some(edit) = self.edit_of_kind(kind, random, reach) {
                return edit;
            }
        }
    }

    /// `None` if there is nothing to edit in this way.
    fn edit_of_kind(&mut self, kind: usize, random: &mut Random, reach: Reach) -> Option<String> {
        match kind {
            0 => Some("nothing".to_owned()),
            1 => self.touch(random),
            2..=4 => self.change(random),
            5 | 6 => self.replace(random),
            7 => self.replace_with_old_date(random),
            8 => self.change_and_set_date_back(random, reach),
            9 => self.move_header(random),
            10 => self.rename_header(random),
            11 => self.delete(random),
            12 | 13 => self.shadow(random),
            14 => self.swap_headers(random),
            15 => self.swap_sources(random),
            16 => Some(self.retarget(random, reach)),
            17 => self.change_through_link(random),
            18 | 19 => self.optional_header(random),
            20 => Some(self.change_define(random)),
            21 => Some(self.change_options(random)),
            22 | 30..=32 => Some(self.change_capabilities(random)),
            23 => self.change_variable(random),
            24 => self.move_source(random),
            25 => self.swap_directories(random),
            26 => self.replace_by_link(random),
            27 => self.damage(random, reach),
            28 => self.change_engine(random),
            _ => self.change_toolkit(random),
        }
    }

    fn any_header(&self, random: &mut Random) -> Option<PathBuf> {
        let headers = self.headers();
        (!headers.is_empty()).then(|| random.pick(&headers).clone())
    }

    fn at(&self, path: &Path) -> PathBuf {
        self.package.path.join(path)
    }

    fn new_text(path: &Path, random: &mut Random) -> String {
        Self::header(path.file_stem().unwrap().to_str().unwrap(), random.value())
    }

    fn touch(&self, random: &mut Random) -> Option<String> {
        let path = self.any_header(random)?;
        set_date(&self.at(&path), SystemTime::now());
        Some(format!("touched {}", path.display()))
    }

    /// In place, and with the same size.
    fn change(&self, random: &mut Random) -> Option<String> {
        if random.below(4) == 0 {
            let index = random.below(3);
            self.write_source(index, random.value());
            return Some(format!("changed {}", self.sources[index].display()));
        }
        let path = self.any_header(random)?;
        fs::write(self.at(&path), Self::new_text(&path, random)).unwrap();
        Some(format!("changed {}", path.display()))
    }

    fn beside(&self, path: &Path, random: &mut Random) -> PathBuf {
        let new = self.package.place.join("new.cuh");
        fs::write(&new, Self::new_text(path, random)).unwrap();
        new
    }

    fn replace(&self, random: &mut Random) -> Option<String> {
        let path = self.any_header(random)?;
        fs::rename(self.beside(&path, random), self.at(&path)).unwrap();
        Some(format!("replaced {}", path.display()))
    }

    /// Visible to Cargo by the date of the directory, which is one that is searched.
    fn replace_with_old_date(&self, random: &mut Random) -> Option<String> {
        let path = self.any_header(random)?;
        if path.starts_with("real") || path.starts_with("other") {
            return None;
        }
        let new = self.beside(&path, random);
        set_date(
            &new,
            SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000),
        );
        fs::rename(new, self.at(&path)).unwrap();
        Some(format!("replaced {} by an older file", path.display()))
    }

    fn change_and_set_date_back(&self, random: &mut Random, reach: Reach) -> Option<String> {
        if reach == Reach::Cargo {
            return None;
        }
        let path = self.any_header(random)?;
        let before = fs::metadata(self.at(&path)).unwrap().modified().unwrap();
        fs::write(self.at(&path), Self::new_text(&path, random)).unwrap();
        set_date(&self.at(&path), before);
        Some(format!("changed {} and set its date back", path.display()))
    }

    fn move_header(&self, random: &mut Random) -> Option<String> {
        let path = self.any_header(random)?;
        let to = Path::new(random.pick(&DIRECTORIES)).join(path.file_name()?);
        fs::rename(self.at(&path), self.at(&to)).unwrap();
        Some(format!("moved {} to {}", path.display(), to.display()))
    }

    fn rename_header(&self, random: &mut Random) -> Option<String> {
        let path = self.any_header(random)?;
        let to = path.with_file_name(format!("h{}.cuh", random.below(8)));
        fs::rename(self.at(&path), self.at(&to)).unwrap();
        Some(format!("renamed {} to {}", path.display(), to.display()))
    }

    fn delete(&self, random: &mut Random) -> Option<String> {
        let path = self.any_header(random)?;
        fs::remove_file(self.at(&path)).unwrap();
        Some(format!("deleted {}", path.display()))
    }

    fn shadow(&self, random: &mut Random) -> Option<String> {
        let name = self.any_header(random)?;
        let path = Path::new(random.pick(&DIRECTORIES)).join(name.file_name()?);
        if self.at(&path).exists() {
            return None;
        }
        fs::write(self.at(&path), Self::new_text(&path, random)).unwrap();
        Some(format!("added {}", path.display()))
    }

    /// Two headers of one name.
    fn swap_headers(&self, random: &mut Random) -> Option<String> {
        let headers = self.headers();
        let one = random.pick(&headers);
        let mut others = headers
            .iter()
            .filter(|path| path.file_name() == one.file_name() && *path != one);
        let other = others.next_back()?;
        self.swap(one, other);
        Some(format!("swapped {} and {}", one.display(), other.display()))
    }

    fn swap_sources(&self, random: &mut Random) -> Option<String> {
        if self.compiler == Compiler::Nvcc13 {
            // Two sources of the library: their functions stay defined.
            self.swap(&self.sources[1], &self.sources[2]);
            return Some("swapped two sources".to_owned());
        }
        let (first, second) = *random.pick(&[(0, 1), (0, 1), (1, 2)]);
        self.swap(&self.sources[first], &self.sources[second]);
        Some(format!(
            "swapped {} and {}",
            self.sources[first].display(),
            self.sources[second].display()
        ))
    }

    fn swap(&self, one: &Path, other: &Path) {
        let between = self.package.place.join("between");
        fs::rename(self.at(one), &between).unwrap();
        fs::rename(self.at(other), self.at(one)).unwrap();
        fs::rename(between, self.at(other)).unwrap();
    }

    /// The link itself, or one that it leads through: that one lies where Cargo does not look.
    fn retarget(&self, random: &mut Random, reach: Reach) -> String {
        let (link, targets) = if reach == Reach::Script && random.below(2) == 0 {
            ("hop", ["real/deep", "other/deep"])
        } else {
            ("inc1/via", ["../real/deep", "../other/deep"])
        };
        let path = self.at(Path::new(link));
        let old = fs::read_link(&path).unwrap_or_default();
        let to = targets[usize::from(old == Path::new(targets[0]))];
        let _ = fs::remove_file(&path);
        symlink(to, &path).unwrap();
        format!("{link} leads to {to}")
    }

    fn change_through_link(&self, random: &mut Random) -> Option<String> {
        let path = Path::new("inc1/via").join(random.pick(&["h6.cuh", "../h7.cuh"]));
        if !self.at(&path).exists() {
            return None;
        }
        fs::write(self.at(&path), Self::new_text(&path, random)).unwrap();
        Some(format!("changed {}", path.display()))
    }

    /// A file that `__has_include` asks for appears or disappears.
    fn optional_header(&self, random: &mut Random) -> Option<String> {
        let name = random.pick(&["o0.cuh", "o1.cuh", "o2.cuh", "float.h", "math_constants.h"]);
        let path = Path::new(random.pick(&DIRECTORIES)).join(name);
        if self.at(&path).exists() {
            fs::remove_file(self.at(&path)).unwrap();
            return Some(format!("deleted {}", path.display()));
        }
        fs::write(self.at(&path), Self::new_text(&path, random)).unwrap();
        Some(format!("added {}", path.display()))
    }

    fn change_define(&mut self, random: &mut Random) -> String {
        let (name, value) = match random.below(3) {
            0 => ("HEADER", format!("\"h{}.cuh\"", random.below(3))),
            1 => ("HEADER", "\"h5.cuh\"".to_owned()),
            _ => ("D", random.value().to_string()),
        };
        let edit = format!("defined {name} as {value}");
        self.defines.insert(name, value);
        self.write_plan();
        edit
    }

    fn change_options(&mut self, random: &mut Random) -> String {
        let edit = match random.below(4) {
            0 => {
                let index = random.below(self.includes.len());
                self.includes.swap(0, index);
                format!("include directories are {:?}", self.includes)
            }
            1 => {
                self.options = vec!["-Iinc3"];
                "-Iinc3".to_owned()
            }
            2 => {
                self.options = vec!["--include-path=inc2", "--use_fast_math"];
                "--include-path=inc2 --use_fast_math".to_owned()
            }
            _ => {
                self.options.clear();
                "no options".to_owned()
            }
        };
        self.write_plan();
        edit
    }

    fn change_capabilities(&mut self, random: &mut Random) -> String {
        // Each is one capability more or less than another.
        let lists = [
            "[\"8.0\"]",
            "[\"9.0\"]",
            "[\"8.0\", \"9.0\"]",
            "[\"8.0+PTX\"]",
            "[\"8.0\", \"9.0+PTX\"]",
            "[\"8.0\", \"8.6\", \"9.0\"]",
            "[\"8.6\", \"9.0-virtual\"]",
        ];
        let list = *random.pick(&lists);
        let edit = match random.below(3) {
            0 => {
                self.package_capabilities = Some(list);
                format!("the package's capabilities are {list}")
            }
            1 => {
                self.package_capabilities = None;
                "the package declares no capabilities".to_owned()
            }
            _ => {
                self.workspace_capabilities = list;
                format!("the workspace's capabilities are {list}")
            }
        };
        self.write_manifests();
        edit
    }

    fn change_variable(&mut self, random: &mut Random) -> Option<String> {
        if self.compiler != Compiler::Nvcc13 {
            return None;
        }
        if random.below(3) == 0 {
            let flags = format!("-DD{}={}", random.below(2), random.value());
            let variable = *random.pick(&["NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS"]);
            self.package.set(variable, &flags);
            return Some(format!("{variable}={flags}"));
        }
        let path = self.package.place.join("cpath");
        let name = random.pick(&["o0.cuh", "o1.cuh", "h5.cuh", "h0.cuh"]);
        fs::write(path.join(name), Self::new_text(Path::new(name), random)).unwrap();
        let variable = *random.pick(&["CPATH", "CPLUS_INCLUDE_PATH"]);
        if random.below(3) == 0 {
            self.package.variables.retain(|(set, _)| set != variable);
            Some(format!("{variable} is not set"))
        } else {
            self.package.set(variable, &path);
            Some(format!("{variable} is set, and {name} in it changed"))
        }
    }

    /// To another directory, with the same name.
    fn move_source(&mut self, random: &mut Random) -> Option<String> {
        let index = random.below(3);
        let from = self.sources[index].clone();
        let to = Path::new(random.pick(&["kernels", "kernels/sub", "kernels/moved"]));
        let to = to.join(from.file_name()?);
        if to == from {
            return None;
        }
        fs::create_dir_all(self.at(&to).parent()?).unwrap();
        if random.below(2) == 0 {
            fs::rename(self.at(&from), self.at(&to)).unwrap();
        }
        self.sources[index].clone_from(&to);
        if !self.at(&to).exists() {
            self.write_source(index, random.value());
        }
        self.write_plan();
        Some(format!("{} instead of {}", to.display(), from.display()))
    }

    fn swap_directories(&self, random: &mut Random) -> Option<String> {
        let (one, other) = *random.pick(&[("inc1", "inc2"), ("inc2", "inc3"), ("real", "other")]);
        self.swap(Path::new(one), Path::new(other));
        Some(format!("swapped the directories {one} and {other}"))
    }

    fn replace_by_link(&self, random: &mut Random) -> Option<String> {
        let path = self.any_header(random)?;
        let target = Path::new("kernels").join(format!("target{}.txt", random.below(3)));
        fs::write(self.at(&target), Self::new_text(&path, random)).unwrap();
        fs::remove_file(self.at(&path)).unwrap();
        symlink(self.at(&target), self.at(&path)).unwrap();
        Some(format!(
            "{} is a link to {}",
            path.display(),
            target.display()
        ))
    }

    /// A file of the output directory, whatever it is.
    fn damage(&self, random: &mut Random, reach: Reach) -> Option<String> {
        if reach == Reach::Cargo {
            return None;
        }
        let entries = fs::read_dir(self.package.place.join("incremental")).unwrap();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.is_file());
        files.sort();
        if files.is_empty() {
            return None;
        }
        let path = random.pick(&files);
        let length = fs::metadata(path).unwrap().len();
        let file = File::options().write(true).open(path).unwrap();
        file.set_len(length / 2).unwrap();
        Some(format!("cut {}", path.display()))
    }

    fn change_engine(&mut self, random: &mut Random) -> Option<String> {
        if self.compiler != Compiler::Nvcc13 {
            return None;
        }
        let edit = if random.below(2) == 0 {
            self.reversed = !self.reversed;
            format!("reversed is {}", self.reversed)
        } else {
            self.by_nvrtc = !self.by_nvrtc;
            format!("NVRTC for the module is {}", self.by_nvrtc)
        };
        self.write_plan();
        Some(edit)
    }

    fn change_toolkit(&mut self, random: &mut Random) -> Option<String> {
        if self.compiler == Compiler::Nvcc13 {
            return None;
        }
        let compiler = *random.pick(&[Compiler::Nvrtc12, Compiler::Nvrtc13]);
        self.package.set("CUDA_BUILD_ROOTS", compiler.root()?);
        Some(format!("the toolkit is {}", compiler.id()))
    }
}

fn set_date(path: &Path, date: SystemTime) {
    let file = File::options().append(true).open(path).unwrap();
    file.set_modified(date).unwrap();
}
