//! Calls of nvcc, as build scripts write them.

use std::path::{Path, PathBuf};

use super::identity::Variables;
use super::step::{Form, Image};
use crate::includes::options::{self, FileOptions};
use crate::nvcc_options::{Argument, Meaning, Product, arguments};
use cuda_find_core::capability::{self, Capability, Plan, sass_runs_on};
use cuda_find_core::command::split_words;
use cuda_find_core::env::Env;
use cuda_find_core::release::NEWEST_MAJOR;
use cuda_find_core::root::Root;
use cuda_find_core::version::ToolkitVersion;

/// gcc writes a depfile if one of these variables is set.
const WRITTEN_BY_GCC: [&str; 2] = ["DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES"];

/// How deep files with options may name others. nvcc refuses more.
const MOST_NESTED_FILES: usize = 15;

/// The images that the options for architectures request.
#[derive(Clone, Debug, PartialEq)]
enum Requested {
    /// No option chooses an architecture.
    Nothing,
    /// The GPU of this machine.
    Native,
    /// `all` or `all-major`.
    All,
    Images(Vec<Image>),
    /// Code for another architecture than its PTX, link-time code, or options that nvcc refuses.
    Other,
}

/// A call of nvcc: what its words, the files with options that they name, and nvcc's variables say together.
#[derive(Clone, Debug)]
pub struct Call {
    /// The words of the call, with those of files in their place.
    arguments: Vec<Argument>,
    of_variables: Vec<Argument>,
    /// `None` if the call requests several.
    product: Option<Product>,
    requested: Requested,
    /// Whether gcc writes a file beside the output because of a variable.
    writes_other_files: bool,
    /// Whether a source may give its text only once, as a pipe does.
    has_source_read_once: bool,
}

/// What the variables for build scripts say about capabilities.
#[derive(Clone, Debug, Default)]
pub struct Advertised {
    /// The number of the capability in `CUDA_COMPUTE_CAP`, as `80`.
    pub single: u32,
    /// The list in `CUDAARCHS` and the like; empty if there is none.
    pub list: Plan,
}

/// What the declared list does to a call.
#[derive(Debug)]
pub enum ForList {
    /// The call stays as it is; the reason, if the list could be expected.
    Stays(Option<String>),
    /// The call requests the advertised list, which nvcc refuses for what the call makes; why.
    Refused(String),
    /// The call for the list.
    Changed(Call),
    /// The call for the list, unless the code needs the suffix of this capability.
    WithoutSuffix(Capability, Call),
}

/// A call that compiles one source, whose output can be kept.
#[derive(Debug)]
pub struct KeepableCall {
    pub(super) source: PathBuf,
    pub(super) form: Form,
    pub(super) images: Vec<Image>,
    pub(super) options: Vec<String>,
    pub(super) output: PathBuf,
    /// The depfile, and the target of its rule.
    pub(super) depfile: Option<(PathBuf, String)>,
}

impl KeepableCall {
    /// The file that the call writes.
    pub fn output(&self) -> &Path {
        &self.output
    }
}

impl Call {
    /// Reads the words of a call.
    pub fn parse(words: &[String], env: &Env, root: &Root) -> Self {
        let expanded = |words: &[String]| {
            let mut expanded = Vec::new();
            expand(arguments(words), root, MOST_NESTED_FILES, &mut expanded);
            expanded
        };
        let mut call = Self {
            arguments: expanded(words),
            of_variables: expanded(&Variables::of_nvcc(env).options),
            product: None,
            requested: Requested::Nothing,
            has_source_read_once: false,
            writes_other_files: WRITTEN_BY_GCC.iter().any(|name| env.get(name).is_some()),
        };
        let products = call.all().filter_map(|argument| match argument.meaning {
            Meaning::Makes(product) => Some(product),
            _ => None,
        });
        let products: Vec<Product> = products.collect();
        let first = products.first().copied().unwrap_or(Product::Linked);
        // The `cc` crate writes `-c --device-c`.
        call.product =
            products
                .into_iter()
                .try_fold(first, |product, other| match (product, other) {
                    (Product::Object(None), Product::Object(_)) => Some(other),
                    (Product::Object(_), Product::Object(None)) => Some(product),
                    _ => (product == other).then_some(product),
                });
        call.requested = requested(&call.arguments);
        let has_source_read_once = call.inputs().any(|input| is_read_once(input, root));
        call.has_source_read_once = has_source_read_once;
        call
    }

