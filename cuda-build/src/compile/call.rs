//! Command lines of nvcc, as build scripts write them.

use std::path::{Path, PathBuf};

use super::identity::Variables;
use super::options::chooses_capabilities;
use super::step::{Form, Image};
use crate::includes::options::{self, Table};
use cuda_find_core::capability::Plan;
use cuda_find_core::env::Env;

/// What a call makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Product {
    /// An object: `-c`, and `-dc` or `-dw`, which also choose whether its device code can be linked.
    Object(Option<bool>),
    Ptx,
    Cubin,
    Fatbin,
    /// A program, a shared library, an archive, or an object with linked device code.
    Linked,
}

/// What an option means for the wrapper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Product(Product),
    /// nvcc prints or preprocesses, or keeps its intermediate files, too. What it makes is not kept.
    Inspects,
    Output,
    OutputDirectory,
    Depfile,
    DepfileName,
    DepfileTarget,
    Architecture,
    Code,
    Gencode,
    HostCompiler,
    Language,
    /// Matters to the linker alone.
    Link,
    Input,
    Other,
}

const ROLES: &Table<Role> = &[
    (Role::Product(Product::Object(None)), "c compile"),
    (Role::Product(Product::Object(Some(true))), "dc device-c"),
    (Role::Product(Product::Object(Some(false))), "dw device-w"),
    (Role::Product(Product::Ptx), "ptx"),
    (Role::Product(Product::Cubin), "cubin"),
    (Role::Product(Product::Fatbin), "fatbin"),
    (
        Role::Product(Product::Linked),
        "dlink device-link lib shared link",
    ),
    (
        Role::Inspects,
        "E preprocess M generate-dependencies MM generate-nonsystem-dependencies dryrun keep save-temps keep-dir=",
    ),
    (Role::Output, "o= output-file="),
    (Role::OutputDirectory, "odir= output-directory="),
    (Role::Depfile, "MD generate-dependencies-with-compile"),
    (Role::DepfileName, "MF= dependency-output="),
    (Role::DepfileTarget, "MT= dependency-target-name="),
    (Role::Architecture, "arch= gpu-architecture="),
    (Role::Code, "code= gpu-code="),
    (Role::Gencode, "gencode= generate-code="),
    (Role::HostCompiler, "ccbin= compiler-bindir="),
    (Role::Language, "x="),
    (
        Role::Link,
        "L= library-path= l= library= Xlinker= linker-options= Xnvlink= nvlink-options= cudadevrt=",
    ),
];

/// Options for link-time code, which has other architectures, and some that look like `-l<library>`.
const AS_CALLED: [&str; 8] = [
    "dlto",
    "dlink-time-opt",
    "lto",
    "ltoir",
    "ldir",
    "libdevice-directory",
    "list-gpu-arch",
    "list-gpu-code",
];

/// gcc writes a depfile if one of these variables is set.
const WRITTEN_BY_GCC: [&str; 2] = ["DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES"];

/// Whether the options in nvcc's variables neither choose architectures or what is made, nor write other files.
fn are_plain(words: &[String]) -> bool {
    let mut rest = words.iter().map(String::as_str);
    let mut others = Vec::new();
    while let Some(word) = rest.next() {
        if is_as_called(word) || chooses_capabilities(word) {
            return false;
        }
        match options::find(word, ROLES, &mut rest) {
            Some((Role::HostCompiler | Role::Link, _)) => {}
            Some(_) => return false,
            None if word.starts_with("-l") || word.starts_with("-L") => {}
            None => others.push(word),
        }
    }
    options::read(others).not_understood.is_empty()
}

fn is_as_called(word: &str) -> bool {
    let name = word.trim_start_matches('-').split('=').next();
    name.is_some_and(|name| word.starts_with('-') && AS_CALLED.contains(&name))
}

/// One argument with its value.
#[derive(Clone, Debug)]
struct Argument {
    role: Role,
    words: Vec<String>,
    value: String,
}

