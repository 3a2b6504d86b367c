"""The private wire: newline-delimited JSON-RPC on stdin and stdout, for the one harness that holds the ticket."""
