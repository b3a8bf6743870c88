//! The options of nvcc: how each is spelled, and what it means here.
//!
//! This is the one table for build scripts' parts, for calls through the nvcc wrapper, and for the search for headers.
//! NVRTC's options are in it, too: most are nvcc's.

use std::collections::HashMap;
use std::sync::OnceLock;

/// What an option of nvcc means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A source or an object.
    Input,
    Makes(Product),
    /// Makes code for one capability, or link-time code.
    OneCapability,
    /// Prints, preprocesses, or starts the program that it made.
    Inspects,
    Output,
    OutputDirectory,
    Depfile,
    DepfileName,
    DepfileTarget,
    Architecture,
    Code,
    Gencode,
    Relocatable,
    HostCompiler,
    Language,
    OptionsFile,
    /// Matters to the linker alone.
    Link,
    /// A directory that is searched for headers.
    Directory,
    /// A header that is included before the first line.
    Header,
    /// Options for the host compiler.
    HostOptions,
    /// Passes words that nvcc does not know to the host compiler.
    ForwardsUnknown,
    /// Neither reads nor writes other files.
    Plain,
    /// May read or write other files.
    OtherFiles,
    /// Not in the table.
    Unknown,
}

/// What a call of nvcc makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Product {
    /// An object: `-c`, `-dc` with relocatable device code, `-dw` without.
    Object(Option<bool>),
    Ptx,
    /// OptiX-IR, which OptiX compiles for the GPU when the program runs, as the driver does with PTX.
    OptixIr,
    Cubin,
    Fatbin,
    /// A program, a shared library, an archive, or an object with linked device code.
    Linked,
}

impl Meaning {
    /// Whether the option chooses the architectures that nvcc compiles for.
    pub(crate) fn chooses_capabilities(self) -> bool {
        matches!(self, Self::Architecture | Self::Code | Self::Gencode)
    }
}

/// Whether an option has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueForm {
    None,
    /// After `=`, or as the next word.
    Required,
    /// The same, or directly after the option.
    Joined,
    /// After `=`, or as a next word that is not an option.
    Optional,
}

