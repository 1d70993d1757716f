//! Clients against an honest, a lossy and a lying server, all in memory.

mod attack;
mod blocks;
mod crashes;
mod crowding;
mod disturbances;
mod finder;
mod groups;
mod handshake;
mod invitations;
mod malice;
mod pairs;
mod restored;
mod versions;
mod world;
