//! Writes a shared object that defines names and does nothing.
//!
//! Generated without a host compiler, which a machine may lack or have for another platform only, so
//! the bytes are the same everywhere. Layout (ELF-64, System V gABI):
//!
//! ```text
//! segment R    file header, program headers, .hash, .dynsym, .dynstr, .rodata
//! segment RX   .text: two functions that all names share
//! segment RW   .dynamic (the loader writes into it)
//! not loaded   .shstrtab, section headers
//! ```

/// The machines that CUDA has a driver for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Machine {
    X86_64,
    Aarch64,
}

/// The content of the library.
pub(super) struct Library<'a> {
    pub(super) machine: Machine,
    pub(super) soname: &'a str,
    /// The functions, sorted, without duplicates.
    pub(super) names: &'a [String],
    /// Those among them that return a pointer to text.
    pub(super) texts: &'a [&'a str],
    /// The status that the other functions return.
    pub(super) status: u16,
}

const TEXT: &[u8] = b"stub library\0";

const FILE_HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const SECTION_HEADER: usize = 64;
const SYMBOL: usize = 24;
/// R, RX, RW, dynamic, stack.
const SEGMENTS: usize = 5;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_GNU_STACK: u32 = 0x6474_e551;
const PF_X: u32 = 1;
const PF_W: u32 = 2;
const PF_R: u32 = 4;

impl Machine {
    fn code(self) -> u16 {
        match self {
            Self::X86_64 => 62,
            Self::Aarch64 => 183,
        }
    }

    /// The largest page that a kernel for this machine may use.
    fn page(self) -> usize {
        match self {
            Self::X86_64 => 0x1000,
            Self::Aarch64 => 0x1_0000,
        }
    }

    /// `return status;`, 16 bytes.
    fn return_status(self, status: u16) -> Vec<u8> {
        match self {
            // mov eax, status; ret; and traps
            Self::X86_64 => {
                let mut code = vec![0xb8];
                code.extend(u32::from(status).to_le_bytes());
                code.push(0xc3);
                code.resize(16, 0xcc);
                code
            }
            // mov w0, #status; ret; and traps
            Self::Aarch64 => words(&[0x5280_0000 | u32::from(status) << 5, 0xd65f_03c0, 0, 0]),
        }
    }

