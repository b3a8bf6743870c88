//! Converts the output of a compiler, a cubin or PTX, to an entry.

use super::{ENTRY_HEADER, Entry, bytes_at, elf, flag, invalid, u16_at, u32_at};
use crate::error::Error;
use cuda_find_core::capability::{Capability, Suffix};

impl Entry {
    /// The entry for an ELF file with SASS that `ptxas` or NVRTC made for a capability.
    ///
    /// # Errors
    /// [`cuda_find_core::error::Error::Format`] if the bytes are not a cubin, or one for another capability.
    pub fn cubin(capability: Capability, bytes: Vec<u8>) -> Result<Self, Error> {
        let fields = HeaderFields::of_cubin(&bytes, capability);
        Self::of_image(fields, bytes)
            .map_err(|reason| invalid(format!("cubin {}: {reason}", capability.sm())))
    }

    /// The entry for PTX, with or without the NUL that NVRTC puts at its end. `capability` is that of its `.target`,
    /// which is the oldest that can run it.
    ///
    /// # Errors
    /// [`cuda_find_core::error::Error::Format`] if the text lacks `.version` or `.target`, or is for another
    /// capability.
    pub fn ptx(capability: Capability, text: &str) -> Result<Self, Error> {
        let text = text.trim_end_matches('\0');
        let fields = HeaderFields::of_ptx(text, capability);
        Self::of_image(fields, format!("{text}\0").into_bytes())
            .map_err(|reason| invalid(format!("PTX {}: {reason}", capability.compute())))
    }

    fn of_image(
        fields: Result<HeaderFields, String>,
        mut payload: Vec<u8>,
    ) -> Result<Self, String> {
        payload.resize(payload.len().next_multiple_of(8), 0);
        let header = fields?.to_bytes(payload.len());
        Self::new(header, payload).ok_or_else(|| "the header is incomplete".to_owned())
    }
}

/// The fields of an entry's header that depend on the image.
struct HeaderFields {
    /// 1 for PTX, 2 for a cubin.
    kind: u16,
    capability: Capability,
    major: u16,
    minor: u16,
    flags: u64,
    /// The text of the notes at the end of the header; empty if there are none. One byte is a NUL, which the length in
    /// the header does not count: the first byte for a cubin, and the last for PTX.
    notes: Vec<u8>,
}

impl HeaderFields {
    /// Reads `.version 8.8` and `.target sm_90a` of PTX.
    fn of_ptx(text: &str, capability: Capability) -> Result<Self, String> {
        if text.contains('\0') {
            return Err("a NUL inside the text".to_owned());
        }
        let directive = |name: &str| {
            let mut lines = text.lines().map(str::split_whitespace);
            let mut words = lines.find(|words| words.clone().next() == Some(name))?;
            words.nth(1)?.split(',').next()
        };
        let version = directive(".version").and_then(|word| {
            let (major, minor) = word.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        });
        let (major, minor) = version.ok_or("no `.version` with two numbers in the text")?;
        let target = directive(".target").unwrap_or("none");
        if target != capability.sm() {
            return Err(format!("the text is for `.target {target}`"));
        }
        Ok(Self {
            kind: 1,
            capability,
            major,
            minor,
            flags: 0,
            // The text of the notes is the options for `ptxas`. There are none, so only its NUL is left.
            notes: vec![0],
        })
    }

    /// Reads the ELF header of a cubin: ABI, capability, and whether the code can be finalised for
    /// later GPUs.
    fn of_cubin(bytes: &[u8], capability: Capability) -> Result<Self, String> {
        const EM_CUDA: u16 = 190;
        /// `EI_OSABI` of the first ABI: CUDA 12 and earlier use it for capabilities before 10.0.
        const OSABI_FIRST: u8 = 0x33;
        /// `EI_OSABI` of the second ABI: CUDA 12 uses it for capability 10.0 and later, CUDA 13 for all cubins.
        const OSABI_SECOND: u8 = 0x41;
        let identity: Option<[u8; 16]> = bytes_at(bytes, 0);
        let (Some(identity), Some(EM_CUDA), Some(flags)) =
            (identity, u16_at(bytes, 18), u32_at(bytes, 48))
        else {
            return Err("not a cubin".to_owned());
        };
        if &identity[..6] != b"\x7fELF\x02\x01" {
            return Err("not a 64-bit little-endian ELF file".to_owned());
        }
        let has_second_abi = identity[7] == OSABI_SECOND;
        let capability_of_file = match identity[7] {
            OSABI_FIRST => flags & 0xff,
            OSABI_SECOND => flags >> 8 & 0xff,
            _ => capability.number(),
        };
        if capability_of_file != capability.number() {
            return Err(format!("the file is for sm_{capability_of_file}"));
        }
        let compat =
            elf::section(bytes, b".nv.compat").filter(|_| has_second_abi && flags & 3 != 0);
        Ok(Self {
            kind: 2,
            capability,
            major: identity[6].into(),
            minor: identity[8].into(),
            flags: if has_second_abi && flags & 2 != 0 {
                flag::FINALIZABLE
            } else {
                0
            },
            notes: compat.map_or_else(Vec::new, |compat| [b"\0", compat].concat()),
        })
    }

