//! Generates a shared object whose functions only return a constant.
//!
//! No host compiler is used, because a machine may have none, or only a compiler for another platform.
//! The bytes are the same on every machine. The layout (ELF-64, System V gABI) is:
//!
//! ```text
//! segment R    file header, program headers, .hash, .dynsym, .dynstr
//! segment RX   .text: two functions that all symbols share, and the string that one returns
//! segment RW   .dynamic (the loader writes into it)
//! not loaded   .shstrtab, section headers
//! ```

/// The machines that CUDA has a driver for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Machine {
    X86_64,
    Aarch64,
}

/// What a stub library contains.
pub(super) struct Library<'a> {
    pub(super) machine: Machine,
    pub(super) soname: &'a str,
    /// The functions, sorted, without duplicates.
    pub(super) names: &'a [String],
    /// The functions that return a string.
    pub(super) texts: &'a [&'a str],
    /// The status that the other functions return.
    pub(super) status: u16,
}

const TEXT: &[u8] = b"stub library\0";

const FILE_HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const SECTION_HEADER: usize = 64;
const SYMBOL: usize = 24;
/// The number of program headers: R, RX, RW, dynamic, stack.
const SEGMENTS: usize = 5;
/// The largest page size that a Linux kernel uses on these machines.
const PAGE: usize = 0x1_0000;
/// The length of each of the two functions in bytes, padding included.
const FUNCTION: usize = 16;
/// The names of the sections. The first column of `sections` in [`shared_object`] has the offset of each name.
const SECTION_NAMES: &[u8] = b"\0.hash\0.dynsym\0.dynstr\0.text\0.dynamic\0.shstrtab\0";

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_GNU_STACK: u32 = 0x6474_e551;
const PF_X: u32 = 1;
const PF_W: u32 = 2;
const PF_R: u32 = 4;

impl Machine {
    fn number(self) -> u16 {
        match self {
            Self::X86_64 => 62,
            Self::Aarch64 => 183,
        }
    }

