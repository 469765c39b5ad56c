// What a file is, by its first bytes.
#include "engine/shard.h"

#include <string.h>

struct magic {
    enum shard_layout layout;
    const char *bytes;
    size_t n;
};

static const struct magic magics[] = {
    {LAYOUT_NPY, "\x93NUMPY", 6},     {LAYOUT_MEGATRON_INDEX, "MMIDIDX\0", 8},
    {LAYOUT_GZIP, "\x1f\x8b\x08", 3}, {LAYOUT_ZSTD, "\x28\xb5\x2f\xfd", 4},
    {LAYOUT_PARQUET, "PAR1", 4},
};

struct numbered {
    enum shard_layout layout;
    int32_t magic;
};

static const struct numbered numbered[] = {
    {LAYOUT_LLMC_U16, SHARD_MAGIC_U16},
    {LAYOUT_LLMC_U32, SHARD_MAGIC_U32},
    {LAYOUT_LLMC_CHOICE, 20240522},
    {LAYOUT_LLMC_MODEL, 20240326},
};

struct description {
    const char *name, *advice;
};

static const struct description descriptions[] = {
    [LAYOUT_LLMC_U16] = {"an llm.c token file with 16-bit ids", "it can be read as it is"},
    [LAYOUT_LLMC_U32] = {"an llm.c token file with 32-bit ids", "it can be read as it is"},
    [LAYOUT_UNKNOWN] = {"headerless data", "declare the type of its ids with data.dtype"},
    [LAYOUT_LLMC_CHOICE] = {"an llm.c multiple-choice evaluation file",
                            "it holds questions, not a token stream to train on"},
    [LAYOUT_LLMC_MODEL] = {"an llm.c model file", "it holds weights, not tokens"},
    [LAYOUT_NPY] = {"a NumPy array with a header",
                    "write its ids without one: numpy.load(F).tofile('ids.bin')"},
    [LAYOUT_MEGATRON_INDEX] = {"a Megatron index", "the ids are in the .bin file beside it"},
    [LAYOUT_GZIP] = {"gzip data", "prepare it with 'lathe data prepare FILE'"},
    [LAYOUT_ZSTD] = {"zstd data", "unpack it with 'zstd -d' first"},
    [LAYOUT_PARQUET] = {"a Parquet file",
                        "write its text column as plain text first, e.g. with pyarrow"},
    [LAYOUT_SAFETENSORS] = {"a safetensors file", "it holds weights, not tokens"},
    [LAYOUT_TEXT] = {"plain text", "prepare it with 'lathe data prepare FILE'"},
};

const char *shard_layout_name(enum shard_layout layout)
{
    return descriptions[layout].name;
}

const char *shard_layout_advice(enum shard_layout layout)
{
    return descriptions[layout].advice;
}

// Length of the UTF-8 sequence that starts with c, 0 if none does.
static size_t utf8_length(unsigned char c)
{
    if (c < 0x80)
        return 1;
    if (c >= 0xc2 && c <= 0xdf)
        return 2;
    if (c >= 0xe0 && c <= 0xef)
        return 3;
    return c >= 0xf0 && c <= 0xf4 ? 4 : 0;
}

// Valid UTF-8 without control characters. A sequence cut at the end is fine. Ids of either width
// hardly ever look like this: a small id has a zero byte.
static bool is_text(const unsigned char *p, size_t n)
{
    size_t i = 0;

    while (i < n) {
        size_t len = utf8_length(p[i]);

        if (len == 0 || p[i] == 0x7f || (p[i] < ' ' && !strchr("\t\n\r\f", p[i])) || !p[i])
            return false;
        for (size_t k = 1; k < len && i + k < n; k++)
            if ((p[i + k] & 0xc0) != 0x80)
                return false;
        i += len;
    }
    return n >= 16;
}

// uint64 length of a JSON object, then the object.
static bool is_safetensors(const unsigned char *p, size_t n)
{
    return n >= 10 && p[8] == '{' && p[9] == '"' && !memcmp(p + 4, "\0\0\0\0", 4);
}

enum shard_layout shard_sniff(const void *head, size_t n)
{
    int32_t first = 0;

    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++)
        if (n >= magics[i].n && !memcmp(head, magics[i].bytes, magics[i].n))
            return magics[i].layout;
    if (n >= sizeof first)
        memcpy(&first, head, sizeof first);
    for (size_t i = 0; i < sizeof numbered / sizeof numbered[0]; i++)
        if (first == numbered[i].magic)
            return numbered[i].layout;
    if (is_safetensors(head, n))
        return LAYOUT_SAFETENSORS;
    return is_text(head, n) ? LAYOUT_TEXT : LAYOUT_UNKNOWN;
}
