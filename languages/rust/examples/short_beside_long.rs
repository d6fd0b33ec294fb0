// SPDX-License-Identifier: Apache-2.0
//! A task that counts primes for a second, and short ones beside it on the same worker.
use rubato::{checkpoint, Attributes, Executor, Options};
use std::time::{Duration, Instant};

fn primes_within(time: Duration) -> u64 {
    let (mut found, begin) = (0, Instant::now());
    for n in 2u64.. {
        found += u64::from((2..n).take_while(|d| d * d <= n).all(|d| n % d != 0));
        // SAFETY: no lock guard and no thread-local reference is held here.
        if unsafe { checkpoint() }.is_err() || begin.elapsed() > time {
            break;
        }
    }
    found
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let executor = Executor::new(&Options { workers: 1, ..Options::default() })?;
    let long = executor.spawn(&Attributes::default(), || primes_within(Duration::from_secs(1)));
    for _ in 0..5 {
        let begin = Instant::now();
        executor.spawn(&Attributes::default(), || ()).join()?;
        println!("a short task took {:?}", begin.elapsed());
    }
    println!("the long one found {} primes", long.join()?);
    Ok(())
}