    /// The content of `.text`: the function `return status;`, the function `return text;`, then the text.
    fn code(self, status: u16) -> Vec<u8> {
        let status = u32::from(status);
        let mut code = match self {
            Self::X86_64 => {
                // mov eax, status; ret
                let mut code = [&[0xb8], &status.to_le_bytes()[..], &[0xc3]].concat();
                code.resize(FUNCTION, 0xcc);
                // lea rax, [rip + 9]; ret. The text starts 16 bytes after the start of `lea`. The displacement
                // counts from the end of `lea`, which has 7 bytes.
                code.extend([0x48, 0x8d, 0x05, 9, 0, 0, 0, 0xc3]);
                code.resize(2 * FUNCTION, 0xcc);
                code
            }
            Self::Aarch64 => words(&[
                0x5280_0000 | status << 5, // mov w0, #status
                0xd65f_03c0,               // ret
                0,
                0,
                0x1000_0080, // adr x0, . + 16
                0xd65f_03c0, // ret
                0,
                0,
            ]),
        };
        code.extend_from_slice(TEXT);
        code
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in words {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// A part of the file, with its address in memory.
#[derive(Clone, Copy, Default)]
struct Place {
    offset: usize,
    address: usize,
    size: usize,
}

impl Place {
    /// The place of the next part. It follows this part directly in the file, but it is on another page
    /// of memory, so that it can have other access rights.
    fn next_page(self, size: usize) -> Self {
        let offset = (self.offset + self.size).next_multiple_of(16);
        let address = (self.address + self.size).next_multiple_of(PAGE) + offset % PAGE;
        Self {
            offset,
            address,
            size,
        }
    }
}

/// A string table: names, each followed by a zero.
struct Strings(Vec<u8>);

impl Strings {
    fn add(&mut self, text: &str) -> u32 {
        let at = self.0.len();
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
        at as u32
    }
}

/// The whole file.
pub(super) fn shared_object(library: &Library<'_>) -> Vec<u8> {
    let mut strings = Strings(vec![0]);
    let soname = strings.add(library.soname);
    let names: Vec<u32> = library.names.iter().map(|name| strings.add(name)).collect();
    let hash = hash_table(library.names);
    let code = library.machine.code(library.status);

    // Segment R. Its addresses equal the offsets in the file.
    let mut end = FILE_HEADER + SEGMENTS * PROGRAM_HEADER;
    let mut place = |size: usize| {
        let offset = end.next_multiple_of(8);
        end = offset + size;
        Place {
            offset,
            address: offset,
            size,
        }
    };
    let hash_at = place(hash.len());
    let symbols_at = place((names.len() + 1) * SYMBOL);
    let strings_at = place(strings.0.len());
    let read_only = Place {
        size: end,
        ..Place::default()
    };
    let code_at = read_only.next_page(code.len());
    let entries: [(u64, usize); 7] = [
        (14, soname as usize),   // DT_SONAME
        (4, hash_at.address),    // DT_HASH
        (5, strings_at.address), // DT_STRTAB
        (6, symbols_at.address), // DT_SYMTAB
        (10, strings_at.size),   // DT_STRSZ
        (11, SYMBOL),            // DT_SYMENT
        (0, 0),                  // DT_NULL
    ];
    let dynamic_at = code_at.next_page(entries.len() * 16);

    let names_at = Place {
        offset: dynamic_at.offset + dynamic_at.size,
        address: 0,
        size: SECTION_NAMES.len(),
    };
    // The columns: name, type, flags, place, link, info, alignment, size of one entry.
    let sections = [
        (0, 0, 0, Place::default(), 0, 0, 0, 0),
        (1, 5, 2, hash_at, 2, 0, 8, 4),          // SHT_HASH
        (7, 11, 2, symbols_at, 3, 1, 8, SYMBOL), // SHT_DYNSYM
        (15, 3, 2, strings_at, 0, 0, 1, 0),      // SHT_STRTAB
        (23, 1, 6, code_at, 0, 0, 16, 0),        // SHT_PROGBITS
        (29, 6, 3, dynamic_at, 3, 0, 8, 16),     // SHT_DYNAMIC
        (38, 3, 0, names_at, 0, 0, 1, 0),        // SHT_STRTAB
    ];
    let sections_at = (names_at.offset + names_at.size).next_multiple_of(8);

    let mut file = Writer(Vec::new());
    file.header(library.machine, sections_at, sections.len());
    file.segment(PT_LOAD, PF_R, read_only, PAGE);
    file.segment(PT_LOAD, PF_R | PF_X, code_at, PAGE);
    file.segment(PT_LOAD, PF_R | PF_W, dynamic_at, PAGE);
    file.segment(PT_DYNAMIC, PF_R | PF_W, dynamic_at, 8);
    file.segment(PT_GNU_STACK, PF_R | PF_W, Place::default(), 16);

    file.put(hash_at, &hash);
    file.put(symbols_at, &[0; SYMBOL]);
    for (name, at) in library.names.iter().zip(names) {
        let is_text = library.texts.contains(&name.as_str());
        file.u32(at);
        file.0.extend([0x12, 0]); // global function, default visibility
        file.u16(4); // the index of the section .text
        file.u64(code_at.address + if is_text { FUNCTION } else { 0 });
        file.u64(FUNCTION);
    }
    file.put(strings_at, &strings.0);
    file.put(code_at, &code);
    file.put(dynamic_at, &[]);
    for (tag, value) in entries {
        file.0.extend(tag.to_le_bytes());
        file.u64(value);
    }
    file.put(names_at, SECTION_NAMES);
    file.0.resize(sections_at, 0);
    for (name, kind, flags, place, link, info, align, entry_size) in sections {
        file.u32(name);
        file.u32(kind);
        for value in [flags, place.address, place.offset, place.size] {
            file.u64(value);
        }
        file.u32(link);
        file.u32(info);
        file.u64(align);
        file.u64(entry_size);
    }
    file.0
}

/// The table of `DT_HASH`: two counts, then the first symbol of each bucket, then for each symbol the next symbol in
/// its bucket.
fn hash_table(names: &[String]) -> Vec<u8> {
    let buckets = names.len().max(1);
    let mut heads = vec![0u32; buckets];
    let mut chains = vec![0u32; names.len() + 1];
    for (index, name) in names.iter().enumerate() {
        let bucket = hash(name) as usize % buckets;
        chains[index + 1] = heads[bucket];
        heads[bucket] = index as u32 + 1;
    }
    let counts = [buckets as u32, chains.len() as u32];
    words(&[&counts[..], &heads, &chains].concat())
}

/// The gABI's hash of symbol names.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0, |hash: u32, byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let high = hash & 0xf000_0000;
        (hash ^ high >> 24) & !high
    })
}

