#!/usr/bin/env python3
"""Gradient bucket sizes of well-known models, as PyTorch's DistributedDataParallel makes them.

DDP walks the parameters in reverse order of registration and closes a bucket once it has reached its cap: 1 MiB for the
first, so that communication starts early, 25 MiB for the others. A bucket therefore exceeds the cap by at most its last
parameter, and a parameter is never split. Gradients are float32.

usage: generate.py [DIRECTORY]    writes MODEL.sizes into DIRECTORY (default: beside this script)
"""

import math
import pathlib
import sys

MIB = 1024 * 1024
FIRST_CAP = 1 * MIB
CAP = 25 * MIB
BYTES_PER_PARAMETER = 4


def batch_norm(name, width):
    return [(f"{name}.weight", (width,)), (f"{name}.bias", (width,))]


def linear(name, inputs, outputs):
    return [(f"{name}.weight", (outputs, inputs)), (f"{name}.bias", (outputs,))]


def layer_norm(name, width):
    return [(f"{name}.weight", (width,)), (f"{name}.bias", (width,))]


def resnet50():
    """He et al., Deep Residual Learning for Image Recognition (2015), table 1, 50 layers; registration as in torchvision."""
    parameters = [("conv1.weight", (64, 3, 7, 7))] + batch_norm("bn1", 64)
    inputs = 64
    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)], start=1):
        for block in range(blocks):
            name = f"layer{stage}.{block}"
            outputs = 4 * width
            parameters += [(f"{name}.conv1.weight", (width, inputs, 1, 1))] + batch_norm(f"{name}.bn1", width)
            parameters += [(f"{name}.conv2.weight", (width, width, 3, 3))] + batch_norm(f"{name}.bn2", width)
            parameters += [(f"{name}.conv3.weight", (outputs, width, 1, 1))] + batch_norm(f"{name}.bn3", outputs)
            if block == 0:
                parameters += [(f"{name}.downsample.0.weight", (outputs, inputs, 1, 1))]
                parameters += batch_norm(f"{name}.downsample.1", outputs)
            inputs = outputs
    return parameters + linear("fc", 2048, 1000)


def bert_large():
    """Devlin et al., BERT (2018), large, uncased vocabulary: 24 layers, hidden 1024; encoder and pooler."""
    hidden, inner, vocabulary, positions, layers = 1024, 4096, 30522, 512, 24
    parameters = [
        ("embeddings.word_embeddings.weight", (vocabulary, hidden)),
        ("embeddings.position_embeddings.weight", (positions, hidden)),
        ("embeddings.token_type_embeddings.weight", (2, hidden)),
    ] + layer_norm("embeddings.LayerNorm", hidden)
    for layer in range(layers):
        name = f"encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            parameters += linear(f"{name}.attention.self.{part}", hidden, hidden)
        parameters += linear(f"{name}.attention.output.dense", hidden, hidden)
        parameters += layer_norm(f"{name}.attention.output.LayerNorm", hidden)
        parameters += linear(f"{name}.intermediate.dense", hidden, inner)
        parameters += linear(f"{name}.output.dense", inner, hidden)
        parameters += layer_norm(f"{name}.output.LayerNorm", hidden)
    return parameters + linear("pooler.dense", hidden, hidden)


def gpt2():
    """Radford et al., Language Models are Unsupervised Multitask Learners (2019), the smallest: 12 layers, hidden 768.

    The output layer shares the token embedding's weight and so adds none."""
    hidden, vocabulary, positions, layers = 768, 50257, 1024, 12
    parameters = [("wte.weight", (vocabulary, hidden)), ("wpe.weight", (positions, hidden))]
    for layer in range(layers):
        name = f"h.{layer}"
        parameters += layer_norm(f"{name}.ln_1", hidden)
        parameters += linear(f"{name}.attn.c_attn", hidden, 3 * hidden)
        parameters += linear(f"{name}.attn.c_proj", hidden, hidden)
        parameters += layer_norm(f"{name}.ln_2", hidden)
        parameters += linear(f"{name}.mlp.c_fc", hidden, 4 * hidden)
        parameters += linear(f"{name}.mlp.c_proj", 4 * hidden, hidden)
    return parameters + layer_norm("ln_f", hidden)


# The model, its name for people and its published number of parameters.
MODELS = {
    "resnet50": (resnet50, "ResNet-50", 25_557_032),
    "bert_large": (bert_large, "BERT-large (encoder and pooler)", 335_141_888),
    "gpt2": (gpt2, "GPT-2 (124M)", 124_439_808),
}


def buckets(parameters):
    """(bytes, first name, last name, number of parameters) of each bucket, in the order in which they become ready."""
    result, current, cap = [], [], FIRST_CAP
    for name, shape in reversed(parameters):
        current.append((name, math.prod(shape) * BYTES_PER_PARAMETER))
        if sum(size for _, size in current) >= cap:
            result.append(current)
            current, cap = [], CAP
    if current:
        result.append(current)
    return [(sum(size for _, size in b), b[0][0], b[-1][0], len(b)) for b in result]


def sizes_file(title, parameters):
    total = sum(math.prod(shape) for _, shape in parameters)
    lines = [
        f"# {title}: {total} float32 parameters in {len(parameters)} tensors, as gradient buckets in bytes.",
        "# In the order of the backward pass: reverse registration, first bucket 1 MiB, the others 25 MiB,",
        "# each closed by the tensor that reaches the cap. Made by generate.py; do not edit.",
    ]
    for size, first, last, count in buckets(parameters):
        lines.append(f"{size}  # {first} .. {last} ({count})")
    return "\n".join(lines) + "\n"


def main():
    directory = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    for model, (shapes, title, published) in MODELS.items():
        parameters = shapes()
        total = sum(math.prod(shape) for _, shape in parameters)
        if total != published:
            sys.exit(f"generate.py: {title} has {total} parameters here, {published} as published; fix its shapes")
        (directory / f"{model}.sizes").write_text(sizes_file(title, parameters), encoding="utf-8")


if __name__ == "__main__":
    main()