/// The images that the options for architectures request.
#[derive(Clone, Debug)]
enum Requested {
    /// No option chooses an architecture.
    Default,
    /// The GPU of this machine.
    Native,
    Images(Vec<Image>),
    /// `all`, code for another architecture than its PTX, link-time code, or an option that nvcc refuses.
    Other,
}

/// A call of nvcc whose options are all known.
#[derive(Clone, Debug)]
pub struct Call {
    arguments: Vec<Argument>,
    product: Product,
    inspects: bool,
    requested: Requested,
}

/// A call that compiles one source, whose output can be kept.
pub(super) struct Compile {
    pub(super) source: PathBuf,
    pub(super) form: Form,
    pub(super) images: Vec<Image>,
    pub(super) options: Vec<String>,
    pub(super) host_compiler: Option<String>,
    pub(super) output: PathBuf,
    pub(super) depfile: Option<(PathBuf, String)>,
}

impl Call {
    /// Reads the arguments of a call. `None` if an option is not known, if the call makes two things, or if a variable
    /// that nvcc reads chooses architectures or what is made.
    pub fn parse(words: &[String], env: &Env) -> Option<Self> {
        if !are_plain(&Variables::of_nvcc(env).options)
            || WRITTEN_BY_GCC.iter().any(|name| env.get(name).is_some())
        {
            return None;
        }
        let mut rest = words.iter().map(String::as_str);
        let mut arguments = Vec::new();
        let mut forwards = false;
        loop {
            let before = rest.len();
            let Some(word) = rest.next() else { break };
            if is_as_called(word) {
                return None;
            }
            let (role, value) = match word.strip_prefix('-') {
                None => (Role::Input, word.to_owned()),
                Some(_) => match options::find(word, ROLES, &mut rest) {
                    Some(found) => found,
                    None if options::is_understood(word, &mut rest) => (Role::Other, String::new()),
                    None if word.starts_with("-l") || word.starts_with("-L") => {
                        (Role::Link, String::new())
                    }
                    None if forwards && options::read_host([word]).not_understood.is_empty() => {
                        (Role::Other, String::new())
                    }
                    None => return None,
                },
            };
            forwards |= word.ends_with("-forward-unknown-to-host-compiler");
            let range = words.len() - before..words.len() - rest.len();
            let words = words.get(range)?.to_vec();
            arguments.push(Argument { role, words, value });
        }
        let mut products = arguments.iter().filter_map(|argument| match argument.role {
            Role::Product(product) => Some(product),
            _ => None,
        });
        let first = products.next().unwrap_or(Product::Linked);
        // The `cc` crate writes `-c --device-c`.
        let product = products.try_fold(first, |product, other| match (product, other) {
            (Product::Object(None), Product::Object(_)) => Some(other),
            (Product::Object(_), Product::Object(None)) => Some(product),
            _ => (product == other).then_some(product),
        })?;
        let has = |role: Role| arguments.iter().any(|it| it.role == role);
        if !has(Role::Depfile) && (has(Role::DepfileName) || has(Role::DepfileTarget)) {
            return None;
        }
        Some(Self {
            inspects: has(Role::Inspects),
            requested: requested(&arguments),
            product,
            arguments,
        })
    }

    fn values(&self, role: Role) -> impl DoubleEndedIterator<Item = &str> {
        let of_role = self.arguments.iter().filter(move |it| it.role == role);
        of_role.map(|it| it.value.as_str())
    }

    /// The arguments.
    pub fn words(&self) -> Vec<String> {
        let words = self.arguments.iter().flat_map(|it| &it.words);
        words.cloned().collect()
    }