    /// `return text;` with the text `distance` bytes before the first instruction, 16 bytes.
    fn return_text(self, distance: usize) -> Vec<u8> {
        let back = 0u32.wrapping_sub(distance as u32);
        match self {
            // lea rax, [rip + d]; ret: counted from the end of the seven bytes of lea
            Self::X86_64 => {
                let mut code = vec![0x48, 0x8d, 0x05];
                code.extend(back.wrapping_sub(7).to_le_bytes());
                code.push(0xc3);
                code.resize(16, 0xcc);
                code
            }
            // adr x0, d: 21 bits, the lowest two apart; ret
            Self::Aarch64 => {
                let adr = 0x1000_0000 | (back & 3) << 29 | (back >> 2 & 0x7_ffff) << 5;
                words(&[adr, 0xd65f_03c0, 0, 0])
            }
        }
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A part of the file, with its address in memory.
#[derive(Clone, Copy, Default)]
struct Place {
    offset: usize,
    address: usize,
    size: usize,
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
    let machine = library.machine;
    let page = machine.page();
    let mut strings = Strings(vec![0]);
    let soname = strings.add(library.soname);
    let names: Vec<u32> = library.names.iter().map(|name| strings.add(name)).collect();
    let hash = hash_table(library.names);

    // Segment R: addresses are offsets.
    let mut end = FILE_HEADER + SEGMENTS * PROGRAM_HEADER;
    let mut place = |size: usize, align: usize| {
        let offset = end.next_multiple_of(align);
        end = offset + size;
        Place {
            offset,
            address: offset,
            size,
        }
    };
    let hash_at = place(hash.len(), 8);
    let symbols_at = place((library.names.len() + 1) * SYMBOL, 8);
    let strings_at = place(strings.0.len(), 1);
    let text_at = place(TEXT.len(), 1);
    let read_only = end;

    // The other two: each starts in a page of its own in memory, and goes on in the same page of
    // the file.
    let offset = read_only.next_multiple_of(16);
    let code_at = Place {
        offset,
        address: read_only.next_multiple_of(page) + offset % page,
        size: 32,
    };
    let mut code = machine.return_status(library.status);
    code.extend(machine.return_text(code_at.address + 16 - text_at.address));
    let offset = code_at.offset + code_at.size;
    let address = (code_at.address + code_at.size).next_multiple_of(page) + offset % page;
    let entries: [(u64, usize); 7] = [
        (14, soname as usize),   // DT_SONAME
        (4, hash_at.address),    // DT_HASH
        (5, strings_at.address), // DT_STRTAB
        (6, symbols_at.address), // DT_SYMTAB
        (10, strings_at.size),   // DT_STRSZ
        (11, SYMBOL),            // DT_SYMENT
        (0, 0),                  // DT_NULL
    ];
    let dynamic_at = Place {
        offset,
        address,
        size: entries.len() * 16,
    };

    let mut file = Writer(Vec::new());
    let mut section_names = Strings(vec![0]);
    let named: Vec<u32> = [
        ".hash",
        ".dynsym",
        ".dynstr",
        ".rodata",
        ".text",
        ".dynamic",
        ".shstrtab",
    ]
    .iter()
    .map(|name| section_names.add(name))
    .collect();
    let section_names_at = dynamic_at.offset + dynamic_at.size;
    let sections_at = (section_names_at + section_names.0.len()).next_multiple_of(8);

    file.header(machine, sections_at, named.len() + 1);
    file.segment(
        PT_LOAD,
        PF_R,
        Place {
            offset: 0,
            address: 0,
            size: read_only,
        },
        page,
    );
    file.segment(PT_LOAD, PF_R | PF_X, code_at, page);
    file.segment(PT_LOAD, PF_R | PF_W, dynamic_at, page);
    file.segment(PT_DYNAMIC, PF_R | PF_W, dynamic_at, 8);
    file.segment(PT_GNU_STACK, PF_R | PF_W, Place::default(), 16);

    file.put(hash_at, &hash);
    file.pad(symbols_at.offset);
    file.0.extend([0; SYMBOL]);
    for (name, at) in library.names.iter().zip(names) {
        let text = library.texts.contains(&name.as_str());
        file.u32(at);
        file.0.extend([0x12, 0]); // global function, default visibility
        file.u16(5); // its section is .text
        file.u64(code_at.address + if text { 16 } else { 0 });
        file.u64(16);
    }
    file.put(strings_at, &strings.0);
    file.put(text_at, TEXT);
    file.put(code_at, &code);
    file.pad(dynamic_at.offset);
    for (tag, value) in entries {
        file.0.extend(tag.to_le_bytes());
        file.u64(value);
    }
    file.0.extend(&section_names.0);
    file.pad(sections_at);

    file.0.extend([0; SECTION_HEADER]);
    // name, type, flags, place, link, info, align, size of one
    file.section(named[0], 5, 2, hash_at, 2, 0, 8, 4); // SHT_HASH
    file.section(named[1], 11, 2, symbols_at, 3, 1, 8, SYMBOL); // SHT_DYNSYM
    file.section(named[2], 3, 2, strings_at, 0, 0, 1, 0); // SHT_STRTAB
    file.section(named[3], 1, 2, text_at, 0, 0, 1, 0); // SHT_PROGBITS
    file.section(named[4], 1, 6, code_at, 0, 0, 16, 0);
    file.section(named[5], 6, 3, dynamic_at, 3, 0, 8, 16); // SHT_DYNAMIC
    let unloaded = Place {
        offset: section_names_at,
        address: 0,
        size: section_names.0.len(),
    };
    file.section(named[6], 3, 0, unloaded, 0, 0, 1, 0);
    file.0
}

/// `DT_HASH`: bucket heads, then for each symbol the next of its bucket.
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

    fn pad(&mut self, offset: usize) {
        self.0.resize(offset, 0);
    }

    fn put(&mut self, place: Place, bytes: &[u8]) {
        self.pad(place.offset);
        self.0.extend_from_slice(bytes);
    }

    fn header(&mut self, machine: Machine, sections_at: usize, sections: usize) {
        self.0.extend(b"\x7fELF\x02\x01\x01"); // 64 bits, little-endian, version 1
        self.pad(16);
        self.u16(3); // ET_DYN
        self.u16(machine.code());
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
        self.u16(sections as u16 - 1); // .shstrtab is the last
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

    #[allow(
        clippy::too_many_arguments,
        reason = "one a field, in the order of the format"
    )]
    fn section(
        &mut self,
        name: u32,
        kind: u32,
        flags: usize,
        place: Place,
        link: u32,
        info: u32,
        align: usize,
        one: usize,
    ) {
        self.u32(name);
        self.u32(kind);
        for value in [flags, place.address, place.offset, place.size] {
            self.u64(value);
        }
        self.u32(link);
        self.u32(info);
        self.u64(align);
        self.u64(one);
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
    fn instructions_are_what_they_say() {
        assert_eq!(
            Machine::X86_64.return_status(34)[..6],
            [0xb8, 34, 0, 0, 0, 0xc3]
        );
        // 52800440: mov w0, #0x22
        assert_eq!(
            Machine::Aarch64.return_status(34)[..4],
            [0x40, 0x04, 0x80, 0x52]
        );
        // 10ffff80: adr x0, . - 16
        assert_eq!(
            Machine::Aarch64.return_text(16)[..4],
            [0x80, 0xff, 0xff, 0x10]
        );
        // 48 8d 05 e9 ff ff ff: lea rax, [rip - 23]
        assert_eq!(
            Machine::X86_64.return_text(16)[..8],
            [0x48, 0x8d, 0x05, 0xe9, 0xff, 0xff, 0xff, 0xc3]
        );
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
            let page = machine.page();
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
