// The two tables of the hub reader: which families are read, and what each field of theirs means.
#include <string.h>

#include "engine/hub_internal.h"

#define NEED(fact) (1u << FACT_##fact)
#define NEED_SIZES (NEED(D_MODEL) | NEED(LAYERS) | NEED(HEADS) | NEED(FFN) | NEED(VOCAB))
#define NEED_HEADS (NEED_SIZES | NEED(KV) | NEED(HEAD_DIM))
#define GEMMA_SAYS                                                                                 \
    "the embedding is scaled by sqrt(hidden_size) and the FFN's gate is GELU, here unscaled and "  \
    "SiLU; the tensors are the same"

// Defaults are those of the published model classes. What no family has a default for is needed.
// clang-format off
const struct hub_family hub_families[] = {
    {"llama", "LlamaForCausalLM", HUB_LLAMA, NULL, NEED_SIZES, false, "swiglu", "1e-6", {NULL},
     NULL},
    {"mistral", "MistralForCausalLM", HUB_MISTRAL, NULL, NEED_SIZES | NEED(KV), false, "swiglu",
     "1e-6", {NULL}, NULL},
    {"qwen3", "Qwen3ForCausalLM", HUB_QWEN3, NULL, NEED_HEADS, false, "swiglu", "1e-6",
     {"qk_norm: head"}, NULL},
    {"olmo2", "Olmo2ForCausalLM", HUB_OLMO2, NULL, NEED_SIZES, false, "swiglu", "1e-5",
     {"norm_place: reordered", "qk_norm: full"}, NULL},
    {"gemma", "GemmaForCausalLM", HUB_GEMMA, NULL, NEED_HEADS, true, "swiglu", "1e-6", {NULL},
     GEMMA_SAYS},
    {"gemma2", "Gemma2ForCausalLM", HUB_GEMMA2, NULL, NEED_HEADS, true, "swiglu", "1e-6",
     {"norm_place: sandwich"}, GEMMA_SAYS},
    {"gemma3_text", "Gemma3ForCausalLM", HUB_GEMMA3, NULL, NEED_HEADS, true, "swiglu", "1e-6",
     {"norm_place: sandwich", "qk_norm: head"}, GEMMA_SAYS},
    {"gpt2", "GPT2LMHeadModel", HUB_GPT2, NULL,
     NEED(D_MODEL) | NEED(LAYERS) | NEED(HEADS) | NEED(VOCAB) | NEED(CONTEXT), true, "gelu_tanh",
     "1e-5", {"norm: layer", "bias: true", "pos: learned", "depth_scale: true"}, NULL},
    {"gpt_neox", "GPTNeoXForCausalLM", HUB_NEOX, NULL, NEED_SIZES, false, "gelu", "1e-5",
     {"norm: layer", "bias: true"}, NULL},
    {"openelm", "OpenELMForCausalLM", HUB_OPENELM, NULL,
     NEED(D_MODEL) | NEED(LAYERS) | NEED(HEADS) | NEED(KV) | NEED(HEAD_DIM) | NEED(VOCAB) |
         NEED(FFN_FACTORS) | NEED(FFN_DIVISOR) | NEED(TIE) | NEED(QK_NORM),
     false, "swiglu", "1e-6", {NULL}, NULL},
    {"nemotron-nas", "DeciLMForCausalLM", HUB_DECI, NULL,
     NEED(D_MODEL) | NEED(LAYERS) | NEED(HEADS) | NEED(VOCAB), false, "swiglu", "1e-6", {NULL},
     NULL},
    {"deci", "DeciLMForCausalLM", HUB_DECI, NULL,
     NEED(D_MODEL) | NEED(LAYERS) | NEED(HEADS) | NEED(VOCAB), false, "swiglu", "1e-6", {NULL},
     NULL},

    {.type = "qwen2", .class_name = "Qwen2ForCausalLM",
     .refused = "q, k and v have biases, no other layer has; a profile's model.bias is for all "
                "linear layers"},
    {.type = "olmo", .class_name = "OlmoForCausalLM",
     .refused = "the norms have no weights; a profile's always have"},
    {.type = "lathe", .class_name = "LatheForCausalLM",
     .refused = "a checkpoint of this program: open the profile.yaml beside it"},
};