struct Writer(Vec<u8>);

impl Writer {
    fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    fn u64(&mut self, value: usize) {
        self.0.extend((value as u64).to_le_bytes());
    }

    fn put(&mut self, place: Place, bytes: &[u8]) {
        self.0.resize(place.offset, 0);
        self.0.extend_from_slice(bytes);
    }

    fn header(&mut self, machine: Machine, sections_at: usize, sections: usize) {
        self.0.extend(b"\x7fELF\x02\x01\x01"); // 64 bits, little-endian, version 1
        self.0.resize(16, 0);
        self.u16(3); // ET_DYN
        self.u16(machine.number());
        self.u32(1);
        self.u64(0); // no entry point
        self.u64(FILE_HEADER);
        self.u64(sections_at);
        self.u32(0);
        self.u16(FILE_HEADER as u16);
        self.u16(PROGRAM_HEADER as u16);
        self.u16(SEGMENTS as u16);
        self.u16(SECTION_HEADER as u16);
        self.u16(sections as u16);
        self.u16(sections as u16 - 1); // the index of .shstrtab, the last section
    }

    fn segment(&mut self, kind: u32, flags: u32, place: Place, align: usize) {
        self.u32(kind);
        self.u32(flags);
        for value in [
            place.offset,
            place.address,
            place.address,
            place.size,
            place.size,
            align,
        ] {
            self.u64(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_the_gabis() {
        // Values of glibc's and binutils' implementations.
        assert_eq!(hash(""), 0);
        assert_eq!(hash("printf"), 0x0779_05a6);
        assert_eq!(hash("exit"), 0x0006_cf04);
    }

    #[test]
    fn instructions_are_those_of_an_assembler() {
        let x86_64 = Machine::X86_64.code(34);
        assert_eq!(x86_64[..6], [0xb8, 34, 0, 0, 0, 0xc3]);
        // lea rax, [rip + 9]; ret
        assert_eq!(x86_64[16..24], [0x48, 0x8d, 0x05, 9, 0, 0, 0, 0xc3]);
        let aarch64 = Machine::Aarch64.code(34);
        // 52800440: mov w0, #0x22
        assert_eq!(aarch64[..4], [0x40, 0x04, 0x80, 0x52]);
        // 10000080: adr x0, . + 16
        assert_eq!(aarch64[16..20], [0x80, 0x00, 0x00, 0x10]);
        for code in [x86_64, aarch64] {
            assert_eq!(&code[32..], TEXT);
        }
    }

    #[test]
    fn segments_never_share_a_page() {
        let names: Vec<String> = (0..900)
            .map(|n| format!("cuFunctionNumber{n:04}"))
            .collect();
        for machine in [Machine::X86_64, Machine::Aarch64] {
            let library = Library {
                machine,
                soname: "libcuda.so.1",
                names: &names,
                texts: &[],
                status: 34,
            };
            let bytes = shared_object(&library);
            let number =
                |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
            let page = PAGE;
            let mut last_page = None;
            for segment in 0..3 {
                let at = FILE_HEADER + segment * PROGRAM_HEADER;
                let (offset, address, size) = (number(at + 8), number(at + 16), number(at + 32));
                assert_eq!(offset % page, address % page);
                assert!(offset + size <= bytes.len());
                assert!(
                    last_page.is_none_or(|last| address / page > last),
                    "{machine:?} {segment}"
                );
                last_page = Some((address + size - 1) / page);
            }
        }
    }
}
