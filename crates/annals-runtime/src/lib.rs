//! The only place that acts: Agent, Session and the turn driver.