const struct hub_field hub_fields[] = {
    {"model_type", HUB_ALL, USE_FACT, FACT_TYPE, NULL, NULL, NULL},
    {"architectures", HUB_ALL, USE_FACT, FACT_CLASS, NULL, NULL, NULL},

#define FACT(name, families, fact) {name, families, USE_FACT, FACT_##fact, NULL, NULL, NULL}
    FACT("hidden_size", HUB_ROTARY | HUB_NEOX, D_MODEL),
    FACT("num_hidden_layers", HUB_ROTARY | HUB_NEOX, LAYERS),
    FACT("num_attention_heads", HUB_ROTARY | HUB_NEOX, HEADS),
    FACT("num_key_value_heads_per_layer", HUB_DECI, KV),
    FACT("num_key_value_heads", HUB_ROTARY, KV),
    FACT("head_dim", HUB_ROTARY | HUB_OPENELM, HEAD_DIM),
    FACT("intermediate_size", HUB_ROTARY | HUB_NEOX, FFN),
    FACT("block_configs", HUB_DECI, BLOCKS),
    FACT("vocab_size", HUB_ALL, VOCAB),
    FACT("tie_word_embeddings", HUB_ALL & ~HUB_OPENELM, TIE),
    FACT("hidden_act", HUB_ROTARY & ~HUB_GEMMAS, ACT),
    FACT("hidden_act", HUB_NEOX, ACT),
    FACT("attention_bias", HUB_LLAMA | HUB_DECI | HUB_NEOX, ATTN_BIAS),
    FACT("mlp_bias", HUB_LLAMA | HUB_DECI, MLP_BIAS),
    FACT("rms_norm_eps", HUB_ROTARY | HUB_OPENELM, EPS),
    FACT("layer_norm_eps", HUB_NEOX, EPS),
    FACT("initializer_range", HUB_ALL, STD),
    FACT("rope_theta", HUB_ROTARY | HUB_NEOX, THETA),
    FACT("rotary_emb_base", HUB_NEOX, THETA),
    FACT("rope_parameters", HUB_ROTARY | HUB_NEOX, ROPE),
    FACT("max_position_embeddings", HUB_ROTARY | HUB_NEOX, CONTEXT),
    FACT("query_pre_attn_scalar", HUB_GEMMA2 | HUB_GEMMA3, QUERY_SCALE),

    FACT("n_embd", HUB_GPT2, D_MODEL),
    FACT("n_layer", HUB_GPT2, LAYERS),
    FACT("n_head", HUB_GPT2, HEADS),
    FACT("n_inner", HUB_GPT2, FFN),
    FACT("n_positions", HUB_GPT2, CONTEXT),
    FACT("n_ctx", HUB_GPT2, CONTEXT),
    FACT("activation_function", HUB_GPT2, ACT),
    FACT("layer_norm_epsilon", HUB_GPT2, EPS),

    FACT("model_dim", HUB_OPENELM, D_MODEL),
    FACT("num_transformer_layers", HUB_OPENELM, LAYERS),
    FACT("num_query_heads", HUB_OPENELM, HEADS),
    FACT("num_kv_heads", HUB_OPENELM, KV),
    FACT("ffn_multipliers", HUB_OPENELM, FFN_FACTORS),
    FACT("ffn_dim_divisor", HUB_OPENELM, FFN_DIVISOR),
    FACT("share_input_output_layers", HUB_OPENELM, TIE),
    FACT("normalize_qk_projections", HUB_OPENELM, QK_NORM),
    FACT("activation_fn_name", HUB_OPENELM, ACT),
    FACT("rope_freq_constant", HUB_OPENELM, THETA),
    FACT("max_context_length", HUB_OPENELM, CONTEXT),
#undef FACT

#define WARN(name, families, neutral, absent, text) \
    {name, families, USE_WARN, FACT_COUNT, neutral, absent, text}
    WARN("rope_scaling", HUB_ROTARY | HUB_NEOX, NULL, NULL,
         "stretched RoPE frequencies; here they are plain"),
    WARN("rope_interleaved", HUB_LLAMA, "false", NULL,
         "RoPE pairs neighbours; here halves, unless model.rope_layout says otherwise"),
    WARN("rope_local_base_freq", HUB_GEMMA3, NULL, NULL,
         "a second RoPE base for layers with local attention; here all have rope_theta"),
    WARN("partial_rotary_factor", HUB_ROTARY | HUB_NEOX, "1", NULL,
         "RoPE turns a part of each head; here all of it"),
    WARN("rotary_pct", HUB_NEOX, "1", "0.25", "RoPE turns a part of each head; here all of it"),
    WARN("use_parallel_residual", HUB_NEOX, "false", "true",
         "attention and FFN read the same input side by side; here one after the other"),
    WARN("sliding_window", HUB_ROTARY & ~HUB_QWEN3, NULL, NULL,
         "attention reaches back this far; here to the start"),
    WARN("use_sliding_window", HUB_QWEN3, "false", NULL,
         "attention reaches back sliding_window; here to the start"),
    WARN("layer_types", HUB_ROTARY, NULL, NULL,
         "layers differ in how far attention reaches; here all reach to the start"),
    WARN("use_bidirectional_attention", HUB_GEMMA3, "false", NULL,
         "attention sees later tokens; here it is causal"),
    WARN("attn_logit_softcapping", HUB_GEMMA2 | HUB_GEMMA3, NULL, NULL,
         "attention scores are capped; here they are not"),
    WARN("final_logit_softcapping", HUB_GEMMA2 | HUB_GEMMA3, NULL, NULL,
         "logits are capped; here they are not"),
    WARN("scale_attn_weights", HUB_GPT2, "true", NULL,
         "attention scores are not scaled; here by 1/sqrt(head_dim)"),
    WARN("scale_attn_by_inverse_layer_idx", HUB_GPT2, "false", NULL,
         "attention scores are scaled by layer; here they are not"),
    WARN("quantization", HUB_ALL, NULL, NULL,
         "weights are stored with fewer bits; here each is a number of 32"),
    WARN("quantization_config", HUB_ALL, NULL, NULL,
         "weights are stored with fewer bits; here each is a number of 32"),
#undef WARN

#define REFUSE(name, families, neutral, text) \
    {name, families, USE_REFUSE, FACT_COUNT, neutral, NULL, text}
    REFUSE("attention_bias", HUB_MISTRAL | HUB_QWEN3 | HUB_OLMO2 | HUB_GEMMAS, "false",
           "attention alone has biases; a profile's model.bias is for all linear layers"),
    REFUSE("mlp_bias", HUB_ROTARY & ~(HUB_LLAMA | HUB_DECI), "false",
           "the FFN alone has biases; a profile's model.bias is for all linear layers"),
    REFUSE("per_layer_config", HUB_ALL, NULL, "values of single layers in this form are not read"),
    REFUSE("num_local_experts", HUB_ROTARY, "0", "a profile has no mixture of experts"),
    REFUSE("num_experts", HUB_ROTARY, "0", "a profile has no mixture of experts"),
    REFUSE("ffn_with_glu", HUB_OPENELM, "true", "an FFN of two matrices with this activation"),
    REFUSE("normalization_layer_name", HUB_OPENELM, "rms_norm", "only rms_norm is read"),
    REFUSE("is_encoder_decoder", HUB_ALL, "false", "a profile is a decoder alone"),
    REFUSE("add_cross_attention", HUB_ALL, "false", "a profile is a decoder alone"),
    REFUSE("pruned_heads", HUB_ALL, NULL, "layers without some of their heads are not read"),
#undef REFUSE

#define SKIP(name, families) {name, families, USE_NOTHING, FACT_COUNT, NULL, NULL, NULL}
    SKIP("_name_or_path", HUB_ALL), SKIP("_attn_implementation_autoset", HUB_ALL),
    SKIP("transformers_version", HUB_ALL), SKIP("torch_dtype", HUB_ALL), SKIP("dtype", HUB_ALL),
    SKIP("auto_map", HUB_ALL), SKIP("use_cache", HUB_ALL), SKIP("pretraining_tp", HUB_ALL),
    SKIP("cache_implementation", HUB_ALL), SKIP("gradient_checkpointing", HUB_ALL),
    SKIP("transformers.js_config", HUB_ALL), SKIP("is_llama_config", HUB_LLAMA),
    SKIP("use_bfloat16", HUB_ALL), SKIP("torchscript", HUB_ALL), SKIP("is_decoder", HUB_ALL),
    SKIP("return_dict", HUB_ALL), SKIP("output_attentions", HUB_ALL),
    SKIP("output_hidden_states", HUB_ALL), SKIP("output_past", HUB_GPT2),
    SKIP("tie_encoder_decoder", HUB_ALL), SKIP("chunk_size_feed_forward", HUB_ALL),
    SKIP("cross_attention_hidden_size", HUB_ALL),
    // tokens
    SKIP("bos_token_id", HUB_ALL), SKIP("eos_token_id", HUB_ALL), SKIP("pad_token_id", HUB_ALL),
    SKIP("unk_token_id", HUB_ALL), SKIP("sep_token_id", HUB_ALL), SKIP("tokenizer_class", HUB_ALL),
    SKIP("decoder_start_token_id", HUB_ALL), SKIP("n_special", HUB_GPT2),
    SKIP("predict_special_tokens", HUB_GPT2),
    // dropout
    SKIP("attention_dropout", HUB_ALL), SKIP("hidden_dropout", HUB_ALL),
    SKIP("attention_probs_dropout_prob", HUB_ALL), SKIP("hidden_dropout_prob", HUB_ALL),
    SKIP("classifier_dropout", HUB_ALL), SKIP("attn_pdrop", HUB_GPT2), SKIP("embd_pdrop", HUB_GPT2),
    SKIP("resid_pdrop", HUB_GPT2),
    // other tasks
    SKIP("summary_activation", HUB_GPT2), SKIP("summary_first_dropout", HUB_GPT2),
    SKIP("summary_proj_to_labels", HUB_GPT2), SKIP("summary_type", HUB_GPT2),
    SKIP("summary_use_proj", HUB_GPT2), SKIP("task_specific_params", HUB_ALL),
    SKIP("finetuning_task", HUB_ALL), SKIP("problem_type", HUB_ALL), SKIP("id2label", HUB_ALL),
    SKIP("label2id", HUB_ALL),
    // sampling
    SKIP("do_sample", HUB_ALL), SKIP("temperature", HUB_ALL), SKIP("top_k", HUB_ALL),
    SKIP("top_p", HUB_ALL), SKIP("max_length", HUB_ALL), SKIP("min_length", HUB_ALL),
    SKIP("num_beams", HUB_ALL), SKIP("repetition_penalty", HUB_ALL),
    // said by other fields already, or used by none of the layers above
    SKIP("hidden_act", HUB_GEMMAS), SKIP("hidden_activation", HUB_GEMMAS),
    SKIP("sliding_window", HUB_QWEN3), SKIP("max_window_layers", HUB_QWEN3),
    SKIP("sliding_window_size", HUB_GEMMA2), SKIP("sliding_window_pattern", HUB_GEMMA3),
    SKIP("_sliding_window_pattern", HUB_GEMMA3), SKIP("reorder_and_upcast_attn", HUB_GPT2),
    SKIP("num_gqa_groups", HUB_OPENELM), SKIP("qkv_multipliers", HUB_OPENELM),
    SKIP("rope_max_length", HUB_OPENELM),
#undef SKIP
};
// clang-format on

const int hub_family_count = sizeof hub_families / sizeof hub_families[0];
const int hub_field_count = sizeof hub_fields / sizeof hub_fields[0];

const struct hub_field *hub_field_find(const char *name, unsigned family)
{
    for (int i = 0; i < hub_field_count; i++)
        if ((hub_fields[i].families & family) && !strcmp(hub_fields[i].name, name))
            return &hub_fields[i];
    return NULL;
}
