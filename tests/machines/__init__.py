"""Machines and disks as people have them: each is set up for real or simulated, and a whole session runs on it."""
