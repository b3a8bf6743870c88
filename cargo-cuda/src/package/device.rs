//! The device code of a file, and which GPUs can run it.
//!
//! Fat binaries lie in sections and in data (`include_bytes!`), and PTX also as text. The whole file is searched for
//! them in blocks. Of an image, its header is read, which has kind, capability and version of PTX, and the start of its
//! payload, which names the compiler's release.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use cuda_build::fatbin::{self, Compression, EntryHeader, Kind};
use cuda_build::{Capability, Plan, ToolkitVersion};
use cuda_find_core::capability::{self, CapabilityFacts, Support, supported};
use cuda_find_core::release::{self, Release};
use memchr::memmem;
use ruzstd::decoding::StreamingDecoder;
use serde::{Serialize, Serializer};

/// The size of a block. Fat binaries of real libraries have some kilobytes to some megabytes.
const BLOCK: u64 = 1 << 20;

/// Bytes of an image in which its compiler's release is looked for. A longer image has functions.
const PAYLOAD_START: u64 = 1 << 16;

/// The start of the line in PTX that names the capability. The line with `.version` is before it.
const TARGET: &[u8] = b"\n.target sm_";
const VERSION: &[u8] = b".version ";

/// The most bytes from the start of `.version` to that of `.target`.
const MAX_DIRECTIVES_LEN: usize = 256;

/// The device code of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceCode {
    /// The images of each fat binary. All PTX that is in the file as text counts as one fat binary.
    pub fat_binaries: Vec<Vec<DeviceImage>>,
    /// The newest CUDA release that the cubins name as their compiler's.
    pub release: Option<ToolkitVersion>,
}

/// Code for one capability.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct DeviceImage {
    pub kind: ImageKind,
    #[serde(serialize_with = "as_text")]
    pub capability: Capability,
    /// The version of the PTX language; `(0, 0)` for other kinds.
    #[serde(skip)]
    pub isa: (u16, u16),
    /// The total size of all such images as stored.
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageKind {
    Sass,
    Ptx,
    LtoIr,
    TileIr,
}

/// What a GPU can run, from the best to the worst.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Runs {
    /// SASS.
    Native,
    /// PTX, which the driver compiles when the program starts.
    Jit {
        /// The version of PTX.
        isa: (u16, u16),
    },
    /// Tile IR, which the driver compiles when the program starts.
    TileJit,
    /// LTO-IR, which nvJitLink links into SASS while the program runs.
    Linked,
    /// Nothing.
    None,
}

impl DeviceImage {
    /// The image of an entry in a fat binary. `None` for unknown kinds.
    fn of_entry(entry: &EntryHeader) -> Option<Self> {
        let kind = match entry.kind {
            Kind::Elf => ImageKind::Sass,
            Kind::Ptx => ImageKind::Ptx,
            Kind::LtoIr => ImageKind::LtoIr,
            Kind::TileIr => ImageKind::TileIr,
            _ => return None,
        };
        let has_isa = kind == ImageKind::Ptx;
        Some(Self {
            kind,
            capability: entry.capability,
            isa: if has_isa { entry.version } else { (0, 0) },
            bytes: entry.payload_len,
        })
    }

    /// The kind, the capability and the version of PTX.
    pub fn key(&self) -> (ImageKind, Capability, (u16, u16)) {
        (self.kind, self.capability, self.isa)
    }

    /// `SASS 8.0`.
    pub fn label(&self) -> String {
        let kind = match self.kind {
            ImageKind::Sass => "SASS",
            ImageKind::Ptx => "PTX",
            ImageKind::LtoIr => "LTO-IR",
            ImageKind::TileIr => "Tile IR",
        };
        format!("{kind} {}", self.capability)
    }
}

/// Serializes a value as its text.
pub fn as_text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

