//! A text's direction: a unit vector in 8-bit numbers.
//!
//! 127 stands for 1. Rounding moves a cosine by less than two hundredths and saves three quarters of the memory, and a
//! dot product of bytes is what a processor does fastest.

/// What 1 is stored as.
const ONE: f32 = 127.0;

/// A unit vector, or zero for a text of which nothing is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vector(Box<[i8]>);

impl Vector {
    /// The direction of these numbers. Zero if they have none, or if one of them is not a number.
    pub fn of(numbers: &[f32]) -> Self {
        let norm = numbers.iter().map(|n| n * n).sum::<f32>().sqrt();
        if !norm.is_normal() {
            return Vector(vec![0; numbers.len()].into());
        }
        // In range: no coordinate of a unit vector is larger than 1.
        Vector(numbers.iter().map(|n| nearest(n / norm * ONE)).collect())
    }

    /// A vector that was stored.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Vector(bytes.iter().map(|byte| byte.cast_signed()).collect())
    }

    /// As it is stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().map(|number| number.cast_unsigned()).collect()
    }

    /// Its numbers.
    pub fn numbers(&self) -> &[i8] {
        &self.0
    }

    /// True for a text of which nothing is known: it is close to nothing.
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|number| *number == 0)
    }

    /// The cosine of the angle between two vectors, from −1 to 1.
    pub fn cosine(&self, other: &Vector) -> f32 {
        to_cosine(dot(&self.0, &other.0))
    }
}

/// What `round` gives, in steps that the compiler does for many numbers at once. For numbers that a byte holds.
#[inline]
fn nearest(number: f32) -> i8 {
    let whole = number as i32;
    // Exact: a number and its whole part differ by less than 1.
    let rest = number - whole as f32;
    (whole + i32::from(rest >= 0.5) - i32::from(rest <= -0.5)) as i8
}

/// A dot product as a cosine.
pub fn to_cosine(dot: i32) -> f32 {
    dot as f32 / (ONE * ONE)
}

/// The sum of products, over the shorter of the two.
#[inline]
pub fn dot(a: &[i8], b: &[i8]) -> i32 {
    a.iter()
        .zip(b)
        .map(|(a, b)| i32::from(i16::from(*a) * i16::from(*b)))
        .sum()
}

/// Adds up rows of a table of bytes, given by their numbers; each row is as long as `sum`.
#[cfg(feature = "table")]
pub(crate) fn add_rows(sum: &mut [i32], table: &[u8], rows: &[u32]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function was compiled for, as was just asked.
        return unsafe { add_rows_wide(sum, table, rows) };
    }
    add_rows_plain(sum, table, rows);
}

/// The same loop, compiled for a processor with wider registers.
#[cfg(all(feature = "table", target_arch = "x86_64"))]
#[target_feature(enable = "avx2")]
fn add_rows_wide(sum: &mut [i32], table: &[u8], rows: &[u32]) {
    add_rows_plain(sum, table, rows);
}

#[cfg(feature = "table")]
#[inline(always)]
fn add_rows_plain(sum: &mut [i32], table: &[u8], rows: &[u32]) {
    /// This many numbers of a row at a time: a cache line, whose sums stay in registers.
    const COLUMNS: usize = 64;
    /// This many bytes add up to what 16 bits hold.
    const ROWS: usize = 255;
    let length = sum.len();
    let (blocks, rest) = sum.as_chunks_mut::<COLUMNS>();
    let start_of_rest = blocks.len() * COLUMNS;
    for rows in rows.chunks(ROWS) {
        for (at, block) in blocks.iter_mut().enumerate() {
            let mut sums = [0_i16; COLUMNS];
            for row in rows {
                let start = *row as usize * length + at * COLUMNS;
                let numbers = &table[start..start + COLUMNS];
                for at in 0..COLUMNS {
                    sums[at] += i16::from(numbers[at].cast_signed());
                }
            }
            for at in 0..COLUMNS {
                block[at] += i32::from(sums[at]);
            }
        }
        if rest.is_empty() {
            continue;
        }
        for row in rows {
            let start = *row as usize * length + start_of_rest;
            for (sum, number) in rest.iter_mut().zip(&table[start..]) {
                *sum += i32::from(number.cast_signed());
            }
        }
    }
}

