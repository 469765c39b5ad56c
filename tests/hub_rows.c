#include "tests/hub_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"

// Sources of the totals:
//   published  confirmed against a published or measured number (hub, model card) when the list of
//              known models was made
//   card       the model card's non-embedding number, plus both embedding tables
//   quoted     stands in public repositories as what the hub says or a program counted
//   arithmetic the formula alone
// Sizes agree with litgpt's table of configurations where that has the model.
// clang-format off
const struct hub_row hub_rows[] = {
    // name, type, layers, d, heads, kv, head_dim, ffn, vocab, tied, context, total, source
    {"gpt2", "gpt2", 12, 768, 12, 0, 0, 0, 50257, -1, 1024, 124439808, "published"},
    {"gpt2-medium", "gpt2", 24, 1024, 16, 0, 0, 0, 50257, -1, 1024, 354823168, "published"},
    {"gpt2-large", "gpt2", 36, 1280, 20, 0, 0, 0, 50257, -1, 1024, 774030080, "published"},
    {"gpt2-xl", "gpt2", 48, 1600, 25, 0, 0, 0, 50257, -1, 1024, 1557611200, "published"},
    {"distilgpt2", "gpt2", 6, 768, 12, 0, 0, 0, 50257, -1, 1024, 81912576, "quoted"},

    {"pythia-14m", "gpt_neox", 6, 128, 4, 0, 0, 512, 50304, 0, 512, 14067712, "arithmetic"},
    {"pythia-31m", "gpt_neox", 6, 256, 8, 0, 0, 1024, 50304, 0, 1024, 30494720, "arithmetic"},
    {"pythia-70m", "gpt_neox", 6, 512, 8, 0, 0, 2048, 50304, 0, 2048, 70426624, "card"},
    {"pythia-160m", "gpt_neox", 12, 768, 12, 0, 0, 3072, 50304, 0, 2048, 162322944, "card"},
    {"pythia-410m", "gpt_neox", 24, 1024, 16, 0, 0, 4096, 50304, 0, 2048, 405334016, "card"},
    {"pythia-1b", "gpt_neox", 16, 2048, 8, 0, 0, 8192, 50304, 0, 2048, 1011781632, "card"},
    {"pythia-1.4b", "gpt_neox", 24, 2048, 16, 0, 0, 8192, 50304, 0, 2048, 1414647808, "card"},
    {"pythia-2.8b", "gpt_neox", 32, 2560, 32, 0, 0, 10240, 50304, 0, 2048, 2775208960, "card"},
    {"pythia-6.9b", "gpt_neox", 32, 4096, 32, 0, 0, 16384, 50432, 0, 2048, 6857302016, "card"},
    {"pythia-12b", "gpt_neox", 36, 5120, 40, 0, 0, 20480, 50688, 0, 2048, 11846072320, "card"},
    {"gpt-neox-20b", "gpt_neox", 44, 6144, 64, 0, 0, 24576, 50432, 0, 2048, 20554567680, "quoted"},

    {"SmolLM2-135M", "llama", 30, 576, 9, 3, 0, 1536, 49152, 1, 8192, 134515008, "published"},
    {"SmolLM2-360M", "llama", 32, 960, 15, 5, 0, 2560, 49152, 1, 8192, 361821120, "published"},
    {"SmolLM2-1.7B", "llama", 24, 2048, 32, 32, 0, 8192, 49152, 1, 8192, 1711376384, "published"},
    {"TinyLlama-1.1B", "llama", 22, 2048, 32, 4, 0, 5632, 32000, 0, 2048, 1100048384, "published"},
    {"Llama-2-7b", "llama", 32, 4096, 32, 0, 0, 11008, 32000, 0, 4096, 6738415616, "quoted"},
    {"Llama-2-13b", "llama", 40, 5120, 40, 40, 0, 13824, 32000, 0, 4096, 13015864320, "quoted"},
    {"Llama-3.2-1B", "llama", 16, 2048, 32, 8, 64, 8192, 128256, 1, 131072, 1235814400, "published"},
    {"Llama-3.2-3B", "llama", 28, 3072, 24, 8, 128, 8192, 128256, 1, 131072, 3212749824, "published"},
    {"Llama-3.1-8B", "llama", 32, 4096, 32, 8, 0, 14336, 128256, 0, 131072, 8030261248, "published"},
    {"Llama-3.1-70B", "llama", 80, 8192, 64, 8, 0, 28672, 128256, 0, 131072, 70553706496, "quoted"},
    {"Mistral-7B-v0.1", "mistral", 32, 4096, 32, 8, 0, 14336, 32000, 0, 32768, 7241732096, "quoted"},
    {"Mistral-7B-v0.3", "mistral", 32, 4096, 32, 8, 0, 14336, 32768, 0, 32768, 7248023552, "quoted"},

    {"Qwen3-0.6B", "qwen3", 28, 1024, 16, 8, 128, 3072, 151936, 1, 40960, 596049920, "published"},
    {"Qwen3-1.7B", "qwen3", 28, 2048, 16, 8, 128, 6144, 151936, 1, 40960, 1720574976, "published"},
    {"Qwen3-4B", "qwen3", 36, 2560, 32, 8, 128, 9728, 151936, 1, 40960, 4022468096, "published"},
    {"Qwen3-8B", "qwen3", 36, 4096, 32, 8, 128, 12288, 151936, 0, 40960, 8190735360, "published"},
    {"Qwen3-14B", "qwen3", 40, 5120, 40, 8, 128, 17408, 151936, 0, 40960, 14768307200, "quoted"},
    {"Qwen3-32B", "qwen3", 64, 5120, 64, 8, 128, 25600, 151936, 0, 40960, 32762123264, "quoted"},

    {"OLMo-2-1B", "olmo2", 16, 2048, 16, 16, 0, 8192, 100352, 0, 4096, 1484916736, "published"},
    {"OLMo-2-7B", "olmo2", 32, 4096, 32, 32, 0, 11008, 100352, 0, 4096, 7298617344, "published"},
    {"OLMo-2-13B", "olmo2", 40, 5120, 40, 40, 0, 13824, 100352, 0, 4096, 13716198400, "quoted"},

    {"gemma-2b", "gemma", 18, 2048, 8, 1, 256, 16384, 256000, -1, 8192, 2506172416, "published"},
    {"gemma-7b", "gemma", 28, 3072, 16, 16, 256, 24576, 256000, -1, 8192, 8537680896, "quoted"},
    {"gemma-2-2b", "gemma2", 26, 2304, 8, 4, 256, 9216, 256000, -1, 8192, 2614341888, "published"},
    {"gemma-2-9b", "gemma2", 42, 3584, 16, 8, 256, 14336, 256000, -1, 8192, 9241705984, "quoted"},
    {"gemma-2-27b", "gemma2", 46, 4608, 32, 16, 128, 36864, 256000, -1, 8192, 27227128320, "quoted"},
    {"gemma-3-270m", "gemma3_text", 18, 640, 4, 1, 256, 2048, 262144, -1, 32768, 268098176,
     "published"},
    {"gemma-3-1b", "gemma3_text", 26, 1152, 4, 1, 256, 6912, 262144, -1, 32768, 999885952,
     "published"},
};

