"""Sixty model types of Hugging Face ``transformers``, tiny and with random weights, called as their documentation does.

The list was fixed before any of them was traced. A type is what ``transformers.AutoConfig`` knows it by; its sizes
are as small as they can be without making two dimensions equal that are different things.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .models import VOCABULARY, image, tokens

Inputs = dict[str, Tensor]


def text(length: int = 7) -> Inputs:
    """What a tokenizer returns for two sentences of one length."""
    return {"input_ids": tokens(length), "attention_mask": torch.ones(2, length, dtype=torch.long)}


def segments(length: int = 7) -> Inputs:
    """The same of a tokenizer that numbers the sentences of a pair."""
    return {**text(length), "token_type_ids": torch.zeros(2, length, dtype=torch.long)}


def translation() -> Inputs:
    return {**text(), "decoder_input_ids": tokens(5)}


def pixels(side: int = 32) -> Inputs:
    """What an image processor returns."""
    return {"pixel_values": image(side)}


def sound(samples: int = 800) -> Inputs:
    """What a feature extractor returns: the wave itself."""
    return {"input_values": torch.randn(2, samples, generator=torch.Generator().manual_seed(0))}


def spectrogram(frames: int, bins: int) -> Tensor:
    return torch.randn(2, frames, bins, generator=torch.Generator().manual_seed(0))


def with_image_tokens() -> Inputs:
    """A prompt in which image tokens (number 3) hold the place of the image's patches."""
    ids = tokens(9)
    ids[:, 1:5] = 3
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **pixels(8)}


CAUSAL, MASKED, SEQ2SEQ, IMAGES = (
    "AutoModelForCausalLM",
    "AutoModelForMaskedLM",
    "AutoModelForSeq2SeqLM",
    "AutoModelForImageClassification",
)
LAYERS = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3}
WORDS = {"vocab_size": VOCABULARY, "max_position_embeddings": 16}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SHARED_KEYS = {**LAYERS, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 4}
DECODER = {**SHARED_KEYS, **WORDS, **SPECIAL}
ENCODER = {**LAYERS, **WORDS, **SPECIAL}
TWO_STACKS = {
    **WORDS, **SPECIAL, "d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40, "encoder_attention_heads": 3, "decoder_attention_heads": 3, "decoder_start_token_id": 2,
}  # fmt: skip
PATCHES = {**LAYERS, "image_size": 16, "patch_size": 4}
WAVE = {
    **LAYERS, **SPECIAL, "vocab_size": VOCABULARY, "conv_dim": (8, 12), "conv_kernel": (10, 4), "conv_stride": (5, 4),
    "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 3,
}  # fmt: skip
STAGES = {"embedding_size": 8, "hidden_sizes": [16, 24, 32, 40], "depths": [1, 1, 1, 1]}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 20}