impl DeviceCode {
    /// Reads the device code of a file. `relocatable` are the ranges of sections with code that was linked already.
    pub fn scan(file: &mut (impl Read + Seek), relocatable: &[Range<u64>]) -> io::Result<Self> {
        let mut code = Self::default();
        let mut texts = Vec::new();
        // The end of the last container. Matches inside a container are ignored, because an image may contain any text.
        let mut covered = 0;
        for (at, ptx) in candidates(file)? {
            if at < covered || relocatable.iter().any(|range| range.contains(&at)) {
                continue;
            }
            if let Some(image) = ptx {
                add(&mut texts, image);
                continue;
            }
            let mut read = |offset: u64, len: usize| {
                let mut bytes = vec![0; len];
                file.seek(SeekFrom::Start(offset)).ok()?;
                file.read_exact(&mut bytes).ok()?;
                Some(bytes)
            };
            if let Ok((entries, len)) = fatbin::read_headers(at, &mut read) {
                covered = at.saturating_add(len);
                let mut end = covered;
                let mut images = Vec::new();
                for entry in entries.iter().rev() {
                    let payload = end - entry.payload_len;
                    let start = entry.payload_len.min(PAYLOAD_START) as usize;
                    let start = read(payload, start).unwrap_or_default();
                    code.release = code.release.max(entry.release(&start));
                    let image = DeviceImage::of_entry(entry).filter(|_| has_code(entry, &start));
                    image.into_iter().for_each(|image| add(&mut images, image));
                    end = payload - entry.header_len;
                }
                images.sort();
                code.fat_binaries.push(images);
            }
        }
        code.fat_binaries.push(texts);
        code.fat_binaries.retain(|images| !images.is_empty());
        Ok(code)
    }

    /// The code of several files.
    pub fn of_files<'a>(files: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        for code in files {
            all.fat_binaries.extend_from_slice(&code.fat_binaries);
            all.release = all.release.max(code.release);
        }
        all
    }

    /// Each kind, capability and version of PTX once, sorted.
    pub fn images(&self) -> Vec<DeviceImage> {
        let mut images = Vec::new();
        let all = self.fat_binaries.iter().flatten();
        all.for_each(|image| add(&mut images, image.clone()));
        images.sort();
        images
    }

    /// The code that does not need one GPU or its family.
    pub fn without_letters(&self) -> Self {
        let plain = |images: &Vec<DeviceImage>| {
            let plain = images
                .iter()
                .filter(|image| image.capability.suffix.is_none());
            plain.cloned().collect()
        };
        let mut code = self.clone();
        code.fat_binaries = self.fat_binaries.iter().map(plain).collect();
        code
    }

    /// Whether there is an image of a kind.
    pub fn has(&self, kind: ImageKind) -> bool {
        let mut images = self.fat_binaries.iter().flatten();
        images.any(|image| image.kind == kind)
    }

    /// The fat binaries that every GPU needs. One whose images all have a letter is for these GPUs alone, and the
    /// program has other code for others.
    fn portable(&self) -> Vec<&[DeviceImage]> {
        let has_plain = |images: &&[DeviceImage]| {
            let mut images = images.iter();
            images.any(|image| image.capability.suffix.is_none())
        };
        let all = self.fat_binaries.iter().map(Vec::as_slice);
        let (plain, with_letters): (Vec<_>, Vec<_>) = all.partition(has_plain);
        if plain.is_empty() {
            with_letters
        } else {
            plain
        }
    }

    /// What a GPU can run: of the fat binaries, the worst one decides, because a program may launch any function.
    /// `major` is the CUDA major that compiled the code.
    pub fn runs_on(&self, device: Capability, major: u32) -> Runs {
        let portable = self.portable().into_iter();
        let runs = portable.map(|images| runs_on(images, device, major));
        runs.max().unwrap_or(Runs::None)
    }

    /// The oldest CUDA release whose driver runs this code on a GPU, and whether it does not have to compile it first.
    /// `None` if the code does not run there. A program without code of its own runs on every GPU that its CUDA major
    /// supports. With a `plan`, the code is for the GPUs of this plan alone: the sources may have chosen by it.
    pub fn driver_for(
        &self,
        gpu: Capability,
        plan: Option<&Plan>,
        built_with: ToolkitVersion,
    ) -> Option<(ToolkitVersion, bool)> {
        let oldest = ToolkitVersion::new(built_with.major, 0);
        let has_code = !self.fat_binaries.is_empty();
        match plan.map(|plan| plan.runs_on(gpu, built_with)) {
            Some(Support::None) => return None,
            Some(Support::Jit) if !has_code => return Some((built_with, false)),
            _ if !has_code => {
                let lowest = supported(oldest).first().copied();
                return (Some(gpu) >= lowest).then_some((oldest, true));
            }
            _ => {}
        }
        match self.runs_on(gpu, built_with.major) {
            Runs::None => None,
            Runs::Native => Some((oldest, true)),
            Runs::Linked => Some((oldest, false)),
            Runs::TileJit => Some((built_with, false)),
            // PTX that is newer than the tables is that of the toolkit.
            Runs::Jit { isa } => {
                let release = release_of_ptx(isa).map_or(built_with, |it| it.version);
                Some((release.max(oldest), false))
            }
        }
    }

    /// The GPUs that are not older than the oldest image and have no code. Jetson boards are left out: few wheels are
    /// for them.
    pub fn gaps(&self, major: u32) -> BTreeSet<Capability> {
        let images = self.portable().into_iter().flatten();
        let oldest = images.map(|image| image.capability.base()).min();
        let first = ToolkitVersion::new(major, 0);
        let is_supported =
            |facts: &&CapabilityFacts| facts.removed_in.is_none_or(|removed| first < removed);
        let devices = capability::all().filter(is_supported);
        let devices = devices.filter(|facts| facts.jetson != Some(true));
        let newer = devices.map(|facts| facts.capability);
        let newer = newer.filter(|it| oldest.is_some_and(|oldest| *it >= oldest));
        let gaps = newer.filter(|it| self.runs_on(*it, major) == Runs::None);
        gaps.collect()
    }

    /// Whether a GPU that is newer than every known one can run the code.
    pub fn runs_on_future(&self) -> bool {
        let is_compiled_later = |image: &DeviceImage| {
            image.kind != ImageKind::Sass && image.capability.suffix.is_none()
        };
        let mut portable = self.portable().into_iter();
        portable.all(|images| images.iter().any(is_compiled_later))
    }
}

