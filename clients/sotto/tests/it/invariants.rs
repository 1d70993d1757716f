//! The fixed trace over real sockets: with a real server, real time and real work. What it is under every attack is shown
//! exactly, in simulated time, by the test `exact`.

mod recorder;
mod trace;
mod world;