    /// The sources and objects, as they are written in the call.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        self.values(Role::Input)
    }

    /// Leaves out the host compiler that the call names.
    pub fn remove_host_compiler(&mut self) {
        self.arguments.retain(|it| it.role != Role::HostCompiler);
    }

    /// The host compiler that the call names.
    pub fn host_compiler(&self) -> Option<&str> {
        self.values(Role::HostCompiler).next_back()
    }

    /// The same call for a list of capabilities, if it requests machine code for the capability with the number `single`
    /// alone, as `80`, in any spelling and with any suffix, or for the GPU of this machine. PTX has one architecture, so
    /// it is made for the lowest capability of the list. `None` if the call stays as it is.
    pub fn for_list(&self, single: u32, list: &Plan) -> Option<Self> {
        let list = Image::of_plan(list);
        let is_real = |image: &&Image| matches!(image, Image::Real(_));
        let requested = match &self.requested {
            Requested::Native => &[][..],
            Requested::Images(images) if images.iter().filter(is_real).count() == 1 => images,
            _ => return None,
        };
        if !requested
            .iter()
            .all(|image| image.capability().number() == single)
        {
            return None;
        }
        let images = match self.product {
            Product::Cubin => return None,
            Product::Ptx => {
                let lowest = list.iter().map(|image| image.capability()).min()?.base();
                vec![Image::Ptx(lowest), Image::Real(lowest)]
            }
            _ => list,
        };
        let first = images.first()?.capability();
        let is_same = images
            .iter()
            .chain(requested)
            .all(|image| image.capability() == first);
        if is_same && !requested.is_empty() {
            return None;
        }
        let options = match self.product {
            Product::Ptx => vec![format!("-arch={}", Image::Real(first))],
            _ => images.iter().map(|image| image.nvcc_option()).collect(),
        };
        let mut arguments = Vec::new();
        let mut options = Some(options);
        for argument in &self.arguments {
            if !matches!(
                argument.role,
                Role::Architecture | Role::Code | Role::Gencode
            ) {
                arguments.push(argument.clone());
            } else if let Some(words) = options.take() {
                let (role, value) = (Role::Gencode, String::new());
                arguments.push(Argument { role, words, value });
            }
        }
        let requested = Requested::Images(images);
        Some(Self {
            arguments,
            requested,
            ..self.clone()
        })
    }

    /// The arguments of a call that compiles device code for one image alone, and writes no file.
    pub(super) fn for_image(&self, image: Image) -> Vec<String> {
        let is_needed = |it: &&Argument| {
            let roles = [Role::Input, Role::HostCompiler, Role::Language, Role::Other];
            roles.contains(&it.role)
        };
        let words = self
            .arguments
            .iter()
            .filter(is_needed)
            .flat_map(|it| it.words.clone());
        let mode = ["-fatbin", "-o", "/dev/null"].map(str::to_owned);
        words.chain(mode).chain([image.nvcc_option()]).collect()
    }

    /// The capabilities of the call, as they are shown.
    pub fn capabilities(&self) -> String {
        match &self.requested {
            Requested::Images(images) => Image::shown(images),
            _ => String::new(),
        }
    }

    /// Whether this can be a call whose output is kept.
    pub fn may_be_kept(&self) -> bool {
        !self.inspects && self.product != Product::Linked
    }

    /// Whether nvcc links something: a program, a library, or device code.
    pub fn links(&self) -> bool {
        self.product == Product::Linked && !self.inspects
    }

    /// What the call compiles, if its output can be kept: it compiles one source for explicit architectures into one file.
    /// Without an option, nvcc compiles for `default`.
    pub(super) fn compile(&self, working: &Path, default: Option<Image>) -> Option<Compile> {
        let mut inputs = self.inputs();
        let source = PathBuf::from(inputs.next()?);
        let language = self.values(Role::Language).next_back();
        let is_cuda = language.map_or(source.extension()? == "cu", |language| language == "cu");
        if self.inspects || inputs.next().is_some() || !is_cuda {
            return None;
        }
        let mut images = match (&self.requested, default) {
            (Requested::Images(images), _) => images.clone(),
            (Requested::Default, Some(default)) => vec![default, Image::Ptx(default.capability())],
            _ => return None,
        };
        // As in a plan, which gives nvcc's order in the container.
        images.sort_by_key(|image| matches!(image, Image::Ptx(_)));
        let (form, extension) = match self.product {
            Product::Object(_) => (Form::Object, "o"),
            Product::Fatbin => (Form::Fatbin, "fatbin"),
            Product::Ptx => (Form::Single, "ptx"),
            Product::Cubin => (Form::Single, "cubin"),
            Product::Linked => return None,
        };
        if form == Form::Single {
            let is_ptx = self.product == Product::Ptx;
            let first = images.first()?.capability();
            if images.iter().any(|image| image.capability() != first) {
                return None;
            }
            images = vec![if is_ptx {
                Image::Ptx(first)
            } else {
                Image::Real(first)
            }];
        }
        let name = PathBuf::from(source.file_stem()?).with_extension(extension);
        let directory = self.values(Role::OutputDirectory).next_back();
        let output = match (self.values(Role::Output).next_back(), directory) {
            (Some(output), None) => PathBuf::from(output),
            (None, directory) => Path::new(directory.unwrap_or_default()).join(name),
            (Some(_), Some(_)) => return None,
        };
        let depfile = self.values(Role::Depfile).next().map(|_| {
            let name = self
                .values(Role::DepfileName)
                .next_back()
                .map(PathBuf::from);
            let target = self
                .values(Role::DepfileTarget)
                .next_back()
                .map(str::to_owned);
            (
                working.join(name.unwrap_or_else(|| output.with_extension("d"))),
                target.unwrap_or_else(|| output.to_string_lossy().into_owned()),
            )
        });
        let others = self
            .arguments
            .iter()
            .filter(|it| matches!(it.role, Role::Other | Role::Language));
        let mut options: Vec<String> = others.flat_map(|it| it.words.clone()).collect();
        if let Product::Object(Some(is_linkable)) = self.product {
            options.push(format!("-rdc={is_linkable}"));
        }
        // Such an option may make the compiler write other files beside the output, as `-Xcompiler=--coverage` does.
        let read = options::read(options.iter().map(String::as_str));
        if !read.not_understood.is_empty() {
            return None;
        }
        Some(Compile {
            source,
            form,
            images,
            options,
            host_compiler: self.host_compiler().map(str::to_owned),
            output: working.join(output),
            depfile,
        })
    }
}

