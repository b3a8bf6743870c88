//! Inputs made from other inputs: the same seed gives the same row of them on every machine.

/// Xorshift; good enough to choose what to break.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Less than `end`; 0 where there is nothing to choose from.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 11).unwrap() % end.max(1)
    }
}

/// Bytes on which parsers go wrong.
const ODD: [&[u8]; 24] = [
    b"\0",
    b"\n",
    b"\r\n",
    b"\"",
    b"'",
    b"\\",
    b"=",
    b"[",
    b"]]",
    b"#",
    b"#$ ",
    b" ",
    b"\xff",
    b"\xc3\x28",
    b"\xe2\x80\xae",
    "\u{1f980}".as_bytes(),
    b"..",
    b"/",
    b"-",
    b"99999999999999999999",
    b"-1",
    b"0x",
    b"\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x00\x00\x00\x00",
];

/// One of `seeds` with a few changes; `tokens` are words of the format.
pub fn mutated(random: &mut Random, seeds: &[Vec<u8>], tokens: &[&[u8]]) -> Vec<u8> {
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len() + 1);
        match random.below(10) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = (random.next() & 0xff) as u8,
            2 => insert(&mut bytes, at, ODD[random.below(ODD.len())]),
            3 if !tokens.is_empty() => insert(&mut bytes, at, tokens[random.below(tokens.len())]),
            4 => {
                let end = at + random.below(bytes.len() - at + 1).min(1 + random.below(40));
                bytes.drain(at..end);
            }
            5 => {
                let end = at + random.below(bytes.len() - at + 1).min(200);
                let part = bytes[at..end].to_vec();
                let times = 1 + random.below(4);
                insert(&mut bytes, end, &part.repeat(times));
            }
            6 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            7 => bytes.truncate(at),
            // Deep nesting, where something descends into it.
            8 if random.below(8) == 0 => {
                let deep: &[u8] =
                    [b"[".as_slice(), b"(", b"{", b"a.", b"!", b"a={"][random.below(6)];
                insert(&mut bytes, at, &deep.repeat(1 + random.below(10_000)));
            }
            _ if at + 8 <= bytes.len() => {
                // A length or an offset, off by little or by much.
                let number = [0, 1, 7, u64::from(u32::MAX), u64::MAX, 1 << 63][random.below(6)];
                let width = [2, 4, 8][random.below(3)];
                bytes[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
            }
            _ => {}
        }
    }
    bytes.truncate(1 << 16);
    bytes
}

fn insert(bytes: &mut Vec<u8>, at: usize, part: &[u8]) {
    bytes.splice(at..at, part.iter().copied());
}
