"""A stock Trainer's datasets, with a teacher: DistillationTrainer, trainer_loss and TeacherCache teach the same."""

import pytest
import torch
from datasets import Dataset
from torch.nn import functional as F
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    GPT2Config,
    GPT2LMHeadModel,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainingArguments,
)

import limbeck
from limbeck import CKA, PKD, Cosine, Labels, LanguageModeling, MiniLMv2, SoftTargets, TinyBERT, Truncated, WordKD
from limbeck.core.errors import DataError, MismatchError
from tiny import make_tokenizer

pytestmark = [pytest.mark.filterwarnings("ignore:'pin_memory'"), pytest.mark.slow]
SIZES = {"vocab_size": 40, "num_attention_heads": 4, "intermediate_size": 32, "max_position_embeddings": 32}
PLAIN = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}  # so that two ways can be equal


def bert(head=BertForSequenceClassification, layers=1, hidden=16, seed=0, **more):
    torch.manual_seed(seed)
    return head(BertConfig(**SIZES, **PLAIN, hidden_size=hidden, num_hidden_layers=layers, **{"num_labels": 3} | more))


def texts(count=12, unlabelled=()):
    draw = torch.Generator().manual_seed(0)
    lengths = torch.randint(3, 9, (count,), generator=draw).tolist()
    ids = [[2, *torch.randint(5, 40, (length,), generator=draw).tolist(), 3] for length in lengths]
    labels = [-100 if row in unlabelled else row % 3 for row in range(count)]
    return Dataset.from_dict({"input_ids": ids, "attention_mask": [[1] * len(row) for row in ids], "labels": labels})


def arguments(folder, **more):
    how = {"max_steps": 3, "per_device_train_batch_size": 4, "learning_rate": 1e-2, "report_to": "none"}
    return TrainingArguments(str(folder), **how | {"disable_tqdm": True, "save_strategy": "no", "use_cpu": True} | more)


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(a, b, tolerance=1e-6):
    return a.keys() == b.keys() and all(torch.allclose(a[name], b[name], atol=tolerance) for name in a)


OBJECTIVE = 0.5 * Labels() + 0.5 * SoftTargets(temperature=3)


def train(kind, folder, rows, teacher, objective=OBJECTIVE, collate=None, student=None, **more):
    student = student or bert()
    how = {"train_dataset": rows, "data_collator": collate or DataCollatorWithPadding(make_tokenizer())}
    if kind is Trainer:
        how["compute_loss_func"] = limbeck.trainer_loss(objective, teacher)
    else:
        how |= {"teacher": teacher, "objective": objective}
    trainer = kind(model=student, args=arguments(folder, **more), **how)
    trainer.train()
    return trainer


def test_a_step_is_that_of_the_formula(tmp_path):
    rows, student, teacher = texts(4), bert(), bert(layers=2, seed=1)
    batch = DataCollatorWithPadding(make_tokenizer())([dict(row) for row in rows])
    labels = batch.pop("labels")
    logits, soft = student(**batch).logits, teacher.eval()(**batch).logits.detach()
    expected = 0.5 * F.cross_entropy(logits, labels) + 0.5 * 9 * F.kl_div(
        (logits / 3).log_softmax(-1), (soft / 3).log_softmax(-1), log_target=True, reduction="batchmean"
    )
    trainer = train(limbeck.DistillationTrainer, tmp_path, rows, teacher, max_steps=1, logging_steps=1)
    logged = trainer.state.log_history[0]
    assert logged["loss"] == pytest.approx(expected.item(), abs=1e-4)
    assert logged.keys() >= {"term_labels", "term_soft"}


def test_four_ways_to_the_same_weights(tmp_path):
    """A live teacher, its cache, its column, in a stock Trainer or in ours: one training."""
    rows, teacher = texts(), bert(layers=2, seed=1)
    before = weights(teacher)
    cache = limbeck.TeacherCache(tmp_path / "cache", teacher)
    cache.fill(rows.shuffle(seed=1), batch_size=5)
    column = cache.attach(rows)
    stock = {"remove_unused_columns": False}
    expected = weights(train(limbeck.DistillationTrainer, tmp_path, rows, teacher).model)
    assert not same(expected, weights(bert()))
    for trainer in (
        train(limbeck.DistillationTrainer, tmp_path, rows, cache),
        train(limbeck.DistillationTrainer, tmp_path, column, None),
        train(Trainer, tmp_path, rows, teacher),
        train(Trainer, tmp_path, rows, cache),
        train(Trainer, tmp_path, column, None, **stock),
    ):
        assert same(weights(trainer.model), expected)
    assert same(weights(teacher), before, 0.0)
    assert not any(parameter.requires_grad for parameter in teacher.parameters())


