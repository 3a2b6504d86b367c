"""What the machine is asked for: files, digests, and the kernel's lockdown. Nothing here knows what a memory is."""
