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
            Some(Product::Cubin) if list.all().len() > 1 && requests_single => {
                return stays("a cubin has code for one capability");
            }
            Some(Product::Cubin) if list.all().len() > 1 => {
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
        let mut capabilities = requested.iter().map(|image| image.capability());
        let with_suffix = capabilities.find(|capability| capability.suffix.is_some());
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
        // What is declared for each capability of the list is right as it is.
        let with_suffix = with_suffix.filter(|_| requests_single);
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

/// Whether an input may give its text only once: standard input, a pipe, or a file of a process such as `/dev/stdin`.
fn is_read_once(input: &str, root: &Root) -> bool {
    let path = Path::new(input);
    let is_special = root.exists(path) && !root.is_file(path);
    input == "-" || path.starts_with("/dev") || path.starts_with("/proc") || is_special
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
mod tests {
    use cuda_find_core::capability::Declared;

    use super::*;

    fn parse_with(line: &str, env: &Env) -> Call {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Call::parse(&words, env, &Root::system())
    }

    fn parse(line: &str) -> Call {
        parse_with(line, &Env::default())
    }

    fn declared(list: &str) -> Plan {
        Declared::parse([list]).unwrap().named_capabilities()
    }

    /// What becomes of a call, if `CUDA_COMPUTE_CAP` is `single` and every package has the list: its words, or the
    /// reason why it stays.
    fn for_list(call: &Call, single: u32, list: &str) -> String {
        for_package(call, single, list, list)
    }

    /// The same for a package with a list of its own.
    fn for_package(call: &Call, single: u32, of_build: &str, list: &str) -> String {
        let list_of_build = declared(of_build);
        let advertised = Advertised {
            single,
            list: list_of_build,
        };
        match call.for_list(&advertised, &declared(list)) {
            ForList::Changed(call) => call.words().join(" "),
            ForList::WithoutSuffix(capability, call) => {
                format!("{capability}? {}", call.words().join(" "))
            }
            ForList::Stays(reason) => reason.unwrap_or_default(),
            ForList::Refused(reason) => format!("refused: {reason}"),
        }
    }

    const LIST: &str = "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90 \
                        -gencode=arch=compute_90,code=compute_90";

    #[test]
    fn one_capability_becomes_the_list() {
        for spelling in [
            "-arch=sm_80 ",
            "-arch sm_80 ",
            "--gpu-architecture=sm_80 ",
            "-gencode arch=compute_80,code=sm_80 ",
            "-gencode=code=sm_80,arch=compute_80 ",
            "-gencode=arch=compute_80,code=[sm_80,compute_80] ",
            "-arch=compute_80 -code=sm_80 ",
            "-arch=sm_80 -gencode=arch=compute_80,code=sm_80 ",
            "-arch=native ",
            "",
        ] {
            for call in [
                "-c k.cu -o k.o",
                "-dc k.cu",
                "-c --device-c k.cu -o k.o",
                "-dlink a.o b.o -o c.o",
                "k.cu -o program -lcudart",
                "-x cu -c k.cpp --keep-dir /tmp/sccache --dryrun --keep",
                "-E k.cu",
                "-Xcudafe --display_error_number -c k.cu",
                "-Xfatbin=-compress-all -t4 -src-in-ptx -c k.cu",
                "--an-option-of-the-future -c k.cu",
            ] {
                let changed = for_list(&parse(&format!("{spelling}{call}")), 80, "8.0, 9.0+PTX");
                assert_eq!(changed, format!("{LIST} {call}"), "{spelling}");
            }
            // PTX for 8.0 is what the other spellings request.
            let ptx = for_list(&parse(&format!("--ptx {spelling}k.cu")), 80, "8.0, 9.0+PTX");
            let expected = match spelling {
                "-arch=native " => "--ptx -arch=compute_80 k.cu",
                "" => "-arch=compute_80 --ptx k.cu",
                _ => "",
            };
            assert_eq!(ptx, expected, "{spelling}");
        }
        assert_eq!(for_list(&parse("-arch=sm_80 -c k.cu"), 80, "8.0"), "");
        let without_ptx = parse("-gencode=arch=compute_80,code=sm_80 -c k.cu");
        assert!(for_list(&without_ptx, 80, "8.0+PTX").contains("code=compute_80 -c"));
    }

    #[test]
    fn a_suffix_is_left_to_the_code() {
        let suffix = parse("-gencode=arch=compute_90a,code=sm_90a -c k.cu");
        let list = "-gencode=arch=compute_90,code=sm_90 -gencode=arch=compute_120,code=sm_120";
        assert_eq!(
            for_list(&suffix, 90, "9.0, 12.0"),
            format!("9.0a? {list} -c k.cu")
        );
        let ptx = parse("-arch=sm_90a -ptx k.cu");
        assert_eq!(
            for_list(&ptx, 90, "9.0, 12.0"),
            "9.0a? -arch=compute_90 -ptx k.cu"
        );
        let plain = "-gencode=arch=compute_90,code=sm_90 -c k.cu";
        assert_eq!(for_list(&suffix, 90, "9.0"), format!("9.0a? {plain}"));
        assert_eq!(for_list(&suffix, 90, "9.0a"), "");
        let unchecked = "the list has PTX that no machine code of the list checks";
        assert_eq!(for_list(&suffix, 90, "8.0, 90-virtual"), unchecked);
        let plain = parse("-arch=sm_90 -c k.cu");
        assert_eq!(
            for_list(&plain, 90, "9.0a"),
            "-gencode=arch=compute_90a,code=sm_90a -c k.cu"
        );
    }

    #[test]
    fn other_calls_stay_as_they_are() {
        for (call, reason) in [
            ("-arch=sm_90 -c k.cu", "its build script requests these"),
            (
                "-arch=compute_80 -c k.cu",
                "its build script requests these",
            ),
            ("-arch=compute_80 -ptx k.cu", ""),
            ("-arch=all -c k.cu", ""),
            ("--version", ""),
            ("-arch=sm_80 -c k.cpp", ""),
            (
                "-arch=sm_80 -x cu -c -",
                "a source that is not a file can be read only once",
            ),
            (
                "-arch=sm_80 -x cu -c /dev/stdin",
                "a source that is not a file can be read only once",
            ),
            (
                "-arch=sm_80 -x cu -c /proc/self/fd/3",
                "a source that is not a file can be read only once",
            ),
            ("-arch=sm_80 -dc -rdc=false k.cu", ""),
            (
                "-arch=sm_80 -cubin k.cu",
                "a cubin has code for one capability",
            ),
            ("-arch=sm_80 -c -ptx k.cu", "it makes several files"),
            (
                "-arch=sm_80 -dc -dlto k.cu",
                "`-dlto` is for one capability",
            ),
            ("-arch=sm_80 -optix-ir k.cu", ""),
            (
                "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90 -c k.cu",
                "",
            ),
            (
                "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_86,code=sm_86 -c k.cu",
                "its build script requests these",
            ),
            (
                "-gencode=arch=compute_75,code=sm_80 -c k.cu",
                "its build script requests other code",
            ),
            // nvcc refuses it.
            (
                "-gencode arch=compute_80,code=sm_80,compute_80 -c k.cu",
                "its build script requests other code",
            ),
        ] {
            assert_eq!(for_list(&parse(call), 80, "8.0, 9.0"), reason, "{call}");
        }
        let env = Env::from_pairs([("NVCC_APPEND_FLAGS", "-arch=sm_75")]);
        let reason = for_list(&parse_with("-c k.cu", &env), 80, "8.0, 9.0");
        assert!(reason.contains("`NVCC_APPEND_FLAGS` chooses"), "{reason}");
        let env = Env::from_pairs([("NVCC_PREPEND_FLAGS", "-Xfatbin=-compress-all")]);
        let changed = for_list(&parse_with("-c k.cu", &env), 80, "8.0, 9.0+PTX");
        assert_eq!(changed, format!("{LIST} -c k.cu"));
    }

    #[test]
    fn the_advertised_list_is_that_of_the_build() {
        // As CMake writes `CUDAARCHS`.
        let call = |rest: &str| {
            let codes = "--generate-code=arch=compute_80,code=[sm_80] --generate-code=arch=compute_90,code=[sm_90]";
            parse(&format!("{codes} {rest} -x cu k.cu -o k.o"))
        };
        let of_package = |rest: &str, list: &str| for_package(&call(rest), 80, "8.0, 9.0", list);
        assert_eq!(of_package("-c", "8.0, 9.0"), "");
        let [sm_80, sm_120] =
            [80, 120].map(|it| format!("-gencode=arch=compute_{it},code=sm_{it}"));
        let own = format!("{sm_80} -c -x cu k.cu -o k.o");
        assert_eq!(of_package("-c", "8.0"), own);
        let own = format!("{sm_80} {sm_120} -c -x cu k.cu -o k.o");
        assert_eq!(of_package("-c", "8.0, 12.0"), own);
        for product in ["-ptx", "-optix-ir"] {
            let lowest = format!("-arch=compute_80 {product} -x cu k.cu -o k.o");
            assert_eq!(of_package(product, "8.0, 9.0"), lowest);
            assert_eq!(of_package(product, "8.0"), lowest);
        }
        let refused =
            "refused: k.cu is to be compiled for 8.0, 9.0, and a cubin has code for one capability";
        assert_eq!(of_package("-cubin", "8.0, 9.0"), refused);
        let own = format!("{sm_80} -cubin -x cu k.cu -o k.o");
        assert_eq!(of_package("-cubin", "8.0"), own);
        let fatbin = of_package("-fatbin", "8.0, 9.0");
        assert_eq!(fatbin, "");
        // A list that the project itself has chosen is not the build's.
        let other = for_package(&call("-ptx"), 80, "8.0, 12.0", "8.0, 12.0");
        assert_eq!(other, "its build script requests these");
    }

    #[test]
    fn a_note_names_what_an_output_lacks() {
        let note = |line: &str, list: &str| parse(line).note(&declared(list), None, "why");
        let expected = "k.cu is compiled for 8.0, and not for 9.0, 12.0: why";
        let cubin = note("-gencode=arch=compute_80,code=sm_80 k.cu", "8.0, 9.0, 12.0");
        assert_eq!(cubin.as_deref(), Some(expected));
        assert_eq!(note("-arch=sm_90a -c k.cu", "9.0"), None);
        assert_eq!(note("-arch=compute_80 -ptx k.cu", "8.0, 9.0"), None);
        assert_eq!(note("-arch=sm_80 -optix-ir k.cu", "8.0, 9.0"), None);
        let ptx = note(
            "-gencode=arch=compute_90,code=[sm_90] -ptx k.cu",
            "8.0, 9.0",
        );
        let expected = "k.cu is compiled for compute_90, and not for 8.0: why";
        assert_eq!(ptx.as_deref(), Some(expected));
        // nvcc refuses it.
        let nothing = note("-arch=compute_80 -cubin k.cu", "8.0, 9.0");
        let expected = "k.cu is compiled, and not for 8.0, 9.0: why";
        assert_eq!(nothing.as_deref(), Some(expected));
        assert_eq!(note("-arch=sm_80 -cubin k.cu", "8.0+PTX"), None);
        let without_ptx =
            "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90 -c k.cu";
        let lacks = note(without_ptx, "8.0, 9.0+PTX").unwrap();
        assert!(lacks.contains("not for compute_90: why"), "{lacks}");
        assert!(note("-arch=sm_100a -c k.cu", "10.0f").is_some());
        assert_eq!(note("-arch=sm_100 -cubin k.cu", "10.0f"), None);
        assert!(note("-arch=compute_90 -ptx k.cu", "8.0, 9.0").is_some());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "prepares a real file")]
    fn files_with_options_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let nested = format!("-arch=sm_80 -DA=x\n-optf {}", path("b"));
        std::fs::write(path("a"), nested).unwrap();
        std::fs::write(path("b"), "-c k.cu -o\nk.o").unwrap();
        let call = parse(&format!("--options-file={} -lineinfo", path("a")));
        let words = "-arch=sm_80 -DA=x -c k.cu -o k.o -lineinfo";
        assert_eq!(call.words().join(" "), words);
        std::fs::write(path("cmake"), "-I\"/a b\" -isystem \"/c\"").unwrap();
        let call = parse(&format!("-optf {} -c k.cu", path("cmake")));
        assert_eq!(call.words(), ["-I/a b", "-isystem", "/c", "-c", "k.cu"]);
        std::fs::write(path("quoted"), r#"-DA=\"x\""#).unwrap();
        for name in [path("quoted"), "/absent".to_owned()] {
            let (line, default) = (format!("-optf {name} -c k.cu"), Some(Capability::new(7, 5)));
            let call = parse(&line);
            assert_eq!(call.words().join(" "), line);
            let compile = call.keepable(Path::new("/"), &Root::system(), default);
            assert!(compile.is_none(), "{line}");
            assert!(for_list(&call, 75, "8.0").starts_with("a file with options"));
        }
    }

    #[test]
    fn one_source_into_one_file_is_kept() {
        let default = Some(Capability::new(7, 5));
        let compile =
            |line: &str| parse(line).keepable(Path::new("/tmp"), &Root::system(), default);
        for (call, output, options, images) in [
            ("-arch=sm_80 -c a/k.cu", "/tmp/k.o", "", "sm_80 compute_80"),
            (
                "-dc k.cu -O3 -o /usr/k.obj",
                "/usr/k.obj",
                "-O3 -rdc=true",
                "sm_75 compute_75",
            ),
            (
                "-c --device-c k.cu",
                "/tmp/k.o",
                "-rdc=true",
                "sm_75 compute_75",
            ),
            (
                "--ptx -arch sm_80 k.cu -odir /usr -Ia",
                "/usr/k.ptx",
                "-Ia",
                "compute_80",
            ),
            ("-arch=sm_80 -cubin k.cu", "/tmp/k.cubin", "", "sm_80"),
            ("-x cu -c k.cpp -o k", "/tmp/k", "-x cu", "sm_75 compute_75"),
            (
                "-forward-unknown-to-host-compiler -Wall -c k.cu",
                "/tmp/k.o",
                "-forward-unknown-to-host-compiler -Wall",
                "sm_75 compute_75",
            ),
        ] {
            let compile = compile(call).unwrap_or_else(|| panic!("{call}"));
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
            "-arch=sm_90a -c k.cu",
            "-arch=sm_80 -x cu -c -",
            "-arch=sm_80 -x cu -c /dev/stdin",
            "-Wall -c k.cu",
            "-c k.cu -MF k.d",
            "-Xcompiler=--coverage -c k.cu",
            "-Xcompiler=-fPIC,-fstack-usage -c k.cu",
            "-Xcompiler -gsplit-dwarf -c k.cu",
            "-Xcompiler=-fopt-info-all=k.txt -c k.cu",
            "-Xptxas --options-file=k.txt -c k.cu",
            "-Xcudafe --preinclude=k.h -c k.cu",
            "-DHAS=__has_include -c k.cu",
            "-lib a.o",
            // nvcc refuses these, or does something else.
            "-arch=compute_80 -cubin k.cu",
            "-gencode=arch=compute_80,code=compute_80 -cubin k.cu",
            "-gencode=arch=compute_80,code=[sm_80,compute_80] -cubin k.cu",
            "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90 -ptx k.cu",
            "-gencode arch=compute_80,code=sm_80,compute_80 -c k.cu",
            "-dc -rdc=false k.cu",
            "-dw -rdc=true k.cu",
            "-c k.cu -o -",
            "-c k.cu -o absent/k.o",
            "-c k.cu -MD -MF absent/k.d",
            "-c k.cu -o /dev/null",
            "-c k.cu -MD -MF /dev/null",
            "-c k.cu -MD -MF /proc/self/exe",
            // A shell reads these words again.
            "-c k.cu -D VAL=$FOO",
            "-c k.cu --define-macro=VAL=`x`",
            "-c k.cu -I\"quoted\"",
            "-Xcompiler -DHAS=__has_include -c k.cu",
        ] {
            assert!(compile(call).is_none(), "{call}");
        }
        let depfile = |line: &str| compile(line).unwrap().depfile.unwrap();
        let named = depfile("-c k.cu -o ./k.o -MD -MF ../usr/k.d -MT target");
        assert_eq!(
            named,
            (PathBuf::from("/tmp/../usr/k.d"), "target".to_owned())
        );
        let usual = depfile("-c k.cu -o ./k.o -MD");
        assert_eq!(usual, (PathBuf::from("/tmp/./k.d"), "./k.o".to_owned()));
        for (variable, value, is_kept) in [
            ("NVCC_APPEND_FLAGS", "-Xcompiler=--coverage", false),
            ("NVCC_APPEND_FLAGS", "-keep", false),
            ("NVCC_PREPEND_FLAGS", "-E", false),
            ("NVCC_PREPEND_FLAGS", "-lto", false),
            ("NVCC_APPEND_FLAGS", "-DVAL=$FOO", false),
            ("NVCC_APPEND_FLAGS", "-I\"a\"", false),
            ("DEPENDENCIES_OUTPUT", "k.d", false),
            (
                "NVCC_APPEND_FLAGS",
                "-ccbin g++ -lineinfo -Xcompiler=-fPIC -L/opt -lm",
                true,
            ),
        ] {
            let call = parse_with("-c k.cu", &Env::from_pairs([(variable, value)]));
            assert_eq!(
                call.keepable(Path::new("/"), &Root::system(), default)
                    .is_some(),
                is_kept,
                "{value}"
            );
        }
    }
}
