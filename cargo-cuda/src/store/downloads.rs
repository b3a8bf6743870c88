//! What an installer prints about its downloads: the name and size of each file, and on a terminal progress bars.

use super::package::{Package, normal_name};

/// One file that an installer downloads.
#[derive(Clone, Debug, PartialEq)]
struct Download {
    /// `nvidia-cuda-nvcc 13.4.92`
    name: String,
    done: u64,
    total: u64,
}

/// The downloads of one call of an installer.
#[derive(Clone, Debug, Default)]
pub(super) struct Downloads {
    downloads: Vec<Download>,
    /// The names of all packages to fetch, with their versions.
    packages: Vec<(String, String)>,
    /// The package that the most recent line is about.
    current: usize,
}

/// What a line of output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A download begins.
    Begin,
    /// A progress bar, which is no message.
    Bar,
    Other,
}

impl Downloads {
    pub fn new(packages: &[&Package]) -> Self {
        let packages = packages.iter().map(|p| (p.name.clone(), p.version.clone()));
        Self {
            packages: packages.collect(),
            ..Self::default()
        }
    }

    /// Reads one line, without escape sequences.
    pub fn read(&mut self, line: &str) -> Line {
        if let Some(file) = line.trim_start().strip_prefix("Downloading ") {
            // `nvidia-cublas (423.7MiB)` of uv, `nvidia_cublas-13.2-py3-none-any.whl (423.7 MB)` of pip.
            let (name, size) = file.split_once(" (").unwrap_or((file, ""));
            let size = size.trim_end_matches(')');
            let unit = size.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            let total = bytes(&size[..size.len() - unit.len()], unit.trim());
            self.begin(name, total.unwrap_or_default());
            return Line::Begin;
        }
        let bars = bars(line);
        let is_drawn = line.trim_start().starts_with(is_drawing);
        for (name, done, total) in &bars {
            // pip's bars have no name: they are about the file whose download began last.
            if !name.is_empty() {
                self.begin(name, *total);
            }
            if let Some(download) = self.downloads.get_mut(self.current) {
                (download.done, download.total) = (*done, *total);
            }
        }
        match bars.is_empty() && !is_drawn {
            true => Line::Other,
            false => Line::Bar,
        }
    }

    fn begin(&mut self, file: &str, total: u64) {
        let name = self.short_name(file);
        let known = self
            .downloads
            .iter()
            .position(|download| download.name == name);
        self.current = known.unwrap_or(self.downloads.len());
        if known.is_none() {
            let done = 0;
            self.downloads.push(Download { name, done, total });
        }
    }

    /// Name and version of the package that a file or a name of an installer belongs to.
    fn short_name(&self, file: &str) -> String {
        let name = normal_name(file.split('-').next().unwrap_or_default());
        let is_wheel = file.ends_with(".whl");
        let is_meant = |package: &&(String, String)| match is_wheel {
            true => package.0 == name,
            false => package.0 == normal_name(file),
        };
        match self.packages.iter().find(is_meant) {
            Some((name, version)) => format!("{name} {version}"),
            None => file.to_owned(),
        }
    }

    /// Name and version of the package that the most recent line is about.
    pub fn current(&self) -> &str {
        let current = self.downloads.get(self.current);
        current.map_or("", |download| &download.name)
    }

    /// The size of the package that the most recent line is about.
    pub fn current_size(&self) -> u64 {
        self.downloads
            .get(self.current)
            .map_or(0, |download| download.total)
    }

    /// The bytes that have been downloaded.
    pub fn done(&self) -> u64 {
        self.downloads.iter().map(|download| download.done).sum()
    }

    /// The bytes of all downloads that have begun.
    pub fn total(&self) -> u64 {
        self.downloads.iter().map(|download| download.total).sum()
    }
}

/// Whether a line that starts with this character is a spinner or a bar.
pub(super) fn is_drawing(c: char) -> bool {
    matches!(c, '\u{2800}'..='\u{28ff}' | '\u{2580}'..='\u{259f}' | '━' | '╸' | '╺')
}

