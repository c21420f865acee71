"""Sources to translate, made without torch: processes that need no more start at once."""

import random

WORDS = "one two three four five six seven eight nine ten red blue".split()


def make_sources(count, seed=0, longest=7):
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, longest))) for _ in range(count)]


def mirrored(source):
    return " ".join(reversed(source.split()))
