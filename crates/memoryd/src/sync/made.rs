//! Which item made something of Honcho's, by Honcho's id: reads the ledger through, for `bxctl memory why`. Called
//! by `hooks`; opens the file for reading only and holds nothing of it.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader},
    path::Path,
};

use bxcore::sealed;
use bxwire::ItemId;

use super::ledger::{self, Line, Step, StepRef};

/// The item whose step was sent and got this id. A line that is not whole yet is passed over.
///
/// # Errors
/// When the ledger cannot be read.
pub fn item_of(ledger: &Path, id: &str) -> io::Result<Option<ItemId>> {
    Ok(step_of(ledger, id)?.map(|step| step.item))
}

/// The entry, note or fact whose conclusion got this id.
///
/// # Errors
/// When the ledger cannot be read.
pub fn slot_of(ledger: &Path, id: &str) -> io::Result<Option<String>> {
    let Some(made) = step_of(ledger, id)? else {
        return Ok(None);
    };
    let mut found = None;
    let named = format!("\"{}\"", made.item);
    each(ledger, &named, |line| match line {
        Line::Decided(mut decided) if decided.item == made.item => {
            if made.step < decided.steps.len()
                && let Step::Conclude { slot, .. } = decided.steps.swap_remove(made.step)
            {
                found = Some(slot);
            }
        }
        _ => {}
    })?;
    Ok(found)
}

fn step_of(ledger: &Path, id: &str) -> io::Result<Option<StepRef>> {
    let mut found = None;
    each(ledger, id, |line| {
        if let Line::Sent { steps, .. } = line {
            let made = steps
                .into_iter()
                .find(|sent| sent.ids.iter().any(|known| known == id));
            found = made.map(|sent| sent.step).or(found.take());
        }
    })?;
    Ok(found)
}

/// The whole lines that hold a word: most need no reading.
fn each(ledger: &Path, word: &str, mut take: impl FnMut(Line)) -> io::Result<()> {
    for line in BufReader::new(File::open(ledger)?).lines() {
        let line = line?;
        if line.contains(word)
            && sealed::check(&line).is_ok()
            && let Ok(line) = ledger::parse(&line)
        {
            take(line);
        }
    }
    Ok(())
}