/// What the options for architectures request together.
fn requested(arguments: &[Argument]) -> Requested {
    let values = |role: Role| -> Vec<&str> {
        let of_role = arguments.iter().filter(|it| it.role == role);
        of_role.map(|it| it.value.as_str()).collect()
    };
    let [architectures, codes, gencodes] =
        [Role::Architecture, Role::Code, Role::Gencode].map(values);
    let images = match (
        architectures.as_slice(),
        codes.as_slice(),
        gencodes.as_slice(),
    ) {
        ([], [], []) => return Requested::Default,
        (["native"], [], []) => return Requested::Native,
        ([one], [], []) => match Image::parse(one) {
            Some(Image::Real(capability)) => {
                Some(vec![Image::Ptx(capability), Image::Real(capability)])
            }
            ptx => ptx.map(|ptx| vec![ptx]),
        },
        ([one], [codes], []) => images_of(one, codes),
        ([], [], gencodes) => {
            let images = gencodes.iter().map(|gencode| {
                let (architecture, codes) = gencode.strip_prefix("arch=")?.split_once(",code=")?;
                images_of(architecture, codes)
            });
            let images: Option<Vec<Vec<Image>>> = images.collect();
            images.map(|images| images.concat())
        }
        _ => None,
    };
    images.map_or(Requested::Other, Requested::Images)
}