/// Every spelling of each option by its meaning: those that `nvcc --help` of CUDA 11.8, 12.4 and 13.0 to 13.5
/// documents, those of NVRTC, and undocumented ones that projects use. Spellings were tried with nvcc 13.5.
///
/// `=`: takes a value, after `=` or as the next word. `+`: the value may also follow directly, as in `-t4`. `?`: takes
/// a value after `=`, or as a next word that is not an option.
const OPTIONS: &[(Meaning, &str)] = &[
    (Meaning::Makes(Product::Object(None)), "--compile -c"),
    (
        Meaning::Makes(Product::Object(Some(true))),
        "--device-c -dc",
    ),
    (
        Meaning::Makes(Product::Object(Some(false))),
        "--device-w -dw",
    ),
    (Meaning::Makes(Product::Ptx), "--ptx -ptx"),
    (Meaning::Makes(Product::OptixIr), "--optix-ir -optix-ir"),
    (Meaning::Makes(Product::Cubin), "--cubin -cubin"),
    (Meaning::Makes(Product::Fatbin), "--fatbin -fatbin"),
    (
        Meaning::Makes(Product::Linked),
        "--device-link -dlink --link -link --lib -lib --shared -shared --relocatable-link -r \
         --host-relocatable-link -host-r",
    ),
    (
        Meaning::OneCapability,
        "--ltoir -ltoir --dlink-time-opt -dlto --lto -lto --gen-opt-lto -gen-opt-lto \
         --tilebc -tilebc --tilecubin -tilecubin --tilefatbin -tilefatbin",
    ),
    (
        Meaning::Inspects,
        "--preprocess -E --generate-dependencies -M --generate-nonsystem-dependencies -MM --cuda -cuda --dryrun \
         -dryrun --run -run --run-args= -run-args= --clean-targets -clean --help -h --version -V --list-gpu-code \
         -code-ls --list-gpu-arch -arch-ls --fdevice-syntax-only -fdevice-syntax-only",
    ),
    (Meaning::Output, "--output-file= -o="),
    (Meaning::OutputDirectory, "--output-directory= -odir="),
    (Meaning::Depfile, "--generate-dependencies-with-compile -MD"),
    (Meaning::DepfileName, "--dependency-output= -MF="),
    (Meaning::DepfileTarget, "--dependency-target-name= -MT="),
    (Meaning::Architecture, "--gpu-architecture= -arch="),
    (Meaning::Code, "--gpu-code= -code="),
    (Meaning::Gencode, "--generate-code= -gencode="),
    (Meaning::Relocatable, "--relocatable-device-code= -rdc="),
    (Meaning::HostCompiler, "--compiler-bindir= -ccbin="),
    (Meaning::Language, "--x= -x="),
    (Meaning::OptionsFile, "--options-file= -optf="),
    (
        Meaning::Link,
        "--library= -l+ --library-path= -L+ --linker-options= -Xlinker= --nvlink-options= -Xnvlink= --cudadevrt= \
         -cudadevrt= --archiver-binary= -arbin= --archive-options= -Xarchive= --no-device-link -nodlink \
         --forward-unknown-to-host-linker -forward-unknown-to-host-linker",
    ),
    (
        Meaning::Directory,
        "--include-path= -I+ --system-include= -isystem= -iquote= -idirafter=",
    ),
    (Meaning::Header, "--pre-include= -include="),
    (Meaning::HostOptions, "--compiler-options= -Xcompiler="),
    (
        Meaning::ForwardsUnknown,
        "--forward-unknown-to-host-compiler -forward-unknown-to-host-compiler --forward-unknown-opts \
         -forward-unknown-opts",
    ),
    (
        Meaning::Plain,
        "--std= -std= --stdlib= -stdlib= --machine= -m= --m64 -m64 --define-macro= -D+ --undefine-macro= -U+ \
         --optimize= -O+ --Ofast-compile? -Ofc? --dopt= -dopt= --maxrregcount= -maxrregcount= --threads= -t+ \
         --split-compile= -split-compile= --split-compile-extended= -split-compile-extended= --jobserver \
         -jobserver --objdir-as-tempdir -objtemp --ftz= -ftz= --fmad= -fmad= --prec-div= -prec-div= --prec-sqrt= \
         -prec-sqrt= --use_fast_math -use_fast_math --extra-device-vectorization -extra-device-vectorization \
         --restrict -restrict --default-stream= -default-stream= --cudart= -cudart= --extensible-whole-program \
         -ewp --profile -pg --debug -g --device-debug -G --generate-line-info -lineinfo --source-in-ptx \
         -src-in-ptx --ptxas-options= -Xptxas= --cudafe-options= -Xcudafe= --cicc-options= -Xcicc= \
         --fatbin-options= -Xfatbin= --resource-usage -res-usage --optimization-info= -opt-info= \
         --keep-device-functions -keep-device-functions --disable-warnings -w --Werror= -Werror= --Wreorder \
         -Wreorder --Wdefault-stream-launch -Wdefault-stream-launch --Wmissing-launch-bounds \
         -Wmissing-launch-bounds --Wext-lambda-captures-this -Wext-lambda-captures-this \
         --Wno-deprecated-declarations -Wno-deprecated-declarations --Wconversion -Wconversion \
         --Wno-deprecated-gpu-targets -Wno-deprecated-gpu-targets --brief-diagnostics= -brief-diag= \
         --diag-suppress= -diag-suppress= --diag-error= -diag-error= --diag-warn= -diag-warn= --diag-remark= \
         -diag-remark= --display-error-number -err-no --no-display-error-number -no-err-no --fmax-errors= \
         -fmax-errors= --ftemplate-depth= -ftemplate-depth= --ftemplate-backtrace-limit= \
         -ftemplate-backtrace-limit= --no-exceptions -noeh --extended-lambda -extended-lambda \
         --expt-extended-lambda -expt-extended-lambda --expt-relaxed-constexpr -expt-relaxed-constexpr \
         --no-host-device-initializer-list -nohdinitlist --no-host-device-move-forward -nohdmoveforward \
         --static-global-template-stub= -static-global-template-stub= --device-entity-has-hidden-visibility= \
         -device-entity-has-hidden-visibility= --no-align-double --compress-mode= -compress-mode= --no-compress \
         -no-compress --jump-table-density= -jtd= --relocatable-ptx -reloc-ptx --device-stack-protector= \
         -device-stack-protector= --frandom-seed= -frandom-seed= --version-ident= -dQ= --fdevice-sanitize= \
         -fdevice-sanitize= --skip-ptx-semantics-check -skip-ptx-semantics-check --utf-8 -utf-8 \
         --safety-compatibility -safety-compat --allow-unsupported-compiler -allow-unsupported-compiler \
         --enable-tile -enable-tile --tile-only -tile-only --simt-only -simt-only --tile-preview= -tile-preview= \
         --tileiras-options= -Xtileiras= --verbose -v --verbose2 -v2 --dialect= --minimal= -minimal --no-cache \
         -no-cache --device-float128 -device-float128 --device-int128 -device-int128 \
         --device-as-default-execution-space -default-device --builtin-initializer-list= \
         -builtin-initializer-list= --disable-optimizer-constants -disable-optimizer-constants --unstable-api \
         -unstable-api",
    ),
    (
        Meaning::OtherFiles,
        "--generate-nonsystem-dependencies-with-compile -MMD --generate-dependency-targets -MP --keep -keep \
         --keep-dir= -keep-dir= --save-temps -save-temps --time= -time= --fdevice-time-trace= \
         -fdevice-time-trace= --fdevice-time-trace-granularity= -fdevice-time-trace-granularity= \
         --libdevice-directory= -ldir= --target-directory= -target-dir= --dont-use-profile -noprof --qpp-config= \
         -qpp-config= --apply-controls= -apply-controls= --entries= -e= --prune -prune --nvprune-options= \
         -Xnvprune= --concat -concat --host-linker-script? -hls? --augment-host-linker-script -aug-hls \
         --compile-as-tools-patch -astoolspatch --use-local-env -use-local-env --force-cl-env-setup \
         -force-cl-env-setup --input-drive-prefix= -idp= --dependency-drive-prefix= -ddp= --drive-prefix= -dp= \
         --m32 -m32 --sanitize= -sanitize=",
    ),
];

