//! One plan, in the words of each consumer.

use super::{Capability, Plan};

impl Plan {
    /// nvcc's `-gencode` options, one for each piece of code:
    /// `-gencode=arch=compute_80,code=sm_80`, and `code=compute_80` for PTX.
    #[must_use]
    pub fn nvcc_gencode(&self) -> Vec<String> {
        let option =
            |c: &Capability, code: String| format!("-gencode=arch={},code={code}", c.compute());
        let real = self.real.iter().map(|c| option(c, c.sm()));
        let ptx = self.ptx.iter().map(|c| option(c, c.compute()));
        real.chain(ptx).collect()
    }

    /// NVRTC's options, one for each run of it: `--gpu-architecture=sm_80`, `…=compute_120` for PTX.
    #[must_use]
    pub fn nvrtc_options(&self) -> Vec<String> {
        let real = self.real.iter().map(|c| c.sm());
        let ptx = self.ptx.iter().map(|c| c.compute());
        real.chain(ptx)
            .map(|name| format!("--gpu-architecture={name}"))
            .collect()
    }

    /// `CMAKE_CUDA_ARCHITECTURES`, and `CUDAARCHS`: `80-real;90a-real;120-real;120-virtual`.
    #[must_use]
    pub fn cmake(&self) -> String {
        let real = self.real.iter().map(|c| format!("{}-real", c.digits()));
        let ptx = self.ptx.iter().map(|c| format!("{}-virtual", c.digits()));
        real.chain(ptx).collect::<Vec<_>>().join(";")
    }

    /// `TORCH_CUDA_ARCH_LIST`: `8.0;9.0a;12.0+PTX`.
    ///
    /// PyTorch has no word for PTX alone: such an entry is given as `9.0+PTX`, so that it
    /// builds SASS beside it rather than nothing.
    #[must_use]
    pub fn torch(&self) -> String {
        let mut all: Vec<Capability> = self.real.iter().chain(&self.ptx).copied().collect();
        all.sort_unstable();
        all.dedup();
        let entry =
            |c: &Capability| format!("{c}{}", if self.ptx.contains(c) { "+PTX" } else { "" });
        all.iter().map(entry).collect::<Vec<_>>().join(";")
    }

    /// The value that nvcc gives `__CUDA_ARCH_LIST__` for this plan: `800,900,1200`. The numbers of
    /// SASS and PTX alike, without suffixes, ascending.
    ///
    /// CUB and Thrust make it part of their symbols' names, so every compile step of a product
    /// needs the value of the whole plan.
    #[must_use]
    pub fn arch_list_define(&self) -> String {
        let mut numbers: Vec<u32> = self
            .real
            .iter()
            .chain(&self.ptx)
            .map(|c| c.number() * 10)
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(",")
    }
}

#[cfg(test)]
mod tests {
    use crate::capability::{Declared, Plan};
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
}
