//! What a compiler says that it builds for.

use super::Capability;

/// The targets listed by `ptxas --help` (as `'sm_90a'` among the values of `--gpu-name`) or by
/// `nvcc --list-gpu-code` (as `sm_90` on a line of its own; it leaves suffix variants out),
/// ascending. Empty where the text lists none.
///
/// ```
/// use cuda_build::internal::capability::observed_from_ptxas_help;
/// let list = observed_from_ptxas_help("Allowed values: 'compute_90','lto_90','sm_90','sm_90a'.");
/// assert_eq!(list.iter().map(|c| c.sm()).collect::<Vec<_>>(), ["sm_90", "sm_90a"]);
/// ```
#[must_use]
pub fn observed_from_ptxas_help(text: &str) -> Vec<Capability> {
    // The help's prose names architectures too (`sm_XY`, "supported on sm_70 or higher"), but
    // never between quotes.
    let quoted = text.split('\'').skip(1).step_by(2);
    let alone = text.lines().map(str::trim);
    let mut list: Vec<Capability> = quoted
        .chain(alone)
        .filter(|word| word.starts_with("sm_"))
        .filter_map(|word| word.parse().ok())
        .collect();
    list.sort_unstable();
    list.dedup();
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(text: &str) -> String {
        observed_from_ptxas_help(text)
            .iter()
            .map(|c| c.digits())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn help_text() {
        let help = "\
--gpu-name <gpu name>                               (-arch)
        PTX for .target sm_XY can be compiled to all GPU targets sm_MN, sm_MNa.
        Allowed values for this option:  'compute_100','compute_100a',
        'compute_75','lto_100','lto_75','sm_100',
        'sm_100a','sm_100f','sm_75','sm_90a'.
        Default value:  'sm_75'.
--other
        Supported on
        sm_70 or higher.This is a deprecated option
";
        assert_eq!(digits(help), "75 90a 100 100a 100f");
    }

    #[test]
    fn list_of_codes() {
        assert_eq!(digits("sm_75\nsm_80\nsm_110\nsm_103\n"), "75 80 103 110");
        assert_eq!(
            digits("nvcc fatal   : Unknown option '--list-gpu-code'\n"),
            ""
        );
        assert_eq!(digits(""), "");
    }
}