/// The options by their spelling, such as `--threads` and `-t`.
fn table() -> &'static HashMap<&'static str, (ValueForm, Meaning)> {
    static TABLE: OnceLock<HashMap<&str, (ValueForm, Meaning)>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let entries = OPTIONS.iter().flat_map(|(meaning, list)| {
            list.split_whitespace().map(move |entry| {
                let name = entry.trim_end_matches(['=', '+', '?']);
                let value = match &entry[name.len()..] {
                    "" => ValueForm::None,
                    "+" => ValueForm::Joined,
                    "?" => ValueForm::Optional,
                    _ => ValueForm::Required,
                };
                (name, (value, *meaning))
            })
        });
        entries.collect()
    })
}

/// One argument of a call, with its value.
#[derive(Clone, Debug)]
pub(crate) struct Argument {
    pub(crate) meaning: Meaning,
    /// As it is written: one word, or two if the value is a word of its own.
    pub(crate) words: Vec<String>,
    /// The value of the option; empty for an option without a value.
    pub(crate) value: String,
}

/// The arguments of a call.
pub(crate) fn arguments(words: impl IntoIterator<Item = impl Into<String>>) -> Vec<Argument> {
    let mut words = words.into_iter().map(Into::into).peekable();
    let mut arguments = Vec::new();
    while let Some(word) = words.next() {
        let (name, after_equals) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        let joined = word.get(..2).filter(|_| word.len() > 2);
        let known = table().get(name).copied();
        let is_whole =
            known.is_some_and(|(value, _)| value != ValueForm::None || after_equals.is_none());
        let (meaning, value, next) = match (known, joined.and_then(|name| table().get(name))) {
            (Some((value, meaning)), _) if is_whole => {
                let next = match value {
                    ValueForm::None => None,
                    _ if after_equals.is_some() => None,
                    ValueForm::Optional => words.next_if(|next: &String| !next.starts_with('-')),
                    ValueForm::Required | ValueForm::Joined => words.next(),
                };
                (meaning, after_equals.or_else(|| next.clone()), next)
            }
            (_, Some((ValueForm::Joined, meaning))) => (*meaning, Some(word[2..].to_owned()), None),
            _ if word.starts_with('-') && word != "-" => (Meaning::Unknown, None, None),
            _ => (Meaning::Input, Some(word.clone()), None),
        };
        arguments.push(Argument {
            meaning,
            words: [word].into_iter().chain(next).collect(),
            value: value.unwrap_or_default(),
        });
    }
    arguments
}

/// Whether a word is an option that chooses the architectures that nvcc compiles for.
pub(crate) fn chooses_capabilities(word: &str) -> bool {
    arguments([word])
        .iter()
        .any(|argument| argument.meaning.chooses_capabilities())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_option_is_known() {
        let documented = include_str!("../../tests/nvcc/documented.txt").lines();
        for line in documented.filter(|line| !line.starts_with('#')) {
            let [long, short, value] = line.split(' ').collect::<Vec<_>>()[..3] else {
                panic!("{line}");
            };
            for name in [long, short] {
                let (has_value, meaning) = table().get(name).unwrap_or_else(|| panic!("{name}"));
                let expected: &[ValueForm] = match value {
                    "none" => &[ValueForm::None],
                    "optional" => &[ValueForm::Optional],
                    _ => &[ValueForm::Required, ValueForm::Joined],
                };
                assert!(expected.contains(has_value), "{name}");
                assert_eq!(table().get(long).unwrap().1, *meaning, "{name}");
            }
        }
    }

    #[test]
    fn a_value_follows_in_each_spelling() {
        for (words, meaning, value) in [
            ("-t4", Meaning::Plain, "4"),
            ("-t 4", Meaning::Plain, "4"),
            ("--threads=4", Meaning::Plain, "4"),
            ("-Xfatbin -compress-all", Meaning::Plain, "-compress-all"),
            ("-DX=-Iy", Meaning::Plain, "X=-Iy"),
            ("-I=a", Meaning::Directory, "a"),
            ("-Ia=b", Meaning::Directory, "a=b"),
            ("-library=foo", Meaning::Link, "ibrary=foo"),
            ("-Ofc", Meaning::Plain, ""),
            ("k=1.cu", Meaning::Input, "k=1.cu"),
            // nvcc refuses these.
            ("-gpu-architecture=sm_80", Meaning::Unknown, ""),
            ("--arch=sm_80", Meaning::Unknown, ""),
            ("-xcu", Meaning::Unknown, ""),
            ("-G=1", Meaning::Unknown, ""),
        ] {
            let arguments = arguments(words.split(' '));
            let [argument] = &arguments[..] else {
                panic!("{arguments:?}");
            };
            assert_eq!(
                (argument.meaning, argument.value.as_str()),
                (meaning, value),
                "{words}"
            );
        }
    }
}
