//! Renders a plan in the syntax of each consumer: nvcc, NVRTC, CMake, PyTorch.

use super::{Capability, Plan, Suffix};

/// The capability for a consumer that takes exactly one.
#[derive(Debug, PartialEq)]
pub struct Single {
    /// The capability.
    pub capability: Capability,
    /// A message for the user that lists the declared capabilities for which the consumer does not build. `None` if
    /// only one capability is declared, or if the chosen capability fits the GPU of this machine.
    pub warning: Option<String>,
}

impl Single {
    /// The value of `CUDA_COMPUTE_CAP`, such as `90`. It has no suffix, because consumers read an integer.
    pub fn compute_cap(&self) -> String {
        self.capability.number().to_string()
    }
}

impl Plan {
    /// Renders each architecture for SASS with `real`, then each architecture for PTX with `ptx`.
    fn render(
        &self,
        real: &dyn Fn(&Capability) -> String,
        ptx: &dyn Fn(&Capability) -> String,
    ) -> Vec<String> {
        let real = self.real.iter().map(real);
        real.chain(self.ptx.iter().map(ptx)).collect()
    }

    /// nvcc's `-gencode` options, one for each image: `-gencode=arch=compute_80,code=sm_80` for SASS, and
    /// `-gencode=arch=compute_80,code=compute_80` for PTX.
    pub fn nvcc_gencode(&self) -> Vec<String> {
        let option =
            |c: &Capability, code: String| format!("-gencode=arch={},code={code}", c.compute());
        self.render(&|c| option(c, c.sm()), &|c| option(c, c.compute()))
    }

    /// NVRTC's options, one for each compilation: `--gpu-architecture=sm_80` for SASS, and
    /// `--gpu-architecture=compute_80` for PTX.
    pub fn nvrtc_options(&self) -> Vec<String> {
        let option = |name: String| format!("--gpu-architecture={name}");
        self.render(&|c| option(c.sm()), &|c| option(c.compute()))
    }

    /// The value of `CMAKE_CUDA_ARCHITECTURES` and `CUDAARCHS`: `80-real;90a-real;120-real;120-virtual`.
    pub fn cmake(&self) -> String {
        let real = |c: &Capability| format!("{}-real", c.digits());
        self.render(&real, &|c| format!("{}-virtual", c.digits()))
            .join(";")
    }

    /// The value of `TORCH_CUDA_ARCH_LIST`: `8.0;9.0a;12.0+PTX`.
    ///
    /// PyTorch has no syntax for PTX without SASS, so `compute_90` becomes `9.0+PTX`.
    pub fn torch(&self) -> String {
        let ptx = |c: &Capability| if self.ptx.contains(c) { "+PTX" } else { "" };
        let entries = self.all().into_iter().map(|c| format!("{c}{}", ptx(&c)));
        entries.collect::<Vec<_>>().join(";")
    }

    /// The value that nvcc defines `__CUDA_ARCH_LIST__` as for this plan: the numbers of all SASS and PTX targets,
    /// without suffixes, ascending, such as `800,900,1200`.
    ///
    /// CUB and Thrust make the value a part of their symbol names, so every compile step of a build needs the value for
    /// the whole plan.
    pub fn arch_list_define(&self) -> String {
        let numbers = self.all().into_iter().map(|c| format!("{}0", c.number()));
        let mut numbers: Vec<String> = numbers.collect();
        numbers.dedup();
        numbers.join(",")
    }

