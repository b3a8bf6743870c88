//! Images as a compiler writes them, and their entries.

use std::fmt;

use super::read::{bytes_at, offset_at, size_at, u16_at, u32_at};
use super::{ENTRY_HEADER, Entry, Kind, flag, invalid};
use crate::error::Error;

/// The output of a compiler, as input for a fat binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// SASS for one capability.
    Cubin {
        /// Capability × 10.
        sm: u32,
        /// `a` or `f`.
        suffix: Option<char>,
        /// The ELF file that `ptxas` or NVRTC made.
        bytes: Vec<u8>,
    },
    /// PTX for this and later capabilities.
    Ptx {
        /// Capability × 10.
        sm: u32,
        /// `a` or `f`.
        suffix: Option<char>,
        /// The text, with or without the NUL that NVRTC puts at its end.
        text: String,
    },
}

impl Image {
    fn kind(&self) -> Kind {
        match self {
            Self::Cubin { .. } => Kind::Elf,
            Self::Ptx { .. } => Kind::Ptx,
        }
    }

    fn capability(&self) -> (u32, Option<char>) {
        let (Self::Cubin { sm, suffix, .. } | Self::Ptx { sm, suffix, .. }) = self;
        (*sm, *suffix)
    }

    /// Cubins before PTX, each by capability; `90` before `90a`.
    pub(super) fn order(&self) -> (bool, u32, Option<char>) {
        let (sm, suffix) = self.capability();
        (self.kind() == Kind::Ptx, sm, suffix)
    }

    pub(super) fn into_entry(self) -> Result<Entry, Error> {
        let named = self.to_string();
        let (sm, suffix) = self.capability();
        let suffix_flag = match suffix {
            None => 0,
            Some('a') => flag::ARCHITECTURE_SPECIFIC,
            Some('f') => flag::FAMILY_SPECIFIC,
            Some(other) => {
                return Err(invalid(format!(
                    "{named}: no suffix `{other}`, only `a` and `f`"
                )));
            }
        };
        let kind = self.kind();
        let (facts, payload) = match self {
            Self::Cubin { bytes, .. } => (cubin_facts(&bytes, &named, sm)?, bytes),
            Self::Ptx { text, .. } => {
                let mut text = text;
                text.truncate(text.trim_end_matches('\0').len());
                let facts = ptx_facts(&text, &named, sm, suffix)?;
                text.push('\0');
                (facts, text.into_bytes())
            }
        };
        Ok(facts.into_entry(kind, sm, suffix_flag, payload))
    }
}

impl fmt::Display for Image {
    /// `cubin sm_90a`, `PTX compute_120`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sm, suffix) = self.capability();
        let name = if self.kind() == Kind::Ptx {
            "PTX compute_"
        } else {
            "cubin sm_"
        };
        write!(f, "{name}{sm}")?;
        suffix.map_or(Ok(()), |letter| write!(f, "{letter}"))
    }
}

/// The fields of an image that its entry's header repeats.
struct Facts {
    major: u16,
    minor: u16,
    flags: u64,
    notes: Option<Notes>,
}

/// The text at the header's end. For a cubin `length` leaves out the NUL that stands before it.
struct Notes {
    length: u32,
    text: Vec<u8>,
}

impl Facts {
    fn into_entry(self, kind: Kind, sm: u32, suffix_flag: u64, mut payload: Vec<u8>) -> Entry {
        payload.resize(payload.len().next_multiple_of(8), 0);
        let mut tail = Vec::new();
        if let Some(notes) = &self.notes {
            tail.extend_from_slice(&(ENTRY_HEADER as u32 + 8).to_le_bytes());
            tail.extend_from_slice(&notes.length.to_le_bytes());
            tail.extend_from_slice(&notes.text);
            tail.resize(tail.len().next_multiple_of(8), 0);
        }
        let notes_offset = if self.notes.is_some() {
            ENTRY_HEADER as u32
        } else {
            0
        };
        let mut header = Vec::with_capacity(ENTRY_HEADER + tail.len());
        header.extend_from_slice(&kind.number().to_le_bytes());
        header.extend_from_slice(&0x0101_u16.to_le_bytes());
        header.extend_from_slice(&((ENTRY_HEADER + tail.len()) as u32).to_le_bytes());
        header.extend_from_slice(&(payload.len() as u64).to_le_bytes());
        header.extend_from_slice(&0_u32.to_le_bytes());
        header.extend_from_slice(&notes_offset.to_le_bytes());
        header.extend_from_slice(&self.minor.to_le_bytes());
        header.extend_from_slice(&self.major.to_le_bytes());
        header.extend_from_slice(&sm.to_le_bytes());
        header.extend_from_slice(&0_u64.to_le_bytes());
        let flags = flag::ADDRESS_64 | flag::LINUX | suffix_flag | self.flags;
        header.extend_from_slice(&flags.to_le_bytes());
        header.extend_from_slice(&[0; 16]);
        header.extend_from_slice(&tail);
        Entry::from_parts(header, payload)
    }
}

