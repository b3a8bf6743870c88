//! x
use std::error::Error;
/// x
pub fn run(_: &[String]) -> Result<(), Box<dyn Error>> {
    Ok(())
}