    fn all(&self) -> impl Iterator<Item = &Argument> {
        self.arguments.iter().chain(&self.of_variables)
    }

    fn has(&self, meaning: Meaning) -> bool {
        self.all().any(|argument| argument.meaning == meaning)
    }

    fn values(&self, meaning: Meaning) -> impl DoubleEndedIterator<Item = &str> {
        let arguments = self.arguments.iter();
        arguments
            .filter(move |it| it.meaning == meaning)
            .map(|it| it.value.as_str())
    }

    /// The words.
    pub fn words(&self) -> Vec<String> {
        let words = self.arguments.iter().flat_map(|it| it.words.clone());
        words.collect()
    }

    /// The sources and objects, as they are written in the call.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        self.values(Meaning::Input)
    }

    /// Where the libraries may be that `-l` names: in each directory that `-L` names.
    pub(super) fn libraries(&self) -> Vec<PathBuf> {
        let linked = |option: &'static str| {
            let named = move |it: &&Argument| it.words[0].starts_with(option);
            self.all()
                .filter(|it| it.meaning == Meaning::Link)
                .filter(named)
        };
        let mut files = Vec::new();
        for directory in linked("-L") {
            let names = linked("-l").map(|it| format!("lib{}.a", it.value));
            files.extend(names.map(|name| Path::new(&directory.value).join(name)));
        }
        files
    }

    /// Whether a source or object of this call is CUDA code.
    pub(super) fn is_cuda(&self, input: &str) -> bool {
        match self.values(Meaning::Language).next_back() {
            Some(language) => language == "cu",
            None => Path::new(input)
                .extension()
                .is_some_and(|extension| extension == "cu"),
        }
    }

    /// Whether an input may contain device code: CUDA, or what nvcc links.
    fn has_device_code(&self, input: &str) -> bool {
        let extension = Path::new(input).extension().and_then(|it| it.to_str());
        let is_linked = matches!(extension, Some("o" | "a" | "so" | "obj" | "lib"));
        self.is_cuda(input) || is_linked
    }

    /// Whether nvcc prints something, or starts the program.
    pub fn inspects(&self) -> bool {
        self.has(Meaning::Inspects) || self.values(Meaning::Output).any(|it| it == "/dev/stdout")
    }

    /// The host compiler that the call names.
    pub fn host_compiler(&self) -> Option<&str> {
        self.values(Meaning::HostCompiler).next_back()
    }

    /// Leaves out the host compiler that the call names.
    pub fn remove_host_compiler(&mut self) {
        self.arguments
            .retain(|it| it.meaning != Meaning::HostCompiler);
    }

    /// What tells this call from the others of a build script: its inputs and its output.
    pub fn identity(&self) -> String {
        let names = self.inputs().chain(self.values(Meaning::Output));
        names.collect::<Vec<_>>().join(" ")
    }

    /// Whether an option is not in the table, so that nvcc may refuse it together with several architectures.
    pub fn has_unknown_option(&self) -> bool {
        self.has(Meaning::Unknown)
    }

    /// Whether nvcc refuses these options together, in any spelling of the architectures.
    fn is_refused(&self) -> bool {
        let relocatable = self.values(Meaning::Relocatable).next_back();
        match self.product {
            Some(Product::Object(Some(true))) => relocatable == Some("false"),
            Some(Product::Object(Some(false))) => relocatable == Some("true"),
            _ => false,
        }
    }

    /// The same call for the declared list, if it requests code for what the variables advertise, or without a
    /// capability: for the single capability alone, in any spelling, for the whole list, or for the GPU of this machine.
    /// PTX and OptiX-IR have one architecture, so they are made for the lowest capability of the list.
    pub fn for_list(&self, advertised: &Advertised, list: &Plan) -> ForList {
        let stays = |reason: &str| ForList::Stays(Some(reason.to_owned()));
        if self.has(Meaning::OptionsFile) {
            return stays(
                "a file with options has a backslash or an open or single quote, or cannot be read",
            );
        }
        // Without a source or an object, nvcc makes nothing.
        if !self.inputs().any(|input| self.has_device_code(input)) || self.is_refused() {
            return ForList::Stays(None);
        }
        if self.has_source_read_once {
            return stays("a source that is not a file can be read only once");
        }
        let mut of_variables = self.of_variables.iter();
        if of_variables.any(|it| it.meaning.chooses_capabilities()) {
            return stays("`NVCC_PREPEND_FLAGS` or `NVCC_APPEND_FLAGS` chooses the capabilities");
        }
        let requested = match &self.requested {
            Requested::Nothing | Requested::Native => &[][..],
            Requested::Images(images) => images,
            Requested::All => return ForList::Stays(None),
            Requested::Other => return stays("its build script requests other code"),
        };
        let is_jit = self.makes_code_for_jit();
        let has_sass = requested
            .iter()
            .any(|image| matches!(image, Image::Real(_)));
        let is_single = |image: &Image| image.capability().number() == advertised.single;
        let requests_single =
            requested.iter().all(is_single) && (requested.is_empty() || has_sass || is_jit);
        let advertised_list = Image::of_plan(&advertised.list);
        let requests_list = has_same(requested, &advertised_list);
        if !requests_single && !requests_list {
            return stays("its build script requests these");
        }
        if let Some(option) = self.all().find(|it| it.meaning == Meaning::OneCapability) {
            return stays(&format!(
                "`{}` is for one capability",
                option.words.join(" ")
            ));
        }
        let images = match self.product {
            None => return stays("it makes several files"),
            Some(Product::Cubin) if list.real.len() == 1 => {
                list.real.iter().copied().map(Image::Real).collect()
            }
            Some(Product::Cubin) if requests_single => {
                return stays("a cubin has code for one capability");
            }
            Some(Product::Cubin) => {
                return ForList::Refused(format!(
                    "{} is to be compiled for {list}, and a cubin has code for one capability",
                    self.inputs().collect::<Vec<_>>().join(" ")
                ));
            }
            _ if is_jit => {
                let lowest = list.lowest().into_iter();
                lowest.map(|lowest| Image::Ptx(lowest.base())).collect()
            }
            _ => Image::of_plan(list),
        };
        // What the list declares is right as it is, but PTX for its lowest capability is made without the suffix.
        let with_suffix = match (requests_single, is_jit) {
            (true, _) => requested.iter().map(|image| image.capability()).collect(),
            (false, true) => Vec::from_iter(list.lowest()),
            (false, false) => Vec::new(),
        };
        let mut with_suffix = with_suffix.into_iter();
        let with_suffix = with_suffix.find(|capability| capability.suffix.is_some());
        // Code for 10.0a runs on fewer GPUs than the code for a declared 10.0.
        let is_served = match (is_jit, requests_single) {
            (true, true) => {
                !requested.is_empty() && with_suffix.is_none() && images.iter().all(is_single)
            }
            (true, false) => false,
            (false, true) => {
                images.iter().all(is_single) && images.iter().all(|it| requested.contains(it))
            }
            (false, false) => has_same(requested, &images),
        };
        if is_served || images.is_empty() {
            return ForList::Stays(None);
        }
        // The assembler checks machine code alone, so PTX without it could have instructions that no driver accepts.
        let is_checked = |ptx: &Image| match ptx {
            Image::Ptx(capability) => is_jit || images.contains(&Image::Real(*capability)),
            _ => true,
        };
        if with_suffix.is_some() && !images.iter().all(is_checked) {
            return stays("the list has PTX that no machine code of the list checks");
        }
        let changed = self.with_images(images);
        match with_suffix {
            Some(capability) => ForList::WithoutSuffix(capability, changed),
            None => ForList::Changed(changed),
        }
    }

    /// Whether the call makes one file of code that is compiled for the GPU when the program runs.
    fn makes_code_for_jit(&self) -> bool {
        matches!(self.product, Some(Product::Ptx | Product::OptixIr))
    }

    /// The same call for other images, in the place of its options for architectures.
    fn with_images(&self, images: Vec<Image>) -> Self {
        let words = match (self.product, &images[..]) {
            (Some(Product::Ptx | Product::OptixIr), [image]) => vec![format!("-arch={image}")],
            _ => images.iter().map(|image| image.nvcc_option()).collect(),
        };
        let chooses = |it: &Argument| it.meaning.chooses_capabilities();
        let place = self.arguments.iter().position(chooses).unwrap_or(0);
        let mut arguments = self.arguments.clone();
        arguments.retain(|it| !chooses(it));
        let options = Argument {
            meaning: Meaning::Gencode,
            words,
            value: String::new(),
        };
        arguments.insert(place, options);
        Self {
            arguments,
            requested: Requested::Images(images),
            ..self.clone()
        }
    }

    /// The words of the same call, but writing to this file alone. `None` if the call may write other files.
    pub fn words_for_output(&self, file: &Path) -> Option<Vec<String>> {
        use Meaning::{Depfile, DepfileName, DepfileTarget, Output, OutputDirectory};
        if self.has(Meaning::OtherFiles) || self.has_unknown_option() || self.writes_other_files {
            return None;
        }
        let names_output = |it: &&Argument| {
            matches!(
                it.meaning,
                Output | OutputDirectory | Depfile | DepfileName | DepfileTarget
            )
        };
        let others = self.arguments.iter().filter(|it| !names_output(it));
        let mut words: Vec<String> = others.flat_map(|it| it.words.clone()).collect();
        words.push(format!("-o={}", file.display()));
        Some(words)
    }

    /// The options that decide what is compiled, without those for architectures and files.
    fn compiling_options(&self) -> Vec<String> {
        let is_needed = |it: &&Argument| match it.meaning {
            Meaning::Language | Meaning::Relocatable | Meaning::Unknown => true,
            meaning => {
                is_plain(meaning) && !matches!(meaning, Meaning::Link | Meaning::HostCompiler)
            }
        };
        let needed = self.arguments.iter().filter(is_needed);
        let mut options: Vec<String> = needed.flat_map(|it| it.words.clone()).collect();
        if let Some(Product::Object(Some(is_linkable))) = self.product {
            options.push(format!("-rdc={is_linkable}"));
        }
        options
    }

    /// The files and directories that the options of the call, and those in nvcc's variables, name, except those of
    /// these meanings.
    fn file_options(&self, except: &[Meaning]) -> FileOptions {
        let others = self.all().filter(|it| !except.contains(&it.meaning));
        options::read_arguments(&others.cloned().collect::<Vec<_>>())
    }

    /// Where the compilers of the call look for headers. Options for other files than sources and headers do not matter.
    pub(super) fn header_options(&self) -> FileOptions {
        self.file_options(&[Meaning::Input, Meaning::OtherFiles])
    }

    /// Whether the call writes PTX alone, and for which capability.
    pub fn ptx(&self) -> Option<Capability> {
        match (self.product, &self.requested) {
            (Some(Product::Ptx), Requested::Images(images)) => Some(images.first()?.capability()),
            _ => None,
        }
    }

    /// The images that nvcc makes for the call, as far as they are known. Without an option, nvcc compiles for
    /// `default`.
    fn images(&self, default: Option<Capability>) -> Option<Vec<Image>> {
        match (&self.requested, default) {
            (Requested::Images(images), _) => Some(images.clone()),
            (Requested::Nothing, Some(default)) => {
                Some(vec![Image::Real(default), Image::Ptx(default)])
            }
            _ => None,
        }
    }

    /// The capabilities of the call, as they are shown.
    pub fn capabilities(&self) -> String {
        self.images(None)
            .map_or_else(String::new, |images| Image::shown(&images))
    }

    /// Why the output lacks a declared capability, if it does: a note for the user.
    pub fn note(&self, list: &Plan, default: Option<Capability>, reason: &str) -> Option<String> {
        let is_jit = self.makes_code_for_jit();
        let made = self.images(default).map(|images| match self.product {
            // nvcc makes it for the virtual architecture, whatever code is requested.
            _ if is_jit => images
                .iter()
                .map(|it| Image::Ptx(it.capability()))
                .collect(),
            Some(Product::Cubin) => {
                let mut images = images;
                images.retain(|image| matches!(image, Image::Real(_)));
                images
            }
            _ => images,
        });
        let serves = |declared: &Image, image: &Image| {
            let [wanted, made] = [declared, image].map(|it| it.capability());
            let is_wider = wanted.suffix != made.suffix && runs_on_more(wanted, made);
            match (declared, image) {
                _ if is_jit => made.number() <= wanted.number(),
                (Image::Ptx(_), Image::Real(_)) => self.product == Some(Product::Cubin),
                (Image::Real(_), Image::Ptx(_)) => false,
                _ => made.number() == wanted.number() && !is_wider,
            }
        };
        let mut missing = Image::of_plan(list);
        missing.retain(|declared| !made.iter().flatten().any(|image| serves(declared, image)));
        if missing.is_empty() {
            return None;
        }
        let inputs: Vec<&str> = self.inputs().collect();
        let made = made.filter(|made| !made.is_empty());
        let made = made.map_or_else(String::new, |made| format!(" for {}", Image::shown(&made)));
        let (inputs, missing) = (inputs.join(" "), Image::shown(&missing));
        Some(format!(
            "{inputs} is compiled{made}, and not for {missing}: {reason}"
        ))
    }

    /// The capabilities that the call requests.
    pub fn requested_capabilities(&self) -> Vec<Capability> {
        let images = self.images(None).unwrap_or_default();
        images.iter().map(|image| image.capability()).collect()
    }

    /// What the call compiles, if its output can be kept: it compiles one source for known architectures into one file,
    /// and everything that decides its bytes is known.
    pub fn keepable(
        &self,
        working: &Path,
        root: &Root,
        default: Option<Capability>,
    ) -> Option<KeepableCall> {
        let mut inputs = self.inputs();
        let source = PathBuf::from(inputs.next().filter(|input| self.is_cuda(input))?);
        if inputs.next().is_some()
            || self.has_source_read_once
            || self.has(Meaning::Inspects)
            || self.has(Meaning::OneCapability)
            || self.writes_other_files
            || self.is_refused()
            || !self.of_variables.iter().all(|it| is_plain(it.meaning))
        {
            return None;
        }
        let mut images = self.images(default)?;
        // As in a plan, which gives nvcc's order in the container.
        images.sort_by_key(|image| matches!(image, Image::Ptx(_)));
        let architectures = self.values(Meaning::Architecture).next_back();
        let capability = images.first()?.capability();
        let is_one = images.iter().all(|image| image.capability() == capability);
        let is_alone = |image: Image| {
            // With a code for each architecture, nvcc counts codes.
            let has_codes = self.has(Meaning::Code) || self.has(Meaning::Gencode);
            is_one && images.contains(&image) && (images.len() == 1 || !has_codes)
        };
        let (form, extension) = match self.product? {
            // For a capability with a suffix, `-arch` also makes PTX without it.
            Product::Object(_) | Product::Fatbin
                if architectures.is_some() && capability.suffix.is_some() =>
            {
                return None;
            }
            Product::Object(_) => (Form::Object, "o"),
            Product::Fatbin => (Form::Fatbin, "fatbin"),
            Product::Ptx if is_one => {
                images = vec![Image::Ptx(capability)];
                (Form::Single, "ptx")
            }
            Product::Cubin if is_alone(Image::Real(capability)) => {
                images = vec![Image::Real(capability)];
                (Form::Single, "cubin")
            }
            _ => return None,
        };
        let value = |meaning| self.values(meaning).next_back();
        let named = value(Meaning::Output);
        let directory = value(Meaning::OutputDirectory);
        if named == Some("-") || named.is_some() && directory.is_some() {
            return None;
        }
        let unnamed = Path::new(directory.unwrap_or_default()).join(source.file_stem()?);
        let output = named.map_or_else(|| unnamed.with_extension(extension), PathBuf::from);
        let depfile = value(Meaning::DepfileName).map(PathBuf::from);
        let target = value(Meaning::DepfileTarget).map(str::to_owned);
        let has_depfile = self.has(Meaning::Depfile);
        if !has_depfile && (depfile.is_some() || target.is_some()) {
            return None;
        }
        let depfile = has_depfile.then(|| {
            let file = depfile.unwrap_or_else(|| output.with_extension("d"));
            // nvcc names an object, whatever it makes.
            let made = named.map_or_else(|| unnamed.with_extension("o"), PathBuf::from);
            let target = target.unwrap_or_else(|| made.to_string_lossy().into_owned());
            (working.join(file), target)
        });
        if !self
            .file_options(&[Meaning::Input])
            .not_understood
            .is_empty()
        {
            return None;
        }
        let output = working.join(output);
        let has_directory = |file: &Path| file.parent().is_some_and(|parent| root.is_dir(parent));
        let is_other = |file: &Path| root.is_link(file) || root.exists(file) && !root.is_file(file);
        let is_unusual = |file: &PathBuf| is_other(file) || !has_directory(file);
        if is_unusual(&output) || depfile.iter().any(|(file, _)| is_unusual(file)) {
            return None;
        }
        Some(KeepableCall {
            source,
            form,
            images,
            options: self.compiling_options(),
            output,
            depfile,
        })
    }
}

