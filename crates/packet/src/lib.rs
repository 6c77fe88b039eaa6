//! Wire formats, both ways.
