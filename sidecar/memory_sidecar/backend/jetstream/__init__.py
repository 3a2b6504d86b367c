"""Notes in a NATS JetStream KV bucket, and all that knows NATS: the client, contexts, requests, messages, listings."""
