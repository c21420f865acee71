"""Who is asked: a live network, or what it said before."""
