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
KIM_RUSH_2016 = Paper(
    "Sequence-Level Knowledge Distillation",
    "Yoon Kim and Alexander M. Rush",
    2016,
    "EMNLP 2016, arXiv:1606.07947",
    "kim2016sequence",
    "https://arxiv.org/abs/1606.07947",
)
TAN_2019 = Paper(
    "Multilingual Neural Machine Translation with Knowledge Distillation",
    "Xu Tan and Yi Ren and Di He and Tao Qin and Zhou Zhao and Tie-Yan Liu",
    2019,
    "ICLR 2019, arXiv:1902.10461",
    "tan2019multilingual",
    "https://arxiv.org/abs/1902.10461",
)
SANH_2019 = Paper(
    "DistilBERT, a distilled version of BERT: smaller, faster, cheaper and lighter",
    "Victor Sanh and Lysandre Debut and Julien Chaumond and Thomas Wolf",
    2019,
    "NeurIPS EMC2 Workshop 2019, arXiv:1910.01108",
    "sanh2019distilbert",
    "https://arxiv.org/abs/1910.01108",
)
AGARWAL_2024 = Paper(
    "On-Policy Distillation of Language Models: Learning from Self-Generated Mistakes",
    "Rishabh Agarwal and Nino Vieillard and Yongchao Zhou and Piotr Stanczyk and Sabela Ramos and Matthieu Geist "
    "and Olivier Bachem",
    2024,
    "ICLR 2024, arXiv:2306.13649",
    "agarwal2024onpolicy",
    "https://arxiv.org/abs/2306.13649",
)
ANSHUMANN_2025 = Paper(
    "Sparse Logit Sampling: Accelerating Knowledge Distillation in LLMs",
    "Anshumann and Mohd Abbas Zaidi and Akhil Kedia and Jinwoo Ahn and Taehwak Kwon and Kangwook Lee and Haejun Lee "
    "and Joohyung Lee",
    2025,
    "ACL 2025, arXiv:2503.16870",
    "anshumann2025sparse",
    "https://arxiv.org/abs/2503.16870",
)
