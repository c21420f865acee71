"""Who answers a batch: a live network, or what it said before, from memory or disk."""
