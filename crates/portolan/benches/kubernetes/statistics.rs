//! Medians, percentiles and how sure they are.

/// How often samples are drawn anew.
const RESAMPLES: usize = 2_000;
/// The same samples always give the same interval.
const SEED: u64 = 15;

/// A median with the interval that holds it with a probability of 95 %.
#[derive(Clone, Copy)]
pub(crate) struct Estimate {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Estimate {
    /// By drawing as many samples anew as there are, many times.
    pub(crate) fn of(samples: &[f64]) -> Self {
        let mut random = fastrand::Rng::with_seed(SEED);
        let mut medians: Vec<_> = (0..RESAMPLES)
            .map(|_| {
                let drawn: Vec<_> = samples.iter().map(|_| samples[random.usize(..samples.len())]).collect();
                percentile(&drawn, 50.0)
            })
            .collect();
        medians.sort_by(f64::total_cmp);
        let at = |share: f64| medians[((RESAMPLES - 1) as f64 * share) as usize];
        Self { median: percentile(samples, 50.0), low: at(0.025), high: at(0.975) }
    }
}

/// The value below which so many per cent of the samples are, between the two nearest. None measured is not a number.
pub(crate) fn percentile(samples: &[f64], percent: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = last as f64 * percent / 100.0;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}
