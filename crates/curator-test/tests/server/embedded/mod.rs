//! Features of the embedded server only.
//!
//! Only this suite finds a fault that affects a request other than the intended one, a server that
//! does not survive some input, and a stop, pause or restart that loses or keeps too much.

mod dialects;
mod faults;
mod fuzz;
mod life;
mod surroundings;
