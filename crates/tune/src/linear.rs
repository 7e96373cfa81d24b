//! Cholesky factors of small symmetric matrices.

/// A lower triangular factor, by rows.
#[derive(Clone, Debug)]
pub struct Factor {
    n: usize,
    cells: Vec<f64>,
}

impl Factor {
    /// Factors a symmetric matrix given by its lower triangle, or `None` if it is not positive definite.
    pub fn new(n: usize, element: impl Fn(usize, usize) -> f64) -> Option<Factor> {
        let mut cells = vec![0.0; n * n];
        for row in 0..n {
            for column in 0..=row {
                let (row_cells, column_cells) =
                    (&cells[row * n..row * n + column], &cells[column * n..][..column]);
                let remainder = element(row, column) - dot(row_cells, column_cells);
                cells[row * n + column] = match row == column {
                    true if remainder > 0.0 => remainder.sqrt(),
                    true => return None,
                    false => remainder / cells[column * n + column],
                };
            }
        }
        Some(Factor { n, cells })
    }

    /// Returns the logarithm of the determinant of the matrix.
    pub fn log_determinant(&self) -> f64 {
        (0..self.n).map(|index| 2.0 * self.cells[index * self.n + index].ln()).sum()
    }

    /// Solves `L x = b`.
    pub fn forward(&self, b: &[f64]) -> Vec<f64> {
        let n = self.n;
        let mut x = vec![0.0; n];
        for row in 0..n {
            let known = dot(&self.cells[row * n..row * n + row], &x[..row]);
            x[row] = (b[row] - known) / self.cells[row * n + row];
        }
        x
    }

    /// Solves `L L^T x = b`.
    pub fn solve(&self, b: &[f64]) -> Vec<f64> {
        let (n, mut x) = (self.n, self.forward(b));
        for row in (0..n).rev() {
            x[row] /= self.cells[row * n + row];
            let known = x[row];
            for (above, x) in x[..row].iter_mut().enumerate() {
                *x -= self.cells[row * n + above] * known;
            }
        }
        x
    }

    /// Returns the diagonal of the inverse of the matrix.
    pub fn inverse_diagonal(&self) -> Vec<f64> {
        let unit_vector = |index: usize| {
            (0..self.n).map(|row| f64::from(u8::from(row == index))).collect::<Vec<_>>()
        };
        let squared_length = |vector: Vec<f64>| -> f64 { vector.iter().map(|x| x * x).sum() };
        (0..self.n).map(|index| squared_length(self.forward(&unit_vector(index)))).collect()
    }
}

/// Returns the scalar product.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_solves_equations_and_gives_the_determinant_and_the_inverse() {
        let matrix = [[4.0, 2.0, 0.4], [2.0, 3.0, 0.5], [0.4, 0.5, 1.0]];
        let factor = Factor::new(3, |row, column| matrix[row][column]).unwrap();
        let x = factor.solve(&[1.0, 2.0, 3.0]);
        for (row, b) in matrix.iter().zip([1.0, 2.0, 3.0]) {
            assert!((dot(row, &x) - b).abs() < 1e-12);
        }
        // By Sarrus: 4(3 - 0.25) - 2(2 - 0.2) + 0.4(1 - 1.2).
        assert!((factor.log_determinant() - 7.32f64.ln()).abs() < 1e-12);
        let inverse = factor.inverse_diagonal();
        assert!((inverse[0] - factor.solve(&[1.0, 0.0, 0.0])[0]).abs() < 1e-12);
        assert!(Factor::new(2, |_, _| 1.0).is_none());
    }
}
