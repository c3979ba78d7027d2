//! Which item made something of Honcho's, by Honcho's id: reads the ledger through, for `bxctl memory why`. Called
//! by `hooks`; opens the file for reading only and holds nothing of it.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader},
    path::Path,
};

use bxcore::sealed;
use bxwire::ItemId;

use super::ledger::{self, Line};

/// The item whose step was sent and got this id. A line that is not whole yet is passed over.
///
/// # Errors
/// When the ledger cannot be read.
pub fn item_of(ledger: &Path, id: &str) -> io::Result<Option<ItemId>> {
    let mut found = None;
    for line in BufReader::new(File::open(ledger)?).lines() {
        let line = line?;
        // Most lines need no reading.
        if !line.contains(id) || sealed::check(&line).is_err() {
            continue;
        }
        if let Ok(Line::Sent { steps, .. }) = ledger::parse(&line) {
            let made = steps
                .into_iter()
                .find(|sent| sent.ids.iter().any(|known| known == id));
            found = made.map(|sent| sent.step.item).or(found);
        }
    }
    Ok(found)
}