@pytest.mark.parametrize("kind", [limbeck.DistillationTrainer, Trainer])
def test_micro_batches_give_the_step_of_one_batch(tmp_path, kind):
    rows, teacher = texts(12), bert(layers=2, seed=1)
    how = {"optim": "sgd", "learning_rate": 5.0, "max_steps": 2}  # Adam would magnify rounding
    whole = train(kind, tmp_path, rows, teacher, per_device_train_batch_size=12, **how)
    split = train(kind, tmp_path, rows, teacher, per_device_train_batch_size=5, gradient_accumulation_steps=3, **how)
    assert same(weights(whole.model), weights(split.model), 1e-5)
    assert not same(weights(whole.model), weights(bert()), 1e-3)


def test_rows_without_a_label_are_taught_by_the_teacher(tmp_path):
    rows = texts(12, unlabelled=range(12)).remove_columns("labels")
    trainer = train(limbeck.DistillationTrainer, tmp_path, rows, bert(layers=2, seed=1), 1.0 * SoftTargets())
    assert not same(weights(trainer.model), weights(bert()))


@pytest.mark.parametrize("objective", [TinyBERT(), MiniLMv2(heads=4), PKD(layers="1:2"), CKA()], ids=str)
def test_layers_heads_and_bridges(tmp_path, objective):
    student = bert(layers=2, hidden=16)
    before, attention = set(student.state_dict()), student.config._attn_implementation
    teacher = bert(layers=4, hidden=32, seed=1)
    trainer = train(
        limbeck.DistillationTrainer, tmp_path, texts(), teacher, OBJECTIVE + 1.0 * objective, student=student
    )
    assert set(student.state_dict()) == before  # no bridge stays
    assert student.config._attn_implementation == attention
    trainer.save_model(tmp_path / "saved")
    assert BertForSequenceClassification.from_pretrained(tmp_path / "saved").config.num_hidden_layers == 2
    assert trainer.state.log_history[-1]["train_loss"] > 0


def test_evaluation_is_the_stock_one(tmp_path):
    rows = texts()
    how = {
        "train_dataset": rows,
        "eval_dataset": rows,
        "data_collator": DataCollatorWithPadding(make_tokenizer()),
        "compute_metrics": lambda said: {"accuracy": (said.predictions.argmax(-1) == said.label_ids).mean()},
    }
    plain = Trainer(bert(), args=arguments(tmp_path), **how).evaluate()
    ours = limbeck.DistillationTrainer(
        bert(), bert(seed=1), OBJECTIVE, args=arguments(tmp_path, eval_strategy="steps", eval_steps=1), **how
    )
    assert ours.evaluate()["eval_loss"] == plain["eval_loss"]
    assert ours.evaluate()["eval_accuracy"] == plain["eval_accuracy"]
    ours.train()
    assert sum("eval_loss" in entry for entry in ours.state.log_history) >= 3


def blocks(count=8, length=10):
    ids = torch.randint(5, 40, (count, length), generator=torch.Generator().manual_seed(0))
    return ids


def test_masked_language_models(tmp_path):
    ids = blocks()
    labels = torch.where(torch.arange(10) % 3 == 0, ids, -100)
    rows = Dataset.from_dict({"input_ids": ids.tolist(), "labels": labels.tolist()})
    teacher = bert(BertForMaskedLM, layers=2, seed=1)
    objective = 0.3 * LanguageModeling() + 0.3 * WordKD() + 0.2 * Truncated(k=5) + 0.2 * Cosine()
    student = bert(BertForMaskedLM)
    trainer = train(limbeck.DistillationTrainer, tmp_path, rows, teacher, objective, torch_rows, student=student)
    assert trainer.state.global_step == 3
    logits = bert(BertForMaskedLM)(ids[:4]).logits[labels[:4] != -100]
    expected = F.cross_entropy(logits, labels[:4][labels[:4] != -100])
    alone = train(
        limbeck.DistillationTrainer,
        tmp_path,
        rows.select(range(4)),
        None,
        1.0 * LanguageModeling(),
        torch_rows,
        bert(BertForMaskedLM),
        max_steps=1,
        logging_steps=1,
    )
    assert alone.state.log_history[0]["loss"] == pytest.approx(expected.item(), abs=1e-3)