/// Whether an input may give its text only once: standard input, a pipe, or an open file of a process.
fn is_read_once(input: &str, root: &Root) -> bool {
    let path = Path::new(input);
    let is_special = root.exists(path) && !root.is_file(path);
    let mut of_process = ["/dev/stdin", "/dev/fd", "/proc"].into_iter();
    input == "-" || is_special || of_process.any(|place| path.starts_with(place))
}

/// Whether two lists have the same images, in any order.
fn has_same(one: &[Image], other: &[Image]) -> bool {
    !one.is_empty()
        && one.iter().all(|image| other.contains(image))
        && other.iter().all(|image| one.contains(image))
}

/// Whether code for `one` runs on a known GPU on which code for `other` does not.
fn runs_on_more(one: Capability, other: Capability) -> bool {
    let newest = ToolkitVersion::new(NEWEST_MAJOR, 0);
    let mut gpus = capability::all().map(|facts| facts.capability);
    gpus.any(|gpu| sass_runs_on(one, gpu, newest) && !sass_runs_on(other, gpu, newest))
}

/// Whether an option neither chooses what a call makes nor where, and its files are known.
fn is_plain(meaning: Meaning) -> bool {
    use Meaning::{Directory, ForwardsUnknown, Header, HostCompiler, HostOptions, Link, Plain};
    matches!(
        meaning,
        Directory | ForwardsUnknown | Header | HostCompiler | HostOptions | Link | Plain
    )
}

