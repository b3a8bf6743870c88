//! Stubs of the driver's libraries.

use std::path::PathBuf;

use super::Planner;
use crate::component::Component;
use crate::error::Error;
use crate::view::plan::Entry;
use crate::view::stub::{Driver, Stub};

impl Planner<'_> {
    /// Adds the stubs of the toolkit, and generates those that it lacks from the driver's headers.
    pub(super) fn stubs(&mut self) -> Result<(), Error> {
        for driver in Driver::ALL {
            let path = format!("lib/stubs/{}", driver.file_name());
            let component = match driver {
                Driver::Cuda => Component::Cudart,
                Driver::Nvml => Component::Nvml,
            };
            let mut places: Vec<PathBuf> = Vec::new();
            for file in self
                .found
                .iter()
                .flat_map(|f| f.libraries.iter().chain(&f.archives))
            {
                places.extend(
                    file.parent()
                        .map(|place| place.join("stubs").join(driver.file_name())),
                );
            }
            for include in self
                .get(component)
                .into_iter()
                .flat_map(|found| &found.include)
            {
                let beside = |name| {
                    include
                        .join("..")
                        .join(name)
                        .join("stubs")
                        .join(driver.file_name())
                };
                places.extend([beside("lib"), beside("lib64")]);
            }
            places.dedup();
            if let Some(shipped) = places.into_iter().find(|path| self.root.is_file(path)) {
                self.link(component, path, shipped)?;
                continue;
            }
            if let Some((stub, identity)) = self.stub(driver) {
                self.plan.put(path, Entry::Stub { stub, identity });
            }
        }
        Ok(())
    }

    fn stub(&self, driver: Driver) -> Option<(Stub, String)> {
        let directories = self.found.iter().flat_map(|found| &found.include);
        let header = |name: &str| {
            directories
                .clone()
                .map(|directory| directory.join(name))
                .find(|path| self.root.is_file(path))
        };
        let main = header(driver.headers()[0])?;
        let mut headers = vec![main];
        headers.extend(driver.headers()[1..].iter().filter_map(|name| header(name)));
        let identity: Vec<String> = headers
            .iter()
            .map(|path| format!("{} {}", path.display(), self.root.identity(path)))
            .collect();
        Some((
            Stub {
                driver,
                headers,
                platform: self.target.directory(),
            },
            identity.join("\n"),
        ))
    }
}