const struct hub_elm hub_elms[] = {
    {"OpenELM-270M", 16, 1280, 64, {12, 12, 12, 12, 12, 16, 16, 16, 16, 16, 16, 16, 20, 20, 20, 20},
     271527168, "arithmetic"},
    {"OpenELM-450M", 20, 1536, 64,
     {12, 12, 12, 16, 16, 16, 16, 16, 16, 16, 20, 20, 20, 20, 20, 20, 24, 24, 24, 24},
     457179136, "published"},
    {"OpenELM-1_1B", 28, 2048, 64,
     {16, 16, 16, 20, 20, 20, 20, 20, 20, 20, 24, 24, 24, 24, 24, 24, 24, 24, 28, 28, 28, 28, 28, 28,
      32, 32, 32, 32},
     1079891456, "published"},
    {"OpenELM-3B", 36, 3072, 128,
     {12, 12, 12, 12, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 20, 20, 20, 20, 20, 20,
      20, 20, 20, 20, 20, 20, 24, 24, 24, 24, 24, 24},
     3036647424, "arithmetic"},
};

// Sources as above; the blocks are those of the model's config.json.
const struct hub_deci hub_decis[] = {
    {"Llama-3_3-Nemotron-Super-49B-v1", 80, 8192, 64, 128256,
     {{1, 8, 2.625}, {5, 8, 5.25}, {2, 0, 2.625}, {3, 8, 5.25}, {1, 0, 3.28125}, {30, 8, 5.25},
      {1, 0, 1.3125}, {2, 0, 2.625}, {1, 0, 1.3125}, {1, 0, 5.25}, {1, 0, 1.3125}, {1, 0, 2.625},
      {3, 0, 1.3125}, {1, 8, 5.25}, {1, 0, 1.3125}, {2, 0, 1}, {1, 0, 1.3125}, {3, 0, 1},
      {2, 0, 1.3125}, {2, 0, 0.5}, {2, 0, 1}, {2, 0, 0.5}, {1, 0, 1}, {2, 0, 0.5}, {9, 8, 5.25}},
     49867145216, "published"},
    // no model: layers of every kind
    {"mixed", 8, 1536, 12, 5000,
     {{2, 4, 2.625}, {1, 0, 0.5}, {3, 4, 0}, {1, 12, 1.3125}, {1, 0, 5.25}}, 110143488,
     "arithmetic"},
};
// clang-format on

