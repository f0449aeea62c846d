//! How good a victim is, as an exact fraction.

use std::cmp::Ordering;

/// Benefit over cost. Compared exactly: neither rounding nor overflow can change an order, whatever the ages.
#[derive(Debug, Clone, Copy)]
pub struct Worth {
    benefit: u128,
    cost: u128,
}

impl Worth {
    /// Not worth a visit.
    pub const NONE: Worth = Worth { benefit: 0, cost: 1 };

    /// `benefit` over `cost`. A cost of 0 counts as 1, as in the tools of NILFS2.
    pub fn new(benefit: u128, cost: u128) -> Worth {
        Worth { benefit, cost: cost.max(1) }
    }

    /// Whether a visit would bring nothing.
    pub fn is_none(&self) -> bool {
        self.benefit == 0
    }
}

/// Compares two fractions by their continued fractions: integer parts first, then the remainders upside down.
impl Ord for Worth {
    fn cmp(&self, other: &Worth) -> Ordering {
        let (mut left, mut right) = (*self, *other);
        loop {
            let whole = (left.benefit / left.cost).cmp(&(right.benefit / right.cost));
            let (rest_left, rest_right) = (left.benefit % left.cost, right.benefit % right.cost);
            if whole != Ordering::Equal || rest_left == 0 || rest_right == 0 {
                return whole.then((rest_left != 0).cmp(&(rest_right != 0)));
            }
            (left, right) =
                (Worth { benefit: right.cost, cost: rest_right }, Worth { benefit: left.cost, cost: rest_left });
        }
    }
}

impl PartialOrd for Worth {
    fn partial_cmp(&self, other: &Worth) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Worth {
    fn eq(&self, other: &Worth) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Worth {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_that_a_product_would_overflow_are_told_apart() {
        let near = Worth::new(u128::MAX, u128::MAX - 1);
        assert!(near > Worth::new(u128::MAX - 1, u128::MAX - 2).min(Worth::new(1, 1)));
        assert!(near < Worth::new(u128::MAX - 1, u128::MAX - 2), "1 + 1/n falls with n");
        assert_eq!(Worth::new(7, 0), Worth::new(7, 1));
        assert!(Worth::new(0, 9).is_none() && Worth::new(0, 9) == Worth::NONE);
    }

    proptest! {
        #[test]
        fn the_order_is_that_of_rational_arithmetic(a: u64, b in 1u64.., c: u64, d in 1u64..) {
            let product = |x: u64, y: u64| u128::from(x) * u128::from(y);
            let expected = product(a, d).cmp(&product(c, b));
            prop_assert_eq!(Worth::new(a.into(), b.into()).cmp(&Worth::new(c.into(), d.into())), expected);
        }

        #[test]
        fn a_multiple_of_both_is_the_same(a in 0u128..1 << 60, b in 1u128..1 << 60, by in 1u128..1 << 60) {
            prop_assert_eq!(Worth::new(a, b), Worth::new(a * by, b * by));
        }
    }
}
