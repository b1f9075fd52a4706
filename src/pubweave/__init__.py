"""pubweave: a self-optimizing publish/subscribe overlay."""
