//! What reaches the disk: images become files, files become part of the catalog, and what is merged or over goes.

use super::catalog::{self, Catalog};
use super::merging::{self, Merge, Plan};
use super::reserve::{self, with_reserve};
use super::table::TableError;
use super::version::Version;
use super::writer::TableWriter;
use super::{Edits, Tables};
use codeq_queue::Time;
use std::collections::HashSet;
use std::io;

impl Tables {
    /// Brings everything that is shown onto the disk, and notes the segments of the journal that are needed besides.
    /// After an error the next call tries again: what was not synced under new names, and the catalog.
    pub fn persist(&self, segments: Vec<String>) -> Result<(), TableError> {
        let mut edits = self.edits();
        let mut version = Version { segments, ..(*self.version()).clone() };
        if !edits.images.is_empty() {
            self.join_images(&mut edits, &mut version)?;
            self.publish(version.clone());
            self.write_images(&mut edits, &mut version)?;
            self.publish(version.clone());
        }
        Ok(self.replace_catalog(&mut edits, version)?)
    }

    /// Makes a file of every image.
    fn write_images(&self, edits: &mut Edits, version: &mut Version) -> io::Result<()> {
        let attempt = edits.names.len();
        let written = self.write_each(edits, version).and_then(|()| self.files.sync_dir());
        match written {
            Ok(()) => {
                edits.images.clear();
                edits.is_ahead = true;
            }
            Err(_) => {
                // No catalog can name these.
                let unnamed = edits.names.split_off(attempt);
                self.remove_files(edits, unnamed);
            }
        }
        written
    }

    fn write_each(&self, edits: &mut Edits, version: &mut Version) -> io::Result<()> {
        for index in 0..edits.images.len() {
            let number = edits.take_number();
            let name = catalog::name_of(number);
            edits.names.push(name.clone());
            let (serial, image) = &edits.images[index];
            let file = self.files.create(&name)?;
            file.write_at(&image.read(), 0)?;
            file.sync_data()?;
            version.replace_file(*serial, number, &file, self.files.path_of(&name));
        }
        Ok(())
    }

    /// Makes the catalog of this version durable, shows it, and removes the files that are not needed any more. After
    /// an error the disk may have either catalog, so the files of both stay until a later one is durable.
    fn replace_catalog(&self, edits: &mut Edits, version: Version) -> io::Result<()> {
        self.write_catalog(edits, &version)?;
        edits.is_ahead = false;
        edits.durable = version.clone();
        self.publish(version);
        self.remove_unnamed(edits);
        Ok(())
    }

    fn write_catalog(&self, edits: &Edits, version: &Version) -> io::Result<()> {
        let catalog = Catalog::of(version, edits.next_number);
        with_reserve(&*self.files, reserve::is_full, || catalog.write(&*self.files, self.key))?;
        reserve::keep(&*self.files);
        Ok(())
    }

    /// Removes files that neither the catalog names nor readers are shown.
    fn remove_unnamed(&self, edits: &mut Edits) {
        let shown = self.version();
        let tables = edits.durable.tables().chain(shown.tables());
        let merged = edits.merge.as_ref().map(Merge::number);
        let kept: HashSet<String> =
            tables.map(|table| table.number).chain(merged).map(catalog::name_of).collect();
        let names = std::mem::take(&mut edits.names);
        let (kept, gone) = names.into_iter().partition(|name| kept.contains(name));
        edits.names = kept;
        self.remove_files(edits, gone);
    }

    /// One that cannot be removed now is tried again with the next catalog, and by the next opening.
    fn remove_files(&self, edits: &mut Edits, names: Vec<String>) {
        for name in names {
            let removed = self.files.remove(&name);
            if removed.is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
                edits.names.push(name);
            }
        }
    }

    /// Drops the history that is over by now, also while nothing else can be written: then from the catalog that is on
    /// the disk. Returns how many tables that were.
    pub fn drop_expired(&self, now: Time) -> Result<usize, TableError> {
        let mut edits = self.edits();
        let (mut durable, mut shown) = (edits.durable.clone(), (*self.version()).clone());
        let (count, of_images) = (durable.drop_expired(now), shown.drop_expired(now));
        if count > 0 {
            self.write_catalog(&edits, &durable)?;
            edits.durable = durable;
        }
        if count + of_images == 0 {
            return Ok(0);
        }
        edits.images.retain(|(serial, _)| shown.tables().any(|table| table.serial() == *serial));
        if edits.merge.as_ref().is_some_and(|merge| !merge.still_fits(&shown)) {
            self.give_up_merge(&mut edits);
        }
        self.publish(shown);
        self.remove_unnamed(&mut edits);
        Ok(count)
    }

    /// A bounded piece of merging: small tables become larger ones, rows that nobody needs go. True if there is
    /// more to do. Tables that cannot be read are left alone from then on.
    pub fn merge_some(&self, now: Time, bytes: usize, pause: &dyn Fn()) -> Result<bool, TableError> {
        let mut edits = self.edits();
        if edits.merge.is_none() {
            let Some(plan) = merging::choose(&self.version(), &edits.set_aside) else { return Ok(false) };
            self.begin_merge(&mut edits, plan, now)?;
        }
        let merge = edits.merge.as_mut().expect("begun above");
        let is_done = match merge.step(bytes, pause) {
            Ok(is_done) => is_done,
            Err(error) => {
                let culprits = merging::culprits(merge.inputs(), &error);
                edits.set_aside.extend(culprits);
                self.give_up_merge(&mut edits);
                return Err(error);
            }
        };
        // Beside images, the catalog would name tables that have no file.
        if is_done && !edits.is_ahead() {
            self.end_merge(&mut edits)?;
        }
        Ok(!edits.is_ahead())
    }

    fn begin_merge(&self, edits: &mut Edits, plan: Plan, now: Time) -> Result<(), TableError> {
        let (serial, number) = (edits.take_number(), edits.take_number());
        let name = catalog::name_of(number);
        edits.names.push(name.clone());
        let writer = TableWriter::new(self.files.create(&name)?, plan.group, serial, self.key);
        let inputs = plan.inputs.clone();
        match Merge::begin(plan, self.version(), writer, (number, self.files.path_of(&name)), now) {
            Ok(merge) => {
                edits.merge = Some(merge);
                Ok(())
            }
            Err(error) => {
                edits.set_aside.extend(merging::culprits(&inputs, &error));
                self.remove_output(edits, number);
                Err(error)
            }
        }
    }

    /// Puts the merged table in the place of those it was made of.
    fn end_merge(&self, edits: &mut Edits) -> Result<(), TableError> {
        let merge = edits.merge.take().expect("it has just come to its end");
        let number = merge.number();
        let mut version = (*self.version()).clone();
        let ended = merge.finish(&mut version, &self.cache).and_then(|()| Ok(self.files.sync_dir()?));
        if let Err(error) = ended {
            self.remove_output(edits, number);
            return Err(error);
        }
        edits.is_ahead = true;
        self.publish(version.clone());
        Ok(self.replace_catalog(edits, version)?)
    }

    fn give_up_merge(&self, edits: &mut Edits) {
        if let Some(merge) = edits.merge.take() {
            self.remove_output(edits, merge.number());
        }
    }

    fn remove_output(&self, edits: &mut Edits, number: u64) {
        let name = catalog::name_of(number);
        edits.names.retain(|other| *other != name);
        self.remove_files(edits, vec![name]);
    }
}
