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
        Vector(numbers.iter().map(|n| (n / norm * ONE).round() as i8).collect())
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
        fn a_vector_is_stored_and_read_back(numbers in proptest::collection::vec(any::<f32>(), 0..40)) {
            let vector = Vector::of(&numbers);
            prop_assert_eq!(Vector::from_bytes(&vector.to_bytes()), vector);
        }
    }

    #[test]
    fn numbers_without_a_direction_give_zero() {
        for numbers in [[0.0, 0.0], [f32::NAN, 1.0], [f32::INFINITY, 1.0]] {
            assert!(Vector::of(&numbers).is_zero(), "{numbers:?}");
        }
    }
}