def torch_rows(rows):
    return {name: torch.tensor([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.parametrize("kind", [limbeck.DistillationTrainer, Trainer])
def test_causal_language_models(tmp_path, kind):
    """The first step's loss is that of the formula, with labels one place on."""

    def gpt(layers, seed):
        torch.manual_seed(seed)
        sizes = {"n_embd": 16, "n_head": 2, "n_positions": 32, "vocab_size": 40}
        return GPT2LMHeadModel(
            GPT2Config(
                **sizes, n_layer=layers, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=1, eos_token_id=2
            )
        )

    ids = blocks(4)
    labels = ids.clone()
    labels[:, :3] = -100  # a prompt
    rows = Dataset.from_dict({"input_ids": ids.tolist(), "labels": labels.tolist()})
    student, teacher = gpt(1, 0), gpt(2, 1)
    kept = labels[:, 1:] != -100
    said, taught = (model.eval()(ids).logits[:, :-1][kept] for model in (student, teacher))
    kl = F.kl_div(said.log_softmax(-1), taught.log_softmax(-1), log_target=True, reduction="batchmean")
    expected = 0.5 * F.cross_entropy(said, labels[:, 1:][kept]) + 0.5 * kl
    objective = 0.5 * LanguageModeling() + 0.5 * WordKD()
    trainer = train(kind, tmp_path, rows, teacher, objective, torch_rows, student, max_steps=1, logging_steps=1)
    assert trainer.state.log_history[0]["loss"] == pytest.approx(expected.item(), abs=1e-3)


def test_token_classification(tmp_path):
    rows = texts(8)
    rows = rows.map(lambda row: {"labels": [-100, *(number % 3 for number in row["input_ids"][1:-1]), -100]})
    collate = DataCollatorForTokenClassification(make_tokenizer())
    student, teacher = bert(BertForTokenClassification), bert(BertForTokenClassification, layers=2, seed=1)
    found = [
        weights(train(kind, tmp_path, rows, teacher, OBJECTIVE, collate, bert(BertForTokenClassification)).model)
        for kind in (limbeck.DistillationTrainer, Trainer)
    ]
    assert same(*found)
    assert not same(found[0], weights(student))


def test_misfits_are_refused_before_the_first_step(tmp_path):
    rows, teacher = texts(), bert(layers=2, seed=1)
    with pytest.raises(MismatchError, match="neither one nor a column 'teacher_logits'"):
        limbeck.DistillationTrainer(bert(), None, OBJECTIVE, args=arguments(tmp_path), train_dataset=rows)
    with pytest.raises(MismatchError, match="WordKD does not serve classify"):
        limbeck.DistillationTrainer(bert(), teacher, WordKD(), args=arguments(tmp_path), train_dataset=rows)
    with pytest.raises(MismatchError, match="no objective"):
        limbeck.DistillationTrainer(bert(), teacher)
    with pytest.raises(MismatchError, match="DistillationTrainer"):
        limbeck.trainer_loss(TinyBERT(), teacher)
    cache = limbeck.TeacherCache(tmp_path / "cache", teacher)
    with pytest.raises(MismatchError, match="pass the teacher itself"):
        limbeck.DistillationTrainer(bert(), cache, TinyBERT(), args=arguments(tmp_path))
    tiny = T5Config(vocab_size=40, d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2)
    with pytest.raises(MismatchError, match="none of the models this serves"):
        limbeck.DistillationTrainer(T5ForConditionalGeneration(tiny), None, Labels())
    with pytest.raises(MismatchError, match="neither one nor 'teacher_logits' in the batch"):
        train(Trainer, tmp_path, rows, None)
    unlabelled = Dataset.from_dict({"input_ids": blocks().tolist()})
    with pytest.raises(DataError, match="no labels"):
        train(
            limbeck.DistillationTrainer,
            tmp_path,
            unlabelled,
            bert(BertForMaskedLM, seed=1),
            1.0 * WordKD(),
            torch_rows,
            bert(BertForMaskedLM),
        )