/// Adds the arguments, with those in files that they name. A file that cannot be read stays: nvcc reports it. So does a
/// file with backslashes or single quotes, because nvcc passes them on in another way than those on the command line.
/// Double quotes, which CMake writes around directories, are those of a shell.
fn expand(
    arguments_of_call: Vec<Argument>,
    root: &Root,
    depth: usize,
    expanded: &mut Vec<Argument>,
) {
    let is_plain =
        |text: &String| !text.contains(['\'', '\\']) && text.matches('"').count() % 2 == 0;
    for argument in arguments_of_call {
        let is_file = argument.meaning == Meaning::OptionsFile && depth > 0;
        let names = argument.value.split(',').filter(|_| is_file);
        let texts: Option<Vec<String>> =
            names.map(|name| root.text(Path::new(name)).ok()).collect();
        let text = texts.filter(|_| is_file).map(|texts| texts.join("\n"));
        if let Some(text) = text.filter(is_plain) {
            let words = split_words(&text);
            let words = arguments(words.iter().map(String::as_str));
            expand(words, root, depth - 1, expanded);
        } else {
            expanded.push(argument);
        }
    }
}

/// What the options for architectures request together.
fn requested(arguments: &[Argument]) -> Requested {
    let values = |meaning: Meaning| -> Vec<&str> {
        let of_meaning = arguments.iter().filter(|it| it.meaning == meaning);
        of_meaning.map(|it| it.value.as_str()).collect()
    };
    let [architectures, codes, gencodes] =
        [Meaning::Architecture, Meaning::Code, Meaning::Gencode].map(values);
    let by_gencode = gencodes.iter().map(|gencode| {
        let (first, second) = gencode.split_once(",")?;
        let (architecture, codes) = match first.strip_prefix("arch=") {
            Some(architecture) => (architecture, second.trim_start().strip_prefix("code=")?),
            None => gencode
                .strip_prefix("code=")?
                .rsplit_once(",arch=")
                .map(|(codes, arch)| (arch, codes))?,
        };
        let between = |start: char, end: char| codes.strip_prefix(start)?.strip_suffix(end);
        // nvcc refuses several codes without brackets.
        let one = (!codes.contains(',')).then_some(codes);
        let list = between('[', ']').or(between('"', '"')).or(one)?;
        images_of(architecture, list)
    });
    // Of several, nvcc takes the last.
    let by_architecture = match (architectures.last(), &codes[..], &gencodes[..]) {
        (None, [], []) => return Requested::Nothing,
        (Some(&"native"), [], []) => return Requested::Native,
        (Some(&("all" | "all-major")), [], _) => return Requested::All,
        (None, [], _) => Some(Vec::new()),
        (Some(one), [], _) => match Image::parse(one) {
            Some(Image::Real(capability)) => {
                // For a suffix, nvcc also makes PTX without it.
                let base = capability.suffix.map(|_| Image::Ptx(capability.base()));
                let both = [Image::Ptx(capability), Image::Real(capability)];
                Some(base.into_iter().chain(both).collect())
            }
            ptx => ptx.map(|ptx| vec![ptx]),
        },
        (Some(one), codes, _) => images_of(one, &codes.join(",")),
        (None, ..) => None,
    };
    let images: Option<Vec<Vec<Image>>> = [by_architecture].into_iter().chain(by_gencode).collect();
    images.map_or(Requested::Other, |images| {
        Requested::Images(images.concat())
    })
}

/// The images of `arch=compute_80,code=[sm_80,compute_80]`. `None` if an image has another architecture.
fn images_of(architecture: &str, codes: &str) -> Option<Vec<Image>> {
    let Image::Ptx(architecture) = Image::parse(architecture)? else {
        return None;
    };
    let images: Option<Vec<Image>> = codes.split(',').map(Image::parse).collect();
    let is_of = |image: &Image| image.capability() == architecture;
    images.filter(|images| images.iter().all(is_of))
}

#[cfg(test)]
mod tests;