const int hub_deci_count = sizeof hub_decis / sizeof hub_decis[0];
const int hub_row_count = sizeof hub_rows / sizeof hub_rows[0];
const int hub_elm_count = sizeof hub_elms / sizeof hub_elms[0];

static void add(struct buf *b, const char *name, int value)
{
    if (value)
        buf_fmt(b, "  \"%s\": %d,\n", name, value);
}

static void gpt2_fields(struct buf *b, const struct hub_row *r)
{
    add(b, "n_layer", r->layers);
    add(b, "n_embd", r->d);
    add(b, "n_head", r->heads);
    add(b, "n_positions", r->context);
    buf_str(b, "  \"activation_function\": \"gelu_new\",\n  \"resid_pdrop\": 0.1,\n");
}

static void other_fields(struct buf *b, const struct hub_row *r)
{
    bool is_neox = !strcmp(r->type, "gpt_neox"), is_gemma = !strncmp(r->type, "gemma", 5);

    add(b, "num_hidden_layers", r->layers);
    add(b, "hidden_size", r->d);
    add(b, "num_attention_heads", r->heads);
    add(b, "num_key_value_heads", r->kv);
    add(b, "head_dim", r->head_dim);
    add(b, "intermediate_size", r->ffn);
    add(b, "max_position_embeddings", r->context);
    buf_fmt(b, "  \"hidden_act\": \"%s\",\n", is_neox || is_gemma ? "gelu" : "silu");
    if (is_neox)
        buf_str(b, "  \"rotary_pct\": 0.25,\n  \"use_parallel_residual\": true,\n");
    if (r->tied >= 0)
        buf_fmt(b, "  \"tie_word_embeddings\": %s,\n", r->tied ? "true" : "false");
}

char *hub_row_text(const struct hub_row *r)
{
    struct buf b = {0};

    buf_fmt(&b, "{\n  \"model_type\": \"%s\",\n", r->type);
    if (!strcmp(r->type, "gpt2"))
        gpt2_fields(&b, r);
    else
        other_fields(&b, r);
    buf_fmt(&b, "  \"vocab_size\": %d,\n  \"use_cache\": true\n}\n", r->vocab);
    return buf_detach(&b);
}

int64_t hub_row_total(const struct hub_row *r)
{
    int64_t d = r->d, L = r->layers, V = r->vocab, h = r->head_dim ? r->head_dim : d / r->heads;
    int64_t q = r->heads * h, k = r->kv ? r->kv * h : q, layer;
    bool is_tied = r->tied != 0;

    if (!strcmp(r->type, "gpt2"))
        return (V + r->context) * d + L * (12 * d * d + 13 * d) + 2 * d;
    if (!strcmp(r->type, "gpt_neox"))
        return 2 * V * d + L * (12 * d * d + 13 * d) + 2 * d;
    layer = 2 * d * q + 2 * d * k + 3 * d * r->ffn + 2 * d;
    if (!strcmp(r->type, "gemma2") || !strcmp(r->type, "gemma3_text"))
        layer += 2 * d; // norms behind attention and FFN
    if (!strcmp(r->type, "qwen3") || !strcmp(r->type, "gemma3_text"))
        layer += 2 * h;
    if (!strcmp(r->type, "olmo2"))
        layer += q + k;
    return (is_tied ? 1 : 2) * V * d + L * layer + d;
}