fn add(images: &mut Vec<DeviceImage>, image: DeviceImage) {
    match images.iter_mut().find(|other| other.key() == image.key()) {
        Some(other) => other.bytes += image.bytes,
        None => images.push(image),
    }
}

/// What a GPU can run of one fat binary.
fn runs_on(images: &[DeviceImage], device: Capability, major: u32) -> Runs {
    let support = |real: Vec<Capability>, ptx: Vec<Capability>| {
        Plan { real, ptx }.runs_on(device, ToolkitVersion::new(major, 0))
    };
    let of_kind = |kind: ImageKind| images.iter().filter(move |image| image.kind == kind);
    let sass = of_kind(ImageKind::Sass).map(|image| image.capability);
    if support(sass.collect(), Vec::new()) == Support::Native {
        return Runs::Native;
    }
    // LTO-IR and Tile IR are compiled for the same GPUs as PTX.
    let compiled_from = |kind: ImageKind| {
        of_kind(kind).filter(|image| support(Vec::new(), vec![image.capability]) == Support::Jit)
    };
    if let Some(isa) = compiled_from(ImageKind::Ptx).map(|image| image.isa).min() {
        return Runs::Jit { isa };
    }
    let later = [
        (ImageKind::TileIr, Runs::TileJit),
        (ImageKind::LtoIr, Runs::Linked),
    ];
    let later = later
        .into_iter()
        .find(|(kind, _)| compiled_from(*kind).next().is_some());
    later.map_or(Runs::None, |(_, runs)| runs)
}

/// Whether an image has functions or variables. nvcc also writes images for sources without any.
fn has_code(entry: &EntryHeader, payload: &[u8]) -> bool {
    let signs: &[&str] = match entry.kind {
        Kind::Elf => &[".text.", ".nv.global", ".nv.constant3"],
        Kind::Ptx => &[".entry", ".func", ".global", ".const"],
        _ => return true,
    };
    let image = match entry.compression {
        _ if entry.payload_len > PAYLOAD_START => return true,
        Compression::None => payload.to_vec(),
        Compression::Zstd => decompress(payload).unwrap_or_default(),
        _ => Vec::new(),
    };
    let has = |sign: &&str| memmem::find(&image, sign.as_bytes()).is_some();
    image.is_empty() || signs.iter().any(has)
}