/// Name, bytes downloaded and bytes in total of each progress bar: `nvidia-nvvm ----- 14.88 KiB/71.70 MiB` of uv, which
/// draws several in one line, `━━━╸ 1.0/2.5 MB 276.9 MB/s eta 0:00:01` of pip. The name is empty in bars of pip.
fn bars(line: &str) -> Vec<(&str, u64, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let bar = |slash: usize| {
        let (left, total) = words[slash].split_once('/')?;
        let unit = words.get(slash + 1)?;
        let total = bytes(total, unit)?;
        if let Some(done) = bytes(left, unit) {
            return Some(("", done, total));
        }
        let [name, line, done] = words.get(slash.checked_sub(3)?..slash)? else {
            return None;
        };
        let is_line = line.bytes().all(|byte| byte == b'-');
        Some((*name, bytes(done, left)?, total)).filter(|_| is_line)
    };
    (0..words.len()).filter_map(bar).collect()
}

/// `2.5` and `MB`, or `71.70` and `MiB`.
fn bytes(number: &str, unit: &str) -> Option<u64> {
    let scale: f64 = match unit {
        "B" | "bytes" => 1.,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1024.,
        "MiB" => 1024. * 1024.,
        "GiB" => 1024. * 1024. * 1024.,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * scale;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "sizes of files are far below 2^53"
    )]
    bytes.is_finite().then_some(bytes as u64)
}

/// The text without the escape sequences that move the cursor or set colours.
pub(super) fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '\u{1b}' {
            plain.push(c);
        } else if rest.next_if_eq(&'[').is_some() {
            // The sequence ends with its first character from `@` to `~`.
            rest.by_ref().find(|c| ('@'..='~').contains(c));
        } else {
            rest.next();
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::super::package::tests::package;
    use super::*;

    fn downloads() -> Downloads {
        let packages = [
            package("nvidia-cublas", "13.2.1", '0'),
            package("nvidia-cuda-nvcc", "13.4.92", '1'),
        ];
        Downloads::new(&packages.iter().collect::<Vec<_>>())
    }

    #[test]
    fn lines_of_uv_are_read() {
        let mut uv = downloads();
        assert_eq!(uv.read("Downloading nvidia-cublas (423.7MiB)"), Line::Begin);
        assert_eq!(
            (uv.current(), uv.done(), uv.total()),
            ("nvidia-cublas 13.2.1", 0, 444_281_651)
        );
        assert_eq!(uv.read("Resolved 2 packages in 12ms"), Line::Other);
        let bar = "\u{1b}[2mnvidia-cuda-nvcc    \u{1b}[0m \u{1b}[32m----\u{1b}[2m---\u{1b}[0m 1.50 MiB/44.00 MiB";
        assert_eq!(uv.read(&without_escapes(bar)), Line::Bar);
        assert_eq!(
            (uv.current(), uv.done()),
            ("nvidia-cuda-nvcc 13.4.92", 1_572_864)
        );
        let bars = "⠙ Preparing packages... (0/2)    nvidia-cublas ----- 512.00 KiB/423.70 MiB   \
                    nvidia-cuda-nvcc --- 1.50 MiB/44.00 MiB";
        assert_eq!(uv.read(bars), Line::Bar);
        assert_eq!(uv.read("⠙ Preparing packages... (0/2)"), Line::Bar);
        assert_eq!(
            (uv.done(), uv.total()),
            (2_097_152, 444_281_651 + 46_137_344)
        );
        assert_eq!(uv.current_size(), 46_137_344);
    }

    #[test]
    fn lines_of_pip_are_read() {
        let mut pip = downloads();
        let file =
            "  Downloading nvidia_cuda_nvcc-13.4.92-py3-none-manylinux_2_17_x86_64.whl (44.8 MB)";
        assert_eq!(pip.read(file), Line::Begin);
        assert_eq!(pip.current(), "nvidia-cuda-nvcc 13.4.92");
        let bar =
            "     ━━━━━━━━━━━━━━━━╸                        1.0/44.8 MB 276.9 MB/s eta 0:00:01";
        assert_eq!(pip.read(bar), Line::Bar);
        assert_eq!((pip.done(), pip.total()), (1_000_000, 44_800_000));
        for other in [
            "Collecting a/b",
            "from https://index.invalid/a",
            "1/2",
            "a 1/x MB",
        ] {
            assert_eq!(pip.read(other), Line::Other, "{other}");
        }
    }

    #[test]
    fn escape_sequences_are_removed() {
        assert_eq!(
            without_escapes("\u{1b}[1A\u{1b}[2K\ra\u{1b}[0m \u{1b}[?25lb"),
            "\ra b"
        );
        assert_eq!(without_escapes("\u{1b}"), "");
    }
}