/// Reads `.version 8.8` and `.target sm_90a`.
fn ptx_facts(text: &str, named: &str, sm: u32, suffix: Option<char>) -> Result<Facts, Error> {
    if text.contains('\0') {
        return Err(invalid(format!("{named}: a NUL inside the text")));
    }
    let directive = |name: &str| {
        let mut words = text
            .lines()
            .map(str::split_whitespace)
            .filter(|words| words.clone().next() == Some(name));
        words
            .next()
            .and_then(|mut words| words.nth(1))
            .map(|word| word.trim_end_matches(','))
    };
    let version = directive(".version").and_then(|word| word.split_once('.'));
    let version =
        version.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let Some((major, minor)) = version else {
        return Err(invalid(format!(
            "{named}: no `.version` with two numbers in the text"
        )));
    };
    let target = directive(".target").unwrap_or("none");
    let wanted = format!("sm_{sm}{}", suffix.map(String::from).unwrap_or_default());
    if target != wanted {
        return Err(invalid(format!(
            "{named}: the text is for `.target {target}`"
        )));
    }
    // Without options the text of the notes is the NUL that ends it.
    Ok(Facts {
        major,
        minor,
        flags: 0,
        notes: Some(Notes {
            length: 0,
            text: vec![0],
        }),
    })
}

/// Reads the ELF header: ABI, capability, and whether the code can be finalised for later GPUs.
fn cubin_facts(bytes: &[u8], named: &str, sm: u32) -> Result<Facts, Error> {
    const EM_CUDA: u16 = 190;
    /// `EI_OSABI` of the ABI that cubins had alone before capability 10.0.
    const OSABI_FIRST: u8 = 0x33;
    /// The same of the ABI that capability 10.0 and later have, and in CUDA 13 all.
    const OSABI_SECOND: u8 = 0x41;
    let identity: Option<[u8; 16]> = bytes_at(bytes, 0);
    let (Some(identity), Some(EM_CUDA), Some(flags)) =
        (identity, u16_at(bytes, 18), u32_at(bytes, 48))
    else {
        return Err(invalid(format!("{named}: not a cubin")));
    };
    if &identity[..6] != b"\x7fELF\x02\x01" {
        return Err(invalid(format!(
            "{named}: not a 64-bit little-endian ELF file"
        )));
    }
    let second = identity[7] == OSABI_SECOND;
    let built_for = match identity[7] {
        OSABI_FIRST => Some(flags & 0xff),
        OSABI_SECOND => Some(flags >> 8 & 0xff),
        _ => None,
    };
    if let Some(other) = built_for.filter(|&other| other != sm) {
        return Err(invalid(format!("{named}: the file is for sm_{other}")));
    }
    let notes = if second && flags & 3 != 0 {
        section(bytes, b".nv.compat")
    } else {
        None
    };
    let notes = notes.and_then(|compat| {
        let mut text = vec![0];
        text.extend_from_slice(compat);
        Some(Notes {
            length: u32::try_from(compat.len()).ok()?,
            text,
        })
    });
    let flags = if second && flags & 2 != 0 {
        flag::FINALIZABLE
    } else {
        0
    };
    Ok(Facts {
        major: identity[6].into(),
        minor: identity[8].into(),
        flags,
        notes,
    })
}