/// Scans rows of one length, one after the other in `matrix`, against a query; tells `seen` the number of each row and
/// its dot product.
pub fn scan(matrix: &[i8], query: &[i8], seen: impl FnMut(usize, i32)) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function was compiled for, as was just asked.
        return unsafe { scan_wide(matrix, query, seen) };
    }
    scan_plain(matrix, query, seen);
}

/// The same loop, compiled for a processor with wider registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn scan_wide(matrix: &[i8], query: &[i8], seen: impl FnMut(usize, i32)) {
    scan_plain(matrix, query, seen);
}

#[inline(always)]
fn scan_plain(matrix: &[i8], query: &[i8], mut seen: impl FnMut(usize, i32)) {
    if query.is_empty() {
        return;
    }
    for (number, row) in matrix.chunks_exact(query.len()).enumerate() {
        let mut sum = 0;
        // Both 16 wide, so that the compiler needs no rest loop for the usual lengths.
        let (rows, row_rest) = row.as_chunks::<16>();
        let (queries, query_rest) = query.as_chunks::<16>();
        for (row, query) in rows.iter().zip(queries) {
            for at in 0..16 {
                sum += i32::from(row[at]) * i32::from(query[at]);
            }
        }
        seen(number, sum + dot(row_rest, query_rest));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rounding_moves_a_cosine_by_less_than_two_hundredths(
            a in proptest::collection::vec(-1.0f32..1.0, 64),
            b in proptest::collection::vec(-1.0f32..1.0, 64),
        ) {
            let norm = |v: &[f32]| v.iter().map(|n| n * n).sum::<f32>().sqrt();
            prop_assume!(norm(&a) > 0.1 && norm(&b) > 0.1);
            let exact = a.iter().zip(&b).map(|(a, b)| a * b).sum::<f32>() / norm(&a) / norm(&b);
            let cosine = Vector::of(&a).cosine(&Vector::of(&b));
            prop_assert!((exact - cosine).abs() < 0.02, "{exact} {cosine}");
        }

        #[test]
        fn a_scan_gives_the_dot_product_of_every_row(
            length in 1usize..70, rows in 0usize..9, seed in proptest::collection::vec(any::<i8>(), 700),
        ) {
            let query = &seed[..length];
            let matrix = &seed[length..length * (rows + 1)];
            let mut found = Vec::new();
            scan(matrix, query, |row, dot| found.push((row, dot)));
            let expected: Vec<_> = matrix.chunks_exact(length).map(|row| dot(row, query)).enumerate().collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn the_nearest_number_is_what_round_gives(number in -127.4f32..127.4, half in -254i16..254) {
            let half = f32::from(half) / 2.0;
            for number in [number, half, half.next_up(), half.next_down()] {
                prop_assert_eq!(nearest(number), number.round() as i8, "{}", number);
            }
        }

        #[test]
        fn a_vector_is_stored_and_read_back(numbers in proptest::collection::vec(any::<f32>(), 0..40)) {
            let vector = Vector::of(&numbers);
            prop_assert_eq!(Vector::from_bytes(&vector.to_bytes()), vector);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn rows_are_added_up(
            length in 1usize..150,
            bytes in proptest::collection::vec(prop_oneof![Just(0x80u8), Just(0x7f), any::<u8>()], 600),
            rows in proptest::collection::vec(0u32..4, 0..600),
        ) {
            let mut sum = vec![0; length];
            add_rows(&mut sum, &bytes[..4 * length], &rows);
            for (at, sum) in sum.into_iter().enumerate() {
                let number = |row: &u32| i32::from(bytes[*row as usize * length + at].cast_signed());
                prop_assert_eq!(sum, rows.iter().map(number).sum::<i32>());
            }
        }
    }

    #[test]
    fn numbers_without_a_direction_give_zero() {
        for numbers in [[0.0, 0.0], [f32::NAN, 1.0], [f32::INFINITY, 1.0]] {
            assert!(Vector::of(&numbers).is_zero(), "{numbers:?}");
        }
    }
}