Row = tuple[str, Callable[[], Inputs], dict[str, Any]]
TYPES: dict[str, Row] = {
    # Decoders of text.
    "gpt2": (CAUSAL, text, {"vocab_size": VOCABULARY, "n_positions": 16, "n_embd": 24, "n_layer": 2, "n_head": 3}),
    "gpt_neo": (CAUSAL, text, {
        **WORDS, "hidden_size": 24, "num_layers": 2, "num_heads": 3, "intermediate_size": 40,
        "attention_types": [[["global", "local"], 1]], "window_size": 4}),
    "gpt_neox": (CAUSAL, text, {**LAYERS, **WORDS}),
    "gptj": (CAUSAL, text, {
        "vocab_size": VOCABULARY, "n_positions": 16, "n_embd": 24, "n_layer": 2, "n_head": 3, "rotary_dim": 4}),
    "opt": (CAUSAL, text, {
        **WORDS, **SPECIAL, "hidden_size": 24, "ffn_dim": 40, "num_hidden_layers": 2, "num_attention_heads": 3,
        "word_embed_proj_dim": 24}),
    "bloom": (CAUSAL, text, {"vocab_size": VOCABULARY, "hidden_size": 24, "n_layer": 2, "n_head": 3}),
    "llama": (CAUSAL, text, DECODER),
    "mistral": (CAUSAL, text, {**DECODER, "sliding_window": 4}),
    "qwen2": (CAUSAL, text, DECODER),
    "qwen3": (CAUSAL, text, DECODER),
    "gemma2": (CAUSAL, text, {**DECODER, "query_pre_attn_scalar": 4, "sliding_window": 4}),
    "phi3": (CAUSAL, text, {**DECODER, "original_max_position_embeddings": 16}),
    "falcon": (CAUSAL, text, {
        "vocab_size": VOCABULARY, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}),
    "stablelm": (CAUSAL, text, DECODER),
    "olmo2": (CAUSAL, text, DECODER),
    "cohere": (CAUSAL, text, DECODER),
    # Encoders of text.
    "bert": (MASKED, segments, ENCODER),
    "roberta": (MASKED, text, ENCODER),
    "albert": (MASKED, segments, {**ENCODER, "embedding_size": 10}),
    "distilbert": (MASKED, text, {**WORDS, "dim": 24, "hidden_dim": 40, "n_layers": 2, "n_heads": 3}),
    "electra": (MASKED, segments, {**ENCODER, "embedding_size": 10}),
    "deberta-v2": (MASKED, segments, {**ENCODER, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    "mpnet": (MASKED, text, ENCODER),
    "xlnet": ("AutoModelForSequenceClassification", segments, {
        "vocab_size": VOCABULARY, "d_model": 24, "n_layer": 2, "n_head": 3, "d_inner": 40}),
    "longformer": (MASKED, text, {**ENCODER, "attention_window": [4, 4]}),
    "convbert": (MASKED, segments, {
        **ENCODER, "embedding_size": 10, "num_attention_heads": 6, "head_ratio": 2, "conv_kernel_size": 3}),
    "modernbert": (MASKED, text, {**ENCODER, "local_attention": 4, "cls_token_id": 1, "sep_token_id": 2}),
    "fnet": (MASKED, lambda: {k: v for k, v in segments().items() if k != "attention_mask"}, ENCODER),
    # Encoders with decoders.
    "t5": (SEQ2SEQ, translation, {
        "vocab_size": VOCABULARY, "d_model": 24, "d_kv": 8, "d_ff": 40, "num_layers": 2, "num_heads": 3}),
    "bart": (SEQ2SEQ, translation, TWO_STACKS),
    "marian": (SEQ2SEQ, translation, TWO_STACKS),
    "pegasus": (SEQ2SEQ, translation, TWO_STACKS),
    "led": (SEQ2SEQ, translation, {
        **TWO_STACKS, "max_encoder_position_embeddings": 16, "max_decoder_position_embeddings": 16,
        "attention_window": [4, 4]}),
    # Vision.
    "vit": (IMAGES, lambda: pixels(16), PATCHES),
    "deit": (IMAGES, lambda: pixels(16), {**PATCHES, "architectures": ["DeiTForImageClassification"]}),
    "beit": (IMAGES, lambda: pixels(16), {**PATCHES, "use_relative_position_bias": True}),
    "swin": (IMAGES, pixels, {
        "image_size": 32, "patch_size": 2, "embed_dim": 12, "depths": [2, 2], "num_heads": [2, 3], "window_size": 4}),
    "convnextv2": (IMAGES, pixels, {"hidden_sizes": [8, 12, 16, 20], "depths": [1, 1, 1, 1]}),
    "resnet": (IMAGES, pixels, STAGES),
    "regnet": (IMAGES, pixels, {**STAGES, "groups_width": 8}),
    "mobilenet_v2": (IMAGES, pixels, {"depth_multiplier": 0.25, "image_size": 32}),
    "segformer": (IMAGES, pixels, {
        "hidden_sizes": [8, 12, 16, 20], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 5],
        "decoder_hidden_size": 12}),
    "dinov2": (IMAGES, lambda: pixels(16), PATCHES),
    "poolformer": (IMAGES, pixels, {"hidden_sizes": [8, 12, 16, 20], "depths": [1, 1, 1, 1]}),
    "mobilevit": (IMAGES, pixels, {
        "image_size": 32, "hidden_sizes": [12, 16, 20], "neck_hidden_sizes": [8, 8, 12, 16, 20, 24, 40],
        "num_attention_heads": 2}),
    # Sound.
    "wav2vec2": ("AutoModelForCTC", sound, WAVE),
    "hubert": ("AutoModelForCTC", sound, WAVE),
    "wavlm": ("AutoModelForCTC", sound, WAVE),
    "whisper": ("AutoModelForSpeechSeq2Seq", lambda: {
        "input_features": spectrogram(8, 20), "decoder_input_ids": tokens(5)}, {
        **TWO_STACKS, "num_mel_bins": 8, "max_source_positions": 10, "max_target_positions": 16}),
    "audio-spectrogram-transformer": (
        "AutoModelForAudioClassification", lambda: {"input_values": spectrogram(20, 16)},
        {**LAYERS, "patch_size": 4, "max_length": 20, "num_mel_bins": 16, "time_stride": 4, "frequency_stride": 4}),
    # Images and text.
    "clip": ("AutoModel", lambda: {**text(), **pixels(16)}, {
        "text_config": {**ENCODER, "eos_token_id": 2}, "vision_config": PATCHES, "projection_dim": 14}),
    "siglip": ("AutoModel", lambda: {"input_ids": tokens(), **pixels(16)}, {
        "text_config": {**ENCODER, "projection_size": 24}, "vision_config": PATCHES}),
    "blip": ("AutoModelForImageTextToText", lambda: {**pixels(16), **text()}, {
        "text_config": {**ENCODER, "encoder_hidden_size": 24}, "vision_config": PATCHES}),
    "llava": ("AutoModelForImageTextToText", with_image_tokens, {
        "text_config": {**DECODER, "model_type": "llama"}, "image_token_index": 3,
        "vision_config": {**PATCHES, "model_type": "clip_vision_model", "image_size": 8, "projection_dim": 14}}),
    # Mixtures of experts.
    "mixtral": (CAUSAL, text, {**DECODER, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen3_moe": (CAUSAL, text, {**DECODER, **EXPERTS, "num_experts": 4}),
    "deepseek_v3": (CAUSAL, text, {
        **ENCODER, **EXPERTS, "num_key_value_heads": 3, "n_routed_experts": 4, "n_group": 2, "topk_group": 1,
        "first_k_dense_replace": 1, "q_lora_rank": 10, "kv_lora_rank": 14, "qk_nope_head_dim": 6,
        "qk_rope_head_dim": 4, "v_head_dim": 8}),
    "switch_transformers": (SEQ2SEQ, translation, {
        "vocab_size": VOCABULARY, "d_model": 24, "d_kv": 8, "d_ff": 40, "num_layers": 2, "num_heads": 3,
        "num_experts": 4, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1}),
    # State spaces.
    "mamba": (CAUSAL, text, {
        "vocab_size": VOCABULARY, "hidden_size": 24, "num_hidden_layers": 2, "state_size": 4, "time_step_rank": 6}),
    "mamba2": (CAUSAL, text, {
        "vocab_size": VOCABULARY, "hidden_size": 24, "num_hidden_layers": 2, "state_size": 10, "num_heads": 6,
        "head_dim": 8, "n_groups": 2, "chunk_size": 4}),
}  # fmt: skip
"""Type → class that makes the model from a configuration, inputs of the default call, sizes."""


def hub_model(name: str) -> tuple[nn.Module, Inputs]:
    """A model of that type and what it is called with."""
    import transformers

    transformers.logging.set_verbosity_error()
    auto, inputs, sizes = TYPES[name]
    config = transformers.AutoConfig.for_model(name, **sizes)
    return getattr(transformers, auto).from_config(config).eval(), inputs()
