"""Tiny random classifiers of every encoder family, and a tokenizer for them."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers as hf

LABELS = {0: "bad", 1: "fair", 2: "good"}
SIZES = {"num_hidden_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
COMMON = {
    "vocab_size": 100,
    "max_position_embeddings": 40,
    "id2label": LABELS,
    "label2id": {name: number for number, name in LABELS.items()},
    "problem_type": "single_label_classification",
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
DEBERTA = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False}
CONFIGS = {
    "bert": lambda: hf.BertConfig(**COMMON, **SIZES),
    "roberta": lambda: hf.RobertaConfig(**COMMON, **SIZES),
    "xlm-roberta": lambda: hf.XLMRobertaConfig(**COMMON, **SIZES),
    "camembert": lambda: hf.CamembertConfig(**COMMON, **SIZES),
    "distilbert": lambda: hf.DistilBertConfig(**COMMON, n_layers=4, dim=32, n_heads=4, hidden_dim=64),
    "electra": lambda: hf.ElectraConfig(**COMMON, **SIZES, embedding_size=10),
    "electra-even": lambda: hf.ElectraConfig(**COMMON, **SIZES, embedding_size=32),
    "mpnet": lambda: hf.MPNetConfig(**COMMON, **SIZES),
    "albert": lambda: hf.AlbertConfig(**COMMON, **SIZES, embedding_size=10),
    "deberta": lambda: hf.DebertaConfig(**COMMON, **SIZES, **DEBERTA),
    "deberta-v2": lambda: hf.DebertaV2Config(
        **COMMON, **SIZES, **DEBERTA, share_att_key=False, norm_rel_ebd="layer_norm", conv_kernel_size=3
    ),
    "deberta-v3": lambda: hf.DebertaV2Config(
        **COMMON, **SIZES, **DEBERTA, share_att_key=True, norm_rel_ebd="layer_norm", position_buckets=8
    ),
    "modernbert": lambda: hf.ModernBertConfig(
        **COMMON, **SIZES, cls_token_id=1, sep_token_id=2, global_attn_every_n_layers=3, local_attention=4
    ),
    # not in any table of ours
    "eurobert": lambda: hf.EuroBertConfig(**COMMON, **SIZES, num_key_value_heads=4),
}


def classifier(family: str, seed: int = 0) -> hf.PreTrainedModel:
    """Weights of size 0.2 and random norms and biases, so that every parameter shows in the outputs."""
    torch.manual_seed(seed)
    model = hf.AutoModelForSequenceClassification.from_config(CONFIGS[family]())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.2 * torch.randn_like(parameter) + (parameter.dim() == 1) * 0.5)
    return model.eval()


def batch() -> dict[str, torch.Tensor]:
    ids = torch.randint(3, 100, (3, 17), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, 11:] = 0
    ids[1, 11:] = 0
    return {"input_ids": ids, "attention_mask": mask}


@torch.no_grad()
def logits(model: hf.PreTrainedModel) -> torch.Tensor:
    return model(**batch()).logits


def tokenizer(folder: Path) -> hf.PreTrainedTokenizerBase:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{number}" for number in range(95))]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    return hf.BertTokenizerFast(vocab=str(folder / "vocab.txt"))