/// The images of `-gencode=arch=compute_80,code=[sm_80,compute_80]`. `None` if an image has another architecture.
fn images_of(architecture: &str, codes: &str) -> Option<Vec<Image>> {
    let Image::Ptx(architecture) = Image::parse(architecture)? else {
        return None;
    };
    let codes = codes.trim_matches(['[', ']', '"', '\'']).split(',');
    let images: Option<Vec<Image>> = codes.map(Image::parse).collect();
    images.filter(|images| {
        images
            .iter()
            .all(|image| image.capability() == architecture)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_find_core::capability::Declared;

    fn parse(line: &str) -> Option<Call> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Call::parse(&words, &Env::default())
    }

    /// The call for a list, if `CUDA_COMPUTE_CAP` is 80 or 90.
    fn for_list(line: &str, single: u32, list: &str) -> Option<String> {
        let list = Declared::parse([list]).unwrap().named_capabilities();
        Some(parse(line)?.for_list(single, &list)?.words().join(" "))
    }

    #[test]
    fn one_capability_becomes_the_list() {
        let list = "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90 \
                    -gencode=arch=compute_90,code=compute_90";
        for spelling in [
            "-arch=sm_80",
            "-arch sm_80",
            "--gpu-architecture=sm_80",
            "-gencode arch=compute_80,code=sm_80",
            "-gencode=arch=compute_80,code=[sm_80,compute_80]",
            "-arch=compute_80 -code=sm_80",
            "-arch=native",
        ] {
            for call in [
                "-c k.cu -o k.o",
                "-dc k.cu",
                "-c --device-c k.cu -o k.o",
                "-dlink a.o b.o -o c.o",
                "k.cu -o program -lcudart",
                "-x cu -c k.cu --keep-dir /tmp/sccache --dryrun --keep",
            ] {
                let changed = for_list(&format!("{spelling} {call}"), 80, "8.0, 9.0+PTX");
                assert_eq!(
                    changed.as_deref(),
                    Some(&*format!("{list} {call}")),
                    "{spelling}"
                );
            }
            let ptx = for_list(&format!("--ptx {spelling} k.cu"), 80, "8.0, 9.0+PTX");
            // PTX for 8.0 is what every other spelling requests.
            let expected = (spelling == "-arch=native").then_some("--ptx -arch=sm_80 k.cu");
            assert_eq!(ptx.as_deref(), expected);
        }
        // As risc0 calls nvcc.
        let call = "-arch=native -Xcudafe --display_error_number -c k.cu";
        assert!(for_list(call, 80, "8.0, 9.0").is_some());
        // A script adds letters by itself.
        let letter = for_list(
            "-gencode=arch=compute_90a,code=sm_90a -c k.cu",
            90,
            "9.0, 12.0",
        );
        let expected =
            "-gencode=arch=compute_90,code=sm_90 -gencode=arch=compute_120,code=sm_120 -c k.cu";
        assert_eq!(letter.as_deref(), Some(expected));
        let ptx = for_list("-arch=sm_90a -ptx k.cu", 90, "9.0, 12.0");
        assert_eq!(ptx.as_deref(), Some("-arch=sm_90 -ptx k.cu"));
    }

    #[test]
    fn other_calls_stay_as_they_are() {
        for call in [
            "-c k.cu",
            "-arch=sm_90 -c k.cu",
            "-arch=compute_80 -c k.cu",
            "-arch=compute_80 -ptx k.cu",
            "-arch=all -c k.cu",
            "-arch=sm_80 -cubin k.cu",
            "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90 -c k.cu",
            "-gencode=arch=compute_75,code=sm_80 -c k.cu",
            "-arch=sm_80 -arch=sm_80 -c k.cu",
            "-arch=sm_80 --an-option-of-the-future -c k.cu",
            "-arch=sm_80 -optf options.txt -c k.cu",
            "-arch=sm_80 -c -ptx k.cu",
            "-arch=sm_80 -dc -dlto k.cu",
            "-arch=sm_80 -dc -lto k.cu",
            "-arch=sm_80 -c k.cu -MF k.d",
        ] {
            assert_eq!(for_list(call, 80, "8.0, 9.0"), None, "{call}");
        }
        assert_eq!(for_list("-arch=sm_80 -c k.cu", 80, "8.0"), None);
        for (variable, value, is_plain) in [
            ("NVCC_APPEND_FLAGS", "-arch=sm_75", false),
            ("NVCC_APPEND_FLAGS", "-Xcompiler=--coverage", false),
            ("NVCC_APPEND_FLAGS", "-keep", false),
            ("NVCC_PREPEND_FLAGS", "-E", false),
            ("NVCC_PREPEND_FLAGS", "-lto", false),
            ("DEPENDENCIES_OUTPUT", "k.d", false),
            (
                "NVCC_APPEND_FLAGS",
                "-ccbin g++ -lineinfo -Xcompiler=-fPIC -L/opt -lm",
                true,
            ),
        ] {
            let parsed = Call::parse(&["-c".to_owned()], &Env::from_pairs([(variable, value)]));
            assert_eq!(parsed.is_some(), is_plain, "{value}");
        }
    }

    #[test]
    fn one_source_into_one_file_is_kept() {
        let default = Some(Image::Real("sm_75".parse().unwrap()));
        let compile = |line: &str| parse(line)?.compile(Path::new("/w"), default);
        for (call, output, options, images) in [
            ("-arch=sm_80 -c a/k.cu", "/w/k.o", "", "sm_80 compute_80"),
            (
                "-dc k.cu -O3 -o /o/k.obj",
                "/o/k.obj",
                "-O3 -rdc=true",
                "sm_75 compute_75",
            ),
            (
                "-c --device-c k.cu",
                "/w/k.o",
                "-rdc=true",
                "sm_75 compute_75",
            ),
            (
                "--ptx -arch sm_80 k.cu -odir /o -Ia",
                "/o/k.ptx",
                "-Ia",
                "compute_80",
            ),
            ("-x cu -c k.cpp -o k", "/w/k", "-x cu", "sm_75 compute_75"),
            (
                "-forward-unknown-to-host-compiler -Wall -c k.cu",
                "/w/k.o",
                "-forward-unknown-to-host-compiler -Wall",
                "sm_75 compute_75",
            ),
        ] {
            let compile = compile(call).unwrap();
            assert_eq!(compile.output, Path::new(output), "{call}");
            assert_eq!(compile.options.join(" "), options);
            assert_eq!(Image::names(&compile.images), images);
        }
        for call in [
            "-c a.cu b.cu",
            "-c k.cpp",
            "k.cu",
            "-E -c k.cu",
            "-dryrun -c k.cu",
            "-keep -c k.cu",
            "-arch=native -c k.cu",
            "-arch=all -c k.cu",
            "-Xcompiler=--coverage -c k.cu",
            "-Xcompiler=-fPIC,-fstack-usage -c k.cu",
            "-Xcompiler -gsplit-dwarf -c k.cu",
            "-Xcompiler=-fopt-info-all=k.txt -c k.cu",
            "-Xptxas --options-file=k.txt -c k.cu",
            "-Xcudafe --preinclude=k.h -c k.cu",
            "-DHAS=__has_include -c k.cu",
            "-lib a.o",
        ] {
            assert!(compile(call).is_none(), "{call}");
        }
        assert!(parse("-Wall -c k.cu").is_none());
        let depfile = |line: &str| compile(line).unwrap().depfile.unwrap();
        let named = depfile("-c k.cu -o o/k.o -MD -MF d/k.d -MT target");
        assert_eq!(named, (PathBuf::from("/w/d/k.d"), "target".to_owned()));
        let usual = depfile("-c k.cu -o o/k.o -MD");
        assert_eq!(usual, (PathBuf::from("/w/o/k.d"), "o/k.o".to_owned()));
    }
}