    /// The capability for a consumer that takes exactly one. It is the highest capability whose SASS runs on `gpu`, the
    /// GPU of this machine. If there is none, it is the lowest capability, because PTX for it runs on the most devices.
    /// `None` only for an empty plan.
    pub fn single_for(&self, gpu: Option<Capability>) -> Option<Single> {
        let list = if self.real.is_empty() {
            &self.ptx
        } else {
            &self.real
        };
        let fits = |gpu: Capability, c: &Capability| match c.suffix {
            Some(Suffix::ArchSpecific) => c.base() == gpu,
            _ => c.major == gpu.major && c.minor <= gpu.minor,
        };
        let for_gpu = gpu.and_then(|gpu| list.iter().rfind(|c| fits(gpu, c)));
        let capability = *for_gpu.or(list.first())?;
        let mut others = self.all();
        others.retain(|other| *other != capability);
        let warning = (for_gpu.is_none() && list.len() > 1).then(|| {
            let others: Vec<String> = others.iter().map(ToString::to_string).collect();
            let gpu = gpu.map_or(String::new(), |gpu| {
                format!(", and none runs on the {gpu} GPU of this machine")
            });
            format!(
                "CUDA_COMPUTE_CAP takes one capability: it gets the lowest declared, {capability}, and not {}{gpu}; \
                 set `single-capability` in [package.metadata.cuda] to choose",
                others.join(", ")
            )
        });
        Some(Single {
            capability,
            warning,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::capability::{Capability, Declared, Plan};
    use crate::version::ToolkitVersion;

    fn plan(declared: &str) -> Plan {
        Declared::parse([declared])
            .unwrap()
            .plan(ToolkitVersion::new(13, 4), &[], None)
            .unwrap()
    }

    #[test]
    fn for_each_consumer() {
        let plan = plan("8.0 9.0a 12.0+PTX");
        assert_eq!(
            plan.nvcc_gencode(),
            [
                "-gencode=arch=compute_80,code=sm_80",
                "-gencode=arch=compute_90a,code=sm_90a",
                "-gencode=arch=compute_120,code=sm_120",
                "-gencode=arch=compute_120,code=compute_120",
            ]
        );
        assert_eq!(
            plan.nvrtc_options(),
            [
                "--gpu-architecture=sm_80",
                "--gpu-architecture=sm_90a",
                "--gpu-architecture=sm_120",
                "--gpu-architecture=compute_120",
            ]
        );
        assert_eq!(plan.cmake(), "80-real;90a-real;120-real;120-virtual");
        assert_eq!(plan.torch(), "8.0;9.0a;12.0+PTX");
        assert_eq!(plan.arch_list_define(), "800,900,1200");
    }

    #[test]
    fn ptx_alone_and_suffixes() {
        let plan = plan("compute_90 10.0f compute_100 10.0a");
        assert_eq!(plan.cmake(), "100a-real;100f-real;90-virtual;100-virtual");
        assert_eq!(plan.torch(), "9.0+PTX;10.0+PTX;10.0a;10.0f");
        assert_eq!(plan.arch_list_define(), "900,1000");
    }

    #[test]
    fn cmake_and_torch_lists_read_back() {
        for declared in [
            "8.0 9.0a 12.0+PTX",
            "all",
            "all-major",
            "10.0f compute_100 7.5",
        ] {
            let plan = plan(declared);
            let toolkit = ToolkitVersion::new(13, 4);
            let again = Declared::parse([plan.cmake()])
                .unwrap()
                .plan(toolkit, &[], None)
                .unwrap();
            assert_eq!(again, plan, "{declared}");
        }
        let plan = plan("8.0 9.0a 12.0+PTX");
        assert_eq!(
            Declared::parse([plan.torch()])
                .unwrap()
                .plan(ToolkitVersion::new(13, 4), &[], None)
                .unwrap(),
            plan
        );
    }

    #[test]
    fn one_capability_for_consumers_that_take_one() {
        let declared = plan("8.0 9.0a 12.0+PTX");
        let single = |gpu: Option<(u32, u32)>| {
            let gpu = gpu.map(|(major, minor)| Capability::new(major, minor));
            declared.single_for(gpu).unwrap()
        };
        for (gpu, expected) in [((9, 0), "90"), ((8, 6), "80"), ((12, 1), "120")] {
            let single = single(Some(gpu));
            assert_eq!((&*single.compute_cap(), single.warning), (expected, None));
        }
        assert_eq!(
            single(None).warning.unwrap(),
            "CUDA_COMPUTE_CAP takes one capability: it gets the lowest declared, 8.0, and not 9.0a, 12.0; \
             set `single-capability` in [package.metadata.cuda] to choose"
        );
        let other = single(Some((7, 5)));
        assert_eq!(other.compute_cap(), "80");
        let warning = other.warning.unwrap();
        assert!(warning.contains("none runs on the 7.5 GPU"), "{warning}");
        let only = plan("8.0+PTX").single_for(Some(Capability::new(9, 0)));
        assert_eq!(only.unwrap().warning, None);
        let ptx = plan("compute_90").single_for(None).unwrap();
        assert_eq!(ptx.compute_cap(), "90");
        assert_eq!(Plan::default().single_for(None), None);
    }
}
