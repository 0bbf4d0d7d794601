//! The whole terminal: taken, drawn on, and given back as it was, whatever ends us.

use super::picture::Picture;
use crate::terminal;
use anyhow::Context;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::Read;
use tokio::sync::mpsc;

/// Keys that wait to be looked at; further ones are dropped.
const WAITING_KEYS: usize = 64;
/// A terminal that does not say how large it is.
const SIZE: (usize, usize) = (24, 80);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    Up,
    Down,
    Enter,
    Back,
    Quit,
    Letter(char),
}

pub struct Screen {
    before: Termios,
}

impl Screen {
    /// The other page of the terminal, without echo and without a cursor; and the keys that are pressed.
    pub fn take() -> anyhow::Result<(Screen, mpsc::Receiver<Key>)> {
        let before = tcgetattr(std::io::stdin()).context("cannot read from this terminal")?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &raw)?;
        terminal::print("\x1b[?1049h\x1b[?25l");
        let (sender, keys) = mpsc::channel(WAITING_KEYS);
        std::thread::spawn(move || read_keys(&sender));
        Ok((Screen { before }, keys))
    }

    pub fn draw(&self, picture: &Picture) {
        let size =
            tcgetwinsize(std::io::stdout()).map_or((0, 0), |size| (size.ws_row.into(), size.ws_col.into()));
        let (rows, columns) = if size.0 == 0 || size.1 == 0 { SIZE } else { size };
        terminal::print(&picture.text(rows, columns));
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        terminal::print("\x1b[?25h\x1b[?1049l");
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.before);
    }
}

/// Reads until the terminal is gone or nobody listens.
fn read_keys(sender: &mpsc::Sender<Key>) {
    let mut bytes = [0; 64];
    while let Ok(count @ 1..) = std::io::stdin().read(&mut bytes) {
        for key in keys(&bytes[..count]) {
            if let Err(mpsc::error::TrySendError::Closed(_)) = sender.try_send(key) {
                return;
            }
        }
    }
}

/// The keys in what a terminal sent at once. An escape that begins nothing is the key of that name.
fn keys(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let Some((&first, rest)) = bytes.split_first() {
        bytes = rest;
        match (first, rest) {
            (0x1b, [b'[' | b'O', code, after @ ..]) => {
                bytes = after;
                keys.extend(match code {
                    b'A' => Some(Key::Up),
                    b'B' => Some(Key::Down),
                    _ => None,
                });
            }
            (0x1b | 0x7f | 0x08, _) => keys.push(Key::Back),
            (b'\r' | b'\n', _) => keys.push(Key::Enter),
            // Ctrl-C and Ctrl-D arrive as bytes here.
            (b'q' | 0x03 | 0x04, _) => keys.push(Key::Quit),
            (letter, _) if letter.is_ascii_graphic() => keys.push(Key::Letter(char::from(letter))),
            _ => {}
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_from_the_bytes_of_a_terminal() {
        assert_eq!(keys(b"\x1b[A\x1bOBp"), [Key::Up, Key::Down, Key::Letter('p')]);
        assert_eq!(keys(b"\x1b"), [Key::Back]);
        assert_eq!(keys(b"\r\x03"), [Key::Enter, Key::Quit]);
    }
}
