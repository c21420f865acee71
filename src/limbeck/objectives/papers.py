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
WANG_2020 = Paper(
    "MiniLM: Deep Self-Attention Distillation for Task-Agnostic Compression of Pre-Trained Transformers",
    "Wenhui Wang and Furu Wei and Li Dong and Hangbo Bao and Nan Yang and Ming Zhou",
    2020,
    "NeurIPS 2020, arXiv:2002.10957",
    "wang2020minilm",
    "https://arxiv.org/abs/2002.10957",
)
WANG_2021 = Paper(
    "MiniLMv2: Multi-Head Self-Attention Relation Distillation for Compressing Pretrained Transformers",
    "Wenhui Wang and Hangbo Bao and Shaohan Huang and Li Dong and Furu Wei",
    2021,
    "Findings of ACL 2021, arXiv:2012.15828",
    "wang2021minilmv2",
    "https://arxiv.org/abs/2012.15828",
)
SUN_2019 = Paper(
    "Patient Knowledge Distillation for BERT Model Compression",
    "Siqi Sun and Yu Cheng and Zhe Gan and Jingjing Liu",
    2019,
    "EMNLP 2019, arXiv:1908.09355",
    "sun2019patient",
    "https://arxiv.org/abs/1908.09355",
)
JIAO_2020 = Paper(
    "TinyBERT: Distilling BERT for Natural Language Understanding",
    "Xiaoqi Jiao and Yichun Yin and Lifeng Shang and Xin Jiang and Xiao Chen and Linlin Li and Fang Wang and Qun Liu",
    2020,
    "Findings of EMNLP 2020, arXiv:1909.10351",
    "jiao2020tinybert",
    "https://arxiv.org/abs/1909.10351",
)
DASGUPTA_COHN_2025 = Paper(
    "Improving Language Model Distillation through Hidden State Matching",
    "Sayantan Dasgupta and Trevor Cohn",
    2025,
    "ICLR 2025",
    "dasgupta2025hidden",
    "https://openreview.net/forum?id=IcVSKhVpKu",
)
SUN_2020 = Paper(
    "MobileBERT: a Compact Task-Agnostic BERT for Resource-Limited Devices",
    "Zhiqing Sun and Hongkun Yu and Xiaodan Song and Renjie Liu and Yiming Yang and Denny Zhou",
    2020,
    "ACL 2020, arXiv:2004.02984",
    "sun2020mobilebert",
    "https://arxiv.org/abs/2004.02984",
)
LAN_2020 = Paper(
    "ALBERT: A Lite BERT for Self-supervised Learning of Language Representations",
    "Zhenzhong Lan and Mingda Chen and Sebastian Goodman and Kevin Gimpel and Piyush Sharma and Radu Soricut",
    2020,
    "ICLR 2020, arXiv:1909.11942",
    "lan2020albert",
    "https://arxiv.org/abs/1909.11942",
)
HU_2018 = Paper(
    "Attention-Guided Answer Distillation for Machine Reading Comprehension",
    "Minghao Hu and Yuxing Peng and Furu Wei and Zhen Huang and Dongsheng Li and Nan Yang and Ming Zhou",
    2018,
    "EMNLP 2018, arXiv:1808.07644",
    "hu2018attention",
    "https://arxiv.org/abs/1808.07644",
)
TANG_2019 = Paper(
    "Distilling Task-Specific Knowledge from BERT into Simple Neural Networks",
    "Raphael Tang and Yao Lu and Linqing Liu and Lili Mou and Olga Vechtomova and Jimmy Lin",
    2019,
    "arXiv:1903.12136",
    "tang2019distilling",
    "https://arxiv.org/abs/1903.12136",
)
VASWANI_2017 = Paper(
    "Attention Is All You Need",
    "Ashish Vaswani and Noam Shazeer and Niki Parmar and Jakob Uszkoreit and Llion Jones and Aidan N. Gomez and "
    "Łukasz Kaiser and Illia Polosukhin",
    2017,
    "NeurIPS 2017, arXiv:1706.03762",
    "vaswani2017attention",
    "https://arxiv.org/abs/1706.03762",
)
