//! The busiest part of a trace that is too long for columns.

use std::collections::VecDeque;
use std::ops::Range;

/// Looks for the window of so many requests that takes the least time, over times that come in their order.
pub(crate) struct Busiest {
    width: usize,
    /// Times of the last `width` requests.
    recent: VecDeque<u64>,
    seen: u64,
    /// The time that it takes, and the numbers of its requests.
    best: Option<(u64, Range<u64>)>,
}

impl Busiest {
    pub(crate) fn new(width: usize) -> Busiest {
        Busiest { width, recent: VecDeque::with_capacity(width), seen: 0, best: None }
    }

    /// Takes the time of the next request.
    pub(crate) fn add(&mut self, at: u64) {
        if self.recent.len() == self.width {
            self.recent.pop_front();
        }
        self.recent.push_back(at);
        self.seen += 1;
        if self.recent.len() < self.width {
            return;
        }
        let span = at - self.recent[0];
        if self.best.as_ref().is_none_or(|(least, _)| span < *least) {
            self.best = Some((span, self.seen - self.width as u64..self.seen));
        }
    }

    /// Numbers of its requests: all of them if there are no more than fit. Of equal windows the first one.
    pub(crate) fn range(self) -> Range<u64> {
        self.best.map_or(0..self.seen, |(_, range)| range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busiest(width: usize, times: &[u64]) -> Range<u64> {
        let mut busiest = Busiest::new(width);
        times.iter().for_each(|at| busiest.add(*at));
        busiest.range()
    }

    #[test]
    fn the_window_of_least_time_is_found() {
        assert_eq!(busiest(3, &[0, 10, 20, 21, 22, 40, 41]), 2..5);
        assert_eq!(busiest(2, &[0, 5, 10, 15]), 0..2, "the first of equal ones");
        assert_eq!(busiest(2, &[0, 9, 9, 30]), 1..3);
        assert_eq!((busiest(3, &[7, 8, 9]), busiest(3, &[7, 8]), busiest(3, &[])), (0..3, 0..2, 0..0));
    }
}
