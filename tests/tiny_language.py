"""Tiny real tokenizers for running text: WordPiece with [CLS] … [SEP], and byte-level BPE with chats and pad = eos."""

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import BertTokenizerFast, PreTrainedTokenizerFast

WORDS = "the a film plot story play under stand is was very and with good bad".split()
PIECES = ["##ing", "##ed", "##er", "##stand", "##able", "##s", ".", ",", "=", "!"]
WORDPIECE = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *PIECES]
TEXTS = [f"The film number {n} was {n * n} minutes of très good plot, and the story was bad." for n in range(50)]

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def wordpiece(**how):
    return BertTokenizerFast(vocab={piece: index for index, piece in enumerate(WORDPIECE)}, **how)


def byte_level(template=CHATML, bos=False):
    """Its alphabet is all bytes, so whatever it encodes comes back."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|end|>", "<|start|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    if bos:
        start = processors.TemplateProcessing(single="<|start|> $A", special_tokens=[("<|start|>", 1)])
        tokenizer.post_processor = processors.Sequence([tokenizer.post_processor, start])
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|end|>", clean_up_tokenization_spaces=False
    )
    made.chat_template = template
    return made