    /// The bytes of the header; the parent module describes them.
    fn to_bytes(&self, payload_len: usize) -> Vec<u8> {
        let mut tail = Vec::new();
        let mut notes_offset = 0;
        if let [_, counted @ ..] = self.notes.as_slice() {
            notes_offset = ENTRY_HEADER as u32;
            tail.extend_from_slice(&(notes_offset + 8).to_le_bytes());
            tail.extend_from_slice(&(counted.len() as u32).to_le_bytes());
            tail.extend_from_slice(&self.notes);
            tail.resize(tail.len().next_multiple_of(8), 0);
        }
        let suffix_flag = match self.capability.suffix {
            None => 0,
            Some(Suffix::ArchSpecific) => flag::ARCHITECTURE_SPECIFIC,
            Some(Suffix::Family) => flag::FAMILY_SPECIFIC,
        };
        let flags = flag::ADDRESS_64 | flag::LINUX | suffix_flag | self.flags;
        [
            &self.kind.to_le_bytes()[..],
            &0x0101_u16.to_le_bytes(),
            &((ENTRY_HEADER + tail.len()) as u32).to_le_bytes(),
            &(payload_len as u64).to_le_bytes(),
            &0_u32.to_le_bytes(),
            &notes_offset.to_le_bytes(),
            &self.minor.to_le_bytes(),
            &self.major.to_le_bytes(),
            &self.capability.number().to_le_bytes(),
            &0_u64.to_le_bytes(),
            &flags.to_le_bytes(),
            &[0; 16],
            &tail,
        ]
        .concat()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Fatbin;
    use super::*;

    /// The smallest ELF header that passes for a cubin.
    fn cubin(osabi: u8, flags: u32) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..9].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, osabi, 7]);
        bytes[18..20].copy_from_slice(&190_u16.to_le_bytes());
        bytes[48..52].copy_from_slice(&flags.to_le_bytes());
        bytes
    }

    fn ptx(capability: &str, text: &str) -> Result<Entry, Error> {
        Entry::ptx(capability.parse().unwrap(), text)
    }

    fn sass(capability: &str, bytes: Vec<u8>) -> Result<Entry, Error> {
        Entry::cubin(capability.parse().unwrap(), bytes)
    }

    fn error_for(entry: Result<Entry, Error>) -> String {
        entry.err().unwrap().to_string()
    }

    #[test]
    fn an_image_must_be_for_its_capability() {
        let message = error_for(sass("8.0", cubin(0x33, 0x5a)));
        assert_eq!(
            message,
            "not a valid fat binary: cubin sm_80: the file is for sm_90"
        );
        let message = error_for(sass("8.0", b"\x7fELF".to_vec()));
        assert_eq!(message, "not a valid fat binary: cubin sm_80: not a cubin");
        let message = error_for(ptx("8.0", ".version 8.0\n.target sm_90\n"));
        assert_eq!(
            message,
            "not a valid fat binary: PTX compute_80: the text is for `.target sm_90`"
        );
        assert!(error_for(ptx("8.0", "")).contains("no `.version`"));
        assert!(error_for(ptx("8.0", ".version 8.0\n\0.target sm_80\n")).contains("a NUL inside"));
    }

    #[test]
    fn ptx_is_stored_unchanged() {
        for extra in 0..9 {
            let text = format!(
                "// kept\n.version 9.4\n.target sm_120\n{}",
                "\n".repeat(extra)
            );
            let with_nul = format!("{text}\0");
            let plain = Fatbin::from_entries(vec![ptx("12.0", &text).unwrap()]);
            let same = Fatbin::from_entries(vec![ptx("12.0", &with_nul).unwrap()]);
            assert_eq!(same.write(), plain.write());
            let entry = plain.entries().next().unwrap();
            assert_eq!(entry.image(), Some(text.as_bytes()));
            let bytes = plain.write();
            assert_eq!(bytes.len() % 8, 0);
            assert_eq!(bytes.last(), Some(&0));
        }
    }
}
