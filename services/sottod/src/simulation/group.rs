//! A cluster in one thread: the logs and the rounds of its nodes, which find each other over a network that loses, delays and
//! cuts, on machines that lose their power, and whose disks fail.
//!
//! ```text
//! arrangements  nodes that arrange the same databases in different ways
//! attacks       proposals that fail or wait while one node leads, and when it leads again
//! breaches      what real nodes must withstand, one thing at a time
//! closing       accounts that are closed, and what becomes of their slots
//! leading_on    who goes on to lead in the term of its earlier start
//! logs          logs of a group without rounds
//! net           who reaches whom: the calls of the log's group, and what a follower sends on
//! node          one life of one node
//! places        where people are told that the nodes are
//! play          a seed's history, with people who join at any node and bring deposits to any
//! pressure      builds and disks that cannot keep up with the rounds
//! rotation      another manifest key, while nodes die or lack its secret
//! scripted      a node whose log does what a script says, for attacks, closing and places
//! seeds         many histories, each in a process of its own
//! upstream      what nodes without a vote follow
//! voters        changes of who votes that are broken off
//! ```

mod arrangements;
mod attacks;
mod breaches;
mod closing;
mod leading_on;
mod logs;
mod net;
mod node;
mod places;
mod play;
mod pressure;
mod rotation;
mod scripted;
mod seeds;
mod upstream;
mod voters;
