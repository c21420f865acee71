"""Papers, cited once."""

from limbeck.core.card import Paper

HINTON_2015 = Paper(
    "Distilling the Knowledge in a Neural Network",
    "Geoffrey Hinton and Oriol Vinyals and Jeff Dean",
    2015,
    "NIPS Deep Learning Workshop, arXiv:1503.02531",
    "hinton2015distilling",
    "https://arxiv.org/abs/1503.02531",
)
BA_CARUANA_2014 = Paper(
    "Do Deep Nets Really Need to be Deep?",
    "Jimmy Ba and Rich Caruana",
    2014,
    "NIPS 2014, arXiv:1312.6184",
    "ba2014deep",
    "https://arxiv.org/abs/1312.6184",
)
DEVLIN_2019 = Paper(
    "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
    "Jacob Devlin and Ming-Wei Chang and Kenton Lee and Kristina Toutanova",
    2019,
    "NAACL 2019, arXiv:1810.04805",
    "devlin2019bert",
    "https://arxiv.org/abs/1810.04805",
)
