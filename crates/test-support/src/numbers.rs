//! Reproducible pseudo-random numbers.

/// The generator `SplitMix64`. The field is its seed.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Random bytes, at most `longest`.
    pub fn bytes(&mut self, longest: usize) -> Vec<u8> {
        (0..self.below(longest + 1))
            .map(|_| self.next() as u8)
            .collect()
    }

    /// Changes up to three bytes, and sometimes truncates.
    pub fn spoil(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.below(4) {
            let at = self.below(bytes.len().max(1));
            if let Some(byte) = bytes.get_mut(at) {
                *byte = [0, 1, 0x7f, 0x80, 0xff, self.next() as u8][self.below(6)];
            }
        }
        if self.below(4) == 0 {
            bytes.truncate(self.below(bytes.len() + 1));
        }
    }
}
