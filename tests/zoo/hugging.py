"""Architectures of Hugging Face `transformers`, from configurations: no weights are downloaded."""

from collections.abc import Callable
from typing import Any

import torch
from tests.zoo.network import Inputs, Network, noise
from torch import nn

Settings = dict[str, Any]
WORDS = 99
# One layer, and two where the second differs from the first or shares its weights.
TEXT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 32, "max_position_embeddings": 64}  # fmt: skip
MINI = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6,
        "intermediate_size": 1536, "max_position_embeddings": 512}  # fmt: skip
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1, "cls_token_id": 1,
       "sep_token_id": 1, "use_cache": False}  # fmt: skip
VIT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
       "image_size": 32, "patch_size": 8}  # fmt: skip
VIT_S = {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6,
         "intermediate_size": 1536}  # fmt: skip


def hugging(name: str, **fixed: Any) -> Callable[..., nn.Module]:
    """BertModel of a BertConfig for "Bert"; "T5:T5EncoderModel" where that is not its name."""

    def make(**settings: Any) -> nn.Module:
        import transformers

        transformers.logging.set_verbosity_error()
        family, _, model = name.partition(":")
        config = getattr(transformers, f"{family}Config")(**{**fixed, **settings})
        return getattr(transformers, model or f"{family}Model")(config)

    return make


def words(batch: int, length: int) -> Inputs:
    return {"input_ids": torch.randint(2, WORDS, (batch, length))}


def padded(batch: int, length: int) -> Inputs:
    """Words; the second half of the last sample is padding."""
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[-1, length // 2 :] = 0
    return {**words(batch, length), "attention_mask": mask}


def pixels(batch: int, side: int) -> Inputs:
    return {"pixel_values": noise(batch, 3, side, side)}


def text(name: str, of: str, tiny: Settings | None = None, full: Settings | None = None, *,
         inputs: Any = padded, free: bool = False) -> Network:  # fmt: skip
    """A language model whose configuration has the usual names."""
    names = inputs(1, 1)
    return Network(
        name, hugging(of, vocab_size=WORDS, **IDS), inputs, (7, 128),
        {**TEXT, **(tiny or {})}, {**MINI, **(full or {})},
        dynamic={name: {1: "length"} for name in names} if free else {}, other=12 if free else 0,
    )  # fmt: skip


def vision(name: str, of: str, tiny: Settings, full: Settings | None = None, side: int = 32
           ) -> Network:  # fmt: skip
    return Network(name, hugging(of), pixels, (side, 224), tiny, full or {})


def sound(batch: int, length: int) -> Inputs:
    return {"input_values": torch.randn(batch, length)}


def spectrum_and_words(batch: int, length: int) -> Inputs:
    start = torch.randint(0, WORDS, (batch, 5))
    return {"input_features": noise(batch, 80, 2 * length), "decoder_input_ids": start}


def words_and_pixels(batch: int, side: int) -> Inputs:
    return {**words(batch, 7), **pixels(batch, side)}


def frames(batch: int, side: int) -> Inputs:
    return {"pixel_values": noise(batch, 4, 3, side, side)}


def sizes(*hidden: int, **more: Any) -> Settings:
    """Stages of these widths, one block each."""
    return {"hidden_sizes": list(hidden), "depths": [1] * len(hidden), **more}


HUGGING = [
    text("bert", "Bert", free=True),
    text("roberta", "Roberta"),
    text("albert", "Albert", {"embedding_size": 8, "num_hidden_layers": 2}),
    text("distilbert", "DistilBert", {"dim": 16, "hidden_dim": 32, "n_layers": 1, "n_heads": 2},
         {"dim": 384, "hidden_dim": 1536, "n_layers": 6, "n_heads": 6}),
    text("modernbert", "ModernBert", {"num_hidden_layers": 2}),
    text("gpt2", "GPT2", inputs=words),
    text("llama", "Llama", {"num_key_value_heads": 1}, {"num_key_value_heads": 2}, inputs=words,
         free=True),
    text("qwen2", "Qwen2", {"num_key_value_heads": 1}, {"num_key_value_heads": 2}, inputs=words),
    text("t5", "T5:T5EncoderModel", {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_hidden_layers": 2},
         {"d_model": 384, "d_kv": 64, "d_ff": 1536}),
    text("bart", "Bart", {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
                          "encoder_attention_heads": 2, "decoder_attention_heads": 2,
                          "encoder_ffn_dim": 32, "decoder_ffn_dim": 32},
         {"d_model": 384, "encoder_layers": 3, "decoder_layers": 3, "encoder_attention_heads": 6,
          "decoder_attention_heads": 6, "encoder_ffn_dim": 1536, "decoder_ffn_dim": 1536}),
    text("mamba", "Mamba", {"state_size": 4}, inputs=words),
    vision("vit", "ViT", VIT, VIT_S),
    vision("dinov2", "Dinov2", {**VIT, "mlp_ratio": 2}, {**VIT_S, "image_size": 224}),
    vision("swin", "Swin", {"image_size": 32, "embed_dim": 8, "depths": [2, 1],
                            "num_heads": [2, 2], "window_size": 4}),
    vision("convnext", "ConvNext", sizes(8, 16, num_stages=2)),
    vision("segformer", "Segformer:SegformerForSemanticSegmentation",
           sizes(8, 16, num_encoder_blocks=2, num_attention_heads=[1, 2], sr_ratios=[4, 2],
                 decoder_hidden_size=16, patch_sizes=[7, 3], strides=[4, 2], mlp_ratios=[2, 2])),
    vision("poolformer", "PoolFormer", sizes(8, 16, num_encoder_blocks=2, patch_sizes=[7, 3],
                                             strides=[4, 2], padding=[2, 1])),
    Network("wav2vec2", hugging("Wav2Vec2"), sound, (400, 16000),
            {**TEXT, "conv_dim": [8, 8], "conv_kernel": [10, 3], "conv_stride": [5, 2],
             "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4,
             "num_conv_pos_embedding_groups": 2}, MINI),
    Network("whisper", hugging("Whisper:WhisperForConditionalGeneration", vocab_size=WORDS,
                               decoder_start_token_id=1, max_target_positions=16, **IDS),
            spectrum_and_words, (10, 1500),
            {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
             "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32,
             "max_source_positions": 10},
            {"d_model": 384, "encoder_layers": 4, "decoder_layers": 4}),
    Network("clip", hugging("CLIP"), words_and_pixels, (32, 224),
            {"text_config": {**TEXT, **IDS, "vocab_size": WORDS}, "vision_config": VIT,
             "projection_dim": 8},
            {"text_config": {**MINI, **IDS, "vocab_size": WORDS},
             "vision_config": {**VIT_S, "patch_size": 32}}),
    Network("videomae", hugging("VideoMAE", num_frames=4), frames, (16, 112),
            {**VIT, "image_size": 16}, {**VIT_S, "image_size": 112}),
]  # fmt: skip
