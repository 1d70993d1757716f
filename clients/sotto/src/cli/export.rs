//! Keeping a copy of an account aside, and going on from one.

use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::link::quietly;
use super::print::{span, status};
use super::{passphrase, state};
use crate::Store;
use crate::daemon::message::{Account, Moving, Reply};
use crate::daemon::unexpected;
use crate::device::attached;
use crate::store::export::{self, ExportError};
use sotto_participant::host::now;

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        Self::state(error.to_string()).coded(error.code())
    }
}

pub(super) async fn export(
    home: Option<PathBuf>,
    file: &Path,
    passphrase_file: Option<&Path>,
) -> Result<(), Failure> {
    let directory = state::directory(home)?;
    attached::refuse(&directory)?;
    quietly(Some(directory.clone()), Account::SetAside).await?;
    let Reply::Conversations(conversations) = quietly(Some(directory.clone()), Account::Contacts).await?
    else {
        return Err(unexpected());
    };
    let (address, snapshot) = state::read(&directory)?;
    // What cannot be used here is no use anywhere.
    let lacks = state::restore(&directory, &snapshot)?.begin_anew(now(), &mut state::rng()).ended;
    // That of the state, wherever it comes from, is not taken without a word: a copy goes to other places than the state.
    let passphrase = passphrase::new(passphrase_file)?;
    export::write(file, (&address, &snapshot), &passphrase)?;
    let file = file.display();
    status(&format!("a copy of the account as it is now is in {file}, closed with that passphrase"));
    status(
        "warning: it is the account itself. Whoever opens it reads what is said from now on, and speaks as you. Restore it when this \
         account is used no more, and nowhere else: two that are in use lose what the other says",
    );
    if !lacks.is_empty() {
        status(&format!(
            "warning: whom you have not met yet, or only just, is not in the copy: {}; export once more some minutes after you have met",
            lacks.join(", ")
        ));
    }
    for conversation in &conversations {
        conversation.files.iter().for_each(|file| status(&left_out(&conversation.name, file)));
    }
    Ok(())
}

/// What is told of a file on its way, of which the state, and so the copy, has parts at most.
fn left_out(conversation: &str, file: &Moving) -> String {
    match (&file.name, &file.from) {
        (Some(name), None) => format!(
            "warning: the file {name} for {conversation} has not arrived, and is not in the copy: after 'sotto restore', send it again"
        ),
        (_, from) => format!(
            "warning: a file from {} is not whole yet, and not in the copy: after 'sotto restore', ask for it again",
            from.as_deref().unwrap_or(conversation)
        ),
    }
}

pub(super) fn restore(
    home: Option<PathBuf>,
    file: &Path,
    passphrase_file: Option<&Path>,
) -> Result<(), Failure> {
    let directory = state::directory(home)?;
    if Store::is_there(&directory) {
        return Err(crate::StoreError::Exists(directory).into());
    }
    attached::refuse(&directory)?;
    let (address, snapshot, key) = {
        // What is no export needs no passphrase.
        let export = export::Export::read(file)?;
        export.open(&passphrase::of_export(passphrase_file)?)?
    };
    let mut client = state::restore(file, &snapshot)?;
    let began = now();
    let anew = client.begin_anew(began, &mut state::rng());
    let mut store = Store::create(&directory, address)?;
    store.close_with(key);
    store.save(&client.snapshot())?;
    let (name, directory) = (client.name(), directory.display());
    status(&format!(
        "the account of {name} is restored in {directory}, closed with the passphrase of the copy, which 'sotto passphrase' changes"
    ));
    let wait = span(anew.at.0.saturating_sub(began.0).div_ceil(1000));
    status(&format!(
        "so that no key serves twice, it speaks and hears again from round {} on, about {wait} from now; contacts \
         see that you have gone back to an older state",
        anew.first
    ));
    if !anew.ended.is_empty() {
        status(&format!(
            "whom you had not met by then, or only just, you have to invite again: {}; who had answered since forgets you first",
            anew.ended.join(", ")
        ));
    }
    status(
        "warning: what was said since the copy was made is not in it, and what waited then is said again. If the account is still in use elsewhere, end it there, and for good: \
         'sotto wipe'",
    );
    Ok(())
}
