//! A shard of a build: the files that one of several machines compiles.

use std::path::Path;

use crate::config::parsed_variable;
use crate::error::Error;
use cuda_find_core::{env::Env, hash::of_content};

/// The variable with the number of the shard and how many there are, as in `2/5`.
pub const VARIABLE: &str = "CUDA_BUILD_SHARD";

/// Which files this machine compiles. The others are left out.
#[derive(Clone, Debug)]
pub struct Shard {
    number: u64,
    of: u64,
    /// The package whose build script runs.
    package: String,
}

impl Shard {
    /// What the variable names.
    ///
    /// # Errors
    /// [`cuda_find_core::error::Error::Variable`] if it is not two numbers such as `2/5`.
    pub fn from_env(env: &Env) -> Result<Option<Self>, Error> {
        let numbers = parsed_variable(env, VARIABLE, |text| {
            let numbers = text.split_once('/');
            let numbers =
                numbers.and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
            let numbers = numbers.filter(|(number, of)| (1..=*of).contains(number));
            numbers.ok_or_else(|| format!("`{text}` is not a shard such as `2/5`"))
        })?;
        let package = ["CARGO_PKG_NAME", "CARGO_PKG_VERSION"]
            .map(|name| env.peek(name).unwrap_or_default().to_string_lossy());
        let package = package.join(" ");
        Ok(numbers.map(|(number, of)| Self {
            number,
            of,
            package,
        }))
    }

    /// Whether this shard compiles an output. The answer is the same on every machine, so no directory counts.
    pub fn has(&self, output: &Path, options: &[String]) -> bool {
        let name = output.file_name().unwrap_or_default().to_string_lossy();
        let options = options.iter().filter(|option| !option.contains('/'));
        let words: Vec<&str> = [self.package.as_str(), &name]
            .into_iter()
            .chain(options.map(String::as_str))
            .collect();
        of_content(words.join("\n").as_bytes()) % self.of == self.number - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(text: &str) -> Result<Option<Shard>, Error> {
        Shard::from_env(&Env::from_pairs([(VARIABLE, text)]))
    }

    #[test]
    fn each_output_has_one_shard() {
        let shards: Vec<Shard> = (1..=3)
            .map(|number| shard(&format!("{number}/3")).unwrap().unwrap())
            .collect();
        let mut counts = [0; 3];
        for name in 0..60 {
            let output = format!("/out/k{name}.o");
            let options = |directory: &str| [format!("-I{directory}/include"), "-O3".to_owned()];
            let of = |shard: &&Shard| shard.has(Path::new(&output), &options("/a"));
            let places: Vec<usize> = (0..3).filter(|place| of(&&shards[*place])).collect();
            assert_eq!(places.len(), 1);
            counts[places[0]] += 1;
            let elsewhere = format!("/elsewhere/k{name}.o");
            assert!(shards[places[0]].has(Path::new(&elsewhere), &options("/b")));
        }
        assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
        assert!(shard("").unwrap().is_none());
        for wrong in ["0/2", "3/2", "2", "a/b", "1/0", "-1/2"] {
            assert!(shard(wrong).is_err(), "{wrong}");
        }
    }
}
