//! Where trials run: this host, the lab.