/// Decompresses a frame of Zstandard, which padding may follow.
pub fn decompress(frame: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut decoder = StreamingDecoder::new(frame).ok()?;
    decoder.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The offsets in a file at which a container may begin, and the offsets of PTX as text with its image, in ascending
/// order.
fn candidates(file: &mut (impl Read + Seek)) -> io::Result<Vec<(u64, Option<DeviceImage>)>> {
    let magic = memmem::Finder::new(&fatbin::MAGIC_BYTES);
    let target = memmem::Finder::new(TARGET);
    let mut found = Vec::new();
    let mut block = Vec::new();
    // The offset of `block` in the file, and that of the first byte that has not been searched.
    let (mut start, mut searched) = (0, 0);
    file.seek(SeekFrom::Start(0))?;
    loop {
        let count = file.by_ref().take(BLOCK).read_to_end(&mut block)?;
        // What begins near the end of a block is examined with the next block.
        let limit = match count {
            0 => block.len(),
            _ => block.len().saturating_sub(MAX_DIRECTIVES_LEN),
        };
        let is_new = |index: &usize| *index < limit && start + *index as u64 >= searched;
        let containers = magic.find_iter(&block).filter(is_new);
        found.extend(containers.map(|index| (start + index as u64, None)));
        found.extend(target.find_iter(&block).filter(is_new).filter_map(|index| {
            let image = ptx(&block, index)?;
            Some((start + index as u64, Some(image)))
        }));
        if count == 0 {
            break;
        }
        searched = start + limit as u64;
        // The directives before a `.target` stay in the block.
        let passed = block.len().saturating_sub(2 * MAX_DIRECTIVES_LEN);
        block.drain(..passed);
        start += passed as u64;
    }
    found.sort_by_key(|(at, _)| *at);
    Ok(found)
}

/// The PTX whose `.target` line begins at `at`. Compilers contain the same text as a template, without numbers.
fn ptx(block: &[u8], at: usize) -> Option<DeviceImage> {
    let word = |bytes: &[u8]| -> String {
        let characters = bytes.iter().take(16).map(|byte| char::from(*byte));
        let is_word = |c: &char| c.is_ascii_alphanumeric() || *c == '.';
        characters.take_while(is_word).collect()
    };
    let before = &block[at.saturating_sub(MAX_DIRECTIVES_LEN)..at];
    let version = word(&before[memmem::rfind(before, VERSION)? + VERSION.len()..]);
    let (major, minor) = version.split_once('.')?;
    Some(DeviceImage {
        kind: ImageKind::Ptx,
        capability: word(&block[at + TARGET.len()..]).parse().ok()?,
        isa: (major.parse().ok()?, minor.parse().ok()?),
        bytes: 0,
    })
}

/// The first CUDA release that writes PTX of this version, and whose driver reads it.
pub fn release_of_ptx((major, minor): (u16, u16)) -> Option<&'static Release> {
    let isa = (u32::from(major), u32::from(minor));
    let mut releases = release::releases().filter_map(release::facts);
    releases.find(|release| release.ptx_isa >= isa)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use cuda_build::fatbin::{Entry, Fatbin};

    use super::*;

    fn code(sass: &[&str], ptx: &[&str]) -> DeviceCode {
        let mut images = Vec::new();
        let sass = sass.iter().map(|capability| (ImageKind::Sass, capability));
        let ptx = ptx.iter().map(|capability| (ImageKind::Ptx, capability));
        for (kind, capability) in sass.chain(ptx) {
            let image = DeviceImage {
                kind,
                capability: capability.parse().unwrap(),
                isa: match kind {
                    ImageKind::Ptx => (8, 8),
                    _ => (0, 0),
                },
                bytes: 100,
            };
            add(&mut images, image);
        }
        DeviceCode {
            fat_binaries: vec![images],
            release: None,
        }
    }

    fn texts(gaps: impl IntoIterator<Item = Capability>) -> Vec<String> {
        gaps.into_iter().map(|gap| gap.to_string()).collect()
    }

    #[test]
    fn a_gpu_runs_sass_ptx_or_nothing() {
        let code = code(&["8.0", "9.0a"], &["9.0"]);
        let on = |device: &str| code.runs_on(device.parse().unwrap(), 12);
        assert_eq!(on("8.9"), Runs::Native);
        assert_eq!(on("9.0"), Runs::Native);
        assert_eq!(on("10.0"), Runs::Jit { isa: (8, 8) });
        assert_eq!(on("7.5"), Runs::None);
    }

    #[test]
    fn gaps_are_known_and_future_gpus() {
        let blackwell = &["10.0", "10.3", "10.7"][..];
        for (sass, ptx, gaps, runs_on_future) in [
            (&["8.0", "9.0a"][..], &["9.0"][..], &[][..], true),
            (&["8.0", "9.0", "12.0"], &["12.0"], blackwell, true),
            (&["8.0", "12.0"], &["8.0"], &[], true),
            (&["12.0"], &["12.0a"], &[], false),
            (&["8.0", "9.0a"], &["12.0"], blackwell, true),
            (&["9.0a"], &["8.0"], &[], true),
        ] {
            let code = code(sass, ptx);
            assert_eq!(texts(code.gaps(13)), gaps, "{sass:?} {ptx:?}");
            assert_eq!(code.runs_on_future(), runs_on_future, "{sass:?} {ptx:?}");
        }
    }

    #[test]
    fn the_worst_fat_binary_decides() {
        let both = |first: DeviceCode, second: DeviceCode| DeviceCode {
            fat_binaries: [first.fat_binaries, second.fat_binaries].concat(),
            release: None,
        };
        let turing_ptx = code(&[], &["7.5"]);
        let only_ampere = both(code(&["8.0"], &[]), turing_ptx.clone());
        let runs = only_ampere.runs_on("9.0".parse().unwrap(), 13);
        assert_eq!(runs, Runs::None);
        let gaps = texts(only_ampere.gaps(13));
        assert_eq!(gaps, ["7.5", "9.0", "10.0", "10.3", "10.7", "12.0", "12.1"]);
        assert!(!only_ampere.runs_on_future());
        // A file for one GPU does not take its code from the others.
        let with_letter = both(code(&["9.0a"], &[]), turing_ptx);
        assert!(with_letter.gaps(13).is_empty() && with_letter.runs_on_future());
    }

    fn ptx_text(sm: &str) -> String {
        format!(
            "//\n.version 8.3\n.target sm_{sm}\n.address_size 64\n.visible .entry f() {{ ret; }}\n"
        )
    }

    fn fatbin(capabilities: &[&str]) -> Vec<u8> {
        let entry = |capability: &&str| {
            Entry::ptx(capability.parse().unwrap(), &ptx_text(capability)).unwrap()
        };
        Fatbin::from_entries(capabilities.iter().map(entry).collect()).write()
    }

    fn found(bytes: Vec<u8>) -> Vec<String> {
        let code = DeviceCode::scan(&mut Cursor::new(bytes), &[]).unwrap();
        let images = code.fat_binaries.iter().flatten();
        images.map(|image| image.capability.to_string()).collect()
    }

    #[test]
    fn code_is_found_at_every_place() {
        let block = BLOCK as usize;
        for before in [0, 1, 7, block - 300, block - 20, block, 2 * block + 3] {
            let bytes = [vec![1; before], fatbin(&["80", "90a"]), vec![1; 10]].concat();
            assert_eq!(found(bytes), ["8.0", "9.0a"], "{before} bytes before");
            let bytes = [vec![b' '; before], ptx_text("75").into_bytes(), vec![1; 10]].concat();
            assert_eq!(found(bytes), ["7.5"], "{before} bytes before");
        }
        let two = [fatbin(&["80"]), vec![0; 8], fatbin(&["120"])].concat();
        assert_eq!(found(two), ["8.0", "12.0"]);
    }

    #[test]
    fn what_is_no_code_is_not_found() {
        assert!(found(b".version 8.0\n.target sm_%d\n".to_vec()).is_empty());
        assert!(found(b"\n.target sm_80\n".to_vec()).is_empty());
        assert!(found(fatbin(&["80"])[..40].to_vec()).is_empty());
        let images_with = |line: &str| {
            let text = ptx_text("80").replace(".visible .entry f() { ret; }", line);
            let entry = Entry::ptx("80".parse().unwrap(), &text).unwrap();
            found(Fatbin::from_entries(vec![entry]).write()).len()
        };
        assert_eq!(images_with(""), 0);
        assert!(found(fatbin::MAGIC_BYTES.repeat(600_000)).is_empty());
        assert_eq!(images_with(".visible .const .align 4 .b8 table[16];"), 1);
    }

    #[test]
    fn relocatable_code_runs_nowhere() {
        let bytes = fatbin(&["80"]);
        let range = 0..bytes.len() as u64;
        let code = DeviceCode::scan(&mut Cursor::new(bytes), std::slice::from_ref(&range)).unwrap();
        assert!(code.fat_binaries.is_empty());
    }
}