/// The bytes of the section with this name in a 64-bit little-endian ELF file.
fn section<'a>(bytes: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    let table = size_at(bytes, 40)?;
    let size = usize::from(u16_at(bytes, 58)?);
    let count = usize::from(u16_at(bytes, 60)?);
    let names = usize::from(u16_at(bytes, 62)?);
    let header = |index: usize| bytes.get(table.checked_add(index.checked_mul(size)?)?..);
    let content = |header: &[u8]| {
        let start = size_at(header, 24)?;
        bytes.get(start..start.checked_add(size_at(header, 32)?)?)
    };
    let names = content(header(names)?)?;
    (0..count).filter_map(header).find_map(|header| {
        let name = names.get(offset_at(header, 0)?..)?;
        let name = name.split(|&byte| byte == 0).next()?;
        if name == wanted {
            content(header)
        } else {
            None
        }
    })
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

    fn ptx(sm: u32, suffix: Option<char>, text: &str) -> Image {
        Image::Ptx {
            sm,
            suffix,
            text: text.to_owned(),
        }
    }

    fn refusal(image: Image) -> String {
        Fatbin::from_images(vec![image]).unwrap_err().to_string()
    }

    #[test]
    fn order_is_cubins_then_ptx_by_capability() {
        let text = |target: &str| format!(".version 8.7\n.target {target}\n");
        let images = vec![
            ptx(90, None, &text("sm_90")),
            Image::Cubin {
                sm: 90,
                suffix: Some('a'),
                bytes: cubin(0x33, 0x5a),
            },
            ptx(80, None, &text("sm_80, texmode_independent")),
            Image::Cubin {
                sm: 90,
                suffix: None,
                bytes: cubin(0x33, 0x5a),
            },
            Image::Cubin {
                sm: 75,
                suffix: None,
                bytes: cubin(0x41, 0x4b04),
            },
        ];
        let fatbin = Fatbin::from_images(images).unwrap();
        let listed: Vec<_> = fatbin
            .entries()
            .map(|e| (e.kind(), e.sm(), e.suffix()))
            .collect();
        let expected = [
            (Kind::Elf, 75, None),
            (Kind::Elf, 90, None),
            (Kind::Elf, 90, Some('a')),
            (Kind::Ptx, 80, None),
            (Kind::Ptx, 90, None),
        ];
        assert_eq!(listed, expected);
    }

    #[test]
    fn an_image_must_be_what_it_is_said_to_be() {
        let said = refusal(Image::Cubin {
            sm: 80,
            suffix: None,
            bytes: cubin(0x33, 0x5a),
        });
        assert_eq!(
            said,
            "not a valid fat binary: cubin sm_80: the file is for sm_90"
        );
        let said = refusal(Image::Cubin {
            sm: 80,
            suffix: None,
            bytes: b"\x7fELF".to_vec(),
        });
        assert_eq!(said, "not a valid fat binary: cubin sm_80: not a cubin");
        let said = refusal(ptx(80, None, ".version 8.0\n.target sm_90\n"));
        assert_eq!(
            said,
            "not a valid fat binary: PTX compute_80: the text is for `.target sm_90`"
        );
        let said = refusal(ptx(90, Some('b'), ".version 8.0\n.target sm_90b\n"));
        assert!(said.contains("no suffix `b`"), "{said}");
        assert!(refusal(ptx(80, None, "")).contains("no `.version`"));
        assert!(refusal(ptx(80, None, ".version 8.0\n\0.target sm_80\n")).contains("a NUL inside"));
        let twice = vec![
            Image::Cubin {
                sm: 80,
                suffix: None,
                bytes: cubin(0x33, 0x50)
            };
            2
        ];
        assert!(
            Fatbin::from_images(twice)
                .unwrap_err()
                .to_string()
                .contains("two images")
        );
        assert!(Fatbin::from_images(Vec::new()).is_err());
    }

    #[test]
    fn ptx_comes_out_as_it_went_in() {
        for extra in 0..9 {
            let text = format!(
                "// kept\n.version 9.4\n.target sm_120\n{}",
                "\n".repeat(extra)
            );
            let with_nul = format!("{text}\0");
            let plain = Fatbin::from_images(vec![ptx(120, None, &text)]).unwrap();
            assert_eq!(
                Fatbin::from_images(vec![ptx(120, None, &with_nul)]).unwrap(),
                plain
            );
            let entry = plain.entries().next().unwrap();
            assert_eq!(entry.image(), Some(text.as_bytes()));
            assert_eq!(entry.payload().len() % 8, 0);
            assert_eq!(entry.payload().last(), Some(&0));
            assert_eq!(entry.version(), (9, 4));
        }
    }
}
