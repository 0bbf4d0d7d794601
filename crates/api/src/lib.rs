//! The wire: JSON bodies and error codes, as clients see them.