char *hub_elm_text(const struct hub_elm *r)
{
    struct buf b = {0};

    buf_fmt(&b,
            "{\"model_type\": \"openelm\", \"model_dim\": %d, \"num_transformer_layers\": %d,\n"
            "\"head_dim\": %d, \"vocab_size\": 32000, \"ffn_dim_divisor\": 256,\n"
            "\"ffn_with_glu\": true, \"normalize_qk_projections\": true,\n"
            "\"share_input_output_layers\": true, \"normalization_layer_name\": \"rms_norm\",\n",
            r->d, r->layers, r->head_dim);
    for (int i = 0; i < r->layers; i++)
        buf_fmt(&b, "%s%d", i ? ", " : "\"num_query_heads\": [", r->heads[i]);
    for (int i = 0; i < r->layers; i++)
        buf_fmt(&b, "%s%d", i ? ", " : "],\n\"num_kv_heads\": [", r->heads[i] / 4);
    for (int i = 0; i < r->layers; i++)
        buf_fmt(&b, "%s%.2f", i ? ", " : "],\n\"ffn_multipliers\": [",
                round((0.5 + 3.5 * i / (r->layers - 1)) * 100) / 100);
    buf_str(&b, "]}\n");
    return buf_detach(&b);
}

static void add_block(struct buf *b, const struct hub_blocks *k)
{
    if (k->group)
        buf_fmt(b, "{\"attention\": {\"n_heads_in_group\": %d, \"no_op\": false,\n", k->group);
    else
        buf_str(b, "{\"attention\": {\"n_heads_in_group\": null, \"no_op\": true,\n");
    buf_str(b, "\"replace_with_linear\": false, \"sparsify\": null, \"window_length\": null},\n");
    if (k->ffn_mult > 0)
        buf_fmt(b, "\"ffn\": {\"ffn_mult\": %.6g, \"no_op\": false,\n", k->ffn_mult);
    else
        buf_str(b, "\"ffn\": {\"ffn_mult\": null, \"no_op\": true,\n");
    buf_str(b, "\"replace_with_linear\": false, \"sparsify\": null}}");
}

char *hub_deci_text(const struct hub_deci *r)
{
    struct buf b = {0};

    buf_fmt(&b,
            "{\"architectures\": [\"DeciLMForCausalLM\"], \"model_type\": \"nemotron-nas\",\n"
            "\"attention_bias\": false, \"mlp_bias\": false, \"hidden_act\": \"silu\",\n"
            "\"hidden_size\": %d, \"num_hidden_layers\": %d, \"num_attention_heads\": %d,\n"
            "\"intermediate_size\": null, \"num_key_value_heads\": null,\n"
            "\"vocab_size\": %d, \"tie_word_embeddings\": false, \"block_configs\": [\n",
            r->d, r->layers, r->heads, r->vocab);
    for (const struct hub_blocks *k = r->blocks; k->count; k++)
        for (int i = 0; i < k->count; i++) {
            buf_str(&b, k == r->blocks && !i ? "" : ",\n");
            add_block(&b, k);
        }
    buf_str(&b, "]}\n");
    return buf_detach(&b);
}

int64_t hub_deci_total(const struct hub_deci *r)
{
    int64_t d = r->d, sum = 2 * (int64_t)r->vocab * d + d;

    for (const struct hub_blocks *k = r->blocks; k->count; k++) {
        int64_t f = ((int64_t)(2 * k->ffn_mult * r->d / 3) + 255) / 256 * 256;

        if (k->group)
            sum += k->count * (d + 2 * d * d + 2 * d * (d / k->group));
        if (f)
            sum += k->count * (d + 3 * d * f);
    }
    return sum;
}
